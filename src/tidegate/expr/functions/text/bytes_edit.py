r"""Bytes: single bits and bytes, searching, trimming, replacing; and texts of Unicode escapes.

set_byte('\x1234'::bytea, 1, 64)                               \x1240
overlay('\x1234567890'::bytea PLACING '\x0203' FROM 2 FOR 3)   \x12020390
unistr('d\0061t\+000061')                                      data
"""

from __future__ import annotations

import re
import unicodedata
from functools import partial

import pyarrow as pa

from tidegate.expr.model.function import MODERATE, NEVER, scalar
from tidegate.expr.model.outcome import Datum, Outcome
from tidegate.expr.model.types import BYTEA, INT4, INT8, TEXT
from tidegate.expr.primitives.row_loop import RowFailure, each_row

_MAX = 1 << 26
"""Bytes of a value that a function makes."""


def _check_index(index: int, size: int) -> None:
    if not 0 <= index < size:
        raise RowFailure(f"index {index} out of valid range, 0..{size - 1}")


def _get_bit(data: bytes, index: int) -> int:
    _check_index(index, len(data) * 8)
    return data[index // 8] >> index % 8 & 1


@scalar("get_bit", (BYTEA, INT8), INT4, stable=True)
def get_bit(a: Datum, index: Datum) -> Outcome:
    """A bit of a byte string; bit 0 is the lowest of the first byte."""
    return each_row(_get_bit, pa.int32(), a, index)


def _set_bit(data: bytes, index: int, bit: int) -> bytes:
    _check_index(index, len(data) * 8)
    if bit not in (0, 1):
        raise RowFailure("new bit must be 0 or 1")
    byte = data[index // 8] & ~(1 << index % 8) | bit << index % 8
    return data[: index // 8] + bytes([byte]) + data[index // 8 + 1 :]


@scalar("set_bit", (BYTEA, INT8, INT4), BYTEA, stable=True)
def set_bit(a: Datum, index: Datum, bit: Datum) -> Outcome:
    """A byte string with one bit changed."""
    return each_row(_set_bit, pa.binary(), a, index, bit)


def _set_byte(data: bytes, index: int, byte: int) -> bytes:
    _check_index(index, len(data))
    return data[:index] + bytes([byte & 255]) + data[index + 1 :]


@scalar("set_byte", (BYTEA, INT4, INT4), BYTEA, stable=True)
def set_byte(a: Datum, index: Datum, byte: Datum) -> Outcome:
    """A byte string with one byte changed; the first is byte 0."""
    return each_row(_set_byte, pa.binary(), a, index, byte)


@scalar("bit_count", (BYTEA,), INT8, errors=NEVER, stable=True)
def bit_count(a: Datum) -> Outcome:
    """The number of bits that are set."""
    return each_row(lambda data: int.from_bytes(data, "big").bit_count(), pa.int64(), a)


@scalar("strpos", (BYTEA, BYTEA), INT4, aliases=("position",), errors=NEVER, stable=True)
def position(a: Datum, part: Datum) -> Outcome:
    """The position of the second byte string in the first, 0 if it does not occur."""
    return each_row(lambda data, part: data.find(part) + 1, pa.int32(), a, part)


def _declare_trim(name: str, ends: str) -> None:
    def trim(data: bytes, letters: bytes) -> bytes:
        data = data.lstrip(letters) if name != "rtrim" else data
        return data.rstrip(letters) if name != "ltrim" else data

    def kernel(a: Datum, letters: Datum) -> Outcome:
        return each_row(
            lambda data, letters: trim(data, letters) if letters else data, pa.binary(), a, letters
        )

    doc = f"The bytes without those of the second byte string {ends}."
    scalar(name, (BYTEA, BYTEA), BYTEA, errors=NEVER, stable=True, doc=doc)(kernel)


_declare_trim("btrim", "at both ends")
_declare_trim("ltrim", "at the start")
_declare_trim("rtrim", "at the end")


def _overlay(data: bytes, new: bytes, start: int, count: int | None = None) -> bytes:
    if start <= 0:
        raise RowFailure("negative substring length not allowed")
    count = len(new) if count is None else count
    if start + count >= 2**31:
        raise RowFailure("integer out of range")
    return data[: start - 1] + new + data[max(0, start + count - 1) :]


_overlays = partial(scalar, "overlay", result=BYTEA, cost=MODERATE, stable=True)


@_overlays((BYTEA, BYTEA, INT4))
@_overlays((BYTEA, BYTEA, INT4, INT4))
def overlay(*args: Datum) -> Outcome:
    """The bytes from a position on, as many as given, replaced by others."""
    return each_row(_overlay, pa.binary(), *args)


# ---------------------------------------------------------------- Unicode

_ESCAPE = re.compile(r"\\(?:(\\)|u?([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})|U([0-9A-Fa-f]{8})|)")


def _unescape(text: str) -> str:
    def letter(match: re.Match[str]) -> str:
        backslash, *digits = match.groups()
        code = next((d for d in digits if d is not None), None)
        if backslash:
            return "\\"
        if code is None:
            raise RowFailure("invalid Unicode escape")
        if not 0 < int(code, 16) <= 0x10FFFF:
            raise RowFailure("invalid Unicode code point")
        return chr(int(code, 16))

    units = _ESCAPE.sub(letter, text)
    try:
        return units.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise RowFailure("invalid Unicode surrogate pair") from None


@scalar("unistr", (TEXT,), TEXT, stable=True)
def unistr(a: Datum) -> Outcome:
    r"""The text with its Unicode escapes replaced: \XXXX, \+XXXXXX, \uXXXX, \UXXXXXXXX."""
    return each_row(_unescape, pa.string(), a)


def _normalized(text: str, form: str = "NFC") -> str:
    if form.upper() not in ("NFC", "NFD", "NFKC", "NFKD"):
        raise RowFailure(f"invalid normalization form: {form}")
    result = unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]  # checked above
    if len(result) > _MAX:
        raise RowFailure("requested length too large")
    return result


@scalar("normalize", (TEXT,), TEXT, stable=True)
@scalar("normalize", (TEXT, TEXT), TEXT, stable=True)
def normalize(*args: Datum) -> Outcome:
    """The text in a Unicode normal form: NFC (the default), NFD, NFKC or NFKD."""
    return each_row(_normalized, pa.string(), *args)
