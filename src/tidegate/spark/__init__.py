"""Tidegate on Spark: every DataFrame of a collection prunes, every DataFrame can be written. The only room that imports pyspark."""
