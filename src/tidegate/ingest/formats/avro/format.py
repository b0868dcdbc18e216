"""FORMAT AVRO: a column for each field of the record; those that are not demanded are skipped, not decoded.

    USING SCHEMA '{"type": "record", …}'                       a record is the bytes of one datum
    USING CONFLUENT SCHEMA REGISTRY 'http://…'                 framed: see registry.py
    files                                                      object container files, each with its own schema

`Avro.schema` is what columns come from. Records may be written with other schemas (an older one of the registry,
another file's): Avro's rules resolve them, so a field that the writer did not have has its default. To skip what is
not demanded, the schema that records are resolved to has the demanded fields alone.

A record fails if its bytes end too early or go on behind it, if it cannot be resolved, or if a value has no place
in our type. A field is not looked at where it is not demanded, or demanded only of what passes a filter before. A
container file that is damaged is an error that names it: nothing tells where the next record begins.
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
from tidegate.expr.exact_json import BadJson
from tidegate.ingest.decode import avro_container
from tidegate.ingest.decode.avro_container import Block
from tidegate.ingest.decode.avro_flat import Stumble, Walk, plan_of
from tidegate.ingest.decode.avro_schema import check_schema
from tidegate.ingest.decode.avro_types import BadValue, Convert, Mapped, Values, bare, in_list, mapped
from tidegate.ingest.decode.demand import Staged, stages
from tidegate.ingest.decode.registry import Registry, UnknownSchema
from tidegate.ingest.decode.rows import bad_rows, picked
from tidegate.ingest.source import Bad, Columns, Decoded
from tidegate.plan.mfp import MapFilterProject

BATCH = 131_072
"""Records of a file that are decoded together: the more blocks, the more is done at once (`avro_flat.py`)."""
_BYTES = 64 << 20
"""And bytes: whichever is reached first."""
_FRAME = 5
_MORE = bytes(8)
"""Put behind what is read: fastavro skips a value whose bytes are cut off, but then it is found behind the end."""
_NOT_AVRO = "the record is not Avro of its schema"
_WRONG = (EOFError, IndexError, ValueError, TypeError, OverflowError, MemoryError)
"""What fastavro raises over bytes that are not of the schema."""


@dataclass(frozen=True)
class Avro:
    """Records of a schema, given as JSON text."""

    schema: str
    registry: Registry | None = None
    """Where the schemas of framed records are; None: records are not framed, and written with `schema`."""

    @staticmethod
    def of_file(opened: BinaryIO, name: str) -> Avro:
        """With the schema that a container file brings."""
        return Avro(json.dumps(_opened(opened, name)[0]))

    @cached_property
    def fields(self) -> tuple[tuple[str, Any], ...]:
        """Names and schemas of the columns, named types spelled out."""
        found = expanded(self.schema)
        if not isinstance(found, dict) or found.get("type") != "record":
            raise UnsupportedError(
                "an Avro source needs a schema whose type is a record", hint="its fields become the columns"
            )
        return tuple((field["name"], field["type"]) for field in found["fields"])

    @cached_property
    def mapped(self) -> tuple[Mapped, ...]:
        """How each field becomes a column."""
        return tuple(mapped(schema) for _, schema in self.fields)

    @property
    def columns(self) -> Columns:
        """The fields."""
        return tuple((name, one.type) for (name, _), one in zip(self.fields, self.mapped, strict=True))

    @property
    def splittable(self) -> bool:
        """Containers are read from their beginning."""
        return False

    def take(self, plan: MapFilterProject) -> tuple[AvroDecode, MapFilterProject]:
        """Takes the demanded fields, and the conditions over them."""
        staged, left = stages(plan, len(self.fields))
        return AvroDecode(Avro(self.schema, self.registry), staged), left


def expanded(schema: str) -> Any:
    """A schema with its named types spelled out wherever they are used."""
    import fastavro.schema

    try:
        found = json.loads(schema)
        check_schema(found)
        return fastavro.schema.expand_schema(found)
    except (ValueError, RecursionError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise UnsupportedError(f"the Avro schema cannot be read: {error}") from None


@lru_cache(256)
def _plain(schema: str, fields: tuple[str, ...] | None = None) -> Any:
    """A schema for fastavro: without logical types, of the fields only some."""
    import fastavro.schema

    found = expanded(schema)
    if fields is not None:
        found = {**found, "fields": [field for field in found["fields"] if field["name"] in fields]}
    return fastavro.schema.parse_schema(bare(found))


@dataclass(frozen=True)
class AvroDecode:
    """Avro of which some fields are wanted."""

    format: Avro
    staged: Staged

    @property
    def columns(self) -> Columns:
        """What the plan makes of the fields of its conditions, and others that it demands."""
        return self.staged.columns

    @property
    def _wanted(self) -> tuple[str, ...]:
        return tuple(self.format.fields[i][0] for i in (*self.staged.first, *self.staged.later))

    def records(self, values: pa.Array) -> Decoded:
        """Each value a record, framed if there is a registry."""
        reader = _plain(self.format.schema, self._wanted)
        raws = values.to_pylist()
        columns = self._together(raws, reader)
        numbers, failures = np.arange(len(raws)), list[Bad]()
        if columns is None:
            found, failures = self._one_by_one(raws, reader)
            numbers = _without(len(raws), dict(failures))
            columns = {field: [one[field] for one in found] for field in self._wanted}
        decoded = self._decoded(columns, numbers, failures)
        return Decoded(*decoded, len(values), lambda i: values[i].as_py() or b"", size=values.nbytes)

    def _together(self, raws: Sequence[bytes | None], reader: Any) -> dict[str, Values] | None:
        """All records at once, if they are there, written with one schema, and right."""
        begin = 0 if self.format.registry is None else _FRAME
        frames = {None if raw is None else raw[:begin] for raw in raws}
        if len(frames) != 1 or None in frames:
            return None
        try:
            writer = self._writer(raws[0] or b"")
        except BadValue:
            return None
        lanes = [(raw or b"")[begin:] for raw in raws]
        return _walked(lanes, np.ones(len(lanes), np.int64), writer, reader)

    def _one_by_one(self, raws: Sequence[bytes | None], reader: Any) -> tuple[list[Any], list[Bad]]:
        """The records that can be read, and what is wrong with others; each may have another schema."""
        found: list[Any] = []
        failures: list[Bad] = []
        nothing = dict.fromkeys(self._wanted)
        begin = 0 if self.format.registry is None else _FRAME
        for i, raw in enumerate(raws):
            try:
                found.append(nothing if raw is None else _datum(raw[begin:], self._writer(raw), reader))
            except BadValue as bad:
                failures.append((i, str(bad)))
        return found, failures

    def _writer(self, raw: bytes) -> Any:
        """The schema that a record was written with."""
        registry = self.format.registry
        if registry is None:
            return _plain(self.format.schema)
        if len(raw) < _FRAME or raw[0] != 0:
            raise BadValue("the record does not start with a zero byte and the number of a schema")
        try:
            return _plain(json.dumps(registry.schema(int.from_bytes(raw[1:_FRAME], "big"))))
        except UnknownSchema as unknown:
            raise BadValue(str(unknown)) from None
        except UnsupportedError as unusable:
            raise BadValue(f"the record's schema is not read: {unusable.message}") from None

    def file(self, opened: BinaryIO, name: str) -> Iterator[Decoded]:
        """The records of a container file."""
        start = count = size = 0
        schema, found = _opened(opened, name)
        writer, blocks = _plain(json.dumps(schema)), list[Block]()
        damage: CorruptError | None = None
        while True:
            try:
                block = next(found, None)
            except CorruptError as error:  # what comes before it is read
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

    def _batch(self, blocks: Sequence[Block], writer: Any, start: int, name: str) -> Decoded:
        reader = _plain(self.format.schema, self._wanted)
        lanes = [block.data for block in blocks]
        counts = np.array([block.count for block in blocks], np.int64)
        found = _walked(lanes, counts, writer, reader)
        if found is None:
            pairs = zip(lanes, counts.tolist(), strict=True)
            records = [one for raw, count in pairs for one in _all(raw, count, writer, reader, name)]
            found = {field: [one[field] for one in records] for field in self._wanted}
        count = int(counts.sum())
        decoded = self._decoded(found, np.arange(count), [])
        return Decoded(*decoded, count, _raw(lanes, counts, writer), start, size=sum(map(len, lanes)))

    def _decoded(
        self, found: Mapping[str, Values], numbers: np.ndarray, failures: list[Bad]
    ) -> tuple[list[pa.Array], np.ndarray, list[Bad]]:
        """Columns of the first stage, of all; of the second, where the filter holds."""
        first, wrong = self._columns(found, self.staged.first, np.arange(len(numbers)))
        good = _without(len(numbers), wrong)
        rows = self.staged.before.evaluate([picked(column, good) for column in first], len(good))
        passed = good[rows.selection]
        later, more = self._columns(found, self.staged.later, passed)
        kept = _without(len(passed), more)
        failures = [*failures, *((int(numbers[i]), why) for i, why in wrong.items())]
        failures += [(int(numbers[passed[i]]), why) for i, why in more.items()]
        columns = [picked(column, kept) for column in (*rows.columns, *later)]
        return columns, numbers[passed[kept]], sorted([*failures, *bad_rows(rows, numbers[good])])

    def _columns(
        self, found: Mapping[str, Values], wanted: Sequence[int], rows: np.ndarray
    ) -> tuple[list[pa.Array], dict[int, str]]:
        """Some columns of some decoded records (where one is bad: anything), and which are bad."""
        wrong: dict[int, str] = {}
        columns = []
        for i in wanted:
            values = found[self.format.fields[i][0]]
            some = picked(values, rows) if isinstance(values, pa.Array) else [values[row] for row in rows]
            columns.append(_column(some, self.format.mapped[i].convert, wrong))
        return columns, wrong


def _without(count: int, wrong: Mapping[int, str]) -> np.ndarray:
    rows = np.ones(count, bool)
    rows[list(wrong)] = False
    return np.flatnonzero(rows)


def _column(values: Values, convert: Convert, wrong: dict[int, str]) -> pa.Array:
    """All at once; if that fails one by one, to see which."""
    try:
        return convert(values)
    except (BadValue, BadJson, pa.ArrowInvalid):
        parts = []
        for i, value in enumerate(in_list(values)):
            try:
                parts.append(convert([value]))
            except (BadValue, BadJson, pa.ArrowInvalid) as bad:
                wrong[i] = min(wrong.get(i, str(bad)), str(bad))
                parts.append(convert([None]))
        return pa.concat_arrays(parts)


# ---------------------------------------------------------------- fastavro


def _read(data: BinaryIO, writer: Any, reader: Any) -> Any:
    from fastavro import schemaless_reader

    return schemaless_reader(data, writer, reader)


def _datum(raw: bytes, writer: Any, reader: Any) -> Any:
    """One record that is alone in its bytes."""
    import fastavro.read

    data = io.BytesIO(raw + _MORE)
    try:
        found = _read(data, writer, reader)
    except fastavro.read.SchemaResolutionError as error:
        raise BadValue(f"the record's schema does not fit the source's: {error}") from None
    except _WRONG:
        raise BadValue(_NOT_AVRO) from None
    if data.tell() != len(raw):
        raise BadValue("bytes follow the record" if data.tell() < len(raw) else _NOT_AVRO)
    return found


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Whatever goes wrong while a container is read is the file's fault."""
    try:
        yield
    except (*_WRONG, KeyError) as error:
        why = str(error) or type(error).__name__
        raise CorruptError(
            f'the file "{name}" is no Avro container, or is damaged: {why}',
            hint="write files under another name and rename them once they are complete",
        ) from error


