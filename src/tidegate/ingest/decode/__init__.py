"""Formats: what a record is, and how little of it must be decoded for a plan."""
