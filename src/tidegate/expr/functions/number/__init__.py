"""Functions of integers and floats."""
