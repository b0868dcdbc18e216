"""GENERATOR: generates reproducible records for demos, tests and benchmarks."""
