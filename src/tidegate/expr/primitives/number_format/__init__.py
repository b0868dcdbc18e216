"""Patterns of numbers, as to_char and to_number take them: parsing, writing and reading."""
