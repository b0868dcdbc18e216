"""Whole shards under failing stores and sudden death, beside a model that is a plain list."""
