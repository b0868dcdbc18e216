"""Reading: from a plan and a snapshot to rows, and no more of the parts than can matter."""
