"""Formats: the encodings of records; a format decodes only what a plan reads."""
