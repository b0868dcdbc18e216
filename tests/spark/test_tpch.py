"""TPC-H at scale 0.01 on Spark: the answers of the embedded engine (`tests/differential/test_tpch.py` compares with DuckDB)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.tpch.__main__ import comparable
from bench.tpch.tables import lake, queries


@pytest.mark.long
def test_every_question(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    with lake(tmp_path, 0.01) as db:
        for number, sql in queries().items():
            ours = db.sql(f"{sql} OPTIONS (engine = embedded)")
            on_spark = db.sql(f"{sql} OPTIONS (engine = spark)")
            assert comparable(on_spark.arrow()) == comparable(ours.arrow()), number
