"""Examples that ship with the kit, as data files."""
