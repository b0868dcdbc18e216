"""Evaluation compared with a real PostgreSQL."""
