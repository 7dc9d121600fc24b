"""The rules of a hybrid prefix cache as data and small functions, with nothing but the standard library."""

if __name__ != "milepost.spec":  # loaded twice, every class has two identities
    raise ImportError("Import milepost.spec, not spec: the bare name would load its code twice.")
