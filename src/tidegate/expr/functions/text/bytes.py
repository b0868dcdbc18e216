r"""Bytes: length, slices, hashes, and their spellings as text (hex, base64, escape).

    encode('\x00ff', 'hex')        -> '00ff'     UP: the order of the digits is the order of the bytes
    convert_from('\xc3a9', 'utf8') -> 'é'        UP; fails where bytes are no UTF-8
    md5('a')                       -> '0cc175b9c0f1b6a831c399e269772661'

Bytes are ordered byte by byte, and so is text in UTF-8: `convert_to` and `convert_from` keep the order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.cancel import checked
from tidegate.expr.duck import duck
from tidegate.expr.function import MODERATE, NEVER, UP, scalar
from tidegate.expr.functions.pattern import all_failed, each_constant
from tidegate.expr.functions.text import never_negative
from tidegate.expr.letters import (
    code_points,
    from_code_points,
    glued,
    nulled,
    opened,
    slice_bytes,
)
from tidegate.expr.outcome import Datum, Outcome, failing, length, spread, to_numpy, with_errors
from tidegate.expr.prefix import at_least, claims, constant
from tidegate.expr.specs import NO, Specs
from tidegate.expr.spelling import (
    from_base64,
    from_escaped,
    from_hex,
    from_utf8,
    to_base64,
    to_escaped,
    to_hex,
)
from tidegate.expr.transfer import by_trend
from tidegate.expr.types import BYTEA, INT4, TEXT, Type

END = np.array(2**31)

# ---------------------------------------------------------------- joining, measuring, cutting


@scalar("||", (BYTEA, BYTEA), BYTEA, errors=NEVER, trend=(None, UP), stable=True, spark="concat({0}, {1})")
def join_bytes(a: Datum, b: Datum) -> pa.Array:
    """Both runs of bytes, one behind the other."""
    return pc.binary_join_element_wise(a, b, pa.scalar(b""))


def _count(kernel: Callable[..., pa.Array]) -> Callable[..., Specs]:
    return lambda out, a: at_least(claims(kernel), 0, out, (a,))


def _bits(a: Datum) -> pa.Array:
    return pc.multiply(pc.binary_length(a), pa.scalar(8, pa.int32()))


@scalar(
    "length",
    (BYTEA,),
    INT4,
    errors=NEVER,
    transfer=_count(pc.binary_length),
    stable=True,
    spark="octet_length({0})",
)
@scalar(
    "octet_length",
    (BYTEA,),
    INT4,
    errors=NEVER,
    transfer=_count(pc.binary_length),
    stable=True,
    spark="octet_length({0})",
)
def bytes_length(a: Datum) -> pa.Array:
    """How many bytes there are."""
    return pc.binary_length(a)


@scalar(
    "bit_length", (BYTEA,), INT4, errors=NEVER, transfer=_count(_bits), stable=True, spark="bit_length({0})"
)
def bytes_bit_length(a: Datum) -> pa.Array:
    """How many bits there are."""
    return _bits(a)


def _cut(a: Datum, start: np.ndarray, stop: np.ndarray, *args: Datum) -> pa.Array:
    n = length(*args)
    return nulled(slice_bytes(spread(a, n), np.broadcast_to(start, n), np.broadcast_to(stop, n)), *args)


def _wide(n: Datum) -> np.ndarray:
    return np.asarray(to_numpy(n)).astype(np.int64)


@scalar("substring", (BYTEA, INT4), BYTEA, errors=NEVER, stable=True)
@scalar("substr", (BYTEA, INT4), BYTEA, errors=NEVER, stable=True)
def bytes_from(a: Datum, start: Datum) -> pa.Array:
    """The bytes from a position on, the first being 1."""
    return _cut(a, _wide(start) - 1, END, a, start)


def substring_transfer(out: Type, a: Specs, start: Specs, size: Specs) -> Specs:
    """What substring gives over containers: it fails for a negative length alone, and is UP from 1 on."""
    first = constant(start)
    up = UP if first is not None and first.as_py() <= 1 else None
    base = by_trend(claims(bytes_substring, (up, None, UP)), (a, start, size), out)
    return base.may_fail(~never_negative(size) & ~size.empty)


@scalar("substring", (BYTEA, INT4, INT4), BYTEA, transfer=substring_transfer, stable=True)
@scalar("substr", (BYTEA, INT4, INT4), BYTEA, transfer=substring_transfer, stable=True)
def bytes_substring(a: Datum, start: Datum, size: Datum) -> Outcome:
    """So many bytes from a position on; positions before 1 count, but hold nothing."""
    first, count = _wide(start), _wide(size)
    values = _cut(a, np.maximum(first - 1, 0), np.maximum(first - 1 + count, 0), a, start, size)
    failed = failing(np.broadcast_to(count < 0, len(values)), "negative substring length not allowed")
    return with_errors(values, failed)


@scalar("get_byte", (BYTEA, INT4), INT4, stable=True)
def get_byte(a: Datum, at: Datum) -> Outcome:
    """The byte at a position, the first being 0."""
    n = length(a, at)
    data, offsets = opened(spread(a, n))
    index, sizes = np.broadcast_to(_wide(at), n), np.diff(offsets)
    inside = (index >= 0) & (index < sizes)
    where = np.where(inside, offsets[:-1] + index, 0)
    found = data[where] if len(data) else np.zeros(n, np.uint8)
    values = nulled(pa.array(found, pa.int32()), a, at)
    last = pa.array(sizes - 1).cast(pa.string())
    number = pa.array(index).cast(pa.string())
    message = pc.binary_join_element_wise("index ", number, " out of valid range, 0..", last, "")
    return with_errors(values, failing(~inside, message))


# ---------------------------------------------------------------- hashes


@scalar("md5", (TEXT,), TEXT, errors=NEVER, cost=MODERATE, stable=True, spark="md5(CAST({0} AS binary))")
@scalar("md5", (BYTEA,), TEXT, errors=NEVER, cost=MODERATE, stable=True, spark="md5({0})")
def md5(a: Datum) -> pa.Array:
    """The MD5 hash as 32 hexadecimal digits; of text, that of its UTF-8."""
    return duck("md5(a)", pa.string(), a=a)


@scalar("sha256", (BYTEA,), BYTEA, errors=NEVER, cost=MODERATE, stable=True, spark="unhex(sha2({0}, 256))")
def sha256(a: Datum) -> pa.Array:
    """The SHA-256 hash, 32 bytes."""
    return duck("unhex(sha256(a))", pa.binary(), a=a)


def _declare_hash(name: str, doc: str) -> None:
    """A hash that neither Arrow nor DuckDB has.

    Row by row: `hashlib` takes some 0.7 µs for a short value, and 80 rounds over all rows in numpy take
    longer.
    """

    def kernel(a: Datum) -> pa.Array:
        digest = getattr(hashlib, name)
        return pa.array(
            [None if v is None else digest(v).digest() for v in checked(a.to_pylist())], pa.binary()
        )

    scalar(name, (BYTEA,), BYTEA, errors=NEVER, cost=MODERATE, stable=True, doc=doc)(kernel)


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
        return all_failed(a, f'unrecognized encoding: "{form.as_py()}"', pa.string())
    return Outcome(encoder(a))


def encode_transfer(out: Type, a: Specs, form: Specs) -> Specs:
    """What encode gives over containers: hex keeps the order; a known form never fails."""
    name = constant(form)
    lowered = None if name is None else name.as_py().lower()
    base = by_trend(claims(encode, (UP if lowered == "hex" else None, None)), (a, form), out)
    return base.may_fail(NO if lowered in ENCODERS else ~form.empty)


@scalar("encode", (BYTEA, TEXT), TEXT, transfer=encode_transfer, cost=MODERATE, stable=True)
def encode(a: Datum, form: Datum) -> Outcome:
    """Bytes as text in the form hex, base64 or escape."""
    return each_constant(_encode_one, pa.string(), a, form)


def _decode_one(a: pa.Array, form: pa.Scalar) -> Outcome:
    decoder = DECODERS.get(form.as_py().lower())
    if decoder is None:
        return all_failed(a, f'unrecognized encoding: "{form.as_py()}"', pa.binary())
    return decoder(a)


@scalar("decode", (TEXT, TEXT), BYTEA, cost=MODERATE, stable=True)
def decode(a: Datum, form: Datum) -> Outcome:
    """Bytes from text in the form hex, base64 or escape."""
    return each_constant(_decode_one, pa.binary(), a, form)


# ---------------------------------------------------------------- character sets

UTF8, LATIN1 = ("utf8", "unicode"), ("latin1", "iso88591")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _convert_from_one(a: pa.Array, name: pa.Scalar) -> Outcome:
    wanted = _plain(name.as_py())
    if wanted in UTF8:
        return from_utf8(a)
    if wanted not in LATIN1:
        return all_failed(a, f'invalid source encoding name "{name.as_py()}"', pa.string())
    data, offsets = opened(a)
    lengths = np.diff(offsets)
    points = data[offsets[0] : offsets[-1]].astype(np.uint32)
    zero = pc.match_substring(glued((points == 0).astype(np.uint8), lengths, pa.string()), "\x01")
    values = nulled(from_code_points(points, lengths), a)
    return with_errors(values, failing(zero, 'invalid byte sequence for encoding "LATIN1": 0x00'))


@scalar("convert_from", (BYTEA, TEXT), TEXT, trend=(UP, None), cost=MODERATE, stable=True)
def convert_from(a: Datum, encoding: Datum) -> Outcome:
    """Bytes read as text in a character set: UTF8 or LATIN1. Both keep the order."""
    return each_constant(_convert_from_one, pa.string(), a, encoding)


def _convert_to_one(a: pa.Array, name: pa.Scalar) -> Outcome:
    wanted = _plain(name.as_py())
    if wanted in UTF8:
        return Outcome(a.cast(pa.binary()))
    if wanted not in LATIN1:
        return all_failed(a, f'invalid destination encoding name "{name.as_py()}"', pa.binary())
    points, counts = code_points(a)
    values = nulled(glued(np.minimum(points, 255), counts, pa.binary()), a)
    foreign = pc.struct_field(pc.extract_regex(a, r"(?P<bad>[^\x00-\x{ff}])"), [0])
    spelled = pc.replace_substring_regex(to_hex(foreign.cast(pa.binary())), "(..)", " 0x\\1")
    message = pc.binary_join_element_wise(
        "character with byte sequence",
        spelled,
        ' in encoding "UTF8" has no equivalent in encoding "LATIN1"',
        "",
    )
    return with_errors(values, failing(foreign.is_valid(), message))


def convert_to_transfer(out: Type, a: Specs, encoding: Specs) -> Specs:
    """convert_to over containers: UTF-8 keeps the order and never fails."""
    name = constant(encoding)
    sure = name is not None and _plain(name.as_py()) in UTF8
    return by_trend(claims(convert_to, (UP, None)), (a, encoding), out).may_fail(
        NO if sure else ~encoding.empty
    )


@scalar("convert_to", (TEXT, TEXT), BYTEA, transfer=convert_to_transfer, stable=True)
def convert_to(a: Datum, encoding: Datum) -> Outcome:
    """The bytes of a text in a character set: UTF8 or LATIN1."""
    return each_constant(_convert_to_one, pa.binary(), a, encoding)
