"""Functions of jsonb."""
