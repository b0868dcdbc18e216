r"""Casts among text, bytea and uuid.

    'déjà vu'::varchar(4)                          -> 'déjà'     an explicit cast cuts without an error; it is UP
    '{A0EEBC99-9C0B4EF8BB6D6BB9BD380A11}'::uuid    -> a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
    '\x00ff'::bytea::text                          -> '\x00ff'

A uuid is stored as its 16 bytes, and its text has the same order. The cast from text does not keep the order, since
it accepts upper and lower case.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.function import NEVER, UP, cast
from tidegate.expr.model.outcome import Datum, Outcome, failing, null_where_any, with_errors
from tidegate.expr.model.types import BYTEA, TEXT, UUID, Type
from tidegate.expr.primitives.byte_encoding import FROM_HEX, from_escaped, from_hex, to_hex
from tidegate.expr.primitives.utf8 import bytes_and_offsets
from tidegate.expr.spark_sql.forms import text_cast, uuid_text

UUID_SIZE = 16
DIGITS = r"[0-9A-Fa-f]{4}(?:-?[0-9A-Fa-f]{4}){7}"
"""Eight times four digits, with a hyphen between any two groups of four or none."""


def fit_varchar(texts: Datum, out: Type) -> pa.Array:
    """Texts cut to the length of varchar(n); unchanged for text."""
    return texts if out.length is None else pc.utf8_slice_codeunits(texts, 0, out.length)


@cast(TEXT, TEXT, errors=NEVER, trend=(UP,), stable=True, spark=text_cast("{0}"))
def text_to_text(a: Datum, out: Type) -> pa.Array:
    """The text cut to the length of varchar(n); unchanged for text."""
    return fit_varchar(a, out)


@cast(BYTEA, TEXT, errors=NEVER, trend=(UP,), stable=True, spark=text_cast(r"concat('\\x', lower(hex({0})))"))
def bytea_to_text(a: Datum, out: Type) -> pa.Array:
    r"""The bytes in hexadecimal, after `\x`."""
    return text_to_text(pc.binary_join_element_wise("\\x", to_hex(a), ""), out)


@cast(TEXT, BYTEA, stable=True)
def text_to_bytea(a: Datum) -> Outcome:
    r"""The bytes of `\x` and hexadecimal digits, or of text with the escapes `\ooo` and `\\`."""
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
    """A uuid in any form that PostgreSQL accepts: either case, hyphens after any four digits, braces."""
    valid = pc.match_substring_regex(a, rf"\A(?:{DIGITS}|\{{{DIGITS}\}})\z")
    plain = pc.replace_substring_regex(pc.if_else(valid, a, "0" * 2 * UUID_SIZE), "[{}-]", "")
    data, offsets = bytes_and_offsets(pc.fill_null(plain, "0" * 2 * UUID_SIZE))
    nibbles = FROM_HEX[data[offsets[0] : offsets[-1]]]
    packed = np.ascontiguousarray((nibbles[0::2] << 4) | nibbles[1::2])
    values = pa.Array.from_buffers(pa.binary(UUID_SIZE), len(a), [None, pa.py_buffer(packed)])
    message = pc.binary_join_element_wise('invalid input syntax for type uuid: "', a, '"', "")
    return with_errors(null_where_any(values, a), failing(pc.invert(valid), message))
