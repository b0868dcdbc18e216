"""Functions of arrays and records."""
