r"""Casts among text, bytea and uuid.

    'déjà vu'::varchar(4)                        -> 'déjà'     an explicit cast cuts without complaint; it
    is UP '{A0EEBC99-9C0B4EF8BB6D6BB9BD380A11}'::uuid  -> a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
    '\\x00ff'::bytea::text                       -> '\\x00ff'

A uuid is kept as its 16 bytes, and its text has the same order; the other way round it has not, as upper
and lower case are read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.function import NEVER, UP, cast
from tidegate.expr.letters import nulled, opened
from tidegate.expr.outcome import Datum, Outcome, failing, with_errors
from tidegate.expr.spark_form import text_cast, uuid_text
from tidegate.expr.spelling import FROM_HEX, from_escaped, from_hex, to_hex
from tidegate.expr.types import BYTEA, TEXT, UUID, Type

UUID_SIZE = 16
DIGITS = r"[0-9A-Fa-f]{4}(?:-?[0-9A-Fa-f]{4}){7}"
"""Eight times four digits, with a hyphen between any two groups of four or none."""


@cast(TEXT, TEXT, errors=NEVER, trend=(UP,), stable=True, spark=text_cast("{0}"))
def text_to_text(a: Datum, out: Type) -> pa.Array:
    """Cut to the length of varchar(n); unchanged for text."""
    return a if out.length is None else pc.utf8_slice_codeunits(a, 0, out.length)


@cast(BYTEA, TEXT, errors=NEVER, trend=(UP,), stable=True, spark=text_cast(r"concat('\\x', lower(hex({0})))"))
def bytea_to_text(a: Datum, out: Type) -> pa.Array:
    """The bytes in hexadecimal behind a backslash and x."""
    return text_to_text(pc.binary_join_element_wise("\\x", to_hex(a), ""), out)


@cast(TEXT, BYTEA, stable=True)
def text_to_bytea(a: Datum) -> Outcome:
    r"""Bytes of \x and hexadecimal digits, or of text with \ooo and \\ as escapes."""
    hexadecimal = pc.starts_with(a, "\\x")
    if not pc.any(hexadecimal, min_count=0).as_py():
        return from_escaped(a)
    digits = from_hex(pc.if_else(hexadecimal, pc.utf8_slice_codeunits(a, 2), ""))
    escaped = from_escaped(pc.if_else(hexadecimal, "", a))
    values = pc.if_else(hexadecimal, digits.values, escaped.values)
    errors = [e for e in (digits.errors, escaped.errors) if e is not None]
    return with_errors(values, pc.coalesce(*errors) if errors else None)


@cast(UUID, TEXT, errors=NEVER, trend=(UP,), stable=True, spark=uuid_text)
def uuid_to_text(a: Datum, out: Type) -> pa.Array:
    """The uuid in lower case with its four hyphens."""
    digits = to_hex(a.cast(pa.binary()))
    parts = [
        pc.utf8_slice_codeunits(digits, i, j) for i, j in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    ]
    return text_to_text(pc.binary_join_element_wise(*parts, "-"), out)


@cast(TEXT, UUID, stable=True)
def text_to_uuid(a: Datum) -> Outcome:
    """A uuid in any of PostgreSQL's spellings: either case, hyphens after any four digits, braces."""
    valid = pc.match_substring_regex(a, rf"\A(?:{DIGITS}|\{{{DIGITS}\}})\z")
    plain = pc.replace_substring_regex(pc.if_else(valid, a, "0" * 2 * UUID_SIZE), "[{}-]", "")
    data, offsets = opened(pc.fill_null(plain, "0" * 2 * UUID_SIZE))
    nibbles = FROM_HEX[data[offsets[0] : offsets[-1]]]
    packed = np.ascontiguousarray((nibbles[0::2] << 4) | nibbles[1::2])
    values = pa.Array.from_buffers(pa.binary(UUID_SIZE), len(a), [None, pa.py_buffer(packed)])
    message = pc.binary_join_element_wise('invalid input syntax for type uuid: "', a, '"', "")
    return with_errors(nulled(values, a), failing(pc.invert(valid), message))
