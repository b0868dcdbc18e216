"""What tests of FILES share: a place to put files, and a source that is drained as the pipeline would."""

import io
import json
import os
import pickle
import secrets
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import servers
from tidegate.ingest.protocol import (
    BatchLimit,
    Columns,
    IncludedColumn,
    ReadRequest,
    RecordFormat,
    Upstream,
    UpstreamPosition,
)
from tidegate.ingest.upstreams.files.upstream import FilesUpstream
from tidegate.ingest.upstreams.registry import UpstreamSpec, create_upstream
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.run.safe_plan import SafePlan
from tidegate.sql import prepare
from tidegate.sql.bind.catalog import DictCatalog, Relation
from tidegate.storage.blob.object_store import open_object_store

PLACES = ("folder", "bucket")


@dataclass
class Bench:
    """Files that a test puts somewhere."""

    kind: str
    root: str
    options: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def at(kind: str, folder: Path) -> "Bench":
        if kind == "folder":
            return Bench(kind, str(folder))
        try:
            found = servers.s3()
        except servers.Missing as missing:
            pytest.skip(f"{missing} is not installed")
        return Bench(kind, f"s3://lake/{secrets.token_hex(6)}", dict(found))

    def put(self, name: str, data: bytes, *, written: float | None = None) -> str:
        """Stores a file, and gives its whole name; `written` in seconds since 1970, in a folder."""
        if self.kind == "bucket":
            obstore.put(self._store, self._path(name), data)
        else:
            path = Path(self.root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            if written is not None:
                os.utime(path, (written, written))
        return f"{self.root}/{name}"

    def remove(self, name: str) -> None:
        if self.kind == "bucket":
            obstore.delete(self._store, self._path(name))
        else:
            Path(self.root, name).unlink()

    def files(
        self, pattern: str, format_: RecordFormat | None = None, *included: str, **more: Any
    ) -> FilesUpstream:
        """A source of them."""
        options = {name.replace("_", " "): value for name, value in self.options.items()}
        made = create_upstream(
            "files", UpstreamSpec("s", options, target=f"{self.root}/{pattern}", with_options=more)
        )
        return made if format_ is None else made.bind(format_, "none", asked(*included))

    @property
    def _store(self) -> Any:
        return _store(tuple(self.options.items()))

    def _path(self, name: str) -> str:
        return f"{self.root.removeprefix('s3://lake/')}/{name}"


@cache
def _store(options: tuple[tuple[str, str], ...]) -> Any:
    return open_object_store("s3://lake", **dict(options))


def asked(*names: str) -> tuple[IncludedColumn, ...]:
    """INCLUDE these."""
    return tuple(IncludedColumn(name, name) for name in names)


def planned(sql: str, columns: Columns, included: Columns = ()) -> MapFilterProject:
    """The plan of a query over `s`."""
    catalog = DictCatalog({"s": Relation("s", (*columns, *included))})
    bound = prepare(sql, catalog, 1_700_000_000_000).single
    assert bound is not None
    return bound.mfp


@dataclass
class Got:
    """What a source has given so far."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    errors: list[tuple[UpstreamPosition, str, bytes]] = field(default_factory=list)
    splits: int = 0
    batches: int = 0
    records: int = 0


def drain(
    upstream: Upstream, format_: RecordFormat, *included: str, at: UpstreamPosition | None = None,
    sql: str = "SELECT * FROM s", limit: BatchLimit | None = None, table: str | None = None,
) -> tuple[Got, UpstreamPosition]:  # fmt: skip
    """Everything behind a position, by batches, as the pipeline does; whatever travels, travels."""
    got = Got()
    position = upstream.start() if at is None else at
    while (upto := _json(upstream.latest(position, limit or BatchLimit()))) != position:
        read(upstream, format_, included, sql, table, (position, upto), got)
        position = upto
        got.batches += 1
    return got, position


def read(
    upstream: Upstream, format_: RecordFormat, included: tuple[str, ...], sql: str, table: str | None,
    between: tuple[UpstreamPosition, UpstreamPosition], got: Got,
) -> None:  # fmt: skip
    """One batch."""
    columns = tuple((name, upstream.includes(IncludedColumn(name, name))) for name in included)
    decode, left = format_.take(planned(sql, format_.columns, columns))
    plan = SafePlan(left)
    for split in upstream.splits(*between):
        kept = _json([split.key, split.start, split.end, split.details])
        there = pickle.loads(pickle.dumps(upstream))
        got.splits += 1
        for number, chunk in there.read(
            replace(split, details=kept[3]), [ReadRequest(table, decode)], asked(*included)
        ):
            assert number == 0
            assert all(len(column) == chunk.decoded.count for column in chunk.included)
            rows = plan.evaluate(chunk.rows(), len(chunk.decoded.selection))
            got.rows += zip(*(column.to_pylist() for column in rows.columns), strict=True)
            got.records += chunk.decoded.count
            failed = [(int(chunk.decoded.selection[i]), why) for i, why in zip(
                rows.failures.rows, rows.failures.messages.to_pylist(), strict=True)]  # fmt: skip
            for record, why in sorted([*chunk.decoded.failures, *failed]):
                got.errors.append((_json(chunk.position(record)), why, chunk.decoded.raw(record)))


def _json(value: Any) -> Any:
    return json.loads(json.dumps(value))


# ---------------------------------------------------------------- what files are made of

ROWS: list[dict[str, Any]] = [{"id": i, "name": f"n{i}"} for i in range(7)]


def zst(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)  # type: ignore[no-any-return]  # pyarrow has no types


def container(rows: list[dict[str, Any]]) -> bytes:
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, rows)
    return out.getvalue()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("name", pa.string())])), out)
    return out.getvalue()


def everything(format_: RecordFormat) -> MapFilterProject:
    """A plan that leaves the format's columns as they are."""
    return planned("SELECT * FROM s", format_.columns)
