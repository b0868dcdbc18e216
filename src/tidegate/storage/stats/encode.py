"""Statistics of a part as bytes: short, versioned, and never the cause of an error.

    1 byte     the version
    …          columns, one after the other: the id, then what is known
    4 bytes    CRC-32 of all before

Numbers are varints (seven bits a byte, low ones first; signed ones zigzag), so a timestamp takes 8 bytes,
and an upper bound only its distance from the lower one. An upper text leaves out what it shares with the
lower. A value is preceded by a byte of flags that say what follows.

What cannot be read (damaged, cut off, made by a newer version) is `None`: nothing is known of the part, so
it is read. That costs time and must not go unseen: it is logged once for each kind and counted in
`unreadable`.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Mapping

from tidegate.storage.stats.json.model import LANES, JsonStats
from tidegate.storage.stats.model import ColumnStats, Form, Stored
from tidegate.storage.stats.shorten import shared_bytes

VERSION = 1

_LOW, _HIGH, _NAN, _MONTHS, _DISTINCT, _HISTOGRAM, _FIELDS, _ELEMENT = (1 << i for i in range(8))
_COUNTS, _NUMBER_LOW, _NUMBER_HIGH, _WHOLE, _TEXT_LOW, _TEXT_HIGH, _KEYS, _CLOSED_MAPS = (
    1 << i for i in range(8)
)
_CRC = 4


def encode(columns: Mapping[int, ColumnStats]) -> bytes:
    """The statistics of a part; no bytes at all where nothing is known."""
    if not columns:
        return b""
    out = bytearray([VERSION])
    for id_, stats in columns.items():
        out += encode_column(id_, stats)
    return bytes(out) + zlib.crc32(out).to_bytes(_CRC, "little")


def encode_column(id_: int, stats: ColumnStats) -> bytes:
    """One column's share of the encoding; trimming adds up their sizes."""
    out = bytearray()
    _uint(out, id_)
    _column(out, stats)
    return bytes(out)


OVERHEAD = 1 + _CRC
"""Bytes around the columns."""


def decode(data: bytes, unreadable: Counter[str] | None = None) -> dict[int, ColumnStats] | None:
    """The statistics, or None where nothing is known; counts the reason in `unreadable`."""
    if not data:
        return None
    unreadable = Counter() if unreadable is None else unreadable
    if len(data) <= OVERHEAD or zlib.crc32(data[:-_CRC]) != int.from_bytes(data[-_CRC:], "little"):
        unreadable["damaged"] += 1
        return None
    if data[0] != VERSION:
        unreadable[f"of version {data[0]}"] += 1
        return None
    reader = _Reader(data[:-_CRC], 1)
    columns = {}
    try:
        while reader.at < len(reader.data):
            id_ = reader.uint()
            columns[id_] = reader.column()
    except (IndexError, ValueError, struct.error):
        unreadable["malformed"] += 1
        return None
    return columns


# ---------------------------------------------------------------- writing


def _uint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _sint(out: bytearray, value: int) -> None:
    _uint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _raw(out: bytearray, value: bytes) -> None:
    _uint(out, len(value))
    out += value


def _column(out: bytearray, stats: ColumnStats) -> None:
    out += stats.form.value.encode()
    flags = (
        (_LOW if stats.low is not None else 0) | (_HIGH if stats.high is not None else 0) | (_NAN if stats.nan else 0)
        | (_MONTHS if stats.months else 0) | (_DISTINCT if stats.distinct is not None else 0)
        | (_HISTOGRAM if stats.histogram else 0) | (_FIELDS if stats.fields else 0)
        | (_ELEMENT if stats.element is not None else 0)
    )  # fmt: skip
    out.append(flags)
    _uint(out, stats.rows)
    _uint(out, stats.nulls)
    if stats.low is not None:
        _value(out, stats.form, stats.low, None)
    if stats.high is not None:
        _value(out, stats.form, stats.high, stats.low)
    if stats.distinct is not None:
        _uint(out, stats.distinct)
    if stats.histogram:
        _raw(out, stats.histogram)
    if stats.form is Form.JSON:
        out.append(stats.json is not None)
        if stats.json is not None:
            _json(out, stats.json)
    if stats.fields:
        _uint(out, len(stats.fields))
        for inner in stats.fields:
            out.append(inner is not None)
            if inner is not None:
                _column(out, inner)
    if stats.element is not None:
        _column(out, stats.element)


def _value(out: bytearray, form: Form, value: Stored, low: Stored | None) -> None:
    """A bound; an upper one by what it has beyond the lower."""
    if isinstance(value, bool):
        out.append(value)
    elif isinstance(value, int):
        assert low is None or isinstance(low, int)
        _sint(out, value - (low or 0))
    elif isinstance(value, float):
        out += struct.pack("<d", value)
    elif isinstance(value, tuple):
        for item in value:
            _sint(out, item)
    else:
        raw = value.encode() if isinstance(value, str) else value
        if low is not None:
            same = shared_bytes(low, value)
            _uint(out, same)
            raw = raw[same:]
        _raw(out, raw)


