"""FILES: reads every file that matches a pattern, once."""
