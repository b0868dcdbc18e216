"""Scalar expressions: evaluated over rows, and interpreted over statistics, by the same declarations."""
