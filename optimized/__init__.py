"""The production cache: an index over opaque cells, and above it the pools and the whole at the seam."""

if __name__ != "milepost.optimized":  # loaded twice, every class has two identities
    raise ImportError("Import milepost.optimized, not optimized: the bare name would load its code twice.")
