"""JSON text: exact decoding, canonical spelling, key order and paths."""
