"""FORMAT AVRO: one column per field of the record; fields that a plan does not read are skipped.

    USING SCHEMA '{"type": "record", …}'                       a record is the bytes of one datum
    USING CONFLUENT SCHEMA REGISTRY 'http://…'                 framed: see schema_registry.py
    files                                                      object container files, each with its own schema

`AvroFormat.schema` defines the columns. Records may be written with other schemas (an older one of the registry, another
file's): Avro's rules resolve them, so a field that the writer did not have gets its default. To skip fields that the plan does
not read, the reader's schema contains only the fields that it reads.

A record fails if its bytes end too early or continue after it, if it cannot be resolved, or if the SQL type cannot hold a value.
A field is not checked if the plan does not read it, or reads it only for records that pass a filter. A damaged container file is
an error that names the file, since the start of the next record is unknown.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tidegate.errors import CorruptError, UnsupportedError
from tidegate.expr.primitives import InvalidJson
from tidegate.ingest.formats.avro import container as avro_container
from tidegate.ingest.formats.avro.container import AvroBlock
from tidegate.ingest.formats.avro.flat import Stumble, Walk, plan_of
from tidegate.ingest.formats.avro.schema import check_schema
from tidegate.ingest.formats.avro.schema_registry import SchemaRegistry, UnknownSchemaError
from tidegate.ingest.formats.avro.types import (
    AvroValueError,
    Convert,
    MappedType,
    Values,
    bare,
    in_list,
    mapped,
)
from tidegate.ingest.formats.demand import StagedPlan, split_stages
from tidegate.ingest.formats.rows import plan_error_records, take_rows
from tidegate.ingest.protocol import Columns, DecodedBatch, RecordError, RecordFormat
from tidegate.plan import MapFilterProject

BATCH = 131_072
"""Records of a file that are decoded together: more blocks mean longer numpy operations (`flat.py`)."""
_BYTES = 64 << 20
"""Bytes of a file that are decoded together; whichever of both limits is reached first applies."""
_FRAME = 5
_MORE = bytes(8)
"""Appended to the data: fastavro skips a truncated value without an error, but then its position is past the end."""
_NOT_AVRO = "the record is not Avro of its schema"
_WRONG = (EOFError, IndexError, ValueError, TypeError, OverflowError, MemoryError)
"""Errors that fastavro raises for bytes that do not match the schema."""


@dataclass(frozen=True)
class AvroFormat(RecordFormat):
    """Records of an Avro schema in JSON text."""

    schema: str
    registry: SchemaRegistry | None = None
    """The registry with the schemas of framed records; None: records are not framed, and written with `schema`."""

    @staticmethod
    def of_file(opened: BinaryIO, name: str) -> AvroFormat:
        """Creates the format with the schema of a container file."""
        return AvroFormat(json.dumps(_open_file(opened, name)[0]))

    @cached_property
    def fields(self) -> tuple[tuple[str, Any], ...]:
        """Names and schemas of the columns, without references to named types."""
        schema = expanded(self.schema)
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise UnsupportedError(
                "an Avro source needs a schema whose type is a record", hint="its fields become the columns"
            )
        return tuple((field["name"], field["type"]) for field in schema["fields"])

    @cached_property
    def mapped(self) -> tuple[MappedType, ...]:
        """The type and conversion of each field."""
        return tuple(mapped(schema) for _, schema in self.fields)

    @property
    def columns(self) -> Columns:
        """The columns: the fields of the record."""
        return tuple((name, field.type) for (name, _), field in zip(self.fields, self.mapped, strict=True))

    def to_json(self) -> dict[str, Any]:
        """The JSON form in the catalog."""
        registry = None if self.registry is None else self.registry.to_json()
        return {"kind": "avro", "schema": self.schema, "registry": registry}

    def take(self, plan: MapFilterProject) -> tuple[AvroDecoder, MapFilterProject]:
        """Takes over the fields that the plan reads, and the conditions on them."""
        staged, left = split_stages(plan, len(self.fields))
        return AvroDecoder(AvroFormat(self.schema, self.registry), staged), left


def expanded(schema: str) -> Any:
    """Parses a schema, and replaces references to named types by their definitions."""
    try:
        import fastavro.schema
    except ImportError:
        raise UnsupportedError(
            "FORMAT AVRO needs the package fastavro, which is not installed",
            hint="pip install 'tidegate[ingest]'",
        ) from None

    try:
        parsed = json.loads(schema)
        check_schema(parsed)
        return fastavro.schema.expand_schema(parsed)
    except (ValueError, RecursionError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise UnsupportedError(f"the Avro schema cannot be read: {error}") from None


@lru_cache(256)
def _plain(schema: str, fields: tuple[str, ...] | None = None) -> Any:
    """Prepares a schema for fastavro: without logical types, and optionally with only some fields."""
    import fastavro.schema

    full = expanded(schema)
    if fields is not None:
        full = {**full, "fields": [field for field in full["fields"] if field["name"] in fields]}
    return fastavro.schema.parse_schema(bare(full))


@dataclass(frozen=True)
class AvroDecoder:
    """Decodes the fields of Avro records that a plan reads."""

    format: AvroFormat
    staged: StagedPlan

    @property
    def columns(self) -> Columns:
        """The outputs of the first stage, and the fields of the second."""
        return self.staged.columns

    @property
    def _read_fields(self) -> tuple[str, ...]:
        return tuple(self.format.fields[i][0] for i in (*self.staged.first, *self.staged.later))

    def records(self, values: pa.Array) -> DecodedBatch:
        """Decodes values, one record each, framed if there is a registry."""
        reader = _plain(self.format.schema, self._read_fields)
        raws = values.to_pylist()
        columns = self._decode_together(raws, reader)
        numbers, failures = np.arange(len(raws)), list[RecordError]()
        if columns is None:
            records, failures = self._decode_one_by_one(raws, reader)
            numbers = _without(len(raws), dict(failures))
            columns = {field: [record[field] for record in records] for field in self._read_fields}
        decoded = self._decode_columns(columns, numbers, failures)
        return DecodedBatch(*decoded, len(values), lambda i: values[i].as_py() or b"", size=values.nbytes)

    def _decode_together(self, raws: Sequence[bytes | None], reader: Any) -> dict[str, Values] | None:
        """Decodes all records at once; None unless all are present, valid, and written with one schema."""
        begin = 0 if self.format.registry is None else _FRAME
        frames = {None if raw is None else raw[:begin] for raw in raws}
        if len(frames) != 1 or None in frames:
            return None
        try:
            writer = self._writer(raws[0] or b"")
        except AvroValueError:
            return None
        lanes = [(raw or b"")[begin:] for raw in raws]
        return _walk_columns(lanes, np.ones(len(lanes), np.int64), writer, reader)

    def _decode_one_by_one(
        self, raws: Sequence[bytes | None], reader: Any
    ) -> tuple[list[Any], list[RecordError]]:
        """Decodes records one by one; returns the valid records, and the errors of the others."""
        records: list[Any] = []
        failures: list[RecordError] = []
        nothing = dict.fromkeys(self._read_fields)
        begin = 0 if self.format.registry is None else _FRAME
        for i, raw in enumerate(raws):
            try:
                records.append(nothing if raw is None else _datum(raw[begin:], self._writer(raw), reader))
            except AvroValueError as bad:
                failures.append((i, str(bad)))
        return records, failures

    def _writer(self, raw: bytes) -> Any:
        """The schema that a record was written with."""
        registry = self.format.registry
        if registry is None:
            return _plain(self.format.schema)
        if len(raw) < _FRAME or raw[0] != 0:
            raise AvroValueError("the record does not start with a zero byte and the number of a schema")
        try:
            return _plain(json.dumps(registry.schema(int.from_bytes(raw[1:_FRAME], "big"))))
        except UnknownSchemaError as unknown:
            raise AvroValueError(str(unknown)) from None
        except UnsupportedError as unusable:
            raise AvroValueError(f"the record's schema is not read: {unusable.message}") from None

    def file(self, opened: BinaryIO, name: str) -> Iterator[DecodedBatch]:
        """Decodes the records of a container file."""
        start = count = size = 0
        schema, remaining = _open_file(opened, name)
        writer, blocks = _plain(json.dumps(schema)), list[AvroBlock]()
        damage: CorruptError | None = None
        while True:
            try:
                block = next(remaining, None)
            except CorruptError as error:  # the blocks before it are decoded first
                block, damage = None, error
            if blocks and (block is None or count >= BATCH or size >= _BYTES):
                yield self._batch(blocks, writer, start, name)
                start, count, size, blocks = start + count, 0, 0, []
            if block is None:
                break
            blocks.append(block)
            count, size = count + block.count, size + len(block.data)
        if damage is not None:
            raise damage

    def _batch(self, blocks: Sequence[AvroBlock], writer: Any, start: int, name: str) -> DecodedBatch:
        reader = _plain(self.format.schema, self._read_fields)
        lanes = [block.data for block in blocks]
        counts = np.array([block.count for block in blocks], np.int64)
        columns = _walk_columns(lanes, counts, writer, reader)
        if columns is None:
            pairs = zip(lanes, counts.tolist(), strict=True)
            records = [
                record for raw, count in pairs for record in _block_records(raw, count, writer, reader, name)
            ]
            columns = {field: [record[field] for record in records] for field in self._read_fields}
        count = int(counts.sum())
        decoded = self._decode_columns(columns, np.arange(count), [])
        return DecodedBatch(*decoded, count, _raw(lanes, counts, writer), start, size=sum(map(len, lanes)))

    def _decode_columns(
        self, fields: Mapping[str, Values], numbers: np.ndarray, failures: list[RecordError]
    ) -> tuple[list[pa.Array], np.ndarray, list[RecordError]]:
        """Converts columns of the first stage for all records, and of the second for those that pass."""
        first, wrong = self._columns(fields, self.staged.first, np.arange(len(numbers)))
        good = _without(len(numbers), wrong)
        rows = self.staged.before.evaluate([take_rows(column, good) for column in first], len(good))
        passed = good[rows.selection]
        later, more = self._columns(fields, self.staged.later, passed)
        valid = _without(len(passed), more)
        failures = [*failures, *((int(numbers[i]), why) for i, why in wrong.items())]
        failures += [(int(numbers[passed[i]]), why) for i, why in more.items()]
        columns = [take_rows(column, valid) for column in (*rows.columns, *later)]
        return columns, numbers[passed[valid]], sorted([*failures, *plan_error_records(rows, numbers[good])])

    def _columns(
        self, fields: Mapping[str, Values], indexes: Sequence[int], rows: np.ndarray
    ) -> tuple[list[pa.Array], dict[int, str]]:
        """Converts some fields of some records; returns the columns, and the errors by row (any value there)."""
        wrong: dict[int, str] = {}
        columns = []
        for i in indexes:
            values = fields[self.format.fields[i][0]]
            picked = (
                take_rows(values, rows) if isinstance(values, pa.Array) else [values[row] for row in rows]
            )
            columns.append(_column(picked, self.format.mapped[i].convert, wrong))
        return columns, wrong


def _without(count: int, wrong: Mapping[int, str]) -> np.ndarray:
    rows = np.ones(count, bool)
    rows[list(wrong)] = False
    return np.flatnonzero(rows)


def _column(values: Values, convert: Convert, wrong: dict[int, str]) -> pa.Array:
    """Converts all values at once; if that fails, one by one, to find the wrong ones."""
    try:
        return convert(values)
    except (AvroValueError, InvalidJson, pa.ArrowInvalid):
        parts = []
        for i, value in enumerate(in_list(values)):
            try:
                parts.append(convert([value]))
            except (AvroValueError, InvalidJson, pa.ArrowInvalid) as bad:
                wrong[i] = min(wrong.get(i, str(bad)), str(bad))
                parts.append(convert([None]))
        return pa.concat_arrays(parts)


# ---------------------------------------------------------------- fastavro


def _read(data: BinaryIO, writer: Any, reader: Any) -> Any:
    from fastavro import schemaless_reader

    return schemaless_reader(data, writer, reader)


def _datum(raw: bytes, writer: Any, reader: Any) -> Any:
    """Decodes a single record, which must use all of its bytes."""
    import fastavro.read

    data = io.BytesIO(raw + _MORE)
    try:
        record = _read(data, writer, reader)
    except fastavro.read.SchemaResolutionError as error:
        raise AvroValueError(f"the record's schema does not fit the source's: {error}") from None
    except _WRONG:
        raise AvroValueError(_NOT_AVRO) from None
    if data.tell() != len(raw):
        raise AvroValueError("bytes follow the record" if data.tell() < len(raw) else _NOT_AVRO)
    return record


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Converts errors while reading a container into a CorruptError that names the file."""
    try:
        yield
    except (*_WRONG, KeyError) as error:
        why = str(error) or type(error).__name__
        raise CorruptError(
            f'the file "{name}" is no Avro container, or is damaged: {why}',
            hint="write files under another name and rename them once they are complete",
        ) from error


