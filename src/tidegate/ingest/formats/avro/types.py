"""Maps Avro schemas to SQL types, and decoded values to columns.

| Avro | SQL | | Avro | SQL |
|---|---|---|---|---|
| boolean, int, long, float, double | bool, int4, int8, float4, float8 | | decimal(p, s) | numeric(p, s) |
| string, enum | text | | uuid | uuid |
| bytes, fixed | bytea | | date, time-millis, time-micros | date, time |
| record | row(…) | | timestamp-millis, -micros | timestamptz: in Avro it is an instant |
| array of T | T[] | | local-timestamp-millis, -micros | timestamp |
| map, union of several types | jsonb | | union of null and T | nullable T |

fastavro receives schemas without logical types (`bare`), so that it returns plain numbers and bytes; they are converted here, a
column at a time, without Python dates that could overflow.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Type, types
from tidegate.expr.primitives import exact_json, with_validity

Schema: TypeAlias = Any
"""An Avro schema as parsed JSON: a name, a list (a union) or a map."""
Values: TypeAlias = "Sequence[Any] | pa.Array"
"""Values as fastavro returns them, or the same in an array."""
Convert: TypeAlias = Callable[[Values], pa.Array]
"""Converts values to a column; raises an AvroValueError."""

_SIMPLE = {
    "boolean": types.BOOL, "int": types.INT4, "long": types.INT8,
    "float": types.FLOAT4, "double": types.FLOAT8, "bytes": types.BYTEA, "fixed": types.BYTEA,
}  # fmt: skip
_DAY = 86_400_000_000
_ZERO_BYTE = 'invalid byte sequence for encoding "UTF8": 0x00'


class AvroValueError(ValueError):
    """The SQL type cannot hold a value; the message becomes the record's error."""


@dataclass(frozen=True)
class MappedType:
    """The SQL type of a schema, and the conversion of its values."""

    type: Type
    convert: Convert


def mapped(schema: Schema) -> MappedType:
    """Returns the type and conversion of an expanded schema (without references to named types)."""
    if isinstance(schema, list):
        return _union(schema)
    kind = schema if isinstance(schema, str) else schema["type"]
    if not isinstance(kind, str):
        return mapped(kind)
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    logical_type = _logical(kind, logical, schema) if logical else None
    if logical_type is not None:
        return logical_type
    if kind in _SIMPLE:
        type_ = _SIMPLE[kind]
        return MappedType(type_, lambda values: in_array(values, type_.arrow))
    if kind in ("string", "enum"):
        return MappedType(types.TEXT, _texts)
    if kind == "null":
        return MappedType(types.TEXT, lambda values: pa.nulls(len(values), pa.string()))
    if kind == "array":
        return _array(mapped(schema["items"]))
    if kind == "record":
        return _record([(field["name"], mapped(field["type"])) for field in schema["fields"]])
    if kind == "map":
        return MappedType(types.JSONB, _documents)
    raise UnsupportedError(
        f'the Avro type "{kind}" cannot be read',
        hint="a type that contains itself has no columns: use FORMAT BYTES",
    )


def bare(schema: Schema, seen: set[str] | None = None) -> Schema:
    """Removes logical types from a schema, and defines each named type at its first use."""
    seen = set() if seen is None else seen
    if isinstance(schema, list):
        return [bare(branch, seen) for branch in schema]
    if isinstance(schema, str):
        return schema
    if not isinstance(schema["type"], str):
        return bare(schema["type"], seen)
    if "name" in schema:
        if schema["name"] in seen:
            return schema["name"]
        seen.add(schema["name"])
    plain = {key: value for key, value in schema.items() if key not in ("logicalType", "precision", "scale")}
    for key in ("items", "values"):
        if key in plain:
            plain[key] = bare(plain[key], seen)
    if "fields" in plain:
        plain["fields"] = [{**field, "type": bare(field["type"], seen)} for field in plain["fields"]]
    return {key: value for key, value in plain.items() if not key.startswith("__")}


# ---------------------------------------------------------------- columns


def in_array(values: Values, type_: pa.DataType) -> pa.Array:
    """Converts values to an array of a type."""
    if not isinstance(values, pa.Array):
        return pa.array(values, type_)
    return values if values.type == type_ else values.cast(type_)


def in_list(values: Values) -> Sequence[Any]:
    """Converts values to a list."""
    return values.to_pylist() if isinstance(values, pa.Array) else values


def _texts(values: Values) -> pa.Array:
    texts = in_array(values, pa.string())
    if pc.any(pc.match_substring(texts, "\0"), min_count=0).as_py():
        raise AvroValueError(_ZERO_BYTE)
    return texts


