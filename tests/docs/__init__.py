"""The documentation is run: every block of every page, and every example."""
