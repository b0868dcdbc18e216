"""Statistics of JSON columns: one lane for each JSON type and key."""
