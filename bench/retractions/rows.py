"""Rows, changes of a share of them, and questions whose right answers are computed without a database.

    change = change_of(rows=1_000_000, share=0.01, layout="scattered", kind="both")
    change.statements         # UPDATE t … WHERE id % 200 = 0; DELETE FROM t WHERE id % 200 = 100
    expected = Expected(change)
    expected.totals           # (995_000, sum of id, sum of amount)
    LIMITS[0].is_right(db.sql(LIMITS[0].sql).arrow(), expected)

Every column is a function of `id`, and an UPDATE adds 1 to `amount`. So the expected rows of any ids can be computed, and each
answer is compared with them: a fast wrong answer does not pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WIDE = 10
"""Columns of the table that only `SELECT *` reads."""
COLUMNS = {
    "id": "int8", "at": "timestamptz", "customer": "int8", "kind": "text", "v": "float8", "amount": "int8", "note": "text",
} | {f"w{i}": "int8" for i in range(WIDE)}  # fmt: skip
TABLE = f"t ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})"
CUSTOMERS, CUSTOMER = 1009, 77
LAYOUTS, KINDS = ("scattered", "clustered"), ("both", "update", "delete")
APPEND_ONLY = "append-only"
ONE_ROW = 0.0
"""The share that stands for one row."""

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Ids = np.ndarray[Any, np.dtype[np.int64]]


def rows_of(ids: Ids, updated: Mask | None = None) -> pa.Table:
    """The rows with these ids; those marked in `updated` as UPDATE leaves them."""
    amount = ids * 31 % 1000 if updated is None else ids * 31 % 1000 + updated
    kinds = np.array(["new", "paid", "sent", "done", "lost", "back", "open", "held"])
    columns = {
        "id": pa.array(ids),
        "at": pa.array(1_700_000_000_000_000 + ids * 1_000_000).cast(pa.timestamp("us", "UTC")),
        "customer": pa.array(ids * 7919 % CUSTOMERS),
        "kind": pa.array(kinds[ids * 13 % 8]),
        "v": pa.array(_v(ids)),
        "amount": pa.array(amount),
        "note": pc.binary_join_element_wise("order", pa.array(ids).cast(pa.string()), "as wanted", " "),
    }
    for i in range(WIDE):
        mixed = (ids.astype(np.uint64) + np.uint64(i)) * np.uint64(0x9E3779B97F4A7C15)
        columns[f"w{i}"] = pa.array((mixed >> np.uint64(24)).astype(np.int64))
    return pa.table(columns)


def _v(ids: Ids) -> np.ndarray[Any, np.dtype[np.float64]]:
    return ids * 7919 % 100_003 / 7


# ---------------------------------------------------------------- changes


@dataclass(frozen=True)
class Change:
    """What is done to the rows 0 … n - 1: statements, and the same as masks over their ids."""

    label: str
    updates: str
    """The condition of the UPDATE; empty: there is none."""
    deletes: str
    updated: Mask
    deleted: Mask

    @property
    def statements(self) -> list[str]:
        """The change as SQL."""
        update, delete = (
            f"UPDATE t SET amount = amount + 1 WHERE {self.updates}",
            f"DELETE FROM t WHERE {self.deletes}",
        )
        return [sql for sql, condition in ((update, self.updates), (delete, self.deletes)) if condition]


def unchanged(rows: int, label: str) -> Change:
    """Nothing is done."""
    none = np.zeros(rows, bool)
    return Change(label, "", "", none, none)


def change_of(rows: int, share: float, layout: str, kind: str) -> Change:
    """A share of the rows: every k-th (`scattered`) or neighbours (`clustered`); of `both` kinds half each.

    One row is updated if scattered and deleted if clustered, unless `kind` is one of the two.
    """
    ids = np.arange(rows)
    label = "1 row" if share == ONE_ROW else f"{100 * share:g} %"
    if share == ONE_ROW or layout == "clustered":
        count = 1 if share == ONE_ROW else round(rows * share)
        low = rows // 2 if share == ONE_ROW else rows // 4
        half = low + (count + (layout == "scattered")) // 2
        middle = {"update": low + count, "delete": low, "both": half}[kind]
        updated, deleted = (low, middle), (middle, low + count)
        return Change(
            label,
            _range_sql(*updated),
            _range_sql(*deleted),
            _in_range(ids, *updated),
            _in_range(ids, *deleted),
        )
    step, none = round(1 / share), np.zeros(rows, bool)
    match kind:
        case "update":
            return Change(label, f"id % {step} = 0", "", ids % step == 0, none)
        case "delete":
            return Change(label, "", f"id % {step} = 0", none, ids % step == 0)
        case _:
            twice = 2 * step
            masks = ids % twice == 0, ids % twice == step
            return Change(label, f"id % {twice} = 0", f"id % {twice} = {step}", *masks)


def _range_sql(low: int, high: int) -> str:
    return f"id >= {low} AND id < {high}" if low < high else ""


def _in_range(ids: Ids, low: int, high: int) -> Mask:
    return (ids >= low) & (ids < high)


# ---------------------------------------------------------------- what must come out


class Expected:
    """The right answers after a change, by numpy alone."""

    def __init__(self, change: Change) -> None:
        """Computes nothing yet."""
        self.change = change

    @cached_property
    def ids(self) -> Ids:
        """The ids that are left, in order."""
        return np.flatnonzero(~self.change.deleted)

    def rows(self, ids: Ids) -> pa.Table:
        """The rows with these ids, which must be left."""
        return rows_of(ids, self.change.updated[ids])

    @cached_property
    def amounts(self) -> Ids:
        """The amounts of all ids that are left."""
        found: Ids = self.ids * 31 % 1000 + self.change.updated[self.ids]
        return found

    @cached_property
    def totals(self) -> tuple[int, int, int]:
        """The number of rows, and the sums of `id` and `amount`."""
        return len(self.ids), int(self.ids.sum()), int(self.amounts.sum())

    @cached_property
    def groups(self) -> dict[str, tuple[int, int]]:
        """For each kind the number of rows and the sum of `amount`."""
        code, names = self.ids * 13 % 8, rows_of(np.arange(8))["kind"].to_pylist()
        found = {}
        for first in range(8):
            members = code == first * 13 % 8
            found[names[first]] = int(members.sum()), int(self.amounts[members].sum())
        return {name: pair for name, pair in found.items() if pair[0]}

    @cached_property
    def top(self) -> Ids:
        """The ids of the ten rows with the greatest `v`, the smaller id first."""
        return self.ids[np.lexsort((self.ids, -_v(self.ids)))[:10]]

    @cached_property
    def of_customer(self) -> pa.Table:
        """The rows of CUSTOMER, by id."""
        return self.rows(self.ids[self.ids * 7919 % CUSTOMERS == CUSTOMER])


def _same(got: pa.Table, wanted: pa.Table, *, any_order: bool = False) -> bool:
    found = got.select(wanted.column_names).cast(wanted.schema)
    return bool((found.sort_by("id") if any_order else found).equals(wanted))


def _ten_right(got: pa.Table, expected: Expected) -> bool:
    """Ten different rows that are there, whichever they are."""
    ids = got["id"].to_numpy()
    if len(ids) != 10 or len(set(ids)) != 10 or expected.change.deleted[ids].any():
        return False
    return _same(got, expected.rows(ids))


def _ten_with_v_right(got: pa.Table, expected: Expected) -> bool:
    return bool(_ten_right(got, expected) and pc.all(pc.greater(got["v"], 3.0)).as_py())


def _groups_right(got: pa.Table, expected: Expected) -> bool:
    found = zip(*(column.to_pylist() for column in got.columns), strict=True)
    return {kind: (int(count), int(total)) for kind, count, total in found} == expected.groups


def _totals_right(got: pa.Table, expected: Expected) -> bool:
    return tuple(int(column[0].as_py()) for column in got.columns[:3]) == expected.totals


# ---------------------------------------------------------------- questions


@dataclass(frozen=True)
class Question:
    """A question in SQL, and whether an answer is right."""

    name: str
    sql: str
    is_right: Callable[[pa.Table, Expected], bool]
    is_limit: bool = False
    is_scan: bool = False
    """The rows are streamed, and the answer is `stream_totals` of them."""
    probe: Question | None = None
    """Asked once, without being timed; a wrong answer to it counts as one to this."""


LIMITS = (
    Question("LIMIT", "SELECT * FROM t LIMIT 10", _ten_right, is_limit=True),
    Question("WHERE … LIMIT", "SELECT * FROM t WHERE v > 3 LIMIT 10", _ten_with_v_right, is_limit=True),
)
OTHERS = (
    Question(
        "top-k",
        "SELECT id, v, amount FROM t ORDER BY v DESC, id LIMIT 10",
        lambda got, expected: _same(got, expected.rows(expected.top).select(["id", "v", "amount"])),
    ),
    Question(
        "filter, wide rows",
        f"SELECT * FROM t WHERE customer = {CUSTOMER}",
        lambda got, expected: _same(got, expected.of_customer, any_order=True),
    ),
    Question("aggregate", "SELECT kind, count(*) AS n, sum(amount) AS s FROM t GROUP BY kind", _groups_right),
    Question(
        "count(*)",
        "SELECT count(*) AS n FROM t",
        lambda got, expected: int(got.column(0)[0].as_py()) == expected.totals[0],
    ),
    Question("full scan", "SELECT * FROM t", _totals_right, is_scan=True),
)


def questions_of(changes: Sequence[Change]) -> tuple[Question, ...]:
    """All questions, of which the look-up depends on the changes: it asks for a row that none of them touches.

    The first and the last row that each change touches are looked up too, without being timed.
    """
    rows = len(changes[0].deleted)
    free = np.flatnonzero(~np.logical_or.reduce([change.updated | change.deleted for change in changes]))
    point = int(free[np.searchsorted(free, 2 * rows // 3) % len(free)])
    masks = [np.flatnonzero(mask) for change in changes for mask in (change.updated, change.deleted)]
    touched = sorted({int(ids[end]) for ids in masks if len(ids) for end in (0, -1)})
    probe = _look_up("changed rows", touched) if touched else None
    return (*LIMITS, replace(_look_up("point look-up", [point]), probe=probe), *OTHERS)


def _look_up(name: str, wanted: Sequence[int]) -> Question:
    """A question for the rows with some ids, as many of them as are left."""

    def is_right(got: pa.Table, expected: Expected) -> bool:
        left = np.array([id_ for id_ in wanted if not expected.change.deleted[id_]], np.int64)
        return _same(got, expected.rows(left), any_order=True)

    condition = f"= {wanted[0]}" if len(wanted) == 1 else f"IN ({', '.join(map(str, wanted))})"
    return Question(name, f"SELECT * FROM t WHERE id {condition}", is_right)


SCAN_ON_SPARK = (
    "SELECT count(*) AS n, sum(id) AS id, sum(amount) AS amount, max(at), max(kind), sum(length(note)), "
    + (
        ", ".join(f"sum({name} % 7)" for name in ("customer", "v", *(f"w{i}" for i in range(WIDE))))
        + " FROM t"
    )
)
"""The full scan on Spark: all columns are read, nothing but the totals leaves Spark."""


def stream_totals(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The number of rows and the sums of `id` and `amount`, of a stream that is read once."""
    count = ids = amounts = 0
    for batch in batches:
        count += batch.num_rows
        ids += pc.sum(batch.column("id")).as_py() or 0
        amounts += pc.sum(batch.column("amount")).as_py() or 0
    return pa.table({"n": [count], "id": [ids], "amount": [amounts]})


@dataclass(frozen=True)
class Variant:
    """One collection that is asked: in which state it is, how it is asked, and what must come out."""

    label: str
    compacted: bool
    ask: Callable[[Question], pa.Table]
    expected: Expected
