"""Theorems about the rules of `spec`, one a file, and the schedules that a solver finds."""

if __name__ != "milepost.proofs":  # loaded twice, every class has two identities
    raise ImportError("Import milepost.proofs, not proofs: the bare name would load its code twice.")
