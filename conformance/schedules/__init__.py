"""The corpus: one schedule a file, as JSON lines."""