def _json(out: bytearray, stats: JsonStats) -> None:
    flags = (
        (_COUNTS if stats.counts is not None else 0) | (_NUMBER_LOW if stats.number_low is not None else 0)
        | (_NUMBER_HIGH if stats.number_high is not None else 0) | (_WHOLE if stats.whole else 0)
        | (_TEXT_LOW if stats.text_low is not None else 0) | (_TEXT_HIGH if stats.text_high is not None else 0)
        | (_KEYS if stats.keys else 0) | (_CLOSED_MAPS if stats.closed else 0)
    )  # fmt: skip
    out.append(flags)
    if stats.counts is not None:
        # Most lanes are empty: a byte says which are not.
        out.append(sum(1 << i for i, count in enumerate(stats.counts) if count))
        for count in filter(None, stats.counts):
            _uint(out, count)
    for number in (stats.number_low, stats.number_high):
        if number is not None:
            _number(out, number)
    if stats.text_low is not None:
        _value(out, Form.TEXT, stats.text_low, None)
    if stats.text_high is not None:
        _value(out, Form.TEXT, stats.text_high, stats.text_low)
    if stats.keys:
        _uint(out, len(stats.keys))
        for name, inner in stats.keys.items():
            _raw(out, name.encode())
            _json(out, inner)


def _number(out: bytearray, unscaled: int) -> None:
    """A number of 18 digits behind the point, most of which are zeros."""
    zeros = 0
    while unscaled and unscaled % 10 == 0 and zeros < 255:
        unscaled //= 10
        zeros += 1
    out.append(zeros)
    _sint(out, unscaled)


# ---------------------------------------------------------------- reading


class _Reader:
    """Reads what was written above, from a place on."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def uint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def sint(self) -> int:
        value = self.uint()
        return -((value + 1) >> 1) if value & 1 else value >> 1

    def raw(self, size: int | None = None) -> bytes:
        size = self.uint() if size is None else size
        if self.at + size > len(self.data):
            raise ValueError("cut off")
        self.at += size
        return self.data[self.at - size : self.at]

    def column(self) -> ColumnStats:
        form, flags = Form(chr(self.byte())), self.byte()
        rows, nulls = self.uint(), self.uint()
        low = self.value(form, None) if flags & _LOW else None
        high = self.value(form, low) if flags & _HIGH else None
        distinct = self.uint() if flags & _DISTINCT else None
        histogram = self.raw() if flags & _HISTOGRAM else b""
        json = self.json() if form is Form.JSON and self.byte() else None
        fields: tuple[ColumnStats | None, ...] = ()
        if flags & _FIELDS:
            fields = tuple(self.column() if self.byte() else None for _ in range(self.uint()))
        element = self.column() if flags & _ELEMENT else None
        nan, months = bool(flags & _NAN), bool(flags & _MONTHS)
        return ColumnStats(
            form, rows, nulls, low, high, nan, months, distinct, histogram, json, fields, element
        )

    def value(self, form: Form, low: Stored | None) -> Stored:
        match form:
            case Form.BOOL:
                return bool(self.byte())
            case Form.INTEGER | Form.DECIMAL:
                return self.sint() + (low if isinstance(low, int) else 0)
            case Form.FLOAT:
                found: float = struct.unpack("<d", self.raw(8))[0]
                return found
            case Form.INTERVAL:
                return self.sint(), self.sint(), self.sint()
            case Form.TEXT | Form.BYTES:
                begin = b""
                if low is not None:
                    begin = (low.encode() if isinstance(low, str) else bytes(low))[: self.uint()]  # type: ignore[arg-type]  # of the same form
                raw = begin + self.raw()
                return raw.decode() if form is Form.TEXT else raw
            case _:
                raise ValueError(f"{form} has no bounds")

    def json(self) -> JsonStats:
        flags = self.byte()
        counts = None
        if flags & _COUNTS:
            which = self.byte()
            counts = tuple(self.uint() if which >> i & 1 else 0 for i in range(len(LANES)))
        number_low = self.number() if flags & _NUMBER_LOW else None
        number_high = self.number() if flags & _NUMBER_HIGH else None
        text_low = self.value(Form.TEXT, None) if flags & _TEXT_LOW else None
        text_high = self.value(Form.TEXT, text_low) if flags & _TEXT_HIGH else None
        keys = {}
        for _ in range(self.uint() if flags & _KEYS else 0):
            name = self.raw().decode()
            keys[name] = self.json()
        whole, closed = bool(flags & _WHOLE), bool(flags & _CLOSED_MAPS)
        return JsonStats(counts, number_low, number_high, whole, text_low, text_high, keys, closed)  # type: ignore[arg-type]  # texts

    def number(self) -> int:
        zeros = self.byte()
        return self.sint() * int(10**zeros)
