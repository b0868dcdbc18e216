"""POSTGRES: reads a snapshot of tables, then every change of a publication."""
