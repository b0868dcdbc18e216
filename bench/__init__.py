"""Benchmarks: each a module, each a ratio against a peer or against itself switched off, in one run."""
