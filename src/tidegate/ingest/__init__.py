"""Sources: records of an upstream become rows of collections; `source.py` has the words."""
