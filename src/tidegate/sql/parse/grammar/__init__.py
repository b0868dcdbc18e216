"""The grammar, by recursive descent: statements, queries, expressions, calls, sources and type names."""
