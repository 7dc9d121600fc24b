"""The command line."""

if __name__ != "milepost.cli":  # loaded twice, every class has two identities
    raise ImportError("Import milepost.cli, not cli: the bare name would load its code twice.")
