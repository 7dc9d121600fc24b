"""The data plane: one operation a file, each with a plain torch twin, a Triton kernel and a checked wrapper."""

if __name__ != "milepost.kernels":  # loaded twice, every class has two identities
    raise ImportError("Import milepost.kernels, not kernels: the bare name would load its code twice.")
