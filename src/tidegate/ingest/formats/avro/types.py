"""Avro schemas as our types, and decoded values as our columns.

| Avro | here | | Avro | here |
|---|---|---|---|---|
| boolean, int, long, float, double | bool, int4, int8, float4, float8 | | decimal(p, s) | numeric(p, s) |
| string, enum | text | | uuid | uuid |
| bytes, fixed | bytea | | date, time-millis, time-micros | date, time |
| record | row(…) | | timestamp-millis, -micros | timestamptz: Avro means an instant |
| array of T | T[] | | local-timestamp-millis, -micros | timestamp |
| map, union of several types | jsonb | | union of null and T | T, which may be NULL |

fastavro is given schemas without logical types (`bare`), so that it hands out plain numbers and bytes; what they
mean is worked out here for a column at a time, and cannot overflow a Python date on the way.
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
from tidegate.expr import exact_json
from tidegate.expr.functions.decimals import masked
from tidegate.expr.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    JSONB,
    MAX_PRECISION,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip

Schema: TypeAlias = Any
"""As JSON has it: a name, a list (a union) or a map."""
Values: TypeAlias = "Sequence[Any] | pa.Array"
"""As fastavro gives them, or the same in an array."""
Convert: TypeAlias = Callable[[Values], pa.Array]
"""Values as a column; raises a BadValue."""

_SIMPLE = {
    "boolean": BOOL, "int": INT4, "long": INT8, "float": FLOAT4, "double": FLOAT8, "bytes": BYTEA, "fixed": BYTEA,
}  # fmt: skip
_DAY = 86_400_000_000
_ZERO_BYTE = 'invalid byte sequence for encoding "UTF8": 0x00'


class BadValue(ValueError):  # noqa: N818  # it is the record that has the error
    """A value that our type cannot hold; the message is the record's error."""


@dataclass(frozen=True)
class Mapped:
    """A schema's type here, and how its values get there."""

    type: Type
    convert: Convert


def mapped(schema: Schema) -> Mapped:
    """The type and the conversion of an expanded schema (named types stand where they are used)."""
    if isinstance(schema, list):
        return _union(schema)
    kind = schema if isinstance(schema, str) else schema["type"]
    if not isinstance(kind, str):
        return mapped(kind)
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    found = _logical(kind, logical, schema) if logical else None
    if found is not None:
        return found
    if kind in _SIMPLE:
        type_ = _SIMPLE[kind]
        return Mapped(type_, lambda values: in_array(values, type_.arrow))
    if kind in ("string", "enum"):
        return Mapped(TEXT, _texts)
    if kind == "null":
        return Mapped(TEXT, lambda values: pa.nulls(len(values), pa.string()))
    if kind == "array":
        return _array(mapped(schema["items"]))
    if kind == "record":
        return _record([(field["name"], mapped(field["type"])) for field in schema["fields"]])
    if kind == "map":
        return Mapped(JSONB, _documents)
    raise UnsupportedError(
        f'the Avro type "{kind}" cannot be read',
        hint="a type that holds itself has no columns: use FORMAT BYTES",
    )


def bare(schema: Schema, seen: set[str] | None = None) -> Schema:
    """A schema without logical types, each named type spelled out where it stands first."""
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
    kept = {key: value for key, value in schema.items() if key not in ("logicalType", "precision", "scale")}
    for key in ("items", "values"):
        if key in kept:
            kept[key] = bare(kept[key], seen)
    if "fields" in kept:
        kept["fields"] = [{**field, "type": bare(field["type"], seen)} for field in kept["fields"]]
    return {key: value for key, value in kept.items() if not key.startswith("__")}


# ---------------------------------------------------------------- columns


def in_array(values: Values, type_: pa.DataType) -> pa.Array:
    """The values in an array."""
    if not isinstance(values, pa.Array):
        return pa.array(values, type_)
    return values if values.type == type_ else values.cast(type_)


def in_list(values: Values) -> Sequence[Any]:
    """The values in a list."""
    return values.to_pylist() if isinstance(values, pa.Array) else values


def _texts(values: Values) -> pa.Array:
    found = in_array(values, pa.string())
    if pc.any(pc.match_substring(found, "\0"), min_count=0).as_py():
        raise BadValue(_ZERO_BYTE)
    return found


def _documents(values: Values) -> pa.Array:
    texts = [None if value is None else exact_json.encode(plain_json(value)) for value in in_list(values)]
    return _no_zero_byte(pa.array(texts, pa.string()))


