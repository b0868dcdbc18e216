"""Comparisons, IN, ANY and ALL."""
