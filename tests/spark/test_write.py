"""`df.write.format("tidegate")`: what is written is what is read, once, in few parts; what does not fit is refused."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate import Database
from tidegate.clock import SystemClock
from tidegate.errors import BindError, EvaluationError, StoreError, TidegateError, TimeError, TypeMismatch
from tidegate.spark import register
from tidegate.spark.task_errors import tidegate_error


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[Database]:
    register(spark)
    with tidegate.open(tmp_path / "lake") as found:
        found.sql("CREATE TABLE t (id int8 NOT NULL, name text)")
        yield found


def write(df: DataFrame, path: object, mode: str = "append", **options: object) -> None:
    df.write.format("tidegate").mode(mode).options(**options).save(str(path))  # type: ignore[arg-type]  # Spark takes numbers


def refused(df: DataFrame, path: object, mode: str = "append", **options: object) -> TidegateError:
    """The error of ours that a write fails with."""
    with pytest.raises(Exception) as failed:  # noqa: PT011  # Spark wraps it in several classes
        write(df, path, mode, **options)
    error = tidegate_error(failed.value)
    assert error is not None, failed.value
    return error


def rows(db: Database, name: str = "t", as_of: int | None = None) -> list[tuple[Any, ...]]:
    return sorted(db.sql(f"SELECT * FROM {name}", as_of=as_of).rows())


def some(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last, numPartitions=2).selectExpr("id", "concat('n', id) AS name")


def expected(first: int, last: int) -> list[tuple[int, str]]:
    return sorted((i, f"n{i}") for i in range(first, last))


def test_append_overwrite_token_and_diffs(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lake:t"
    write(some(spark, 0, 100), path, at=1000)
    assert rows(db) == expected(0, 100)
    assert db.status().collections["t"].parts == 1, "two partitions of few rows are one part"

    write(some(spark, 100, 110).select("name", "id"), path, token="once")
    write(some(spark, 100, 110), path, token="once")
    assert rows(db) == expected(0, 110), "columns go by name, and a token counts once"

    write(some(spark, 0, 5).selectExpr("*", "-1 AS d"), path, diffColumn="d")
    assert rows(db) == expected(5, 110)

    write(some(spark, 105, 120), path, "overwrite")
    assert rows(db) == expected(105, 120)
    assert rows(db, as_of=1000) == expected(0, 100), "what was there can be read as of before"
    gone, come = (
        100 + 5,
        10,
    )  # 0..104 are deleted where they are, 110..119 come; 105..109 stay, and are not written
    assert db.sql("SELECT count(*) FROM t").rows() == [(15,)]
    last = db.status().collections["t"]
    write(some(spark, 105, 120), path, "overwrite")
    assert db.status().collections["t"].rows == last.rows, "the same rows again: nothing is written"
    assert (last.rows, last.deleted) == (110 + come, gone)

    ahead = SystemClock().now() + 300_000
    write(spark.range(0).selectExpr("id", "'' AS name"), path, at=ahead)
    assert "looks like microseconds" in str(refused(some(spark, 0, 1), path, at=ahead * 1000))
    assert rows(db) == expected(105, 120)
    write(spark.range(0).selectExpr("id", "'' AS name"), path, "overwrite")
    assert rows(db) == []
    assert "complete up to" in str(refused(some(spark, 0, 1), path, at=5))
    assert isinstance(refused(some(spark, 0, 1), path, at=5), TimeError)


def test_texts_that_are_too_long(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    db.sql("CREATE TABLE v (s varchar(3))")
    assert "value too long" in str(refused(spark.sql("SELECT 'abcd' AS s"), tmp_path / "lake:v"))
    write(spark.sql("SELECT 'abc   ' AS s"), tmp_path / "lake:v")
    assert rows(db, "v") == [("abc",)]


def test_read_by_path(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "lake:t")
    db.append("t", {"id": list(range(100)), "name": ["a"] * 100}, at=1000)
    db.append("t", {"id": [95, 200], "name": ["a", None]}, diff=pa.array([-1, 1]), at=2000)
    read = spark.read.format("tidegate").option("where", "id >= 90")
    found = read.load(path)
    wanted = sorted([*range(90, 95), *range(96, 100), 200])
    assert sorted(row.id for row in found.where("id < 1000").collect()) == wanted
    before = read.option("columns", "id").option("as_of", 1000).load(path)
    assert before.columns == ["id"]
    assert before.union(found.select("id")).count() == 10 + len(wanted)
    for option, value, words in (
        ("columns", "nope", "does not exist"),
        ("where", "id >", "expected an expression"),
    ):
        with pytest.raises(Exception, match=words):
            spark.read.format("tidegate").option(option, value).load(path).collect()


@pytest.mark.long
def test_many_tiny_partitions_are_few_parts(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 2000, numPartitions=400).selectExpr("id", "concat('n', id) AS name")
    write(df, tmp_path / "lake:t")
    assert rows(db) == expected(0, 2000)
    assert db.status().collections["t"].parts == 1


def test_parts_of_the_wanted_size_sorted_by_cluster(
    db: Database, spark: SparkSession, tmp_path: Path
) -> None:
    db.sql("CREATE TABLE c (k int8, v text) CLUSTER BY (k)")
    df = spark.range(0, 40_000, numPartitions=2).selectExpr("(id * 7919) % 40000 AS k", "uuid() AS v")
    write(df, tmp_path / "lake:c", part_bytes=200_000)
    assert db.sql("SELECT count(*), count(DISTINCT k), max(k) FROM c").rows() == [(40_000, 40_000, 39_999)]
    parts = db.status().collections["c"].parts
    assert 2 <= parts <= 8, parts
    for table in db.context.table("c").machine.fetch().parts.tables(["name", "order"]):
        for name, order in zip(table["name"].to_pylist(), table["order"].to_pylist(), strict=True):
            values = pq.read_table(tmp_path / "lake" / name)["k"].to_pylist()
            assert values == sorted(values)
            assert list(order) == [0]
    left = db.sql("SELECT k FROM c WHERE k < 0")
    assert left.scan.parts_read == 0, "tasks collect statistics"


def test_what_does_not_fit_is_refused(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    path, good = tmp_path / "lake:t", some(spark, 0, 3)
    db.sql("CREATE VIEW v AS SELECT id FROM t")
    error = refused(good, tmp_path / "lak:t")
    assert isinstance(error, StoreError)
    assert "no database" in str(error)
    assert not (tmp_path / "lak").exists(), "nothing is made by accident"
    assert "did you mean t?" in str(refused(good, tmp_path / "lake:tt"))
    assert "is a view" in str(refused(good, tmp_path / "lake:v"))
    assert "<database>:<collection>" in str(refused(good, tmp_path / "lake"))
    assert "did you mean diffColumn" in str(refused(good, path, diffcolum="d"))
    assert "part_bytes" in str(refused(good, path, part_bytes="many"))
    error = refused(spark.range(3).selectExpr("id AS iD", "id AS name", "1 AS extra"), path)
    assert isinstance(error, BindError)
    for told_of in (
        'column "id" (int8) is missing',
        'rename "iD" to "id"',
        '"name" is text',
        "has bigint",
        '"extra" (int)',
    ):
        assert told_of in str(error)
    assert rows(db) == [], "nothing was changed by any of them"
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            write(good, path, mode)


def test_values_that_do_not_fit_are_refused(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    db.sql("CREATE TABLE typed (n numeric(4,1), j jsonb, u uuid, w int2, s timestamp)")
    error = refused(
        spark.sql("SELECT 1.5D n, map('a', 1) j, 'x' u, 1 w, current_timestamp() s"), tmp_path / "lake:typed"
    )
    assert isinstance(error, TypeMismatch)
    for told_of in ("numeric(4,1)", "has double", "decimal(4,1)", "to_json", "timestamp_ntz"):
        assert told_of in str(error)
    ok = "CAST(1 AS decimal(20,3)) n, '{{}}' j, '{u}' u, {w} w, timestamp_ntz'2024-01-01 00:00:00' s"
    a_uuid = str(uuid.UUID(int=7))
    for text, words in (
        (ok.format(u=a_uuid, w=70_000), '"w" (int32) does not fit int2'),
        (ok.format(u="nonsense", w=1), "uuid"),
        (ok.format(u=a_uuid, w=1).replace("{}", "{"), "json"),
        (
            ok.format(u=a_uuid, w=1).replace("AS decimal", "+ 0.0001 AS decimal(20,4)) + CAST(0 AS decimal"),
            "does not fit",
        ),
    ):
        error = refused(spark.sql("SELECT " + text), tmp_path / "lake:typed")
        assert isinstance(error, EvaluationError), error
        assert words in str(error).lower() or words in str(error), error
    error = refused(spark.sql("SELECT CAST(NULL AS bigint) id, 'a' name"), tmp_path / "lake:t")
    assert 'null value in column "id"' in str(error)
    assert rows(db) == rows(db, "typed") == [], "nothing was changed by any of them"


SCALARS: dict[str, tuple[pa.DataType, Any]] = {
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "int2": (pa.int16(), lambda r: r.randint(-(2**15), 2**15 - 1)),
    "int4": (pa.int8(), lambda r: r.randint(-128, 127)),
    "int8": (pa.int64(), lambda r: r.choice([-(2**63), 2**63 - 1, r.randint(-9, 9)])),
    "float4": (pa.float32(), lambda r: r.choice([0.5, -0.0, float("nan"), float("inf")])),
    "float8": (pa.float64(), lambda r: r.choice([1e300, -0.0, float("nan"), 0.1])),
    "numeric(10,2)": (pa.decimal128(12, 2), lambda r: decimal.Decimal(r.randint(-(10**9), 10**9)).scaleb(-2)),
    "numeric": (pa.int64(), lambda r: r.randint(-(10**12), 10**12)),
    "text": (pa.string(), lambda r: r.choice(["", "ü🌊", "a'b", "x" * 300])),
    "varchar(3)": (pa.string(), lambda r: r.choice(["", "abc", "ü"])),
    "bytea": (pa.binary(), lambda r: r.randbytes(r.randint(0, 9))),
    "date": (pa.date32(), lambda r: dt.date(r.randint(1, 9999), 1, r.randint(1, 28))),
    "timestamptz": (
        pa.timestamp("us", "UTC"),
        lambda r: dt.datetime(r.randint(1900, 2100), 7, 1, 23, 59, 59, 7, tzinfo=dt.UTC),
    ),
    "interval": (pa.duration("us"), lambda r: dt.timedelta(r.randint(-900, 900), r.randint(0, 9), 5)),
    "uuid": (pa.string(), lambda r: str(uuid.UUID(int=r.getrandbits(128)))),
    "jsonb": (pa.string(), lambda r: r.choice(['{"b": 1.50, "a": [null, "x"]}', "7", '"t"', "null", '{"a":1,"a":2}'])),
}  # fmt: skip


def _shape(rng: random.Random) -> tuple[str, pa.DataType, Any]:
    """A type, now and then nested, and what makes its values."""
    sql = rng.choice(list(SCALARS))
    arrow, make = SCALARS[sql]
    match rng.random():
        case x if x < 0.15:
            return f"{sql}[]", pa.list_(arrow), lambda r: [_or_null(r, make) for _ in range(r.randint(0, 3))]
        case x if x < 0.3:
            fields = pa.struct([("x", arrow), ("y", pa.int64())])
            return f"row(x {sql}, y int8)", fields, lambda r: {"x": _or_null(r, make), "y": r.randint(0, 3)}
        case _:
            return sql, arrow, make


def _or_null(rng: random.Random, make: Any) -> Any:
    return None if rng.random() < 0.2 else make(rng)


def test_random_schemas_come_back_as_they_went(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    """The same Arrow table through Spark and through db.append gives the same rows: six tables of eight columns.

    None is of a plain `timestamp`: whether createDataFrame makes timestamp_ntz of it is the active session's choice.
    """
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    names = [f"c{i}" for i in range(8)]
    for turn in range(6):
        spark.conf.set(
            "spark.sql.session.timeZone", rng.choice(["UTC", "America/New_York", "Asia/Kathmandu"])
        )
        shapes = [_shape(rng) for _ in names]
        values = {
            n: [_or_null(rng, make) for _ in range(40)] for n, (_, _, make) in zip(names, shapes, strict=True)
        }
        table = pa.table(
            {n: pa.array(values[n], arrow) for n, (_, arrow, _) in zip(names, shapes, strict=True)}
        )
        columns = ", ".join(f"{n} {sql}" for n, (sql, _, _) in zip(names, shapes, strict=True))
        for kind in ("direct", "spark"):
            db.sql(f"CREATE TABLE {kind}{turn} ({columns})")
        db.append(f"direct{turn}", table)
        write(
            spark.createDataFrame(table), tmp_path / f"lake:spark{turn}", part_bytes=rng.choice([1, 1 << 27])
        )
        got, wanted = (db.sql(f"SELECT * FROM {kind}{turn}").rows() for kind in ("spark", "direct"))
        assert sorted(map(repr, got)) == sorted(map(repr, wanted)), f"seed {seed}, {columns}"
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_writers_at_once(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    """Three appends and an overwrite from Spark and ten appends from here: at no time is a batch there in part."""
    path, failures = tmp_path / "lake:t", []

    def run(work: Any, *args: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                register(spark)  # a thread of its own has no active session
                work(*args)
            except Exception as error:  # noqa: BLE001  # shown by the assertion below
                failures.append(str(getattr(error, "java_exception", error))[-3000:])

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def append_here() -> None:
        with tidegate.open(tmp_path / "lake") as other:
            for i in range(10):
                other.append("t", {"id": [10_000 + i] * 7, "name": ["here"] * 7})

    write(some(spark, 0, 50), path)
    threads = [run(write, some(spark, k * 1000, k * 1000 + 50), path) for k in (1, 2, 3)]
    threads += [run(write, some(spark, 5000, 5020), path, "overwrite"), run(append_here)]
    for thread in threads:
        thread.join(timeout=120)
    assert failures == []
    tables = db.context.table("t").machine.fetch().parts.tables(["first"])
    overwritten = 0
    for at in sorted({time for table in tables for time in table["first"].to_pylist()}):
        counts = dict(db.sql("SELECT id / 1000, count(*) FROM t GROUP BY id / 1000", as_of=at).rows())
        whole = {0: (50,), 1: (50,), 2: (50,), 3: (50,), 5: (20,), 10: range(7, 71, 7)}
        assert all(n in whole[key] for key, n in counts.items()), "each batch is there whole, or not at all"
        assert (5 in counts) != (0 in counts), "an overwrite retracts what was there"
        if 5 in counts and not overwritten:
            overwritten = at
            assert set(counts) == {5}, "all that came before it, and nothing else"
    assert overwritten
    assert db.sql("SELECT count(*) FROM t WHERE id >= 5000 AND id < 6000").rows() == [(20,)]
    assert db.sql("SELECT count(*) FROM t WHERE id < 50").rows() == [(0,)]
