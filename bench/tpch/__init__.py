"""TPC-H beside DuckDB and Spark: `python -m bench.tpch`."""
