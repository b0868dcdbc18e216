"""Which rows a LIMIT takes is free; whether a query fails is not: no switch makes an answer an error (`query/row_failures.py`).

Rows that fail stand among others in many small parts, in one large part, and in collections that were updated and deleted from.
What each query must do is worked out in Python, row by row, and every combination of the switches must do it. A few queries a
collection and seed: without the rule the small, the changed and the large ones fail within these.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import tidegate
from tidegate.config import Config
from tidegate.query.paths import peek

Row: TypeAlias = tuple[int | None, int, str]
"""d, k, s"""
SEEDS = range(2 * int(os.environ.get("TIDEGATE_READS", "1")))
QUERIES = 6
SWITCHES = ("fast_path", "late_materialization", "stats_filter")


class Fails(Exception):  # noqa: N818  # reads as what it is
    """What evaluating a row ends with."""


def tenth(d: int | None) -> int | None:
    """10 / d in SQL."""
    if d == 0:
        raise Fails
    return None if d is None else int(10 / d)


def number(s: str) -> int:
    """s::int8 in SQL."""
    if not s.isdigit():
        raise Fails
    return int(s)


def either(*sides: Callable[[], bool | None]) -> bool | None:
    """OR: true beats an error, which beats NULL."""
    found: list[bool | type[Fails] | None] = []
    for side in sides:
        try:
            found.append(side())
        except Fails:
            found.append(Fails)
    if True in found:
        return True
    if Fails in found:
        raise Fails
    return None if None in found else False


def both(*sides: Callable[[], bool | None]) -> bool | None:
    """AND: false beats an error, which beats NULL."""

    def turned(side: Callable[[], bool | None]) -> Callable[[], bool | None]:
        return lambda: None if (value := side()) is None else not value

    found = either(*map(turned, sides))
    return None if found is None else not found


def above(value: int | None, bound: int) -> bool | None:
    return None if value is None else value > bound


@dataclass(frozen=True)
class Question:
    """A query without its end, and what it does with a row: True or False or NULL of WHERE, and what it selects."""

    sql: str
    passes: Callable[[Row], bool | None]
    selects: Callable[[Row], Any]


def questions(c: int) -> list[Question]:
    """Errors in the select list, in WHERE, in both, and beside conditions that settle the row without them."""
    return [
        Question("SELECT 10 / d FROM t", lambda r: True, lambda r: tenth(r[0])),
        Question(f"SELECT 10 / d FROM t WHERE k > {c}", lambda r: r[1] > c, lambda r: tenth(r[0])),
        Question(
            f"SELECT k FROM t WHERE 10 / d > {c % 7}", lambda r: above(tenth(r[0]), c % 7), lambda r: r[1]
        ),
        Question(
            f"SELECT s FROM t WHERE 10 / d > 1 AND k < {c}",
            lambda r: both(lambda: above(tenth(r[0]), 1), lambda: r[1] < c),
            lambda r: r[2],
        ),
        Question(
            f"SELECT d, s FROM t WHERE 10 / d > 4 OR k < {c}",
            lambda r: either(lambda: above(tenth(r[0]), 4), lambda: r[1] < c),
            lambda r: (r[0], r[2]),
        ),
        Question(
            f"SELECT s::int8, 10 / d FROM t WHERE k >= {c}",
            lambda r: r[1] >= c,
            lambda r: (number(r[2]), tenth(r[0])),
        ),
        Question(f"SELECT k FROM t WHERE s::int8 > {c}", lambda r: number(r[2]) > c, lambda r: r[1]),
    ]


def rows(r: random.Random, count: int, bad: float) -> list[Row]:
    """Rows of which a share fails in one way or the other."""
    return [
        (
            r.choice([0, 0, 0, None]) if r.random() < bad else r.randrange(1, 9),
            r.randrange(100),
            "x" if r.random() < bad / 2 else str(r.randrange(50)),
        )
        for _ in range(count)
    ]


def table(some: list[Row]) -> pa.Table:
    columns = zip(*some, strict=True) if some else ((), (), ())
    types = (pa.int64(), pa.int64(), pa.string())
    return pa.table(
        {name: pa.array(values, type_) for name, values, type_ in zip("dks", columns, types, strict=True)}
    )


def small_parts(db: tidegate.Database, r: random.Random) -> list[Row]:
    found = []
    for _ in range(12):
        some = rows(r, r.randrange(1, 4), 0.25)
        db.append("t", table(some))
        found += some
    return found


def changed(db: tidegate.Database, r: random.Random) -> list[Row]:
    """Small parts of which rows are taken back, changed and deleted: bad rows come, and others go."""
    found = small_parts(db, r)
    gone = r.sample(found, 4)
    db.append("t", table(gone), diff=-1)
    left = list((Counter(found) - Counter(gone)).elements())
    db.sql("UPDATE t SET d = 0 WHERE k BETWEEN 40 AND 50")
    left = [(0, k, s) if 40 <= k <= 50 else (d, k, s) for d, k, s in left]
    db.sql("DELETE FROM t WHERE k > 85")
    return [row for row in left if row[1] <= 85]


def updated_away(db: tidegate.Database, r: random.Random) -> list[Row]:
    """Rows that failed were mended: they must not fail any more, wherever they are still stored."""
    found = small_parts(db, r)
    db.sql("UPDATE t SET d = 5, s = '7' WHERE d = 0 OR d IS NULL OR s = 'x'")
    return [(5, k, "7") if d == 0 or d is None or s == "x" else (d, k, s) for d, k, s in found]


def large(db: tidegate.Database, r: random.Random) -> list[Row]:
    """Parts of several pages, sorted by k, so that pages are left out and columns read late; few rows fail."""
    found = sorted(rows(r, 20_000, 0.0005), key=lambda row: row[1])
    db.append("t", table(found))
    some = rows(r, 3, 0.6)
    db.append("t", table(some))
    return [*found, *some]


COLLECTIONS = {"small": small_parts, "changed": changed, "updated": updated_away, "large": large}


def expected(question: Question, stored: list[Row]) -> tuple[Counter[Any], int]:
    """What leaves of rows that do not fail, and how many rows fail."""
    good: Counter[Any] = Counter()
    failed = 0
    for row in stored:
        try:
            if question.passes(row):
                value = question.selects(row)
                good[value if isinstance(value, tuple) else (value,)] += 1
        except Fails:
            failed += 1
    return good, failed


def answer(db: tidegate.Database, sql: str) -> list[tuple[Any, ...]] | None:
    """The rows; None: it failed."""
    try:
        return db.sql(sql).rows()
    except tidegate.EvaluationError:
        return None


def settings() -> Iterator[dict[str, bool]]:
    for values in itertools.product((True, False), repeat=len(SWITCHES)):
        yield dict(zip(SWITCHES, values, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", COLLECTIONS)
def test_no_switch_turns_an_answer_into_an_error(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peek, "FIRST", 4)  # so that few parts are asked first, as of thousands
    r = random.Random(seed * 31 + len(kind))
    with tidegate.open("memory://", config=Config(audit=1.0, read_threads=1 + seed % 2)) as db:
        db.sql("CREATE TABLE t (d int8, k int8, s text)")
        stored = COLLECTIONS[kind](db, r)
        for _ in range(2 if kind == "large" else QUERIES):
            question = r.choice(questions(r.randrange(100)))
            good, failed = expected(question, stored)
            count = sum(good.values())
            limit = max(0, r.choice([0, 1, 2, count - 1, count, count + 1, count // 2]))
            offset, order = r.choice([0, 0, 1, max(0, count - 1)]), r.choice(["", "", " ORDER BY k DESC"])
            check(db, question.sql + order, good, fails=bool(failed), many=count)
            enough = not order and count >= limit + offset
            many = max(0, min(count, limit + offset) - offset)
            sql = f"{question.sql}{order} LIMIT {limit} OFFSET {offset}"
            check(db, sql, good, fails=bool(failed) and limit > 0 and not enough, many=many)


def check(db: tidegate.Database, sql: str, good: Counter[Any], *, fails: bool, many: int) -> None:
    """Asks with every combination of the switches."""
    for on in settings():
        for name, value in on.items():
            db.set(name, value)
        found = answer(db, sql)
        assert (found is None) == fails, (sql, on)
        if found is not None:
            assert len(found) == many, (sql, on)
            assert not Counter(found) - good, (sql, on)


def test_a_limit_passes_over_rows_that_fail() -> None:
    """The rule's own example, with the row that fails in each of the parts."""
    for order in itertools.permutations((1, 2, 0)):
        with tidegate.open("memory://") as db:
            db.sql("CREATE TABLE t (d int8)")
            for d in order:
                db.append("t", pa.table({"d": [d]}))
            for fast in (True, False):
                db.set("fast_path", fast)
                assert answer(db, "SELECT 10 / d FROM t LIMIT 1") in ([(10,)], [(5,)])
                assert sorted(answer(db, "SELECT 10 / d FROM t LIMIT 2") or ()) == [(5,), (10,)]
                assert answer(db, "SELECT 10 / d FROM t LIMIT 3") is None
                assert answer(db, "SELECT 10 / d FROM t LIMIT 1 OFFSET 2") is None
                assert answer(db, "SELECT 10 / d FROM t LIMIT 0") == []
                with pytest.raises(tidegate.EvaluationError, match="division by zero"):
                    db.sql("SELECT 10 / d FROM t LIMIT 3")


def test_a_limit_reads_no_more_where_nothing_fails() -> None:
    """An expression that could fail, and does not: two parts of two hundred are enough for two rows."""
    with tidegate.open("memory://", config=Config(audit=0.0, maintenance=False)) as db:
        db.sql("CREATE TABLE t (d int8)")
        for i in range(200):
            db.append("t", pa.table({"d": [i + 1]}))
        result = db.sql("SELECT 1000 / d FROM t LIMIT 2")
        assert len(result) == 2
        assert result.path == "peek"
        assert result.scan.parts_read == 2
