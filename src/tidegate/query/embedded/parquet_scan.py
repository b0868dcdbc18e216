"""Parts that DuckDB reads by itself: whole columns of local files, without a copy through Arrow.

    SELECT c0, c3 FROM (SELECT id AS c0, price AS c3 FROM read_parquet(['…/a', '…/b'])) WHERE c3 > 5

| parts | read by |
|---|---|
| every row is there once and has happened, columns as in the schema, in a file | DuckDB |
| some of whose rows are deleted | DuckDB, without the rows whose bit is set in a string of bits for each file |
| all others, and all parts if rows must meet retractions, or if DuckDB has no form for a condition | our own scan |

DuckDB decodes a column in half the time that handing it over takes. Keys of other scans (`semi_join.py`) only prune parts here, as
DuckDB's join drops the other rows. Where the filter leaves few rows, our own scan reads few pages
of the other columns, and is the better one (`MIN_SELECTIVITY`). The checksums of the pages, or of a small file, are verified here
before DuckDB reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from tidegate.expr.duckdb_sql import duckdb_sql, quoted
from tidegate.expr.model import Expr, Kind, Type
from tidegate.expr.primitives import sql_list
from tidegate.query.prune.parts import PruneResult
from tidegate.query.relational import RelationalScan
from tidegate.storage.blob import FileBlob
from tidegate.storage.part import HIDDEN_COLUMNS, Part, PartFile, Schema, bitmaps
from tidegate.storage.shard import Snapshot

MIN_SELECTIVITY = 0.002
"""The share of rows that must pass for DuckDB's reader to be the better one: one row of 500 is on every sixteenth page."""
MAX_DELETED_BITS = 1 << 30
"""Rows of parts with deletions that DuckDB reads in one scan: a bit for each is in memory. Our own scan reads the others."""
_VIRTUAL = frozenset(("file_index", "file_row_number"))
"""Columns that DuckDB makes itself, unless a file has columns with these names."""
_READABLE = frozenset((
    Kind.BOOL, Kind.INT2, Kind.INT4, Kind.INT8, Kind.FLOAT4, Kind.FLOAT8, Kind.NUMERIC, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ, Kind.MZ_TIMESTAMP,
))  # fmt: skip
"""Types that DuckDB reads from our files as the same values."""


@dataclass(frozen=True, eq=False)
class ParquetScan:
    """How DuckDB reads some parts of a scan."""

    scan: RelationalScan
    files: tuple[tuple[Part, str], ...]
    rest: PruneResult
    """The parts that our own scan reads."""
    conditions: tuple[str, ...]
    outputs: tuple[str, ...]

    @cached_property
    def _deleted(self) -> dict[int, np.ndarray]:
        """The places of the files with deleted rows, and the positions of these."""
        found = (
            (i, bitmaps.unpack_positions(part.deleted))
            for i, (part, _) in enumerate(self.files)
            if part.deleted
        )
        return {i: positions for i, positions in found if len(positions)}

    def deleted_bits(self) -> pa.Table | None:
        """For each file with deletions a bit for each of its rows: 1 if it is deleted."""
        if not self._deleted:
            return None
        packed = []
        for place, positions in self._deleted.items():
            bits = np.zeros(self.files[place][0].rows, bool)
            bits[positions] = True
            packed.append(np.packbits(bits).tobytes())
        return pa.table(
            {"file": pa.array(range(len(packed)), pa.uint64()), "bits": pa.array(packed, pa.binary())}
        )

    def sql(self, deleted: str | None) -> str:
        """The rows as a SELECT; `deleted` is the name of `deleted_bits`."""
        if deleted is None:
            return self._select([path for _, path in self.files])
        touched = [self.files[i][1] for i in self._deleted]
        others = [path for i, (_, path) in enumerate(self.files) if i not in self._deleted]
        texts = [self._select(others)] if others else []
        return " UNION ALL ".join([*texts, self._select(touched, deleted)])

    def _select(self, paths: Sequence[str], deleted: str | None = None) -> str:
        """The rows of some files, without those whose bits `deleted` has."""
        snapshot = self.scan.snapshot
        columns = [
            f"{_read(quoted(snapshot.schema.columns[i].name), snapshot.schema.columns[i].type)} AS s{i}"
            for i in sorted(self.scan.planned.own_plan.demand())
        ]
        source = f"SELECT {', '.join(columns) or '1 AS one'} FROM read_parquet({sql_list(paths)})"
        if deleted is not None:
            bits = f"SELECT file, bits::BIT AS bits FROM {deleted}"
            source += f" JOIN ({bits}) AS d ON d.file = file_index WHERE get_bit(d.bits, file_row_number::INTEGER) = 0"
        shown = [f"{text} AS {name}" for text, name in zip(self.outputs, self.scan.names, strict=True)]
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        return f"SELECT {', '.join(shown) or '1 AS one'} FROM ({source}){where}"

    def verify(self) -> None:
        """Verifies the checksums of everything that DuckDB will read, and counts it."""
        scan, cost = self.scan, self.scan.cost
        ids = [scan.snapshot.schema.columns[i].id for i in sorted(scan.planned.own_plan.demand())]
        for part, _ in self.files:
            scan.cancel.check()
            file = _open(scan.snapshot, part)
            file.verify(ids)
            cost.parts_read += 1
            cost.bytes_read += file.fetched
            cost.rows_read += part.rows


