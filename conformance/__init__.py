"""The kit that drives a cache through schedules and judges what its cells hold."""

if __name__ != "milepost.conformance":  # loaded twice, every class has two identities
    raise ImportError("Import milepost.conformance, not conformance: the bare name would load its code twice.")
