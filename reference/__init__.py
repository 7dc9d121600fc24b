"""The model cache: pages by prefix, snapshots by prefix, and a deterministic policy over them."""

if __name__ != "milepost.reference":  # loaded twice, every class has two identities
    raise ImportError("Import milepost.reference, not reference: the bare name would load its code twice.")
