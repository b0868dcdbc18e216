"""What a read does when the ground gives way: parts that vanish, are damaged or lie; limits at their ends.

The rule is the same everywhere: the right rows, or an error that names the part. Every case is asked under every flag, by a
handle that has read nothing before, so that no cache hides the damage.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tidegate
from tests.reads.test_differential import settings
from tidegate.config import Config
from tidegate.context import CatalogSnapshot
from tidegate.errors import CorruptError, LimitError, StoreError
from tidegate.query.paths import local
from tidegate.query.prune.parts import prune
from tidegate.query.scan_metrics import ScanMetrics
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.statements.select import question_of
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.snapshot import open_snapshot
from tidegate.storage.stats.part_stats import PartStats

pytestmark = pytest.mark.usefixtures("commits_make_files")

LARGE = 20_000
"""Rows of a part that is read in ranges, three pages of them."""
QUERIES = (
    "SELECT * FROM t ORDER BY id",
    "SELECT id, s FROM t WHERE id % 7 = 3 ORDER BY id",
    "SELECT s FROM t WHERE x > 0.9 AND s LIKE '%1%' ORDER BY id",
    "SELECT id FROM t WHERE id BETWEEN 9000 AND 9100 ORDER BY id",
    "SELECT count(*), min(s) FROM t WHERE x < 0.5",
    "SELECT id, s FROM t ORDER BY s DESC, id LIMIT 5",
    "SELECT a FROM t WHERE id = 70 LIMIT 1",
)


def rows(count: int, first: int = 0) -> dict[str, Any]:
    ids = np.arange(first, first + count)
    return {
        "id": pa.array(ids),
        "x": pa.array((ids * 7919 % 1000) / 1000),
        "s": pc.binary_join_element_wise("row", pa.array(ids * 31 % 9973).cast(pa.string()), " "),
        "a": pa.ListArray.from_arrays(np.arange(count + 1) * 2, pa.array(np.repeat(ids, 2))),
    }


def made(folder: Path, count: int, parts: int = 1) -> None:
    """A collection of some parts in files."""
    with tidegate.open(folder) as db:
        db.sql("CREATE TABLE t (id int8, x float8, s text, a int8[])")
        for i in range(parts):
            db.append("t", rows(count, i * count))


def parts_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "part/" in path.as_posix())


def handles(folder: Path) -> Iterator[tuple[str, tidegate.Database]]:
    """A fresh handle for every setting."""
    for name, flags in settings():
        with tidegate.open(folder, config=Config(audit=1.0, **flags)) as db:
            yield name, db


def right(folder: Path) -> dict[str, Any]:
    with tidegate.open(folder) as db:
        return {sql: db.sql(sql).arrow() for sql in QUERIES}


def never_wrong(folder: Path, part: Path, wanted: dict[str, Any], *, must: set[str]) -> None:
    """Every query gives what it gave, or an error that names the part; those in `must` the error."""
    for name, db in handles(folder):
        for sql in QUERIES:
            got = asked(db, sql)
            if isinstance(got, CorruptError):
                assert part.name in str(got), f"{name}: {sql}"
            else:
                assert got.arrow().equals(wanted[sql]), f"wrong rows with {name}: {sql}"
                assert sql not in must, f"damage went unnoticed with {name}: {sql}"


def asked(db: tidegate.Database, sql: str) -> Any:
    """The result, or the error: of a part that is damaged, or of a row that fails."""
    try:
        return db.sql(sql)
    except (CorruptError, tidegate.EvaluationError) as error:
        return error


# ---------------------------------------------------------------- damaged parts


@pytest.mark.parametrize("count", [50, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("column", ["id", "x", "s", "a"])
def test_a_flipped_byte_in_a_page(tmp_path: Path, count: int, column: str) -> None:
    """Whoever reads that page must notice; whoever does not may answer."""
    made(tmp_path, count)
    wanted = right(tmp_path)
    (part,) = parts_of(tmp_path)
    data = bytearray(part.read_bytes())
    group = pq.ParquetFile(part).metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    (chunk,) = [c for c in chunks if c.path_in_schema.split(".")[0] == column]
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    at = start + random.Random(column).randrange(chunk.total_compressed_size)
    data[at] ^= 1 << (at % 8)
    part.write_bytes(data)
    never_wrong(tmp_path, part, wanted, must={QUERIES[0]})


@pytest.mark.parametrize("count", [50, LARGE], ids=["small", "large"])
def test_a_damaged_end(tmp_path: Path, count: int) -> None:
    """The footer is what every reader begins with: flipped, cut off, empty, or that of another file."""
    made(tmp_path, count)
    wanted = right(tmp_path)
    (part,) = parts_of(tmp_path)
    whole = part.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    flipped = bytearray(whole)
    flipped[-8 - size // 2] ^= 1
    for damaged in (
        bytes(flipped),
        whole[:-1],
        whole[: len(whole) // 2],
        b"",
        whole + b"x",
        whole[:-4] + b"PAR2",
    ):
        part.write_bytes(damaged)
        longer = damaged == whole + b"x"  # what is behind the end is never looked at
        never_wrong(tmp_path, part, wanted, must=set() if longer else {QUERIES[0], QUERIES[1], QUERIES[5]})
    part.write_bytes(whole)
    never_wrong(tmp_path, part, wanted, must=set())


def test_random_damage(tmp_path: Path) -> None:
    """Anywhere in the file, 7 places: also where nobody of ours looks, such as Parquet's page index."""
    made(tmp_path, LARGE)
    wanted = right(tmp_path)
    (part,) = parts_of(tmp_path)
    whole = part.read_bytes()
    dice = random.Random(4)
    for _ in range(7):
        data = bytearray(whole)
        start = dice.randrange(len(data))
        data[start : start + dice.choice([1, 1, 4, 5_000])] = bytes([dice.randrange(256)])
        part.write_bytes(data)
        never_wrong(tmp_path, part, wanted, must=set())


