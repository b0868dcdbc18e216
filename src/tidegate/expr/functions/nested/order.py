"""Bytes that sort as arrays, records and intervals do, for engines that sort these otherwise.

    ORDER BY path                    is planned as        ORDER BY ordered bytes(path)
    PARTITION BY span                                     PARTITION BY ordered bytes(span)

As in PostgreSQL, arrays are compared element by element, the shorter first if it is the beginning of the longer, and NULL in
them is greater than any value and equal to NULL. A byte in front of each element says so: end (1) < value (2) < NULL (3). Numbers
have a fixed size, and texts an end that sorts before any byte, so that no value is the beginning of another one.

| `{1}` | `{1,2}` | `{1,NULL}` | `{2}` |
|---|---|---|---|
| 2 one 1 | 2 one 2 two 1 | 2 one 3 1 | 2 two 1 |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Context

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import order
from tidegate.expr.model.function import ANY, MODERATE, NEVER, scalar
from tidegate.expr.model.types import BYTEA, Kind, Type
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.json.sort_key import sort_keys

Keys = list[bytes | None]
_END, _VALUE, _NULL = b"\x01", b"\x02", b"\x03"
_EXACT = Context(prec=40)
_SIGN = 1 << 63


@scalar("ordered bytes", (ANY,), BYTEA, hidden=True, errors=NEVER, cost=MODERATE, stable=True)
def ordered_bytes(values: pa.Array, *, types: Sequence[Type]) -> pa.Array:
    """Values that sort as arrays, records and intervals do, by bytes."""
    return pa.array(_keys(values, types[0]), pa.binary())


def _keys(values: pa.Array, type_: Type) -> Keys:
    if type_.element is not None:
        return list(_of_arrays(values, type_.element))
    if type_.kind is Kind.RECORD:
        return list(_of_records(values, type_))
    found = _of_scalars(values, type_)
    valid = values.is_valid().to_pylist()
    return [key if there else None for key, there in zip(found, valid, strict=True)]


def _piece(key: bytes | None) -> bytes:
    return _NULL if key is None else _VALUE + key


def _of_arrays(values: pa.Array, element: Type) -> Iterator[bytes | None]:
    inner = [_piece(key) for key in _keys(values.flatten(), element)]
    at = 0
    for size in checked(pc.list_value_length(values).to_pylist()):
        yield None if size is None else b"".join(inner[at : at + size]) + _END
        at += size or 0


def _of_records(values: pa.Array, type_: Type) -> Iterator[bytes | None]:
    fields = [_keys(pc.struct_field(values, [i]), inner) for i, (_, inner) in enumerate(type_.fields)]
    for row, there in enumerate(checked(values.is_valid().to_pylist())):
        yield b"".join(_piece(field[row]) for field in fields) if there else None


def _of_scalars(values: pa.Array, type_: Type) -> Iterator[bytes]:
    """Keys of scalars; those of NULL mean nothing."""
    match type_.kind:
        case Kind.FLOAT4 | Kind.FLOAT8:
            return _of_floats(values)
        case Kind.NUMERIC:
            return _of_numerics(values)
        case Kind.INTERVAL:
            return _of_integers(order.interval_key(values))
        case Kind.JSONB:
            return _of_texts(sort_keys(values))
        case Kind.BOOL:
            return _of_integers(values.cast(pa.int8()))
        case Kind.UUID:
            return ((value or b"") for value in values.to_pylist())
        case _ if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            return _of_texts(values.cast(pa.binary()))
        case Kind.DATE:
            return _of_integers(values.cast(pa.int32()))
        case _:
            return _of_integers(values)


def _of_integers(values: pa.Array) -> Iterator[bytes]:
    whole = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return _sliced((whole.view(np.uint64) ^ np.uint64(_SIGN)).astype(">u8"))


def _of_floats(values: pa.Array) -> Iterator[bytes]:
    """Keys of floats: -0 is 0, and NaN is greater than infinity, by its bits once its sign is +."""
    numbers = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    bits = np.ascontiguousarray(numbers).view(np.uint64)
    below = bits >> np.uint64(63) == 1
    return _sliced(np.where(below, ~bits, bits ^ np.uint64(_SIGN)).astype(">u8"))


def _sliced(numbers: np.ndarray) -> Iterator[bytes]:
    raw = numbers.tobytes()
    return (raw[i : i + 8] for i in range(0, len(raw), 8))


def _of_numerics(values: pa.Array) -> Iterator[bytes]:
    scale = values.type.scale
    for value in values.to_pylist():
        units = 0 if value is None else int(value.scaleb(scale, _EXACT))
        yield (units + (1 << 127)).to_bytes(16, "big")


def _of_texts(values: pa.Array) -> Iterator[bytes]:
    for value in values.to_pylist():
        yield (value or b"").replace(b"\x00", b"\x00\xff") + b"\x00\x00"
