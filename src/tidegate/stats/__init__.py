"""Statistics of a part: collected while it is written, kept with its name, and read for all parts at once."""