# ---------------------------------------------------------------- parts that vanish


@pytest.mark.parametrize("count", [50, LARGE], ids=["small", "large"])
def test_a_part_that_is_gone(tmp_path: Path, count: int) -> None:
    made(tmp_path, count, parts=3)
    gone = parts_of(tmp_path)[1]
    gone.unlink()
    for name, db in handles(tmp_path):
        with pytest.raises(StoreError, match=gone.name):
            db.sql("SELECT id, s FROM t WHERE x >= 0")
        with pytest.raises(StoreError, match=gone.name):
            db.sql("SELECT id FROM t ORDER BY s DESC LIMIT 1000000")
        assert db.status().collections["t"].parts == 3, name


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("where", ["", " WHERE s LIKE '%1%'"])
def test_parts_that_vanish_while_they_are_read(tmp_path: Path, threads: int, where: str) -> None:
    """The rows of the first batch are there; then everything is deleted. It ends in an error that names a part."""
    made(tmp_path, LARGE, parts=6)
    names = [part.name for part in parts_of(tmp_path)]
    for name, flags in settings():
        saved = {part: part.read_bytes() for part in parts_of(tmp_path)}
        with tidegate.open(tmp_path, config=Config(read_threads=threads, **flags)) as db:
            lake = db.context
            parsed = grammar.parse_statements(f"SELECT * FROM t{where}")[0]
            bound = lake.prepared.bound(parsed.query, CatalogSnapshot(lake), lake.clock.now()).single  # type: ignore[union-attr]  # a SELECT
            with open_snapshot(lake.table("t")) as found:
                question = question_of(lake, bound, found, lake.clock.now())
                pruned = prune(found, question.plan, question.now, use=True)
                stream = local.stream(question, pruned, ScanMetrics())
                assert next(stream)[1] > 0
                for part in saved:
                    part.unlink()
                with pytest.raises(StoreError) as caught:
                    list(stream)
                assert any(part in str(caught.value) for part in names), f"{name}: {caught.value}"
        for part, data in saved.items():
            part.write_bytes(data)


# ---------------------------------------------------------------- statistics that lie


@pytest.mark.parametrize("sql", ["SELECT id FROM t WHERE id = 70", "SELECT id FROM t WHERE id < 90 LIMIT 1"])
def test_a_lie_about_a_part_is_found_and_named(sql: str) -> None:
    with tidegate.open("memory://", config=Config(audit=1.0)) as db:
        db.sql("CREATE TABLE t (id int8)")
        shard = db.context.table("t")

        def lying(schema: Schema, columns: list[pa.Array]) -> PartStats:
            return shard.describe(schema, [pc.add(columns[0], 1_000)])

        (part,) = replace(shard, describe=lying).append({"id": list(range(100))}).parts
        db.append("t", {"id": [5_000]})
        with pytest.raises(CorruptError, match=part.name):
            db.sql(sql)
        db.set("stats_filter", False)
        assert len(db.sql(sql)) == 1


def test_a_lie_about_a_page_is_found_and_named() -> None:
    """The part's own statistics are right, those of its pages are not."""
    with tidegate.open("memory://", config=Config(audit=1.0)) as db:
        db.sql("CREATE TABLE t (id int8, s text)")
        shard = db.context.table("t")

        def lying(schema: Schema, columns: list[pa.Array]) -> PartStats:
            false = shard.describe(schema, [columns[0].take(pa.array(np.arange(LARGE)[::-1])), columns[1]])
            true = shard.describe(schema, columns)
            return PartStats(true.part, false.pages, true.later)

        texts = pa.array([f"row {i}" for i in range(LARGE)])
        (part,) = replace(shard, describe=lying).append({"id": pa.array(np.arange(LARGE)), "s": texts}).parts
        with pytest.raises(CorruptError, match=part.name):
            db.sql("SELECT s FROM t WHERE id = 70")


