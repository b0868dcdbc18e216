"""Decodes Avro records of scalar fields with numpy: one field of all records after another.

fastavro decodes record by record, in 0.5 µs per field, and skips a field in 0.3 µs. But the end of a field depends only on its
bytes. So all records are walked together: `at` holds the current position in each of them, and each field advances all of `at`.

    field      bytes of record 0 / 1 / 2        at before        at after          value, if the field is read
    long       02 / ac02 / 01                   0, 40, 90        1, 42, 91         1, 150, -1
    string     0661... / 00 / 0462...           1, 42, 91        5, 43, 94         the position and length of its text

In a container the records of a block follow each other, so one record of every block is walked at a time.

Only schemas of scalars and unions of these are walked (`plan_of`), and only valid bytes: anything else raises `Stumble`, and
fastavro then decodes record by record and determines the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

_WIDTH = {"boolean": 1, "float": 4, "double": 8}
_VARINTS = ("int", "long", "enum")
_BYTES = ("bytes", "string")
_PAD = bytes(16)
_ONE_BYTE = np.array([(i >> 1) ^ -(i & 1) for i in range(256)], np.int64)


class Stumble(Exception):  # noqa: N818  # not an error: the caller falls back to fastavro
    """These bytes cannot be walked."""


@dataclass(frozen=True)
class Field:
    """A field: its branches (one, if it is not a union), and whether its values are read."""

    name: str
    branches: tuple[Any, ...]
    union: bool
    wanted: bool


def plan_of(writer: Any, reader: Any) -> tuple[Field, ...] | None:
    """Plans how to walk records of a bare schema for the fields of another; None if that is not possible."""
    targets = {field["name"]: field["type"] for field in reader["fields"]}
    fields = []
    for field in writer["fields"]:
        kind = field["type"]
        branches = tuple(kind) if isinstance(kind, list) else (kind,)
        wanted = field["name"] in targets
        if not all(_kind(branch) in (*_WIDTH, *_VARINTS, *_BYTES, "null", "fixed") for branch in branches):
            return None
        others = [branch for branch in branches if _kind(branch) != "null"]
        if wanted and (targets.pop(field["name"]) != kind or len(others) != 1):
            return None
        fields.append(Field(field["name"], branches, isinstance(kind, list), wanted))
    return None if targets else tuple(fields)


def _kind(branch: Any) -> str:
    kind = branch if isinstance(branch, str) else branch["type"]
    return kind if isinstance(kind, str) else ""


class Walk:
    """Walks the records of several lanes (blocks, or single records) together."""

    def __init__(self, lanes: Sequence[bytes], counts: np.ndarray, fields: Sequence[Field]) -> None:
        self.fields = fields
        self.data = np.frombuffer(b"".join((*lanes, _PAD)), np.uint8)
        sizes = np.array([len(lane) for lane in lanes], np.int64)
        self.ends = np.cumsum(sizes)
        self.counts = counts
        total = int(counts.sum())
        self.first = np.cumsum(counts) - counts  # the number of each lane's first record
        if len(self.data) >= 2**31 or not total:
            raise Stumble
        self.values = {f.name: np.zeros(total, np.int64) for f in fields if f.wanted}
        """Numbers; for values with bytes, the position where they begin."""
        self.lengths = {f.name: np.zeros(total, np.int64) for f in fields if f.wanted}
        self.nulls = {f.name: np.zeros(total, bool) for f in fields if f.wanted}
        at = self.ends - sizes
        try:
            for step in range(int(counts.max())):
                lane = np.flatnonzero(counts > step)
                at[lane] = self._record(at[lane], self.ends[lane], self.first[lane] + step)
        except IndexError:
            raise Stumble from None
        if (at != self.ends).any():
            raise Stumble

    def _record(self, at: np.ndarray, ends: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Skips one record of each lane. Positions only grow, so one bounds check at the end suffices."""
        for field in self.fields:
            if not field.union:
                at = self._value(field, field.branches[0], at, numbers)
                continue
            branch, at = self._varint(at)
            first = int(branch[0])
            if (branch.view(np.uint64) >= len(field.branches)).any():
                raise Stumble
            if (branch == first).all():
                at = self._value(field, field.branches[first], at, numbers)
                continue
            for i, kind in enumerate(field.branches):
                rows = np.flatnonzero(branch == i)
                if len(rows):
                    at[rows] = self._value(field, kind, at[rows], numbers[rows])
        if (at > ends).any():
            raise Stumble
        return at

    def _value(self, field: Field, branch: Any, at: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Advances past one value of each lane, and stores it if the field is read."""
        kind = _kind(branch)
        behind = at
        if kind == "null":
            if field.wanted:
                self.nulls[field.name][numbers] = True
                self.values[field.name][numbers] = at
        elif kind in _VARINTS:
            value, behind = self._varint(at)
            if field.wanted:
                self.values[field.name][numbers] = value
        else:
            size: Any = _WIDTH.get(kind) or (branch["size"] if kind == "fixed" else 0)
            if kind in _BYTES:
                size, at = self._varint(at)
                if (
                    size.view(np.uint64) > len(self.data)
                ).any():  # as unsigned, a negative size is larger than any other
                    raise Stumble
            if field.wanted:
                self.values[field.name][numbers] = at
                self.lengths[field.name][numbers] = size
            behind = at + size
        return behind

    def _varint(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Reads zigzag numbers: seven bits per byte, the last byte below 128, the sign in the lowest bit."""
        letters = self.data[at]
        behind = at + 1
        rows = np.flatnonzero(letters > 0x7F)
        if not len(rows):
            return _ONE_BYTE[letters], behind
        value = (letters & 0x7F).astype(np.uint64)
        shift = 7
        while len(rows):
            if shift > 63:
                raise Stumble
            letters = self.data[behind[rows]]
            value[rows] |= (letters & 0x7F).astype(np.uint64) << np.uint64(shift)
            behind[rows] += 1
            rows = rows[letters > 0x7F]
            shift += 7
        signed = (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)
        return signed, behind

    # ------------------------------------------------------------ columns

    def column(self, name: str) -> pa.Array:
        """The values of a field that is read, equal to fastavro's, as an array."""
        (field,) = (field for field in self.fields if field.name == name)
        branch: Any = next((branch for branch in field.branches if _kind(branch) != "null"), "null")
        kind, values, nulls = _kind(branch), self.values[name], self.nulls[name]
        match kind:
            case "int" | "long":
                limit = 2**31 if kind == "int" else 2**63
                if kind == "int" and ((values < -limit) | (values >= limit))[~nulls].any():
                    raise Stumble
                return pa.array(values.astype(np.int32) if kind == "int" else values, mask=nulls)
            case "enum":
                if (values.view(np.uint64)[~nulls] >= len(branch["symbols"])).any():
                    raise Stumble
                return pa.array(branch["symbols"]).take(pa.array(values, mask=nulls))
            case "boolean":
                return pa.array(self.data[values] != 0, mask=nulls)
            case "float" | "double":
                width = _WIDTH[kind]
                raw = self.data[values[:, None] + np.arange(width)]
                return pa.array(raw.view(f"<f{width}")[:, 0], mask=nulls)
            case _:
                return self._pieces(name, text=kind == "string")

    def _pieces(self, name: str, *, text: bool) -> pa.Array:
        """Texts or bytes: cuts the data at both ends of each value, and takes every second piece."""
        begin, nulls = self.values[name], self.nulls[name]
        offsets = np.zeros(2 * len(begin) + 1, np.int32)
        offsets[1::2] = begin
        offsets[2::2] = begin + self.lengths[name]
        if (np.diff(offsets) < 0).any():
            raise Stumble
        pieces = pa.Array.from_buffers(
            pa.binary(), 2 * len(begin), [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        )
        values = pieces.take(pa.array(np.arange(1, 2 * len(begin), 2), mask=nulls))
        try:
            return values.cast(pa.string()) if text else values
        except pa.ArrowInvalid:
            raise Stumble from None
