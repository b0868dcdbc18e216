"""Functions of numerics."""