def _no_zero_byte(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring(texts, "\\u0000"), min_count=0).as_py():
        for text in texts.to_pylist():
            exact_json.canonical_text(text or "null")
    return texts


def plain_json(value: Any) -> Any:
    """A value as `exact_json` encodes it: bytes in hexadecimal, what JSON has no word for as its text."""
    if isinstance(value, dict):
        return {key: plain_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain_json(one) for one in value]
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, float):
        return Decimal(repr(value)) if isfinite(value) else str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return value if value is None or isinstance(value, bool | str | Decimal) else str(value)


def _union(branches: Sequence[Schema]) -> Mapped:
    others = [branch for branch in branches if branch != "null"]
    if len(others) == 1:
        return mapped(others[0])
    return mapped("null") if not others else Mapped(JSONB, _documents)


def _array(item: Mapped) -> Mapped:
    type_ = array(item.type)

    def convert(given: Values) -> pa.Array:
        values = in_list(given)
        sizes = [len(value or ()) for value in values]
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
        items = item.convert([one for value in values for one in value or ()])
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(offsets, items, type=type_.arrow, mask=mask)

    return Mapped(type_, convert)


def _record(fields: Sequence[tuple[str, Mapped]]) -> Mapped:
    type_ = record(*((name, one.type) for name, one in fields))

    def convert(given: Values) -> pa.Array:
        values = in_list(given)
        columns = [one.convert([None if v is None else v[name] for v in values]) for name, one in fields]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(type_.arrow), mask=mask)

    return Mapped(type_, convert)


def _logical(kind: str, logical: str, schema: Schema) -> Mapped | None:
    """A logical type on the type that it belongs on; None, as Avro says, where it is not known."""
    match logical, kind:
        case "decimal", "bytes" | "fixed":
            return _decimal(schema["precision"], schema.get("scale", 0))
        case "uuid", "string" | "fixed":
            return Mapped(UUID, lambda values: pa.array(list(map(_uuid, in_list(values))), UUID.arrow))
        case "date", "int":
            return Mapped(DATE, lambda values: in_array(values, pa.int32()).view(pa.date32()))
        case ("time-millis", "int") | ("time-micros", "long"):
            return _times(TIME, 1000 if logical == "time-millis" else 1)
        case (("timestamp-millis" | "timestamp-micros"), "long"):
            return _times(TIMESTAMPTZ, 1000 if logical.endswith("millis") else 1)
        case (("local-timestamp-millis" | "local-timestamp-micros"), "long"):
            return _times(TIMESTAMP, 1000 if logical.endswith("millis") else 1)
        case _:
            return None


def _times(type_: Type, factor: int) -> Mapped:
    def convert(values: Values) -> pa.Array:
        try:
            micros = pc.multiply_checked(in_array(values, pa.int64()), factor)
        except pa.ArrowInvalid:
            raise BadValue("timestamp out of range") from None
        if (
            type_ == TIME
            and pc.any(pc.or_(pc.less(micros, 0), pc.greater_equal(micros, _DAY)), min_count=0).as_py()
        ):
            raise BadValue("time out of range")
        return micros.view(type_.arrow)

    return Mapped(type_, convert)


def _decimal(precision: int, scale: int) -> Mapped:
    if precision > MAX_PRECISION:
        raise UnsupportedError(
            f"an Avro decimal of {precision} digits cannot be read",
            hint=f"numeric has {MAX_PRECISION} digits at most",
        )
    limit = 10**precision

    def word(raw: bytes | None) -> bytes:
        whole = int.from_bytes(raw or b"", "big", signed=True)
        if abs(whole) >= limit:
            raise BadValue("numeric field overflow")
        return whole.to_bytes(16, "little", signed=True)

    def convert(given: Values) -> pa.Array:
        # The bytes themselves: Python's decimals are rounded to 28 digits by whatever computes with them.
        values = in_list(given)
        there = pa.array([raw is not None for raw in values], pa.bool_())
        words = pa.py_buffer(b"".join(map(word, values)))
        return masked(pa.Array.from_buffers(type_.arrow, len(values), [None, words]), there)

    type_ = numeric(precision, scale)
    return Mapped(type_, convert)


@lru_cache(1024)
def _uuid(value: str | bytes | None) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    try:
        return uuid.UUID(value).bytes
    except ValueError:
        raise BadValue(f'invalid input syntax for type uuid: "{value}"') from None
