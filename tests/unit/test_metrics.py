"""Metrics and logs: what is counted is what happened, and nothing that a user wrote is told."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tidegate
from tidegate import logs
from tidegate.metrics import BUCKETS, Metrics
from tidegate.storage.stats.part_stats import PartStats


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as opened:
        opened.set("audit", 1.0)
        opened.sql("CREATE TABLE t (id int8, s text)")
        for i in range(4):
            opened.append("t", {"id": [10 * i, 10 * i + 1], "s": ["secret", "word"]}, at=i + 1)
        yield opened


def values(db: tidegate.Database) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All samples, read back by Prometheus' own parser."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(db.metrics())
        for sample in family.samples
    }


def one(db: tidegate.Database, name: str, **labels: str) -> float:
    return values(db)[f"tidegate_{name}", frozenset(labels.items())]


# ---------------------------------------------------------------- metrics


def test_parts_and_bytes_are_counted_in_pairs(db: tidegate.Database) -> None:
    scans = [db.sql(f"SELECT s FROM t WHERE {where}").scan for where in ("id = 10", "id < 20", "true")]
    for what, field in (
        ("considered", "total"), ("pruned", "pruned"), ("proven", "proven"), ("read", "read"), ("audited", "audited"),
    ):  # fmt: skip
        for unit in ("parts", "bytes"):
            expected = sum(getattr(scan, f"{unit}_{field}") for scan in scans)
            assert one(db, f"{unit}_total", what=what) == expected, (unit, what)
    assert one(db, "parts_total", what="pruned") == 3 + 2
    assert one(db, "parts_total", what="audited") == 3 + 2
    assert one(db, "parts_total", what="proven") == 2
    assert one(db, "parts_total", what="read") == 1 + 2 + 4
    assert one(db, "bytes_total", what="pruned") > 0
    assert one(db, "rows_total", what="returned") == 1 + 4 + 8


def test_queries_are_counted_by_path_and_outcome(db: tidegate.Database) -> None:
    db.sql("SELECT s FROM t WHERE id = 10")
    db.sql("SELECT s FROM t WHERE id < 0")
    with pytest.raises(tidegate.EvaluationError):
        db.sql("SELECT 1 / id FROM t")
    with pytest.raises(tidegate.BindError):
        db.sql("SELECT nothing FROM t")
    with pytest.raises(tidegate.ParseError):
        db.sql("SELEKT")
    assert one(db, "queries_total", path="local", outcome="ok") == 1
    assert one(db, "queries_total", path="metadata", outcome="ok") == 1
    assert one(db, "queries_total", path="none", outcome="EvaluationError") == 1
    assert one(db, "queries_total", path="none", outcome="BindError") == 1
    assert one(db, "statements_total", kind="select", outcome="ok") == 2
    assert one(db, "statements_total", kind="create_table", outcome="ok") == 1
    assert one(db, "statements_total", kind="parse", outcome="ParseError") == 1
    assert one(db, "query_seconds_count", path="local") == 1
    assert one(db, "query_seconds_count", path="none") == 2


def test_a_query_that_ran_out_of_time_is_cancelled(db: tidegate.Database) -> None:
    db.set("statement_timeout_ms", 1)
    many = list(range(300_000))
    db.append("t", {"id": many, "s": ["x"] * len(many)})
    with pytest.raises(tidegate.CancelledError):
        db.sql("SELECT s FROM t WHERE s ~ '(a|b|c)+y'")
    assert one(db, "queries_total", path="none", outcome="cancelled") == 1


def test_appends_are_counted(db: tidegate.Database) -> None:
    db.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    db.append("t", {"id": [5], "s": ["z"]}, token="once")
    db.append("t", {"id": [5], "s": ["z"]}, token="once")
    assert one(db, "appends_total") == 4 + 1 + 1
    assert one(db, "appended_parts_total") == 6
    assert one(db, "rows_total", what="appended") == 8 + 2 + 1
    assert one(db, "appended_bytes_total") == db.status().collections["t"].bytes


def test_a_failed_audit_is_counted(db: tidegate.Database) -> None:
    assert one(db, "audit_failures_total") == 0
    shard = db.context.table("t")

    def lying(schema: Any, columns: list[Any]) -> PartStats:
        return shard.describe(schema, [columns[0].take([1, 1]), *columns[1:]])

    replace(shard, describe=lying).append({"id": [7, 900], "s": ["a", "b"]})
    with pytest.raises(tidegate.CorruptError):
        db.sql("SELECT s FROM t WHERE id = 7")
    assert one(db, "audit_failures_total") == 1
    assert one(db, "queries_total", path="none", outcome="AuditError") == 1


def test_trimmed_and_unreadable_statistics_are_counted(db: tidegate.Database) -> None:
    db.set("stats_budget", 20)
    db.append("t", {"id": [1], "s": ["long " * 20]})
    assert one(db, "statistics_trimmed_total", what="parts") >= 1
    assert one(db, "statistics_trimmed_total", what="bytes") > 0
    shard = db.context.table("t")
    replace(shard, describe=lambda *_: PartStats(b"\x63 made by nobody", b"")).append({"id": [2], "s": ["x"]})
    assert db.sql("SELECT s FROM t WHERE id = 2").rows() == [("x",)]
    assert one(db, "statistics_unreadable_total", why="damaged") >= 1
    with tidegate.open("memory://") as other:
        names = {name for name, _ in values(other)}
        assert not names & {"tidegate_statistics_unreadable_total", "tidegate_statistics_trimmed_total"}


def test_databases_do_not_share_numbers(db: tidegate.Database) -> None:
    with tidegate.open("memory://") as other:
        other.sql("SELECT 1")
        assert one(other, "statements_total", kind="select", outcome="ok") == 1
        assert one(other, "appends_total") == 0
    assert ("tidegate_statements_total", frozenset({("kind", "select"), ("outcome", "ok")})) not in values(db)


def test_durations_fall_into_buckets() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.002, 99.0):
        metrics.took("local", seconds)
    found = {
        sample.labels["le"]: sample.value
        for family in text_string_to_metric_families(metrics.text())
        for sample in family.samples
        if sample.name == "tidegate_query_seconds_bucket"
    }
    assert found["0.001"] == 2, "an edge belongs to its bucket"
    assert found["0.003"] == found[str(BUCKETS[-1])] == 3
    assert found["+Inf"] == 4


def test_gauges_are_asked_when_the_text_is_made() -> None:
    metrics, waiting = Metrics(), [0]
    metrics.gauge("peeks_waiting", "Peeks that wait for their turn.", lambda: waiting[0])
    waiting[0] = 7
    assert "\ntidegate_peeks_waiting 7.0" in metrics.text()


def test_prometheus_is_imported_only_for_its_text() -> None:
    code = (
        "import sys, tidegate; db = tidegate.open('memory://'); db.sql('SELECT 1')\n"
        "assert 'prometheus_client' not in sys.modules; db.metrics(); assert 'prometheus_client' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---------------------------------------------------------------- logs


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record)["tidegate"] for record in caplog.records if record.name == "tidegate.statement"]


def test_a_line_for_each_statement(db: tidegate.Database, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tidegate"):
        r = db.sql("SET batch_rows = 1000; SELECT s FROM t WHERE id = 10")
    setting, query = logged(caplog)
    assert (setting["kind"], setting["outcome"]) == ("set", "ok")
    assert (query["kind"], query["outcome"], query["path"]) == ("select", "ok", "local")
    assert (query["parts"], query["parts_read"], query["parts_audited"], query["rows"]) == (4, 1, 3, 1)
    assert query["bytes_read"] == r.scan.bytes_read
    assert query["ms"] > 0


def test_nothing_that_a_user_wrote_is_logged(db: tidegate.Database, caplog: pytest.LogCaptureFixture) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.Json())
    logs.LOG.addHandler(handler)
    try:
        with caplog.at_level(logging.DEBUG, "tidegate"):
            db.sql("SELECT s FROM t WHERE s = 'secret' AND id = 987654")
            db.sql("INSERT INTO t VALUES (987654, 'secret')")
            for sql in (
                "SELECT s::int8 FROM t WHERE s = 'secret'", "SELECT 'secret' FROM nowhere", "SELECT 'secret",
                "SELECT s FROM t WHERE 'secret'",
            ):  # fmt: skip
                with pytest.raises(tidegate.TidegateError):
                    db.sql(sql)
    finally:
        logs.LOG.removeHandler(handler)
    written = [json.loads(line) for line in stream.getvalue().splitlines()]
    lines = [line for line in written if line["logger"] == "tidegate.statement"]
    assert len(lines) >= 6
    assert "secret" not in stream.getvalue()
    assert "987654" not in stream.getvalue()
    assert {line["outcome"] for line in lines} >= {"ok", "EvaluationError", "BindError", "ParseError"}
    assert all(set(line) >= {"at", "level", "logger", "message", "statement", "ms"} for line in lines)


def test_a_fingerprint_is_of_the_shape(db: tidegate.Database, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tidegate"):
        for sql in (
            "SELECT s FROM t WHERE id = 1",
            "select  s from T where id = 22",
            "SELECT s FROM t WHERE id > 1",
        ):
            db.sql(sql)
    first, second, third = (line["statement"] for line in logged(caplog))
    assert first == second != third
    assert len(first) == 16


def test_nothing_is_printed_by_default() -> None:
    code = "import tidegate\ntry: tidegate.open('memory://').sql('SELECT 1 / 0')\nexcept tidegate.TidegateError: pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_json_to_stderr() -> None:
    code = "import tidegate, tidegate.logs\ntidegate.logs.to_stderr()\ntidegate.open('memory://').sql('SELECT 1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (line["logger"], line["kind"], line["rows"]) == ("tidegate.statement", "select", 1)
