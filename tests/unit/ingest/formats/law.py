"""The law of every format: what is taken, then what is left, is the plan over fully decoded columns.

`fates` runs both and gives, by record, the row that leaves or the message; tests compare the two.
"""

import io
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from tidegate.expr.model.types import INT8, Type
from tidegate.ingest.protocol import Columns, DecodedBatch, RecordChunk, RecordFormat
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.run.safe_plan import PlanOutput, SafePlan
from tidegate.sql import prepare
from tidegate.sql.bind.catalog import DictCatalog, Relation

NOW = 1_700_000_000_000
Fates = dict[int, tuple[Any, ...] | str]
INCLUDED: Columns = (("number", INT8),)
"""What INCLUDE adds in these tests: the number of the record."""


def planned(sql: str, columns: Columns) -> MapFilterProject:
    """The plan of a query over `s`, whose columns are the format's and behind them `number`."""
    found = prepare(sql, DictCatalog({"s": Relation("s", (*columns, *INCLUDED))}), NOW).single
    assert found is not None
    return found.mfp


def taken(
    format_: RecordFormat,
    plan: MapFilterProject,
    batches: Iterable[DecodedBatch] | pa.Array | bytes,
    name: str = "x",
) -> Fates:
    """By the format: of an array of records, or of the bytes of a file."""
    decode, left = format_.take(plan)
    decode = pickle.loads(pickle.dumps(decode))
    if isinstance(batches, pa.Array):
        found = [decode.records(batches)]
    else:
        assert isinstance(batches, bytes)
        found = list(decode.file(io.BytesIO(batches), name))
    fates: Fates = {}
    base = 0
    for decoded in found:
        check(decoded, decode.columns)
        numbers = pa.array(range(base, base + decoded.count), pa.int64())
        chunk = RecordChunk(decoded, [numbers], lambda i: {"line": i})
        rows = SafePlan(left).evaluate(chunk.rows(), len(decoded.selection))
        fates |= {base + number: message for number, message in decoded.failures}
        fates |= by_number(rows, base + decoded.selection)
        base += decoded.count
    return fates


def check(decoded: DecodedBatch, columns: Columns) -> None:
    """What `DecodedBatch` promises of itself."""
    assert [column.type for column in decoded.columns] == [type_.arrow for _, type_ in columns]
    assert all(len(column) == len(decoded.selection) for column in decoded.columns)
    numbers = decoded.selection.tolist()
    assert numbers == sorted(set(numbers))
    bad = [number for number, _ in decoded.failures]
    assert bad == sorted(set(bad))
    assert not set(bad) & set(numbers)
    assert all(0 <= number < decoded.count for number in (*bad, *numbers))


def by_number(rows: PlanOutput, numbers: Sequence[int]) -> Fates:
    columns = [column.to_pylist() for column in rows.columns]
    fates: Fates = {
        int(numbers[at]): tuple(column[i] for column in columns) for i, at in enumerate(rows.selection)
    }
    failed = zip(rows.failures.rows, rows.failures.messages.to_pylist(), strict=True)
    return fates | {int(numbers[at]): message for at, message in failed}


def whole(
    plan: MapFilterProject,
    columns: Sequence[list[Any]],
    types: Sequence[Type],
    errors: dict[int, str],
    skip: frozenset[int] = frozenset(),
) -> Fates:
    """By definition: every column decoded, and the plan over the records that could be."""
    count = len(columns[0])
    good = [i for i in range(count) if i not in errors and i not in skip]
    arrays = [
        pa.array([column[i] for i in good], type_.arrow) for column, type_ in zip(columns, types, strict=True)
    ]
    rows = SafePlan(plan).evaluate([*arrays, pa.array(good, pa.int64())], len(good))
    return {**errors, **by_number(rows, good)}
