"""The rows of simulations: with NaN, -0 and NULL, few enough that many are equal."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tidegate.expr.model.types import FLOAT8, INT8, TEXT
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.snapshot import Snapshot

NAN = float("nan")
SCHEMA = Schema.of([("k", INT8, False), ("x", FLOAT8, True), ("t", TEXT, True)])

Row = tuple[int, float | None, str | None]
rows_ = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([0.0, -0.0, NAN, None, 1.5]),
        st.sampled_from([None, "", "a", "b\0"]),
    ),
    max_size=6,
)


def table(rows: list[Row]) -> pa.Table:
    columns = [
        pa.array([row[i] for row in rows], column.type.arrow) for i, column in enumerate(SCHEMA.columns)
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA.arrow)


def named(row: dict[str, Any]) -> str:
    """A row as text: NaN is itself, and -0 is not 0."""
    return repr((row["k"], row["x"], row["t"]))


def read(found: Snapshot) -> Counter[str]:
    return Counter(named(row) for batch in found.batches() for row in batch.to_pylist())