def _opened(opened: BinaryIO, name: str) -> tuple[Any, Iterator[Block]]:
    with _damage(name):
        schema, blocks = avro_container.opened(opened)
    return schema, _checked(blocks, name)


def _checked(blocks: Iterator[Block], name: str) -> Iterator[Block]:
    while True:
        with _damage(name):
            block = next(blocks, None)
        if block is None:
            return
        yield block


def _all(raw: bytes, count: int, writer: Any, reader: Any, name: str) -> list[Any]:
    """The records of a block."""
    data = io.BytesIO(raw + _MORE)
    with _damage(name):
        found = [_read(data, writer, reader) for _ in range(count)]
        if data.tell() != len(raw):
            raise EOFError("a block does not end where its last record does")
    return found


def _walked(lanes: Sequence[bytes], counts: np.ndarray, writer: Any, reader: Any) -> dict[str, Values] | None:
    """All records at once; None if that cannot be."""
    fields = plan_of(writer, reader)
    if fields is None:
        return None
    try:
        walk = Walk(lanes, counts, fields)
        return {field.name: walk.column(field.name) for field in fields if field.wanted}
    except Stumble:
        return None


def _raw(lanes: Sequence[bytes], counts: np.ndarray, writer: Any) -> Callable[[int], bytes]:
    """The bytes of a record of a container: those that reading it passes over."""

    def raw(record: int) -> bytes:
        lane = int(np.searchsorted(np.cumsum(counts), record, side="right"))
        data = io.BytesIO(lanes[lane])
        begin = 0
        for _ in range(record - int(counts[:lane].sum()) + 1):
            begin = data.tell()
            _read(data, writer, None)
        return data.getvalue()[begin : data.tell()]

    return raw
