r"""Encodes bytes as text and decodes them, for whole columns: hex, base64, escape and UTF-8.

Each codec is a table lookup over the byte buffer of an array. A regular expression finds invalid rows first, which get
PostgreSQL's error messages; valid rows go through the table.

>>> import pyarrow as pa
>>> to_hex(pa.array([b"\x00\xff", b""])).to_pylist()
['00ff', '']
>>> from_hex(pa.array(["00FF", "0g"])).errors.to_pylist()
[None, 'invalid hexadecimal digit: "g"']
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.outcome import Errors, Outcome, failing, null_where_any, with_errors
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval
from tidegate.expr.primitives.utf8 import (
    CONTINUATION,
    CONTINUATION_MASK,
    bytes_and_offsets,
    from_bytes,
    slice_bytes,
    sum_by_row,
)

HEX_PAIRS = np.frombuffer(bytes(range(256)).hex().encode(), "<u2")
"""The two digits of each byte."""
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
BASE64_LINE = 76
"""Characters in a line of base64."""
BLANK = r"[ \t\n\r]"
BACKSLASH, ZERO, EQUALS = ord("\\"), ord("0"), ord("=")


def _inverse(*alphabets: bytes) -> np.ndarray:
    table = np.zeros(256, np.uint8)
    for alphabet in alphabets:
        table[np.frombuffer(alphabet, np.uint8)] = np.arange(len(alphabet))
    return table


FROM_HEX = _inverse(b"0123456789abcdef", b"0123456789ABCDEF")
FROM_BASE64 = _inverse(BASE64)


def _packed_bytes(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of all rows without gaps, and the length of each row."""
    data, offsets = bytes_and_offsets(array)
    return data[offsets[0] : offsets[-1]], np.diff(offsets)


def _valid_or_empty(text: pa.Array, valid: pa.Array) -> pa.Array:
    return pc.if_else(valid, text, "")


# ---------------------------------------------------------------- hex


def to_hex(array: pa.Array) -> pa.Array:
    """Bytes as hex, two digits each."""
    data, lengths = _packed_bytes(array)
    return null_where_any(from_bytes(HEX_PAIRS[data].view(np.uint8), lengths * 2, pa.string()), array)


