"""Checks and converts appended rows before anything is written.

    conform(schema, table)   →   each column of the schema in its exact Arrow type, or an error that names the wrong one

Arrow data may come in any natural form: large, view and dictionary layouts become plain; integers and decimals are widened or
narrowed if every value fits; timestamps of any unit become microseconds if nothing is lost; jsonb is parsed from text and stored
in its canonical spelling; a uuid may be text or 16 bytes, an interval a duration or a struct of months, days and microseconds.
What would need a guess is refused: a timestamp without a zone for a timestamptz, a float for a numeric. So is a text that is too
long for varchar(n), by whatever way it comes (INSERT, UPDATE, `append`, Spark); only spaces at its end are cut off, as in
PostgreSQL.

`can_conform(arrow, type_)` says beforehand whether values of an Arrow type can be stored at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import BindError, EvaluationError, TypeMismatch, shorten
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Column, Kind, Type, build, order, outcome, types
from tidegate.expr.primitives import calendar
from tidegate.expr.primitives import cast_exact as exact_decimals
from tidegate.storage.part.conform.bad_values import bad_value, other_value, place
from tidegate.storage.part.schema import Schema, SchemaColumn

TableLike: TypeAlias = pa.Table | pa.RecordBatch | Mapping[str, Any] | Sequence[pa.Array]
"""A table, a mapping of names to arrays or lists, or arrays in the schema's order."""
LARGEST_DIFF = 2**31 - 1
"""Keeps sums of diffs within 64 bits, however many rows there are."""

LONGEST = 2.0**63 / 1000
"""The most microseconds of an interval: Arrow stores them as nanoseconds."""

_t = pa.types
_PARTS = ("months", "days", "micros")


def conform(schema: Schema, rows: TableLike) -> list[pa.Array]:
    """The columns of `rows` in the order and types of the schema."""
    given = _named(schema, rows)
    extra = [name for name in given if name not in {column.name for column in schema.columns}]
    if extra:
        known = ", ".join(column.name for column in schema.columns)
        raise BindError(f'column "{extra[0]}" is not in the collection', hint=f"there are: {known}")
    absent = [column.name for column in schema.columns if column.name not in given]
    if absent:
        raise BindError(
            f'column "{absent[0]}" is missing', hint="pass every column; NULLs where a value is unknown"
        )
    columns = [_checked(column, _plain(given[column.name], column)) for column in schema.columns]
    if len({len(column) for column in columns}) > 1:
        shown = ", ".join(f"{c.name} {len(v):,}" for c, v in zip(schema.columns, columns, strict=True))
        raise BindError(f"the columns have different numbers of values: {shorten(shown, 200)}")
    return columns


def can_conform(given: pa.DataType, type_: Type) -> bool:
    """Whether values of an Arrow type can be stored in a column of the type, if each value fits."""
    if _t.is_null(given):
        return True
    if type_.kind is Kind.ARRAY and _is_list(given):
        assert type_.element is not None
        return can_conform(given.value_type, type_.element)
    if type_.kind is Kind.RECORD and _t.is_struct(given):
        inner = {field.name: field.type for field in given}
        same = len(inner) == given.num_fields and inner.keys() == {name for name, _ in type_.fields}
        return same and all(can_conform(inner[name], wanted) for name, wanted in type_.fields)
    return _fits(given, type_)


def conform_diffs(diff: Any, rows: int) -> np.ndarray:
    """A diff for each row, from one for all or an array."""
    try:
        diffs = np.asarray(diff.to_numpy(zero_copy_only=False) if isinstance(diff, pa.Array) else diff)
    except (ValueError, TypeError, OverflowError):
        raise TypeMismatch("diff must be an integer, or an array of one for each row") from None
    if diffs.ndim == 0:
        diffs = np.full(rows, diffs)
    if diffs.dtype.kind not in "iu" or diffs.shape != (rows,):
        raise TypeMismatch(
            f"diff must be an integer, or an array of {rows} integers",
            hint=f"given: {diffs.dtype}, {diffs.shape}",
        )
    if rows and max(int(diffs.max()), -int(diffs.min())) > LARGEST_DIFF:
        raise EvaluationError(f"a diff is out of range: at most {LARGEST_DIFF} either way")
    if (diffs == 0).any():
        raise EvaluationError("a diff is 0", hint="1 appends a row, -1 retracts one")
    return diffs.astype(np.int64)


