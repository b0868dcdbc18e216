"""Reading: every path and flag against plain evaluation of everything, and what happens when the ground gives way."""
