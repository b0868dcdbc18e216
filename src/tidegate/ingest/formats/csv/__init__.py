"""FORMAT CSV."""
