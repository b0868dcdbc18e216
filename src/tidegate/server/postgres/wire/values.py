r"""Reads the values that a client binds to parameters, and returns them as text.

    parameter_text(20, 1, b"\0\0\0\0\0\0\0\5")        "5"
    parameter_text(1007, 1, …)                             "{1,2,NULL}"

Text is taken as it is, binary is read by its type. Binary values of an unknown type are refused, and so are bytes that are too
few or too many for their type.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from collections.abc import Callable

from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.statements.postgres_catalog import postgres_types

MAX_DIMENSIONS = 6
_EPOCH = dt.datetime(2000, 1, 1)  # noqa: DTZ001  # PostgreSQL's epoch, with and without a zone


def parameter_text(oid: int, form: int, data: bytes | None) -> str | None:
    """Returns a value as text; None is NULL."""
    if data is None:
        return None
    if form not in (0, 1):
        raise PostgresError("08P01", f"unknown format {form}")
    if form == 0:
        return _utf8(data)
    try:
        return _array(data) if oid in postgres_types.ELEMENTS else _scalar(oid)(data)
    except (struct.error, ValueError, OverflowError, IndexError):
        raise PostgresError("22P03", f"the bytes of a parameter are not a value of type {oid}") from None


def _scalar(oid: int) -> Callable[[bytes], str]:
    reader = _READERS.get(oid)
    if reader is None:
        raise PostgresError(
            "0A000", f"binary values of type {oid} are not supported", hint="send the value as text"
        )
    return reader


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise PostgresError("22021", "a parameter is not valid UTF-8") from None


def _number(form: str) -> Callable[[bytes], str]:
    return lambda data: str(struct.unpack(form, data)[0])


def _float(form: str) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        value: float = struct.unpack(form, data)[0]
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return "NaN" if value != value else repr(value)  # only NaN differs from itself

    return read


def _bool(data: bytes) -> str:
    return "true" if struct.unpack(">?", data)[0] else "false"


def _date(data: bytes) -> str:
    return (_EPOCH + dt.timedelta(days=struct.unpack(">i", data)[0])).date().isoformat()


def _time(data: bytes) -> str:
    micros: int = struct.unpack(">q", data)[0]
    if not 0 <= micros <= 86_400_000_000:
        raise ValueError
    seconds, micros = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


def _timestamp(data: bytes) -> str:
    return (_EPOCH + dt.timedelta(microseconds=struct.unpack(">q", data)[0])).isoformat(" ")


def _timestamptz(data: bytes) -> str:
    return _timestamp(data) + "+00"


def _interval(data: bytes) -> str:
    micros, days, months = struct.unpack(">qii", data)
    return f"{months} mons {days} days {micros} microseconds"


def _uuid(data: bytes) -> str:
    return str(uuid.UUID(bytes=data))


def _jsonb(data: bytes) -> str:
    if data[:1] != b"\x01":
        raise ValueError
    return _utf8(data[1:])


def _numeric(data: bytes) -> str:
    """Reads digits in base 10,000: see `numeric.py`."""
    count, weight, sign, scale = struct.unpack_from(">HhHH", data)
    if sign == 0xC000:
        return "NaN"
    if sign not in (0, 0x4000) or len(data) != 8 + 2 * count or abs(weight) > 64 or scale > 1000:
        raise ValueError
    digits = struct.unpack_from(f">{count}H", data, 8)
    if any(digit > 9999 for digit in digits):
        raise ValueError
    whole = "".join(f"{digits[i] if i < count else 0:04}" for i in range(weight + 1)) if weight >= 0 else "0"
    fraction = "0000" * max(-weight - 1, 0) + "".join(f"{digit:04}" for digit in digits[max(weight + 1, 0) :])
    shown = fraction[:scale].ljust(scale, "0")
    return f"{'-' if sign else ''}{whole.lstrip('0') or '0'}{'.' + shown if shown else ''}"


_READERS: dict[int, Callable[[bytes], str]] = {
    16: _bool,
    17: lambda data: "\\x" + data.hex(),
    20: _number(">q"),
    21: _number(">h"),
    23: _number(">i"),
    26: _number(">I"),
    700: _float(">f"),
    701: _float(">d"),
    1082: _date,
    1083: _time,
    1114: _timestamp,
    1184: _timestamptz,
    1186: _interval,
    1700: _numeric,
    2950: _uuid,
    3802: _jsonb,
    **dict.fromkeys((0, 18, 19, 25, 114, 705, 1042, 1043), _utf8),
}


def _array(data: bytes) -> str:
    """Reads an array: its shape, then each element with its length. Returns `{…}`."""
    dimensions, _, oid = struct.unpack_from(">iiI", data)
    if not 0 <= dimensions <= MAX_DIMENSIONS:
        raise ValueError
    if dimensions == 0:
        return "{}"
    lengths = [struct.unpack_from(">i", data, 12 + 8 * i)[0] for i in range(dimensions)]
    at, total = 12 + 8 * dimensions, math.prod(lengths)
    if min(lengths) < 0 or total * 4 > len(data):
        raise ValueError
    read, elements = _scalar(oid), []
    for _ in range(total):
        size: int = struct.unpack_from(">i", data, at)[0]
        at += 4
        if size < -1 or at + max(size, 0) > len(data):
            raise ValueError
        elements.append("NULL" if size == -1 else _element(read(data[at : at + size])))
        at += max(size, 0)
    for length in reversed(lengths[1:]):
        step = max(length, 1)
        elements = ["{" + ",".join(elements[i : i + length]) + "}" for i in range(0, len(elements), step)]
    return "{" + ",".join(elements) + "}"


def _element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
