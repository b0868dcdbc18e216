"""A client of Spark Connect, in a process of its own, reads the collections of a server that is a process with a database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import UnsupportedError
from tidegate.spark.connect_server import serve

APART = Path(sys.prefix) / "connect"
"""Where `.ci/venv` puts what a client needs: pandas, which Spark's other parts warn of, and gRPC."""
CLIENT = """
import json, sys
from pyspark.sql import SparkSession

def told(**found):
    print(json.dumps(found), flush=True)

def explained(df):
    return df._explain_string(mode="formatted")

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
df = spark.table("global_temp.t")
told(count=df.where("id < 10").count(), plan=explained(df.where("id < 10")))
told(joined=spark.sql("SELECT count(*) FROM global_temp.t a JOIN global_temp.t b USING (id)").collect()[0][0])
sys.stdin.readline()
told(after=df.count(), function=spark.sql("SELECT count(*) FROM tidegate('t') WHERE x = 1").collect()[0][0])
try:
    spark.table("global_temp.nothing").collect()
except Exception as error:
    told(error=str(error))
"""


def test_a_client_reads_with_all_pruning(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(CLIENT)
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8, x int8)")
        for part in range(4):
            db.append("t", {"id": [*range(part * 10, part * 10 + 10)], "x": [part] * 10})
        db.attach(spark)
        server = serve(spark)
        client = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(tmp_path / "client.py"), server.url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(APART)},
        )  # fmt: skip
        try:
            first = _told(client)
            assert first["count"] == 10
            assert "tidegate:/t 1 of 4 parts" in first["plan"]
            assert _told(client) == {"joined": 40}
            db.append("t", {"id": [99], "x": [1]})
            assert client.stdin is not None
            client.stdin.write("\n")
            client.stdin.flush()
            assert _told(client) == {"after": 41, "function": 11}
            assert "TABLE_OR_VIEW_NOT_FOUND" in _told(client)["error"]
        finally:
            client.kill()
            client.communicate()
            server.stop()
    assert spark.range(3).count() == 3


def _told(client: subprocess.Popen[str]) -> dict[str, Any]:
    assert client.stdout is not None
    line = client.stdout.readline()
    assert line, client.communicate()[1][-3000:]
    found: dict[str, Any] = json.loads(line)
    return found


def test_others_are_not_let_in_without_a_token(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", raising=False)
    with pytest.raises(UnsupportedError, match="anybody"):
        serve(spark, address="0.0.0.0")


def test_a_session_without_a_jvm_is_refused(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8)")
        with pytest.raises(UnsupportedError, match="Spark Connect"):
            db.table("t", object())
