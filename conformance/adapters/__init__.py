"""Adapters for real engines: the only code of the kit that may import an engine or torch."""
