"""What stands before the house: the command line, and what it shows."""
