r"""Sort keys of JSON: bytes that compare as PostgreSQL compares jsonb.

PostgreSQL orders jsonb by type first, `null < string < number < boolean < array < object`. Numbers compare by value, so 9 < 10.
Strings compare by code point, arrays by their number of elements and then element by element, objects by their number of keys
and then key, value, key, value … in stored order. An empty array is less than all else if it is the whole document, and an
array as any other inside one.

| value | key, in hexadecimal |
|---|---|
| `[]` as the whole document | `01` |
| `null`, `false`, `true` | `02`, `05`, `06` |
| a string | `03`, its UTF-8, `00` |
| 0 | `04 02 80 00 00 00 00` |
| a positive number | `04 03`, where the point is (4 bytes), the digits, `00` |
| a negative number | `04 01`, then the same with all bits inverted |
| an array | `07`, the number of elements (4 bytes), the keys of the elements |
| an object | `08`, the number of pairs (4 bytes), then for each the key (UTF-8, `00`) and the key of the value |

No string holds a zero byte, so a zero ends it: `a` < `ab`. A number is 0.digits × 10^point. A key holds the whole value: equal
keys mean equal values, and `from_sort_key` returns the document.

>>> import pyarrow as pa
>>> keys = sort_keys(pa.array(['10', '9', '"x"', '[]', '{"a":1}']))
>>> [from_sort_key(key) for key in sorted(keys.to_pylist())]
['[]', '"x"', '9', '10', '{"a":1}']

Numbers and strings, the values of most paths, are converted a column at a time; arrays and objects by one pass of Python's JSON
parser each, equal ones once.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.outcome import to_bools
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.canonical import MAX_ROWS_ONE_BY_ONE, scatter
from tidegate.expr.primitives.json.path import first_bytes, to_text
from tidegate.expr.primitives.utf8 import byte_lengths, bytes_and_offsets, slice_bytes

EMPTY_ARRAY, NULL, STRING, NUMBER, FALSE, TRUE, ARRAY, OBJECT = (bytes([tag]) for tag in range(1, 9))
"""The first byte of a key; each is at most every key of its type, and greater than every key of the types before."""
AFTER_STRINGS, AFTER_NUMBERS, AFTER_ARRAYS, AFTER_OBJECTS = (
    tag + b"\xff" * 5 for tag in (STRING, NUMBER, ARRAY, OBJECT)
)
"""Greater than every key of the type, and less than every key of the types after."""
_NEGATIVE, _ZERO, _POSITIVE = 1, 2, 3
_MIDDLE = 1 << 31
"""Added to the place of the point, so that all places are positive."""
_INVERTED = bytes(255 - byte for byte in range(256))
_KEY = pa.binary()
_WORDS = {ord("n"): NULL, ord("f"): FALSE, ord("t"): TRUE}


def sort_keys(documents: pa.Array) -> pa.Array:
    """The key of each canonical document, null where null."""
    if len(documents) <= MAX_ROWS_ONE_BY_ONE:
        return pa.array([None if d is None else sort_key(d) for d in documents.to_pylist()], _KEY)
    letters = first_bytes(documents)
    is_number = ((letters >= ord("0")) & (letters <= ord("9"))) | (letters == ord("-"))
    numbers, strings = np.flatnonzero(is_number), np.flatnonzero(letters == ord('"'))
    nested = np.flatnonzero((letters == ord("[")) | (letters == ord("{")))
    parts = [
        (numbers, _number_keys(documents.take(pa.array(numbers)))),
        (strings, string_keys(_unquote(documents.take(pa.array(strings))))),
        (nested, _nested_keys(documents.take(pa.array(nested)))),
    ]
    for letter, key in _WORDS.items():
        rows = np.flatnonzero(letters == letter)
        parts.append((rows, pa.repeat(pa.scalar(key, _KEY), len(rows))))
    return scatter(len(documents), *parts)


def string_keys(texts: pa.Array) -> pa.Array:
    """The keys of JSON strings, given as plain text; null where null."""
    start, end = pa.scalar(STRING, _KEY), pa.scalar(b"\0", _KEY)
    return pc.binary_join_element_wise(start, texts.cast(_KEY), end, pa.scalar(b"", _KEY))


def decimal_keys(numbers: pa.Array) -> pa.Array:
    """The keys of JSON numbers, given as decimal128; null where null."""
    type_ = numbers.type
    whole = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(numbers), numbers.buffers(), numbers.null_count, numbers.offset
    )
    # The digits of the unscaled integer: the text of a small decimal could have an exponent.
    texts = pc.fill_null(whole.cast(pa.string()), "0")
    digits = pc.ascii_ltrim(texts, "-")
    keys = _join_numbers(
        to_bools(pc.starts_with(texts, "-")),
        byte_lengths(digits) - type_.scale,
        pc.ascii_rtrim(pc.ascii_ltrim(digits, "0"), "0"),
    )
    return pc.if_else(numbers.is_valid(), keys, pa.scalar(None, _KEY)) if numbers.null_count else keys


def _unquote(strings: pa.Array) -> pa.Array:
    """JSON strings as plain text."""
    if pc.any(pc.match_substring(strings, "\\"), min_count=0).as_py():
        return to_text(strings)
    return slice_bytes(strings, np.ones(len(strings), np.int64), byte_lengths(strings) - 1)


def _number_keys(texts: pa.Array) -> pa.Array:
    """The keys of numbers in canonical spelling: plain digits."""
    plain = pc.ascii_ltrim(texts, "-")
    point = pc.find_substring(plain, ".").to_numpy(zero_copy_only=False)
    digits = pc.replace_substring(plain, ".", "")
    significant = pc.ascii_ltrim(digits, "0")
    before_point = np.where(point < 0, byte_lengths(plain), point)
    places = before_point - (byte_lengths(digits) - byte_lengths(significant))
    return _join_numbers(to_bools(pc.starts_with(texts, "-")), places, pc.ascii_rtrim(significant, "0"))


def _join_numbers(negative: np.ndarray, places: np.ndarray, digits: pa.Array) -> pa.Array:
    """Keys from the sign, the place of the point and the significant digits of numbers; no digits: 0."""
    zero = byte_lengths(digits) == 0
    heads = np.empty((len(digits), 6), np.uint8)
    heads[:, 0] = NUMBER[0]
    heads[:, 1] = np.where(zero, _ZERO, np.where(negative, _NEGATIVE, _POSITIVE))
    heads[:, 2:] = np.where(zero, _MIDDLE, places + _MIDDLE).astype(">u4").view(np.uint8).reshape(-1, 4)
    starts = pa.py_buffer(np.arange(len(digits) + 1, dtype=np.int32) * 6)
    head = pa.Array.from_buffers(_KEY, len(digits), [None, starts, pa.py_buffer(heads)])
    keys = pc.binary_join_element_wise(head, digits.cast(_KEY), pa.scalar(b"\0", _KEY), pa.scalar(b"", _KEY))
    return _inverted(keys, negative & ~zero) if negative.any() else keys


def _inverted(keys: pa.Array, rows: np.ndarray) -> pa.Array:
    """The keys with all bits inverted behind the sign in some rows."""
    data, offsets = bytes_and_offsets(keys)
    raw = data ^ np.repeat(np.where(rows, np.uint8(255), np.uint8(0)), np.diff(offsets))
    raw[offsets[:-1]], raw[offsets[:-1] + 1] = data[offsets[:-1]], data[offsets[:-1] + 1]
    return pa.Array.from_buffers(_KEY, len(keys), [None, keys.buffers()[1], pa.py_buffer(raw)])


def _nested_keys(documents: pa.Array) -> pa.Array:
    """The keys of arrays and objects; equal ones are converted once."""
    encoded = documents.dictionary_encode()
    keys = pa.array([sort_key(document) for document in checked(encoded.dictionary.to_pylist())], _KEY)
    return keys.take(encoded.indices)


# ---------------------------------------------------------------- one document


def sort_key(document: str) -> bytes:
    """The key of one canonical document."""
    if document == "[]":
        return EMPTY_ARRAY
    pieces: list[bytes] = []
    _add(_DECODER.decode(document), pieces)
    return b"".join(pieces)


def _add(value: Any, pieces: list[bytes]) -> None:
    """Adds the key of a value, whose numbers are keys already."""
    match value:
        case bytes():
            pieces.append(value)
        case str():
            pieces.append(STRING + value.encode() + b"\0")
        case None:
            pieces.append(NULL)
        case bool():
            pieces.append(TRUE if value else FALSE)
        case list():
            pieces.append(ARRAY + len(value).to_bytes(4, "big"))
            for item in value:
                _add(item, pieces)
        case _:
            pieces.append(OBJECT + len(value).to_bytes(4, "big"))
            for name, item in value.items():
                pieces.append(name.encode() + b"\0")
                _add(item, pieces)


def _number_key(text: str) -> bytes:
    """The key of one number in plain digits."""
    plain = text.lstrip("-")
    before, _, after = plain.partition(".")
    digits = before + after
    significant = digits.lstrip("0")
    if not significant:
        return NUMBER + bytes([_ZERO]) + _MIDDLE.to_bytes(4, "big") + b"\0"
    place = len(before) - (len(digits) - len(significant)) + _MIDDLE
    body = place.to_bytes(4, "big") + significant.rstrip("0").encode() + b"\0"
    if text[0] == "-":
        return NUMBER + bytes([_NEGATIVE]) + body.translate(_INVERTED)
    return NUMBER + bytes([_POSITIVE]) + body


_DECODER = json.JSONDecoder(parse_float=_number_key, parse_int=_number_key)


# ---------------------------------------------------------------- back


class NotSortKey(ValueError):  # noqa: N818  # its message becomes the error of a row
    """Bytes that are no sort key."""


def from_sort_key(key: bytes) -> str:
    """The canonical document of a key; raises NotSortKey."""
    try:
        text, end = ("[]", 1) if key[:1] == EMPTY_ARRAY else _read(key, 0)
    except (ValueError, IndexError, RecursionError):
        raise NotSortKey("the bytes are no sort key of jsonb") from None
    if end != len(key):
        raise NotSortKey("the bytes are no sort key of jsonb")
    return text


def show_bound(key: bytes) -> str:
    """A bound of sort keys for people: the document of the key, or `any number` if it is just a type."""
    try:
        return from_sort_key(key)
    except NotSortKey:
        names = {STRING: "any string", NUMBER: "any number", ARRAY: "any array", OBJECT: "any object"}
        return names.get(key[:1], key.hex())


def _read(key: bytes, at: int) -> tuple[str, int]:
    """The document that starts at a byte of a key, and where it ends."""
    tag, at = key[at : at + 1], at + 1
    if tag == STRING:
        end = key.index(b"\0", at)
        return exact_json.quote(key[at:end].decode()), end + 1
    if tag == NUMBER:
        return _read_number(key, at)
    if tag == ARRAY:
        items, at = _read_items(key, at, named=False)
        return f"[{','.join(items)}]", at
    if tag == OBJECT:
        items, at = _read_items(key, at, named=True)
        return f"{{{','.join(items)}}}", at
    word = {NULL: "null", FALSE: "false", TRUE: "true"}.get(tag)
    if word is None:
        raise ValueError(tag)
    return word, at


def _read_items(key: bytes, at: int, *, named: bool) -> tuple[list[str], int]:
    count, at = int.from_bytes(key[at : at + 4], "big"), at + 4
    items = []
    for _ in range(count):
        name = ""
        if named:
            end = key.index(b"\0", at)
            name, at = exact_json.quote(key[at:end].decode()) + ":", end + 1
        text, at = _read(key, at)
        items.append(name + text)
    return items, at


def _read_number(key: bytes, at: int) -> tuple[str, int]:
    sign = key[at]
    if sign == _ZERO and key[at + 1 : at + 6] == _MIDDLE.to_bytes(4, "big") + b"\0":
        return "0", at + 6
    if sign not in (_NEGATIVE, _POSITIVE):
        raise ValueError(sign)
    end = key.index(b"\xff" if sign == _NEGATIVE else b"\0", at + 5)
    body = key[at + 1 : end]
    body = body.translate(_INVERTED) if sign == _NEGATIVE else body
    place, digits = int.from_bytes(body[:4], "big") - _MIDDLE, body[4:].decode("ascii")
    if not digits.isdecimal() or abs(place) > len(key) + exact_json.MAX_ZEROS:
        raise ValueError(digits)
    if place <= 0:
        text = "0." + "0" * -place + digits
    else:
        text = digits[:place].ljust(place, "0") + ("." + digits[place:] if len(digits) > place else "")
    return ("-" if sign == _NEGATIVE else "") + text, end + 1
