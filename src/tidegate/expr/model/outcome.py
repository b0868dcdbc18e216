"""Outcomes of evaluation: values, and errors that are values too.

An `Outcome` has one entry for each row. `errors` is None while no row has failed (the usual case, which costs nothing); else it
is a string array with the message of each failed row and null elsewhere. Where there is an error the value is null. A failed row
is data and not an exception, so rows that a filter drops may fail without harm, AND and OR are commutative, and CASE is lazy
simply by ignoring the errors of branches that were not taken.

>>> import pyarrow as pa
>>> failing(pa.array([False, True]), "division by zero").to_pylist()
[None, 'division by zero']
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Datum: TypeAlias = pa.Array | pa.Scalar
"""An argument of a kernel: an array, or a scalar for an array of equal values. At least one argument is an array."""

Errors: TypeAlias = pa.Array | None
"""A string array with the message of each failed row and null elsewhere, or None if no row failed."""


class Outcome(NamedTuple):
    """The values of a batch of rows, and the messages of rows that failed."""

    values: pa.Array
    errors: Errors = None


def failing(mask: pa.Array | np.ndarray, message: str | pa.Array) -> Errors:
    """Errors with `message` (one, or one per row) where `mask` is true; None if it is true nowhere."""
    where = mask if isinstance(mask, pa.Array) else pa.array(mask)
    if not pc.any(where, min_count=0).as_py():
        return None
    return pc.if_else(pc.fill_null(where, False), message, pa.scalar(None, pa.string()))


def with_errors(values: pa.Array, errors: Errors) -> Outcome:
    """An outcome whose values are null where there is an error."""
    if errors is None or errors.null_count == len(errors):
        return Outcome(values)
    return Outcome(pc.if_else(errors.is_null(), values, pa.scalar(None, values.type)), errors)


def first_error(*errors: Errors) -> Errors:
    """The smallest message of each row, so that the reported error does not depend on evaluation order."""
    present = [e for e in errors if e is not None]
    if len(present) < 2:
        return present[0] if present else None
    return pc.min_element_wise(*present, skip_nulls=True)


def only_where(errors: Errors, mask: pa.Array) -> Errors:
    """`errors` of the rows where `mask` is true."""
    if errors is None:
        return None
    remaining = pc.if_else(pc.fill_null(mask, False), errors, pa.scalar(None, pa.string()))
    return None if remaining.null_count == len(remaining) else remaining


def length(*args: Datum) -> int:
    """The number of rows of a kernel's arguments."""
    return next(len(arg) for arg in args if isinstance(arg, pa.Array))


def spread(arg: Datum, n: int) -> pa.Array:
    """`arg` as an array of `n` rows."""
    if not isinstance(arg, pa.Scalar):
        return arg
    return pa.repeat(arg, n) if n else pa.nulls(0, arg.type)  # Arrow cannot repeat a list no times


def to_numpy(arg: Datum, fill: object = 0) -> np.ndarray:
    """Values of a primitive Arrow datum as numpy (0-d for a scalar), nulls replaced by `fill`.

    Temporal types become integers. `from_numpy` restores the nulls.
    """
    if isinstance(arg, pa.Scalar):
        value = integers(pa.array([arg.as_py()], arg.type) if arg.is_valid else pa.nulls(1, arg.type))
        return np.asarray(pc.fill_null(value, fill).to_numpy(zero_copy_only=False)[0])
    array = integers(arg)
    if array.null_count:
        array = pc.fill_null(array, fill)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def to_bools(array: pa.Array) -> np.ndarray:
    """An Arrow boolean array as numpy, null taken as False."""
    if array.null_count:
        array = pc.fill_null(array, False)
    result: np.ndarray = array.to_numpy(zero_copy_only=False)
    return result


def integers(array: pa.Array) -> pa.Array:
    """A temporal array viewed as integers; other arrays unchanged."""
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        return array.view(pa.int64())
    return array.view(pa.int32()) if pa.types.is_date32(array.type) else array


def validity(*args: Datum) -> pa.Array | None:
    """True where no argument is null; None if nothing is null."""
    valid: pa.Array | None = None
    for arg in args:
        if isinstance(arg, pa.Scalar):
            if not arg.is_valid:
                return pa.repeat(pa.scalar(False), length(*args))
        elif arg.null_count:
            mask = arg.is_valid()
            valid = mask if valid is None else pc.and_(valid, mask)
    return valid


def null_where_any(array: pa.Array, *args: Datum) -> pa.Array:
    """`array` with nulls where any of `args` is null."""
    valid = validity(*args)
    return array if valid is None else pc.if_else(valid, array, pa.scalar(None, array.type))


def from_numpy(values: np.ndarray, type_: pa.DataType, *args: Datum) -> pa.Array:
    """An array of `type_` from numpy values or integers for times; null where any of `args` is null."""
    if pa.types.is_temporal(type_):
        width = pa.int32() if pa.types.is_date32(type_) else pa.int64()
        array = pa.array(np.ascontiguousarray(values), width).view(type_)
    else:
        array = pa.array(np.ascontiguousarray(values), type_)
    return null_where_any(array, *args)


def raw_bytes(array: pa.Array) -> np.ndarray:
    """The bytes of a text or binary array without a copy; nulls may contribute bytes too."""
    _, offsets, data = array.buffers()
    if offsets is None or data is None or not len(array):
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)
    return np.frombuffer(data, np.uint8)[ends[array.offset] : ends[array.offset + len(array)]]


def raw_numbers(array: pa.Array) -> np.ndarray:
    """The values of a fixed-width array without a copy; undefined where it is null."""
    width = integers(array.slice(0, 0)).type.to_pandas_dtype()
    values = array.buffers()[1]
    if values is None:
        return np.zeros(len(array), width)
    return np.frombuffer(values, width, count=array.offset + len(array))[array.offset :]