def plan_parquet_scan(scan: RelationalScan) -> ParquetScan | None:
    """How DuckDB reads parts of a scan by itself; None: it reads none."""
    snapshot, planned = scan.snapshot, scan.planned
    blob = snapshot.shard.machine.objects.blob
    pruned, plan = planned.pruned, planned.own_plan
    if not isinstance(blob, FileBlob) or pruned.retracts or scan.scan.address:
        return None
    types = [snapshot.schema.columns[i].type for i in plan.demand()]
    if not _tells_apart(snapshot.schema):
        return None
    names = [f"s{i}" for i in range(len(snapshot.schema.columns))]
    conditions = _texts(plan.conditions, names)
    outputs = _texts(plan.outputs, names)
    if conditions is None or outputs is None or any(type_.kind not in _READABLE for type_ in types):
        return None
    if plan.conditions and planned.selectivity < MIN_SELECTIVITY:
        return None
    direct = np.array([_is_direct(snapshot, part) for part in pruned.parts], bool)
    rows = np.array([part.rows if part.deleted else 0 for part in pruned.parts], np.int64)
    taken = any(column.name.lower() in _VIRTUAL for column in snapshot.schema.columns)
    direct &= np.cumsum(rows * direct) <= (0 if taken else MAX_DELETED_BITS)
    if not direct.any():
        return None
    places = np.arange(pruned.left) if pruned.kept is None else pruned.kept
    files = tuple(
        (part, str(blob.root / part.name))
        for part, chosen in zip(pruned.parts, direct, strict=True)
        if chosen
    )
    rest = replace(pruned, kept=places[~direct])
    return ParquetScan(scan, files, rest, conditions, outputs)


def _texts(exprs: Iterable[Expr], names: Sequence[str]) -> tuple[str, ...] | None:
    texts = [duckdb_sql(expr, names) for expr in exprs]
    return None if any(text is None for text in texts) else tuple(text for text in texts if text is not None)


def _is_direct(snapshot: Snapshot, part: Part) -> bool:
    """Whether a part has a file, in which all rows are there once, in columns named as in the schema."""
    once = not part.retracts and part.diffs == part.rows and part.last <= snapshot.as_of
    return once and not part.data and part.schema == snapshot.schema.id


def _tells_apart(schema: Schema) -> bool:
    """Whether DuckDB tells all columns apart: of `a` and `A` it reads the first for both."""
    names = [*(column.name for column in schema.columns), *HIDDEN_COLUMNS]
    return len({name.casefold() for name in names}) == len(names)


def _open(snapshot: Snapshot, part: Part) -> PartFile:
    return snapshot.open_file(part)


def _read(name: str, type_: Type) -> str:
    """A column of a file; times with a zone are read in UTC, which needs no extension of DuckDB."""
    return f"make_timestamp(epoch_us({name}))" if type_.kind is Kind.TIMESTAMPTZ else name
