r"""Bytes spelled as text and read back, for all rows at once: hex, base64, escape, and UTF-8 itself.

Each codec is a table lookup over the one buffer of bytes that an array has. What is no valid spelling is
found by a regular expression first, and worded as PostgreSQL does; the rows that are valid go through the
table.

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

from tidegate.expr.duck import duck
from tidegate.expr.letters import CONTINUATION, CONTINUATION_MASK, glued, nulled, opened, slice_bytes, sums
from tidegate.expr.outcome import Errors, Outcome, failing, with_errors

HEX_PAIRS = np.frombuffer(bytes(range(256)).hex().encode(), "<u2")
"""The two digits of each byte."""
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
LINE = 76
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


def _packed(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of all rows without gaps, and the length of each row."""
    data, offsets = opened(array)
    return data[offsets[0] : offsets[-1]], np.diff(offsets)


def _valid_or_empty(text: pa.Array, valid: pa.Array) -> pa.Array:
    return pc.if_else(valid, text, "")


# ---------------------------------------------------------------- hex


def to_hex(array: pa.Array) -> pa.Array:
    """Two digits a byte."""
    data, lengths = _packed(array)
    return nulled(glued(HEX_PAIRS[data].view(np.uint8), lengths * 2, pa.string()), array)


def from_hex(text: pa.Array) -> Outcome:
    """Bytes of pairs of digits; blanks between the pairs are skipped."""
    valid = pc.match_substring_regex(text, rf"\A{BLANK}*(?:[0-9A-Fa-f]{{2}}{BLANK}*)*\z")
    digits = pc.replace_substring_regex(_valid_or_empty(text, valid), BLANK, "")
    data, lengths = _packed(digits)
    nibbles = FROM_HEX[data]
    values = nulled(glued((nibbles[0::2] << 4) | nibbles[1::2], lengths // 2, pa.binary()), text)
    if not pc.any(pc.invert(valid), min_count=0).as_py():
        return Outcome(values)
    wrong = pc.extract_regex(text, rf"\A(?:{BLANK}|[0-9A-Fa-f]{{2}})*[0-9A-Fa-f]?(?P<bad>(?s:[^0-9A-Fa-f]))")
    digit = pc.binary_join_element_wise('invalid hexadecimal digit: "', pc.struct_field(wrong, [0]), '"', "")
    message = pc.coalesce(digit, "invalid hexadecimal data: odd number of digits")
    return with_errors(values, failing(pc.invert(valid), message))


# ---------------------------------------------------------------- base64


def to_base64(array: pa.Array) -> pa.Array:
    """Four letters for three bytes, in lines of 76."""
    text = duck("to_base64(a)", pa.string(), a=array)
    if pc.any(pc.greater_equal(pc.binary_length(text), LINE), min_count=0).as_py():
        # PostgreSQL ends a line when 76 letters of whole groups are written, even if nothing follows.
        text = pc.replace_substring_regex(text, f"([^=]{{{LINE}}})", "\\1\n")
    return text


def from_base64(text: pa.Array) -> Outcome:
    """Bytes of groups of four letters, the last filled with =; blanks are skipped."""
    letters = pc.replace_substring_regex(text, BLANK, "")
    group = "[A-Za-z0-9+/]"
    valid = pc.match_substring_regex(letters, rf"\A(?:{group}{{4}})*(?:{group}{{2}}==|{group}{{3}}=)?\z")
    data, lengths = _packed(_valid_or_empty(letters, valid))
    padding = sums(data == EQUALS, lengths)
    quads = FROM_BASE64[data].astype(np.uint32).reshape(-1, 4)
    bits = (quads[:, 0] << 18) | (quads[:, 1] << 12) | (quads[:, 2] << 6) | quads[:, 3]
    whole = np.stack([bits >> 16, (bits >> 8) & 255, bits & 255], axis=1).astype(np.uint8).reshape(-1)
    filled = glued(whole, lengths // 4 * 3, pa.binary())
    values = nulled(slice_bytes(filled, np.zeros(len(lengths), np.int64), lengths // 4 * 3 - padding), text)
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
    """Bytes as ASCII: a backslash doubled, zero and what is above 127 as three octal digits behind one."""
    data, lengths = _packed(array)
    octal, doubled = (data == 0) | (data >= 128), data == BACKSLASH
    size = np.where(octal, 4, np.where(doubled, 2, 1))
    at = np.cumsum(size) - size
    out = np.zeros(int(size.sum()), np.uint8)
    out[at] = np.where(octal, BACKSLASH, data)
    out[at[doubled] + 1] = BACKSLASH
    for k, shift in ((1, 6), (2, 3), (3, 0)):
        out[at[octal] + k] = ZERO + ((data[octal] >> shift) & 7)
    return nulled(glued(out, sums(size, lengths), pa.string()), array)


def from_escaped(text: pa.Array) -> Outcome:
    """Bytes of text in which a backslash stands before another, or before three octal digits."""
    valid = pc.match_substring_regex(text, r"(?s)\A(?:[^\\]|\\\\|\\[0-3][0-7][0-7])*\z")
    data, lengths = _packed(_valid_or_empty(text, valid))
    # In a run of backslashes every other one is an escape; what follows the last escape of a run may be
    # digits.
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
    values = nulled(glued(result[keep], sums(keep, lengths), pa.binary()), text)
    return with_errors(values, failing(pc.invert(valid), "invalid input syntax for type bytea"))


# ---------------------------------------------------------------- UTF-8

NEEDS = np.full(256, -1, np.int8)
"""Bytes that must follow a first byte; -1 for what is none. Zero is no character of a text."""
NEEDS[0x01:0x80], NEEDS[0xC2:0xE0], NEEDS[0xE0:0xF0], NEEDS[0xF0:0xF5] = 0, 1, 2, 3
SECOND = ((0xE0, 0xA0, 0xBF), (0xED, 0x80, 0x9F), (0xF0, 0x90, 0xBF), (0xF4, 0x80, 0x8F))
"""First bytes whose second is limited: against long spellings, surrogates, and what is beyond U+10FFFF."""


def from_utf8(array: pa.Array) -> Outcome:
    """Bytes as the text that they are in UTF-8."""
    data, offsets = opened(array)
    if not (data[offsets[0] : offsets[-1]] == 0).any():
        try:
            return Outcome(array.cast(pa.string()))
        except pa.ArrowInvalid:
            pass  # some row is wrong: find out which
    errors = utf8_errors(array)
    clean = array if errors is None else pc.if_else(errors.is_null(), array, pa.scalar(b"", pa.binary()))
    return with_errors(nulled(clean.cast(pa.string()), array), errors)


def utf8_errors(array: pa.Array) -> Errors:
    """Which rows are no valid UTF-8, with the first bytes that are wrong."""
    data, lengths = _packed(array)
    ends = np.cumsum(lengths)
    wrong = np.flatnonzero(_wrong_bytes(data, np.repeat(ends, lengths)))
    rows, first = np.unique(np.searchsorted(ends, wrong, side="right"), return_index=True)
    if not len(rows):
        return None
    messages = np.full(len(lengths), None, object)
    # A loop over the rows that fail, which only words what is wrong with each.
    for row, at in zip(rows, wrong[first], strict=True):
        ones = 8 - (int(data[at]) ^ 0xFF).bit_length()
        size = ones if 2 <= ones <= 4 else 1
        shown = " ".join(f"0x{byte:02x}" for byte in data[at : min(at + size, ends[row])])
        messages[row] = f'invalid byte sequence for encoding "UTF8": {shown}'
    return pa.array(messages, pa.string())


def _wrong_bytes(data: np.ndarray, row_end: np.ndarray) -> np.ndarray:
    """First bytes of sequences that are not well formed, and bytes that belong to none."""
    needs = NEEDS[data]
    follows = (data & CONTINUATION_MASK) == CONTINUATION
    lead = np.flatnonzero(needs > 0)
    good = lead + needs[lead] < row_end[lead]
    for k in (1, 2, 3):
        at = np.minimum(lead + k, len(data) - 1)
        good &= (needs[lead] < k) | follows[at]
    second = data[np.minimum(lead + 1, len(data) - 1)]
    for byte, least, most in SECOND:
        good &= (data[lead] != byte) | ((second >= least) & (second <= most))
    covered = np.zeros(len(data), bool)
    for k in (1, 2, 3):
        covered[lead[good & (needs[lead] >= k)] + k] = True
    wrong = (needs < 0) & ~covered
    wrong[lead[~good]] = True
    return np.asarray(wrong)