def _named(schema: Schema, rows: TableLike) -> dict[str, Any]:
    if isinstance(rows, pa.Table | pa.RecordBatch):
        names = rows.schema.names
        if len(set(names)) != len(names):
            raise BindError(f'column "{next(n for n in names if names.count(n) > 1)}" is there twice')
        return {name: rows.column(name) for name in names}
    if isinstance(rows, Mapping):
        return dict(rows)
    if len(rows) != len(schema.columns):
        raise BindError(f"{len(rows)} columns were passed, the collection has {len(schema.columns)}")
    return {column.name: array for column, array in zip(schema.columns, rows, strict=True)}


def _plain(given: Any, column: SchemaColumn) -> pa.Array:
    """One array, without chunks, dictionaries, run-end encoding or extensions."""
    if not isinstance(given, pa.Array | pa.ChunkedArray):
        try:
            given = pa.array(given, None if _reads_text(column.type) else column.type.arrow)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise other_value(given, column) from None
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
        given = pa.concat_arrays(given.chunks) if isinstance(given, pa.ChunkedArray) else given
    if isinstance(given, pa.ExtensionArray):
        given = given.storage
    if _t.is_dictionary(given.type):
        given = given.dictionary_decode()
    if _t.is_run_end_encoded(given.type):
        given = pc.run_end_decode(given)
    return given


def _reads_text(type_: Type) -> bool:
    inner = [type_.element] if type_.element is not None else [t for _, t in type_.fields]
    return type_.kind is Kind.UUID or any(_reads_text(t) for t in inner)


def _checked(column: SchemaColumn, array: pa.Array) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowException:
        raise TypeMismatch(f'column "{column.name}" holds bytes that are not a valid {array.type}') from None
    values = _as(array, column.type, column)
    if not column.nullable and values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise EvaluationError(
            f'null value in column "{column.name}" violates not-null constraint',
            hint=f"it is in {place(row)}; give it a value, or leave the row out",
        )
    return values


