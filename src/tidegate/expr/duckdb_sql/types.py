"""Our types in DuckDB: names of its types, and the Arrow types in which it takes and gives values.

    duckdb_type(parse_type("timestamptz"))       "TIMESTAMP"
    to_duckdb(array, UUID)                       binary
    from_duckdb(array, UUID)                     fixed_size_binary[16]

| type | in DuckDB | differs, because |
|---|---|---|
| timestamptz | TIMESTAMP, in UTC | DuckDB's own needs an extension for time zones |
| uuid | BLOB | DuckDB's own is text in Arrow |
| jsonb | VARCHAR | canonical JSON text, as in the file |
| mz_timestamp | BIGINT | milliseconds |
| all others | the same | |
"""

from __future__ import annotations

import pyarrow as pa

from tidegate.expr.model.types import Kind, Type

_NAMES: dict[Kind, str] = {
    Kind.UNKNOWN: "VARCHAR",
    Kind.BOOL: "BOOLEAN",
    Kind.INT2: "SMALLINT",
    Kind.INT4: "INTEGER",
    Kind.INT8: "BIGINT",
    Kind.FLOAT4: "FLOAT",
    Kind.FLOAT8: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.BYTEA: "BLOB",
    Kind.DATE: "DATE",
    Kind.TIME: "TIME",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMPTZ: "TIMESTAMP",
    Kind.INTERVAL: "INTERVAL",
    Kind.UUID: "BLOB",
    Kind.JSONB: "VARCHAR",
    Kind.MZ_TIMESTAMP: "BIGINT",
}


def quoted(name: str) -> str:
    """A name in DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'


def duckdb_type(type_: Type) -> str:
    """The DuckDB type that holds values of a type."""
    match type_.kind:
        case Kind.NUMERIC:
            return f"DECIMAL({type_.precision},{type_.scale})"
        case Kind.ARRAY:
            assert type_.element is not None
            return f"{duckdb_type(type_.element)}[]"
        case Kind.RECORD:
            fields = [
                f"{quoted(field_name(i))} {duckdb_type(inner)}" for i, (_, inner) in enumerate(type_.fields)
            ]
            return f"STRUCT({', '.join(fields)})"
        case kind:
            return _NAMES[kind]


def field_name(position: int) -> str:
    """The name of a record's field in DuckDB, where two names must not differ by case alone."""
    return f"f{position}"


def duckdb_arrow(type_: Type) -> pa.DataType:
    """The Arrow type in which DuckDB takes and gives these values."""
    match type_.kind:
        case Kind.TIMESTAMPTZ:
            return pa.timestamp("us")
        case Kind.UUID:
            return pa.binary()
        case Kind.ARRAY:
            assert type_.element is not None
            return pa.list_(duckdb_arrow(type_.element))
        case Kind.RECORD:
            fields = [
                pa.field(field_name(i), duckdb_arrow(inner)) for i, (_, inner) in enumerate(type_.fields)
            ]
            return pa.struct(fields)
        case _:
            return type_.arrow


def to_duckdb(array: pa.Array, type_: Type) -> pa.Array:
    """Our values in the Arrow type that DuckDB takes."""
    if array.type == duckdb_arrow(type_):
        return array
    return _converted(array, type_, duckdb_arrow)


def from_duckdb(array: pa.Array, type_: Type) -> pa.Array:
    """DuckDB's values in our Arrow type."""
    return array if array.type == type_.arrow else _converted(array, type_, _ours)


def _ours(type_: Type) -> pa.DataType:
    return type_.arrow


def _converted(array: pa.Array, type_: Type, arrow_of: object) -> pa.Array:
    """The values in another Arrow type; records by position, since their names differ."""
    assert callable(arrow_of)
    target: pa.DataType = arrow_of(type_)
    if array.type == target:
        return array
    match type_.kind:
        case Kind.ARRAY if type_.element is not None and isinstance(array, pa.ListArray):
            inner = _converted(array.values, type_.element, arrow_of)
            offsets, validity = array.buffers()[1], array.buffers()[0]
            return pa.Array.from_buffers(
                target, len(array), [validity, offsets], array.null_count, array.offset, [inner]
            )
        case Kind.RECORD:
            fields = [
                _converted(array.field(i), inner, arrow_of) for i, (_, inner) in enumerate(type_.fields)
            ]
            return pa.StructArray.from_arrays(
                fields, fields=list(target), mask=array.is_null() if array.null_count else None
            )
        case _:
            return array.cast(target)
