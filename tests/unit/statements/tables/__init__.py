"""Statements that define and change tables."""
