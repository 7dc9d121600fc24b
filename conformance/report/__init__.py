"""Reports of a run: terminal, JSON, JUnit and HTML."""
