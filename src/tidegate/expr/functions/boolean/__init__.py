"""AND, OR, NOT, tests of conditions, CASE and COALESCE."""
