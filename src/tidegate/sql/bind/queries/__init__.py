"""Binds queries of any shape to the logical tree of `plan/logical.py`."""
