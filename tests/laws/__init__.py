"""Laws: what every declared function, every Specs and every random expression must obey."""
