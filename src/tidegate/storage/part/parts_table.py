"""Parts as rows of an Arrow table: so a state stores them, and so they travel to tasks.

    table = parts_to_table(parts)            a row for each part, in the columns of `PARTS_SCHEMA`
    parts_from_table(table.slice(0, 2))      two of them as values again
    with_object(table)                       without inline parts

The file of an inline part is in the column `data`; other parts have their file in the blob store, and no data.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.storage.part.part import Part

PARTS_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("diffs", pa.int64()),
        ("retracts", pa.bool_()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("schema", pa.int32()),
        ("digest", pa.string()),
        ("written", pa.int64()),
        ("level", pa.int16()),
        ("order", pa.list_(pa.int32())),
        ("expires", pa.int64()),
        ("tail", pa.int64()),
        ("tail_digest", pa.string()),
        ("stats", pa.binary()),
        ("data", pa.binary()),
    ]
)
"""The columns of a segment. A stored segment without inline parts lacks `data`."""


def parts_to_table(parts: Iterable[Part]) -> pa.Table:
    """Parts as rows."""
    rows = list(parts)
    return pa.table(
        {
            name: pa.array([getattr(part, name) for part in rows], PARTS_SCHEMA.field(name).type)
            for name in PARTS_SCHEMA.names
        },
        schema=PARTS_SCHEMA,
    )


def without_stats(table: pa.Table) -> pa.Table:
    """The same rows with empty statistics."""
    at = PARTS_SCHEMA.get_field_index("stats")
    return table.set_column(at, PARTS_SCHEMA.field("stats"), no_bytes(table.num_rows))


def no_bytes(rows: int) -> pa.Array:
    """A column of empty bytes."""
    return pa.repeat(pa.scalar(b"", pa.binary()), rows)


def with_object(table: pa.Table) -> pa.Table:
    """The parts that are not inline, without the column `data`."""
    return table.filter(pc.equal(pc.binary_length(table.column("data")), 0)).drop_columns(["data"])


def parts_from_table(table: pa.Table) -> list[Part]:
    """Rows as parts: for the few that are about to be read or replaced, never for all."""
    return [Part(**{**row, "order": tuple(row["order"])}) for row in table.to_pylist()]