def _as(array: pa.Array, type_: Type, column: SchemaColumn) -> pa.Array:
    """Converts an array to the Arrow type of `type_`, and checks every value."""
    if _t.is_null(array.type):
        return pa.nulls(len(array), type_.arrow)
    if type_.kind is Kind.ARRAY and _is_list(array.type):
        assert type_.element is not None
        plain = array.cast(pa.list_(array.type.value_type))
        sizes = pc.fill_null(pc.list_value_length(plain), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        return pa.ListArray.from_arrays(
            offsets, _as(plain.flatten(), type_.element, column), mask=plain.is_null()
        )
    if type_.kind is Kind.RECORD and _t.is_struct(array.type):
        return _record(array, type_, column)
    if not _fits(array.type, type_):
        raise TypeMismatch(
            f'column "{column.name}" is {column.type}, and got {array.type}',
            hint=_hint(array.type, type_),
        )
    if type_.kind in (Kind.JSONB, Kind.UUID) and _is_text(array.type):
        text = array.cast(pa.string())
        values, errors = evaluate(build.cast(Column(0, types.TEXT), type_), [text])
        if errors is not None:
            raise bad_value(errors.drop_null()[0].as_py(), column, text, errors.is_valid())
        return values
    if type_.kind is Kind.INTERVAL and array.type != type_.arrow:
        array = _intervals(array, type_, column)
    return _in_range(_cast(array, type_, column), type_, column)


def _intervals(array: pa.Array, type_: Type, column: SchemaColumn) -> pa.Array:
    """Intervals from durations, or from structs of their fields; a NULL field makes a NULL interval."""
    whole = Type(Kind.INT8)
    if _t.is_duration(array.type):
        micros = _unit(array, column).view(pa.int64())
        parts = [pa.array(np.zeros(len(array), np.int64))] * 2 + [micros]
    else:
        parts = [_cast(pc.struct_field(array, name), whole, column) for name in _PARTS]
    months, days, micros = (pc.fill_null(part, 0).to_numpy() for part in parts)
    wide = (
        (np.abs(months) >= 2**31) | (np.abs(days) >= 2**31) | (np.abs(micros.astype(np.float64)) >= LONGEST)
    )
    if wide.any():
        raise bad_value(f"value out of range for type {type_}", column, array, pa.array(wide))
    valid = array.is_valid()
    for part in parts:
        valid = pc.and_(valid, part.is_valid())
    return order.make_intervals(months, days, micros, valid)


def _unit(array: pa.Array, column: SchemaColumn) -> pa.Array:
    """Durations in microseconds."""
    try:
        return array.cast(pa.duration("us"), safe=True)
    except pa.ArrowException:
        raise EvaluationError(
            f'a value of column "{column.name}" ({array.type}) does not fit interval',
            hint="too large, or more exact than the type",
        ) from None


def _record(array: pa.Array, type_: Type, column: SchemaColumn) -> pa.Array:
    names = [field.name for field in array.type]
    wanted = [name for name, _ in type_.fields]
    if sorted(names) != sorted(wanted):
        raise TypeMismatch(f'column "{column.name}" is {column.type}, and got the fields {", ".join(names)}')
    inner = [_as(pc.struct_field(array, [names.index(name)]), t, column) for name, t in type_.fields]
    return pa.StructArray.from_arrays(inner, fields=list(type_.arrow), mask=array.is_null())


def _is_list(type_: pa.DataType) -> bool:
    return bool(_t.is_list(type_) or _t.is_large_list(type_) or _t.is_fixed_size_list(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(_t.is_string(type_) or _t.is_large_string(type_) or _t.is_string_view(type_))


def _is_bytes(type_: pa.DataType) -> bool:
    many = (_t.is_binary, _t.is_large_binary, _t.is_binary_view, _t.is_fixed_size_binary)
    return any(is_one(type_) for is_one in many)


def _fits(given: pa.DataType, type_: Type) -> bool:
    """Whether values of the Arrow type can be stored in a column of the type, if each value fits."""
    match type_.kind:
        case Kind.TEXT | Kind.JSONB | Kind.UNKNOWN:
            return _is_text(given)
        case Kind.BYTEA:
            return _is_bytes(given)
        case Kind.UUID:
            return _is_text(given) or given == type_.arrow or _t.is_binary(given)
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.MZ_TIMESTAMP:
            return bool(_t.is_integer(given))
        case Kind.NUMERIC:
            return bool(_t.is_integer(given) or _t.is_decimal(given))
        case Kind.FLOAT4 | Kind.FLOAT8:
            narrow = _t.is_floating(given) and given.bit_width <= type_.arrow.bit_width
            return bool(_t.is_integer(given) or narrow)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            zoned = type_.kind is Kind.TIMESTAMPTZ
            return bool(_t.is_timestamp(given) and (given.tz is not None) == zoned)
        case Kind.DATE:
            return bool(_t.is_date(given))
        case Kind.TIME:
            return bool(_t.is_time(given))
        case Kind.BOOL:
            return bool(_t.is_boolean(given))
        case Kind.INTERVAL:
            return bool(given == type_.arrow or _t.is_duration(given)) or _is_parts(given)
        case _:
            return False


def _is_parts(given: pa.DataType) -> bool:
    """Whether these are structs of the fields of an interval, as files have them and Spark reads them."""
    if not _t.is_struct(given):
        return False
    found = {field.name: field.type for field in given}
    return set(found) == set(_PARTS) and all(_t.is_integer(type_) for type_ in found.values())


def _hint(given: pa.DataType, type_: Type) -> str:
    if _t.is_timestamp(given) and type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        wanted = "with" if type_.kind is Kind.TIMESTAMPTZ else "without"
        return f"a {type_} is a timestamp {wanted} a time zone"
    return f"{type_} is stored as Arrow {type_.arrow}"


def _cast(array: pa.Array, type_: Type, column: SchemaColumn) -> pa.Array:
    if array.type == type_.arrow:
        return array
    message = f'a value of column "{column.name}" ({array.type}) does not fit {type_}'
    hint = "too large, or more exact than the type"
    if type_.kind is Kind.NUMERIC:
        values, errors = exact_decimals(array, type_.arrow)
        if errors is not None:
            raise bad_value(message, column, array, errors.is_valid(), hint)
        return values
    try:
        return array.cast(type_.arrow, safe=True)
    except pa.ArrowException:
        raise bad_value(message, column, array, _cast_fails(array, type_), hint) from None


def _cast_fails(array: pa.Array, type_: Type) -> pa.Array:
    """Marks the first value that a cast refuses, found by halves."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).cast(type_.arrow, safe=True)
            low = middle
        except pa.ArrowException:
            high = middle
    return pa.array(np.arange(len(array)) == low)


def _in_range(array: pa.Array, type_: Type, column: SchemaColumn) -> pa.Array:
    """Returns the array if its values are in the range of the type: Arrow types hold more."""
    bad: pa.Array | None = None
    match type_.kind:
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            bad = _outside(array, calendar.FIRST_MICRO, calendar.LAST_MICRO)
        case Kind.DATE:
            bad = _outside(array, calendar.FIRST_DAY, calendar.LAST_DAY)
        case Kind.TIME:
            bad = _outside(array, 0, calendar.MICROS_A_DAY - 1)
        case Kind.TEXT if type_.length is not None:
            return _within(array, type_.length, column)
        case Kind.INTERVAL:
            bad = _odd_intervals(array)
        case _:
            return array
    if bad is not None and pc.any(bad, min_count=0).as_py():
        raise bad_value(f"value out of range for type {type_}", column, array, bad)
    return array


def _within(texts: pa.Array, length: int, column: SchemaColumn) -> pa.Array:
    """Texts of at most `length` characters.

    As in PostgreSQL only spaces at the end are cut off; anything else is refused.
    """
    if not pc.any(pc.greater(pc.utf8_length(texts), length), min_count=0).as_py():
        return texts
    excess = pc.utf8_rtrim(pc.utf8_slice_codeunits(texts, length), " ")
    bad = pc.greater(pc.binary_length(excess), 0)
    if pc.any(bad, min_count=0).as_py():
        hint = f"cut it by a cast, ::varchar({length}), or declare the column longer"
        raise bad_value(f"value too long for type character varying({length})", column, texts, bad, hint)
    return pc.utf8_slice_codeunits(texts, 0, length)


def _outside(array: pa.Array, low: int, high: int) -> pa.Array:
    numbers = outcome.integers(array)
    return pc.or_(pc.less(numbers, low), pc.greater(numbers, high))


def _odd_intervals(array: pa.Array) -> pa.Array:
    """Where an interval has a fraction of a microsecond, or a length that does not fit 64 bits."""
    if not len(array):
        return pa.array([], pa.bool_())
    raw = np.frombuffer(array.buffers()[1], order.INTERVAL_LAYOUT, count=len(array) + array.offset)[
        array.offset :
    ]
    months, days, micros = order.interval_parts(array)
    far = np.abs((months * 30 + days).astype(np.float64) * order.MICROS_A_DAY + micros) >= 2.0**63
    return pc.and_(array.is_valid(), pa.array((raw["nanos"] % 1000 != 0) | far))
