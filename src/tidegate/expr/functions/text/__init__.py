"""Functions of text and bytea."""
