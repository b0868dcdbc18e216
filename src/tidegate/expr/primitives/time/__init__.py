"""Calendar arithmetic, time zones, and the texts of times and intervals."""
