"""Thrift's compact encoding, as far as Parquet's footers need it.

A struct is a list of fields, each a byte of (distance to the number of the last field, kind) and its value. Integers have variable
length, seven bits a byte; signed ones are folded (0, -1, 1, -2 → 0, 1, 2, 3).

>>> read_struct(struct((1, I32, number(-7)), (4, BINARY, text(b"price"))), 0)
({1: -7, 4: b'price'}, 10)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TRUE, FALSE, BYTE, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 5, 6, 7, 8, 9, 10, 12


def read_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The fields of the struct that begins at `at`, by number, and where it ends."""
    fields: dict[int, Any] = {}
    field = 0
    while True:
        field, kind, at = read_field(data, at, field)
        if not kind:
            return fields, at
        fields[field], at = read_value(data, at, kind)


def read_field(data: bytes, at: int, last: int) -> tuple[int, int, int]:
    """The number and kind of the field that begins at `at`, and where its value begins.

    Kind 0 ends the struct.
    """
    head = data[at]
    at += 1
    if head >> 4 or not head:
        return last + (head >> 4), head & 15, at
    field, at = _signed(data, at)
    return field, head & 15, at


def read_list(data: bytes, at: int) -> tuple[int, int, int]:
    """The number and kind of a list's items, and where the first begins."""
    head = data[at]
    at += 1
    size = head >> 4
    if size == 15:
        size, at = _unsigned(data, at)
    return size, head & 15, at


def read_value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    """The value of that kind that begins at `at`, and where it ends."""
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind == BYTE:
        return data[at], at + 1
    if kind <= I64:
        return _signed(data, at)
    if kind == DOUBLE:
        return data[at : at + 8], at + 8
    if kind == BINARY:
        size, at = _unsigned(data, at)
        return data[at : at + size], at + size
    if kind in (LIST, SET):
        size, kind, at = read_list(data, at)
        items = []
        for _ in range(size):
            item, at = (data[at] == TRUE, at + 1) if kind in (TRUE, FALSE) else read_value(data, at, kind)
            items.append(item)
        return items, at
    if kind == STRUCT:
        return read_struct(data, at)
    raise ValueError(f"{kind} is not a kind of Thrift's")


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7


def _signed(data: bytes, at: int) -> tuple[int, int]:
    folded, at = _unsigned(data, at)
    return (folded >> 1) ^ -(folded & 1), at


def struct(*fields: tuple[int, int, bytes], after: int = 0) -> bytes:
    """A struct of `(number, kind, encoded value)`, with numbers that rise by less than 16.

    With `after`, the end of a struct after that field.
    """
    out = bytearray()
    last = after
    for field, kind, value in fields:
        out.append((field - last) << 4 | kind)
        out += value
        last = field
    out.append(0)
    return bytes(out)


def items(kind: int, encoded: Sequence[bytes], count: int | None = None) -> bytes:
    """A list; `count` if one entry of `encoded` holds several items."""
    count = len(encoded) if count is None else count
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + _length(count)
    return head + b"".join(encoded)


def number(value: int) -> bytes:
    """An integer of at most 64 bits."""
    return _length((value << 1) ^ (value >> 63))


def text(value: bytes) -> bytes:
    """Bytes with their length."""
    return _length(len(value)) + value


def _length(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
