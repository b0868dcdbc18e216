"""What is read of a Catalyst tree: literals exactly, conditions from above, zones only where they are ours."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

from tests.spark.catalyst_cases import PLACES, rows, stored
from tidegate.expr.model.printer import show
from tidegate.expr.model.tree import Call, Expr, Literal, walk
from tidegate.expr.primitives.time.zones import find_zone
from tidegate.spark.translate import zones as catalyst_zone
from tidegate.spark.translate.filters import translate


@pytest.fixture(scope="module")
def frame(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("tree") / "rows.parquet"
    pq.write_table(stored(rows(10, 1)), path)
    return spark.read.parquet(str(path))


def condition(frame: Any, text: str | Column) -> Any:
    """A filter as Spark hands it to an index, but for the NULL tests that it adds."""
    return (
        frame.select((f.expr(text) if isinstance(text, str) else text).alias("c"))
        ._jdf.queryExecution()
        .optimizedPlan()
    )


def translated(frame: Any, text: str | Column) -> Expr | None:
    """Our condition."""
    return translate(condition(frame, text).projectList().apply(0).child(), PLACES)


def constants(expr: Expr | None) -> list[Any]:
    """The constants of an expression, times as what they are kept as."""
    assert expr is not None
    found = [node.value for node in walk(expr) if isinstance(node, Literal)]
    kept = {"timestamp": pa.int64(), "date32": pa.int32()}
    return [
        v.cast(next((to for of, to in kept.items() if str(v.type).startswith(of)), v.type)).as_py()
        for v in found
    ]


ODD = "a'b\\c\"d\n\u0001\U0001f600é"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            "ts = timestamp_micros(1730611800000000)",
            1730611800000000,
        ),  # 01:30 in New York, for the first time
        ("ts = timestamp_micros(1730615400000000)", 1730615400000000),  # and for the second
        ("ts > timestamp_micros(300000000000000000)", 300000000000000000),  # after year 9999
        ("tn < timestamp_ntz'0001-01-01 00:00:00.000001'", -62135596799999999),
        ("dt > date'9999-12-31'", 2932896),
        ("dt < date_from_unix_date(5000000)", 5000000),
        ("bin = X'00FF10'", b"\x00\xff\x10"),
        (
            "dd = 12345678901234567890.123456789012345678BD",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("d = 1e-320D", 1e-320),
        ("f > float('3.4028235e38')", 3.4028234663852886e38),
        ("ts - ts2 > interval '1 02:03:04.000005' day to second", 93784000005),
    ],
)
def test_literals_are_exact(spark: SparkSession, frame: Any, text: str, value: object) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert value in constants(translated(frame, text))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_strings_are_exact(frame: Any) -> None:
    assert ODD in constants(translated(frame, f.col("s") == ODD))
    several = [ODD, "null", "", *map(str, range(20))]
    (listed,) = constants(translated(frame, f.col("s").isin(*several)))
    assert sorted(listed) == sorted(several)
    (listed,) = constants(translated(frame, f.col("s").isin(*several, None)))
    assert sorted(map(str, listed)) == sorted([*several, "None"])


def test_calendar_intervals_are_exact(frame: Any) -> None:
    found = translated(
        frame, "tn + make_interval(1, 2, 0, 3, 0, 0, 0.000004) > timestamp_ntz'2024-01-01 00:00:00'"
    )
    assert found is not None
    assert any(isinstance(n, Literal) and n.value.as_py() == (14, 3, 4000) for n in walk(found))


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("l > 5 AND upper(s) = 'A'", "l > 5"),
        ("l > 5 OR upper(s) = 'A'", None),
        ("NOT (l > 5 AND upper(s) = 'A')", None),
        ("NOT (l > 5 OR upper(s) = 'A')", "l <= 5"),
        ("NOT (NOT (l > 5) OR upper(s) = 'A')", "l > 5"),
        ("upper(s) = 'A'", None),
        ("(l > 5 AND upper(s) = 'A') OR i = 1", "l > 5 OR i = 1"),
        ("get_json_object(payload, '$.ts') IS NULL", None),
        ("get_json_object(payload, '$.ts') IS NOT NULL", "payload ->> 'ts' IS NOT NULL"),
        ("get_json_object(payload, '$.*') = 'a'", None),
        ("get_json_object(s, '$.ts') = 'a'", None),
        ("from_json(payload, 'ts long', map('mode', 'FAILFAST')).ts > 5", None),
        ("from_json(payload, 'ts long, _corrupt_record string')._corrupt_record IS NOT NULL", None),
        (r"NOT (s rlike '^ab\n')", None),
        ("hash(l) = 5", None),
    ],
)
def test_conditions_from_above(frame: Any, text: str, ours: str | None) -> None:
    found = translated(frame, text)
    assert (None if found is None else show(found)) == ours


def test_the_document_that_does_not_fit_is_no_value_of_it(frame: Any, spark: SparkSession) -> None:
    text = "from_json(payload, 'ts long, bad string').bad = 'x'"
    assert translated(frame, text) is not None
    spark.conf.set("spark.sql.columnNameOfCorruptRecord", "bad")
    try:
        assert translated(frame, text) is None
    finally:
        spark.conf.unset("spark.sql.columnNameOfCorruptRecord")


def test_long_chains(frame: Any) -> None:
    chain = reduce(lambda a, b: a | b, [f.col("l") + i > i * 7 for i in range(100)])
    found = translated(frame, chain)
    assert isinstance(found, Call)
    assert found.function.name == "or"
    assert len(found.args) == 100


def _calls(expr: Expr | None) -> set[str]:
    assert expr is not None
    return {node.function.name for node in walk(expr) if isinstance(node, Call)}


def test_zones_that_differ_are_not_used(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from_utc_timestamp(ts, '{}') > timestamp'2024-01-01 00:00:00'"
    assert "timezone" in _calls(translated(frame, text.format("America/New_York")))
    assert "timezone" not in _calls(translated(frame, text.format("+05:30")))
    assert "timezone" not in _calls(
        translated(frame, text.format("Europe/Dublin"))
    )  # known otherwise to Java, in 1925
    catalyst_zone._clock.cache_clear()
    monkeypatch.setattr(catalyst_zone, "find_zone", lambda name: find_zone("America/Toronto"))
    try:
        assert "timezone" not in _calls(translated(frame, text.format("America/New_York")))
    finally:
        catalyst_zone._clock.cache_clear()


def test_zones_of_java(spark: SparkSession) -> None:
    """Offsets are read with Java's sign, names with Java's meaning."""
    hour = 3_600_000_000
    assert catalyst_zone.zone_clock("UTC") == catalyst_zone.ZoneClock(None)
    assert catalyst_zone.zone_clock("EST") == catalyst_zone.ZoneClock(None, -5 * hour)
    assert catalyst_zone.zone_clock("GMT+3") == catalyst_zone.ZoneClock(None, 3 * hour)
    berlin, pacific = catalyst_zone.zone_clock("Europe/Berlin"), catalyst_zone.zone_clock("PST")
    assert berlin is not None
    assert berlin.name == "Europe/Berlin"
    assert pacific is not None  # Los Angeles in Java, and always UTC-8 in PostgreSQL
    assert pacific.name is None
    assert pacific.ends == (-8 * hour, -7 * hour)
    assert catalyst_zone.zone_clock("Nowhere/Else") is None