def from_hex(text: pa.Array) -> Outcome:
    """Bytes from pairs of hex digits; blanks between pairs are skipped."""
    valid = pc.match_substring_regex(text, rf"\A{BLANK}*(?:[0-9A-Fa-f]{{2}}{BLANK}*)*\z")
    digits = pc.replace_substring_regex(_valid_or_empty(text, valid), BLANK, "")
    data, lengths = _packed_bytes(digits)
    nibbles = FROM_HEX[data]
    values = null_where_any(from_bytes((nibbles[0::2] << 4) | nibbles[1::2], lengths // 2, pa.binary()), text)
    if not pc.any(pc.invert(valid), min_count=0).as_py():
        return Outcome(values)
    wrong = pc.extract_regex(text, rf"\A(?:{BLANK}|[0-9A-Fa-f]{{2}})*[0-9A-Fa-f]?(?P<bad>(?s:[^0-9A-Fa-f]))")
    digit = pc.binary_join_element_wise('invalid hexadecimal digit: "', pc.struct_field(wrong, [0]), '"', "")
    message = pc.coalesce(digit, "invalid hexadecimal data: odd number of digits")
    return with_errors(values, failing(pc.invert(valid), message))


# ---------------------------------------------------------------- base64


def to_base64(array: pa.Array) -> pa.Array:
    """Bytes as base64, four letters for three bytes, in lines of 76."""
    text = duckdb_eval("to_base64(a)", pa.string(), a=array)
    if pc.any(pc.greater_equal(pc.binary_length(text), BASE64_LINE), min_count=0).as_py():
        # PostgreSQL ends a line after 76 letters of whole groups, even if nothing follows.
        text = pc.replace_substring_regex(text, f"([^=]{{{BASE64_LINE}}})", "\\1\n")
    return text


def from_base64(text: pa.Array) -> Outcome:
    """Bytes from base64 groups of four letters, the last padded with =; blanks are skipped."""
    letters = pc.replace_substring_regex(text, BLANK, "")
    group = "[A-Za-z0-9+/]"
    valid = pc.match_substring_regex(letters, rf"\A(?:{group}{{4}})*(?:{group}{{2}}==|{group}{{3}}=)?\z")
    data, lengths = _packed_bytes(_valid_or_empty(letters, valid))
    padding = sum_by_row(data == EQUALS, lengths)
    quads = FROM_BASE64[data].astype(np.uint32).reshape(-1, 4)
    bits = (quads[:, 0] << 18) | (quads[:, 1] << 12) | (quads[:, 2] << 6) | quads[:, 3]
    whole = np.stack([bits >> 16, (bits >> 8) & 255, bits & 255], axis=1).astype(np.uint8).reshape(-1)
    filled = from_bytes(whole, lengths // 4 * 3, pa.binary())
    values = null_where_any(
        slice_bytes(filled, np.zeros(len(lengths), np.int64), lengths // 4 * 3 - padding), text
    )
    if not pc.any(pc.invert(valid), min_count=0).as_py():
        return Outcome(values)
    symbol = pc.struct_field(pc.extract_regex(letters, "(?P<bad>[^A-Za-z0-9+/=])"), [0])
    early = pc.match_substring_regex(letters, rf"\A(?:{group}{{4}})*{group}?=")
    message = pc.coalesce(
        pc.binary_join_element_wise('invalid symbol "', symbol, '" found while decoding base64 sequence', ""),
        pc.if_else(early, 'unexpected "=" while decoding base64 sequence', "invalid base64 end sequence"),
    )
    return with_errors(values, failing(pc.invert(valid), message))


# ---------------------------------------------------------------- escape


def to_escaped(array: pa.Array) -> pa.Array:
    """Bytes as ASCII: backslashes doubled, 0 and bytes above 127 as three octal digits."""
    data, lengths = _packed_bytes(array)
    octal, doubled = (data == 0) | (data >= 128), data == BACKSLASH
    size = np.where(octal, 4, np.where(doubled, 2, 1))
    at = np.cumsum(size) - size
    out = np.zeros(int(size.sum()), np.uint8)
    out[at] = np.where(octal, BACKSLASH, data)
    out[at[doubled] + 1] = BACKSLASH
    for k, shift in ((1, 6), (2, 3), (3, 0)):
        out[at[octal] + k] = ZERO + ((data[octal] >> shift) & 7)
    return null_where_any(from_bytes(out, sum_by_row(size, lengths), pa.string()), array)


def from_escaped(text: pa.Array) -> Outcome:
    """Bytes from text with escapes: a doubled backslash, or one before three octal digits."""
    valid = pc.match_substring_regex(text, r"(?s)\A(?:[^\\]|\\\\|\\[0-3][0-7][0-7])*\z")
    data, lengths = _packed_bytes(_valid_or_empty(text, valid))
    # In a run of backslashes every other one is an escape; digits may follow the last escape of a run.
    slash = data == BACKSLASH
    index = np.arange(len(data))
    last_other = np.maximum.accumulate(np.where(slash, -1, index)) if len(data) else index
    first_of_row = np.repeat(np.cumsum(lengths) - lengths, lengths)
    escape = slash & ((index - np.maximum(last_other + 1, first_of_row)) % 2 == 0)
    at = np.flatnonzero(escape)
    octal = at[~slash[at + 1]]
    result, keep = data.copy(), ~escape
    digits = data - ZERO
    result[octal + 1] = (digits[octal + 1] << 6) | (digits[octal + 2] << 3) | digits[octal + 3]
    keep[octal + 2] = keep[octal + 3] = False
    values = null_where_any(from_bytes(result[keep], sum_by_row(keep, lengths), pa.binary()), text)
    return with_errors(values, failing(pc.invert(valid), "invalid input syntax for type bytea"))


# ---------------------------------------------------------------- UTF-8

CONTINUATION_COUNT = np.full(256, -1, np.int8)
"""The number of bytes that follow a first byte; -1 for bytes that cannot be first. Zero is not allowed in text."""
(
    CONTINUATION_COUNT[0x01:0x80],
    CONTINUATION_COUNT[0xC2:0xE0],
    CONTINUATION_COUNT[0xE0:0xF0],
    CONTINUATION_COUNT[0xF0:0xF5],
) = 0, 1, 2, 3
SECOND_BYTE_RANGES = ((0xE0, 0xA0, 0xBF), (0xED, 0x80, 0x9F), (0xF0, 0x90, 0xBF), (0xF4, 0x80, 0x8F))
"""Ranges of the second byte that exclude overlong forms, surrogates and code points beyond U+10FFFF."""


def from_utf8(array: pa.Array) -> Outcome:
    """Bytes decoded as UTF-8."""
    data, offsets = bytes_and_offsets(array)
    if not (data[offsets[0] : offsets[-1]] == 0).any():
        try:
            return Outcome(array.cast(pa.string()))
        except pa.ArrowInvalid:
            pass  # a row is invalid: find out which
    errors = utf8_errors(array)
    clean = array if errors is None else pc.if_else(errors.is_null(), array, pa.scalar(b"", pa.binary()))
    return with_errors(null_where_any(clean.cast(pa.string()), array), errors)


def utf8_errors(array: pa.Array) -> Errors:
    """The errors of rows that are not valid UTF-8, with the first invalid bytes."""
    data, lengths = _packed_bytes(array)
    ends = np.cumsum(lengths)
    wrong = np.flatnonzero(_wrong_bytes(data, np.repeat(ends, lengths)))
    rows, first = np.unique(np.searchsorted(ends, wrong, side="right"), return_index=True)
    if not len(rows):
        return None
    messages = np.full(len(lengths), None, object)
    # Loops over failing rows only, to word the messages.
    for row, at in zip(rows, wrong[first], strict=True):
        ones = 8 - (int(data[at]) ^ 0xFF).bit_length()
        size = ones if 2 <= ones <= 4 else 1
        shown = " ".join(f"0x{byte:02x}" for byte in data[at : min(at + size, ends[row])])
        messages[row] = f'invalid byte sequence for encoding "UTF8": {shown}'
    return pa.array(messages, pa.string())


def _wrong_bytes(data: np.ndarray, row_end: np.ndarray) -> np.ndarray:
    """Marks the first bytes of malformed sequences, and bytes that belong to no sequence."""
    needs = CONTINUATION_COUNT[data]
    follows = (data & CONTINUATION_MASK) == CONTINUATION
    lead = np.flatnonzero(needs > 0)
    good = lead + needs[lead] < row_end[lead]
    for k in (1, 2, 3):
        at = np.minimum(lead + k, len(data) - 1)
        good &= (needs[lead] < k) | follows[at]
    second = data[np.minimum(lead + 1, len(data) - 1)]
    for byte, least, most in SECOND_BYTE_RANGES:
        good &= (data[lead] != byte) | ((second >= least) & (second <= most))
    covered = np.zeros(len(data), bool)
    for k in (1, 2, 3):
        covered[lead[good & (needs[lead] >= k)] + k] = True
    wrong = (needs < 0) & ~covered
    wrong[lead[~good]] = True
    return np.asarray(wrong)