# ---------------------------------------------------------------- errors and limits


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://", config=Config(audit=1.0)) as opened:
        yield opened


def test_an_error_behind_a_limit(db: tidegate.Database) -> None:
    """LIMIT 1 may be full before the row that fails is met; whoever must see all rows sees it."""
    db.sql("CREATE TABLE t (id int8)")
    db.append("t", {"id": list(range(1, 20_000))})
    db.append("t", {"id": [0]})
    for name, flags in settings():
        for flag, value in flags.items():
            db.set(flag, value)
        got = asked(db, "SELECT 10 / id FROM t LIMIT 1")
        one = got.row == {"id": 0} if isinstance(got, tidegate.EvaluationError) else len(got) == 1
        assert one, f"{name}: {got}"
        for sql in (
            "SELECT 10 / id FROM t",
            "SELECT 10 / id FROM t LIMIT 20000",
            "SELECT 10 / id FROM t ORDER BY 1 LIMIT 1",
            "SELECT id FROM t WHERE 10 / id > 1 ORDER BY id DESC LIMIT 1",
            "SELECT count(*) FROM t WHERE 10 / id > 100",
        ):
            with pytest.raises(tidegate.EvaluationError, match="division by zero") as caught:
                db.sql(sql)
            assert caught.value.row == {"id": 0}, f"{name}: {sql}"
        assert db.sql("SELECT 10 / id FROM t LIMIT 0").rows() == []
        assert len(db.sql("SELECT 10 / id FROM t WHERE id > 0 LIMIT 30000")) == 19_999


@pytest.mark.parametrize("retracting", [False, True])
def test_limits_at_their_ends(db: tidegate.Database, retracting: bool) -> None:
    most = 2**63 - 1
    db.sql("CREATE TABLE t (id int8)")
    for first in (0, 10, 20):
        db.append("t", {"id": list(range(first, first + 10))}, diff=2)
    if retracting:
        db.append("t", {"id": list(range(30))}, diff=-1)
    many = 30 if retracting else 60
    for name, flags in settings():
        for flag, value in flags.items():
            db.set(flag, value)
        for order in ("", " ORDER BY id", " ORDER BY id DESC"):
            for limit, offset, wanted in (
                (most, 1, many - 1), (most, most, 0), (0, most, 0), (most, many, 0), (1, many - 1, 1), (7, many - 3, 3),
                (0, 0, 0), (most, 0, many),
            ):  # fmt: skip
                got = db.sql(f"SELECT id FROM t{order} LIMIT {limit} OFFSET {offset}").rows()
                assert len(got) == wanted, f"{name}: {order} {limit} {offset}"
                if order:
                    every = sorted([(i,) for i in range(30)] * (many // 30), reverse="DESC" in order)
                    assert got == every[offset : offset + limit], f"{name}: {order} {limit} {offset}"


@pytest.mark.parametrize(
    "tail", ["LIMIT -1", "OFFSET -1", "LIMIT 1 OFFSET -9223372036854775808", "LIMIT 9223372036854775808"]
)
def test_limits_that_are_none(db: tidegate.Database, tail: str) -> None:
    db.sql("CREATE TABLE t (id int8)")
    with pytest.raises(tidegate.TidegateError, match=r"(?i)limit|offset|out of range"):
        db.sql(f"SELECT id FROM t {tail}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s FROM t",
        "SELECT s FROM t ORDER BY s",
        "SELECT s FROM t WHERE id >= 0 LIMIT 19000",
        "SELECT DISTINCT id, s FROM t",
    ],
)
def test_a_result_that_is_too_large(db: tidegate.Database, sql: str) -> None:
    db.sql("CREATE TABLE t (id int8, s text)")
    for part in range(4):
        texts = [f"{i:0100}" for i in range(5_000)]
        db.append("t", {"id": list(range(part * 5_000, part * 5_000 + 5_000)), "s": texts})
    for name, flags in settings():
        for flag, value in flags.items():
            db.set(flag, value)
        db.set("max_result_bytes", 1_000_000)
        with pytest.raises(LimitError, match="bytes") as caught:
            db.sql(sql).arrow()
        assert "max_result_bytes" in str(caught.value), name
        if "ORDER BY" not in sql and "DISTINCT" not in sql:  # these must hold what they sort or compare
            assert sum(batch.num_rows for batch in db.sql(sql).batches()) > 18_000, name
        assert len(db.sql("SELECT s FROM t LIMIT 100")) == 100, name
        assert len(db.sql("SELECT s FROM t WHERE id < 1000 ORDER BY s DESC")) == 1_000, name
        db.set("max_result_bytes", None)
        assert len(db.sql(sql)) > 18_000, name
