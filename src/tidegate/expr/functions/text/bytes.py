r"""Bytes: length, slices, hashes, and encodings as text (hex, base64, escape).

    encode('\x00ff', 'hex')        -> '00ff'     UP: the order of the digits is the order of the bytes
    convert_from('\xc3a9', 'utf8') -> 'é'        UP; fails where bytes are no UTF-8
    md5('a')                       -> '0cc175b9c0f1b6a831c399e269772661'

Bytes are ordered byte by byte, and so is text in UTF-8: `convert_to` and `convert_from` keep the order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import constant
from tidegate.expr.domain.specs import NO, Specs
from tidegate.expr.domain.text_prefix import non_negative
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.functions.text.pattern import fail_valid_rows, run_per_constant
from tidegate.expr.functions.text.position import never_negative, to_int64
from tidegate.expr.model.function import MODERATE, NEVER, UP, BoundTransfer, Function, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    length,
    null_where_any,
    spread,
    with_errors,
)
from tidegate.expr.model.types import BYTEA, INT4, TEXT, Type
from tidegate.expr.primitives.byte_encoding import (
    from_base64,
    from_escaped,
    from_hex,
    from_utf8,
    to_base64,
    to_escaped,
    to_hex,
)
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval
from tidegate.expr.primitives.utf8 import (
    bytes_and_offsets,
    code_points,
    from_bytes,
    from_code_points,
    slice_bytes,
)

END = np.array(2**31)

# ---------------------------------------------------------------- joining, measuring, cutting


@scalar("||", (BYTEA, BYTEA), BYTEA, errors=NEVER, trend=(None, UP), stable=True, spark="concat({0}, {1})")
def join_bytes(a: Datum, b: Datum) -> pa.Array:
    """Both byte strings concatenated."""
    return pc.binary_join_element_wise(a, b, pa.scalar(b""))


_measure = partial(scalar, params=(BYTEA,), result=INT4, errors=NEVER, transfer=non_negative, stable=True)


@_measure("length", aliases=("octet_length",), spark="octet_length({0})")
def bytes_length(a: Datum) -> pa.Array:
    """The number of bytes."""
    return pc.binary_length(a)


@_measure("bit_length", spark="bit_length({0})")
def bytes_bit_length(a: Datum) -> pa.Array:
    """The number of bits."""
    return pc.multiply(pc.binary_length(a), pa.scalar(8, pa.int32()))


def _cut(a: Datum, start: np.ndarray, stop: np.ndarray, *args: Datum) -> pa.Array:
    n = length(*args)
    return null_where_any(
        slice_bytes(spread(a, n), np.broadcast_to(start, n), np.broadcast_to(stop, n)), *args
    )


@scalar("substring", (BYTEA, INT4), BYTEA, aliases=("substr",), errors=NEVER, stable=True)
def bytes_from(a: Datum, start: Datum) -> pa.Array:
    """The bytes from a position on; the first position is 1."""
    return _cut(a, to_int64(start) - 1, END, a, start)


@BoundTransfer
def substring_transfer(function: Function, out: Type, a: Specs, start: Specs, size: Specs) -> Specs:
    """Substring over containers: fails only for a negative length, UP if it starts at 1 or before."""
    first = constant(start)
    up = UP if first is not None and first.as_py() <= 1 else None
    base = by_trend(function.claiming((up, None, UP)), (a, start, size), out)
    return base.may_fail(~never_negative(size) & ~size.empty)


@scalar(
    "substring", (BYTEA, INT4, INT4), BYTEA, aliases=("substr",), transfer=substring_transfer, stable=True
)
def bytes_substring(a: Datum, start: Datum, size: Datum) -> Outcome:
    """A number of bytes from a position on; positions before 1 count but are empty."""
    first, count = to_int64(start), to_int64(size)
    values = _cut(a, np.maximum(first - 1, 0), np.maximum(first - 1 + count, 0), a, start, size)
    failed = failing(np.broadcast_to(count < 0, len(values)), "negative substring length not allowed")
    return with_errors(values, failed)


@scalar("get_byte", (BYTEA, INT4), INT4, stable=True)
def get_byte(a: Datum, at: Datum) -> Outcome:
    """The byte at a position; the first position is 0."""
    n = length(a, at)
    data, offsets = bytes_and_offsets(spread(a, n))
    index, sizes = np.broadcast_to(to_int64(at), n), np.diff(offsets)
    inside = (index >= 0) & (index < sizes)
    where = np.where(inside, offsets[:-1] + index, 0)
    byte_values = data[where] if len(data) else np.zeros(n, np.uint8)
    values = null_where_any(pa.array(byte_values, pa.int32()), a, at)
    last = pa.array(sizes - 1).cast(pa.string())
    number = pa.array(index).cast(pa.string())
    message = pc.binary_join_element_wise("index ", number, " out of valid range, 0..", last, "")
    return with_errors(values, failing(~inside, message))


# ---------------------------------------------------------------- hashes


_hashes = partial(scalar, errors=NEVER, cost=MODERATE, stable=True)


@_hashes("md5", (TEXT,), TEXT, spark="md5(CAST({0} AS binary))")
@_hashes("md5", (BYTEA,), TEXT, spark="md5({0})")
def md5(a: Datum) -> pa.Array:
    """The MD5 hash as 32 hexadecimal digits; text is hashed as UTF-8."""
    return duckdb_eval("md5(a)", pa.string(), a=a)


@_hashes("sha256", (BYTEA,), BYTEA, spark="unhex(sha2({0}, 256))")
def sha256(a: Datum) -> pa.Array:
    """The SHA-256 hash, 32 bytes."""
    return duckdb_eval("unhex(sha256(a))", pa.binary(), a=a)


def _declare_hash(name: str, doc: str) -> None:
    """Declares a hash that neither Arrow nor DuckDB has.

    Row by row: `hashlib` takes some 0.7 µs for a short value, and 80 rounds over all rows in numpy take
    longer.
    """

    def kernel(a: Datum) -> pa.Array:
        digest = getattr(hashlib, name)
        return pa.array(
            [None if v is None else digest(v).digest() for v in checked(a.to_pylist())], pa.binary()
        )

    _hashes(name, (BYTEA,), BYTEA, doc=doc)(kernel)


_declare_hash("sha224", "The SHA-224 hash, 28 bytes.")
_declare_hash("sha384", "The SHA-384 hash, 48 bytes.")
_declare_hash("sha512", "The SHA-512 hash, 64 bytes.")


# ---------------------------------------------------------------- spelling as text

ENCODERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "hex": to_hex,
    "base64": to_base64,
    "escape": to_escaped,
}
DECODERS: dict[str, Callable[[pa.Array], Outcome]] = {
    "hex": from_hex,
    "base64": from_base64,
    "escape": from_escaped,
}


def _encode_one(a: pa.Array, form: pa.Scalar) -> Outcome:
    encoder = ENCODERS.get(form.as_py().lower())
    if encoder is None:
        return fail_valid_rows(a, f'unrecognized encoding: "{form.as_py()}"', pa.string())
    return Outcome(encoder(a))


@BoundTransfer
def encode_transfer(function: Function, out: Type, a: Specs, form: Specs) -> Specs:
    """Encode over containers: hex keeps the order; a known format never fails."""
    name = constant(form)
    lowered = None if name is None else name.as_py().lower()
    base = by_trend(function.claiming((UP if lowered == "hex" else None, None)), (a, form), out)
    return base.may_fail(NO if lowered in ENCODERS else ~form.empty)


@scalar("encode", (BYTEA, TEXT), TEXT, transfer=encode_transfer, cost=MODERATE, stable=True)
def encode(a: Datum, form: Datum) -> Outcome:
    """Bytes as text in the format hex, base64 or escape."""
    return run_per_constant(_encode_one, pa.string(), a, form)


def _decode_one(a: pa.Array, form: pa.Scalar) -> Outcome:
    decoder = DECODERS.get(form.as_py().lower())
    if decoder is None:
        return fail_valid_rows(a, f'unrecognized encoding: "{form.as_py()}"', pa.binary())
    return decoder(a)


@scalar("decode", (TEXT, TEXT), BYTEA, cost=MODERATE, stable=True)
def decode(a: Datum, form: Datum) -> Outcome:
    """Bytes from text in the format hex, base64 or escape."""
    return run_per_constant(_decode_one, pa.binary(), a, form)


# ---------------------------------------------------------------- character sets

UTF8, LATIN1 = ("utf8", "unicode"), ("latin1", "iso88591")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _convert_from_one(a: pa.Array, name: pa.Scalar) -> Outcome:
    charset = _plain(name.as_py())
    if charset in UTF8:
        return from_utf8(a)
    if charset not in LATIN1:
        return fail_valid_rows(a, f'invalid source encoding name "{name.as_py()}"', pa.string())
    data, offsets = bytes_and_offsets(a)
    lengths = np.diff(offsets)
    points = data[offsets[0] : offsets[-1]].astype(np.uint32)
    zero = pc.match_substring(from_bytes((points == 0).astype(np.uint8), lengths, pa.string()), "\x01")
    values = null_where_any(from_code_points(points, lengths), a)
    return with_errors(values, failing(zero, 'invalid byte sequence for encoding "LATIN1": 0x00'))


@scalar("convert_from", (BYTEA, TEXT), TEXT, trend=(UP, None), cost=MODERATE, stable=True)
def convert_from(a: Datum, encoding: Datum) -> Outcome:
    """Bytes decoded to text by a character set: UTF8 or LATIN1. Both keep the order."""
    return run_per_constant(_convert_from_one, pa.string(), a, encoding)


def _convert_to_one(a: pa.Array, name: pa.Scalar) -> Outcome:
    charset = _plain(name.as_py())
    if charset in UTF8:
        return Outcome(a.cast(pa.binary()))
    if charset not in LATIN1:
        return fail_valid_rows(a, f'invalid destination encoding name "{name.as_py()}"', pa.binary())
    points, counts = code_points(a)
    values = null_where_any(from_bytes(np.minimum(points, 255), counts, pa.binary()), a)
    foreign = pc.struct_field(pc.extract_regex(a, r"(?P<bad>[^\x00-\x{ff}])"), [0])
    spelled = pc.replace_substring_regex(to_hex(foreign.cast(pa.binary())), "(..)", " 0x\\1")
    message = pc.binary_join_element_wise(
        "character with byte sequence",
        spelled,
        ' in encoding "UTF8" has no equivalent in encoding "LATIN1"',
        "",
    )
    return with_errors(values, failing(foreign.is_valid(), message))


@BoundTransfer
def convert_to_transfer(function: Function, out: Type, a: Specs, encoding: Specs) -> Specs:
    """convert_to over containers: UTF-8 keeps the order and never fails."""
    name = constant(encoding)
    sure = name is not None and _plain(name.as_py()) in UTF8
    base = by_trend(function.claiming((UP, None)), (a, encoding), out)
    return base.may_fail(NO if sure else ~encoding.empty)


@scalar("convert_to", (TEXT, TEXT), BYTEA, transfer=convert_to_transfer, stable=True)
def convert_to(a: Datum, encoding: Datum) -> Outcome:
    """The bytes of a text in a character set: UTF8 or LATIN1."""
    return run_per_constant(_convert_to_one, pa.binary(), a, encoding)