def _documents(values: Values) -> pa.Array:
    texts = [None if value is None else exact_json.encode(plain_json(value)) for value in in_list(values)]
    return _no_zero_byte(pa.array(texts, pa.string()))


def _no_zero_byte(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring(texts, "\\u0000"), min_count=0).as_py():
        for text in texts.to_pylist():
            exact_json.canonical_text(text or "null")
    return texts


def plain_json(value: Any) -> Any:
    """Converts a value for `exact_json`: bytes to hexadecimal, values without a JSON form to text."""
    if isinstance(value, dict):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_json(item) for item in value]
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, float):
        return Decimal(repr(value)) if isfinite(value) else str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return value if value is None or isinstance(value, bool | str | Decimal) else str(value)


def _union(branches: Sequence[Schema]) -> MappedType:
    others = [branch for branch in branches if branch != "null"]
    if len(others) == 1:
        return mapped(others[0])
    return mapped("null") if not others else MappedType(types.JSONB, _documents)


def _array(item: MappedType) -> MappedType:
    type_ = types.array(item.type)

    def convert(raw_values: Values) -> pa.Array:
        values = in_list(raw_values)
        sizes = [len(value or ()) for value in values]
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
        items = item.convert([element for value in values for element in value or ()])
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(offsets, items, type=type_.arrow, mask=mask)

    return MappedType(type_, convert)


def _record(fields: Sequence[tuple[str, MappedType]]) -> MappedType:
    type_ = types.record(*((name, field.type) for name, field in fields))

    def convert(raw_values: Values) -> pa.Array:
        values = in_list(raw_values)
        columns = [field.convert([None if v is None else v[name] for v in values]) for name, field in fields]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(type_.arrow), mask=mask)

    return MappedType(type_, convert)


def _logical(kind: str, logical: str, schema: Schema) -> MappedType | None:
    """Maps a logical type; None if it is unknown or on a wrong type: Avro then ignores it."""
    match logical, kind:
        case "decimal", "bytes" | "fixed":
            return _decimal(schema["precision"], schema.get("scale", 0))
        case "uuid", "string" | "fixed":
            return MappedType(
                types.UUID, lambda values: pa.array(list(map(_uuid, in_list(values))), types.UUID.arrow)
            )
        case "date", "int":
            return MappedType(types.DATE, lambda values: in_array(values, pa.int32()).view(pa.date32()))
        case ("time-millis", "int") | ("time-micros", "long"):
            return _times(types.TIME, 1000 if logical == "time-millis" else 1)
        case (("timestamp-millis" | "timestamp-micros"), "long"):
            return _times(types.TIMESTAMPTZ, 1000 if logical.endswith("millis") else 1)
        case (("local-timestamp-millis" | "local-timestamp-micros"), "long"):
            return _times(types.TIMESTAMP, 1000 if logical.endswith("millis") else 1)
        case _:
            return None


def _times(type_: Type, factor: int) -> MappedType:
    def convert(values: Values) -> pa.Array:
        try:
            micros = pc.multiply_checked(in_array(values, pa.int64()), factor)
        except pa.ArrowInvalid:
            raise AvroValueError("timestamp out of range") from None
        if (
            type_ == types.TIME
            and pc.any(pc.or_(pc.less(micros, 0), pc.greater_equal(micros, _DAY)), min_count=0).as_py()
        ):
            raise AvroValueError("time out of range")
        return micros.view(type_.arrow)

    return MappedType(type_, convert)


def _decimal(precision: int, scale: int) -> MappedType:
    if precision > types.MAX_PRECISION:
        raise UnsupportedError(
            f"an Avro decimal of {precision} digits cannot be read",
            hint=f"numeric has {types.MAX_PRECISION} digits at most",
        )
    limit = 10**precision

    def word(raw: bytes | None) -> bytes:
        whole = int.from_bytes(raw or b"", "big", signed=True)
        if abs(whole) >= limit:
            raise AvroValueError("numeric field overflow")
        return whole.to_bytes(16, "little", signed=True)

    def convert(raw_values: Values) -> pa.Array:
        # Converts the bytes directly: arithmetic on Python decimals rounds to 28 digits.
        values = in_list(raw_values)
        present = pa.array([raw is not None for raw in values], pa.bool_())
        words = pa.py_buffer(b"".join(map(word, values)))
        return with_validity(pa.Array.from_buffers(type_.arrow, len(values), [None, words]), present)

    type_ = types.numeric(precision, scale)
    return MappedType(type_, convert)


@lru_cache(1024)
def _uuid(value: str | bytes | None) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    try:
        return uuid.UUID(value).bytes
    except ValueError:
        raise AvroValueError(f'invalid input syntax for type uuid: "{value}"') from None