def _open_file(opened: BinaryIO, name: str) -> tuple[Any, Iterator[AvroBlock]]:
    with _damage(name):
        schema, blocks = avro_container.open_container(opened)
    return schema, _checked_blocks(blocks, name)


def _checked_blocks(blocks: Iterator[AvroBlock], name: str) -> Iterator[AvroBlock]:
    while True:
        with _damage(name):
            block = next(blocks, None)
        if block is None:
            return
        yield block


def _block_records(raw: bytes, count: int, writer: Any, reader: Any, name: str) -> list[Any]:
    """Decodes the records of a block."""
    data = io.BytesIO(raw + _MORE)
    with _damage(name):
        records = [_read(data, writer, reader) for _ in range(count)]
        if data.tell() != len(raw):
            raise EOFError("a block does not end where its last record does")
    return records


def _walk_columns(
    lanes: Sequence[bytes], counts: np.ndarray, writer: Any, reader: Any
) -> dict[str, Values] | None:
    """Decodes all records at once; None if that is not possible."""
    fields = plan_of(writer, reader)
    if fields is None:
        return None
    try:
        walk = Walk(lanes, counts, fields)
        return {field.name: walk.column(field.name) for field in fields if field.wanted}
    except Stumble:
        return None


def _raw(lanes: Sequence[bytes], counts: np.ndarray, writer: Any) -> Callable[[int], bytes]:
    """Returns a function that gives the bytes of a record of a container, by reading up to it."""

    def raw(record: int) -> bytes:
        lane = int(np.searchsorted(np.cumsum(counts), record, side="right"))
        data = io.BytesIO(lanes[lane])
        begin = 0
        for _ in range(record - int(counts[:lane].sum()) + 1):
            begin = data.tell()
            _read(data, writer, None)
        return data.getvalue()[begin : data.tell()]

    return raw
