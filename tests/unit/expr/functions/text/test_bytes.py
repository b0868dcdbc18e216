"""Bytes and their spellings, casts among text, bytea and uuid: PostgreSQL's answers, and ranges."""

from __future__ import annotations

import random
import uuid

import pyarrow as pa
import pytest

from tests.unit.expr.functions.text_cases import assert_sound, boxes, interpreted, outcomes, spelled
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs
from tidegate.expr.model.build import call, cast, literal, text
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import BYTEA, INT4, TEXT, UUID, Type, parse_type
from tidegate.expr.primitives.byte_encoding import (
    from_base64,
    from_escaped,
    from_hex,
    from_utf8,
    to_base64,
    to_escaped,
    to_hex,
)

B, X = Column(0, BYTEA), Column(0, TEXT)

SHA512_OF_ABC = (
    "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
)
NO_LATIN1 = (
    'character with byte sequence 0xe6 0x97 0xa5 in encoding "UTF8" has no equivalent in encoding "LATIN1"'
)

POSTGRES = [
    ("||", (b"a", b"\x00"), ("value", b"a\x00")),
    ("length", (b"\xc3\xa9",), ("value", 2)),
    ("octet_length", (b"abc",), ("value", 3)),
    ("bit_length", (b"abc",), ("value", 24)),
    ("substring", (b"abcdef", 2, 3), ("value", b"bcd")),
    ("substring", (b"abc", 0, 2), ("value", b"a")),
    ("substr", (b"abc", 2), ("value", b"bc")),
    ("substring", (b"abc", 1, -1), ("error", "negative substring length not allowed")),
    ("get_byte", (b"\x01\xff", 1), ("value", 255)),
    ("get_byte", (b"\x01", 1), ("error", "index 1 out of valid range, 0..0")),
    ("get_byte", (b"", 0), ("error", "index 0 out of valid range, 0..-1")),
    ("md5", ("é",), ("value", "66ddcd97cfdeabb2f6fb8a999b4bc76f")),
    ("md5", (b"",), ("value", "d41d8cd98f00b204e9800998ecf8427e")),
    (
        "sha224",
        (b"abc",),
        ("value", b'#\t}"4\x05\xd8"\x86B\xa4w\xbd\xa2U\xb3*\xad\xbc\xe4\xbd\xa0\xb3\xf7\xe3l\x9d\xa7'),
    ),
    (
        "sha256",
        (b"abc",),
        (
            "value",
            b'\xbax\x16\xbf\x8f\x01\xcf\xeaAA@\xde]\xae"#\xb0\x03a\xa3\x96\x17z\x9c\xb4\x10\xffa\xf2\x00\x15\xad',
        ),
    ),
    (
        "sha384",
        (b"",),
        (
            "value",
            b"8\xb0`\xa7Q\xac\x968L\xd92~\xb1\xb1\xe3j!\xfd\xb7\x11\x14\xbe\x07CL\x0c\xc7\xbfc\xf6\xe1\xda'N\xde\xbf\xe7oe\xfb\xd5\x1a\xd2\xf1H\x98\xb9[",
        ),
    ),
    ("sha512", (b"abc",), ("value", bytes.fromhex(SHA512_OF_ABC))),
    ("encode", (b"\x00\xffa\\", "hex"), ("value", "00ff615c")),
    ("encode", (b"\x00\xffa\\", "escape"), ("value", "\\000\\377a\\\\")),
    ("encode", (b"\x00\xffa", "base64"), ("value", "AP9h")),
    ("encode", (b"ab", "base64"), ("value", "YWI=")),
    (
        "encode",
        (b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "base64"),
        ("value", "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh\n"),
    ),
    (
        "encode",
        (b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "base64"),
        ("value", "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh\nYQ=="),
    ),
    (
        "encode",
        (b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "base64"),
        ("value", "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="),
    ),
    ("encode", (b"", "base64"), ("value", "")),
    ("encode", (b"a", "foo"), ("error", 'unrecognized encoding: "foo"')),
    ("encode", (b"a", "HEX"), ("value", "61")),
    ("decode", ("00fF", "hex"), ("value", b"\x00\xff")),
    ("decode", (" ab\ncd ", "hex"), ("value", b"\xab\xcd")),
    ("decode", ("abc", "hex"), ("error", "invalid hexadecimal data: odd number of digits")),
    ("decode", ("a b", "hex"), ("error", 'invalid hexadecimal digit: " "')),
    ("decode", ("zz", "hex"), ("error", 'invalid hexadecimal digit: "z"')),
    ("decode", ("YWI=", "base64"), ("value", b"ab")),
    ("decode", ("YW\nJj", "base64"), ("value", b"abc")),
    ("decode", ("YWI", "base64"), ("error", "invalid base64 end sequence")),
    ("decode", ("Y*I=", "base64"), ("error", 'invalid symbol "*" found while decoding base64 sequence')),
    ("decode", ("Y===", "base64"), ("error", 'unexpected "=" while decoding base64 sequence')),
    ("decode", ("\\000\\\\a\\\\\\377", "escape"), ("value", b"\x00\\a\\\xff")),
    ("decode", ("\\400", "escape"), ("error", "invalid input syntax for type bytea")),
    ("decode", ("a\\", "escape"), ("error", "invalid input syntax for type bytea")),
    ("decode", ("a", "foo"), ("error", 'unrecognized encoding: "foo"')),
    ("convert_from", (b"\xc3\xa9", "utf8"), ("value", "é")),
    ("convert_from", (b"a\xff", "UTF8"), ("error", 'invalid byte sequence for encoding "UTF8": 0xff')),
    (
        "convert_from",
        (b"a\xe2\x82", "utf-8"),
        ("error", 'invalid byte sequence for encoding "UTF8": 0xe2 0x82'),
    ),
    (
        "convert_from",
        (b"\xed\xa0\x80", "utf8"),
        ("error", 'invalid byte sequence for encoding "UTF8": 0xed 0xa0 0x80'),
    ),
    (
        "convert_from",
        (b"\xf4\x90\x80\x80", "utf8"),
        ("error", 'invalid byte sequence for encoding "UTF8": 0xf4 0x90 0x80 0x80'),
    ),
    (
        "convert_from",
        (b"\xc0\x80", "utf8"),
        ("error", 'invalid byte sequence for encoding "UTF8": 0xc0 0x80'),
    ),
    ("convert_from", (b"a\x00", "utf8"), ("error", 'invalid byte sequence for encoding "UTF8": 0x00')),
    ("convert_from", (b"\x80", "utf8"), ("error", 'invalid byte sequence for encoding "UTF8": 0x80')),
    ("convert_from", (b"\xe9", "latin1"), ("value", "é")),
    ("convert_from", (b"a", "nope"), ("error", 'invalid source encoding name "nope"')),
    ("convert_to", ("é", "utf8"), ("value", b"\xc3\xa9")),
    ("convert_to", ("é", "latin1"), ("value", b"\xe9")),
    ("convert_to", ("日", "latin1"), ("error", NO_LATIN1)),
    ("convert_to", ("é", "nope"), ("error", 'invalid destination encoding name "nope"')),
]


@pytest.mark.parametrize(("name", "args", "expected"), POSTGRES)
def test_as_postgres_says(name: str, args: tuple[object, ...], expected: tuple[str, object]) -> None:
    """Values and messages that PostgreSQL 15 gave; for constants, columns and any mixture of them."""
    assert outcomes(name, args) == {expected}


PLAIN = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
CASTS = [
    ("déjà vu", "varchar(4)", ("value", "déjà")),
    ("abc", "varchar(4)", ("value", "abc")),
    ("\\x00fF", "bytea", ("value", b"\x00\xff")),
    ("\\x", "bytea", ("value", b"")),
    ("a\\\\b\\001é", "bytea", ("value", b"a\\b\x01\xc3\xa9")),
    ("\\xZZ", "bytea", ("error", 'invalid hexadecimal digit: "Z"')),
    ("\\x123", "bytea", ("error", "invalid hexadecimal data: odd number of digits")),
    ("\\12", "bytea", ("error", "invalid input syntax for type bytea")),
    (b"\x00\xff", "text", ("value", "\\x00ff")),
    (b"", "text", ("value", "\\x")),
    (PLAIN, "uuid", ("value", uuid.UUID(PLAIN).bytes)),
    ("{A0EEBC99-9C0B4EF8-BB6D6BB9BD380A11}", "uuid", ("value", uuid.UUID(PLAIN).bytes)),
    ("a0eebc999c0b4ef8bb6d6bb9bd380a11", "uuid", ("value", uuid.UUID(PLAIN).bytes)),
    ("a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", "uuid", ("value", uuid.UUID(PLAIN).bytes)),
    ("{" + PLAIN, "uuid", ("error", f'invalid input syntax for type uuid: "{{{PLAIN}"')),
    (PLAIN + "-", "uuid", ("error", f'invalid input syntax for type uuid: "{PLAIN}-"')),
    ("", "uuid", ("error", 'invalid input syntax for type uuid: ""')),
]


@pytest.mark.parametrize(("value", "target", "expected"), CASTS)
def test_casts_as_postgres_says(value: object, target: str, expected: tuple[str, object]) -> None:
    assert outcomes("cast", [value], target=parse_type(target)) == {expected}


def test_uuid_as_text() -> None:
    assert outcomes("cast", [uuid.UUID(PLAIN).bytes], [UUID], target=TEXT) == {("value", PLAIN)}


def random_bytes(seed: int, n: int) -> list[bytes | None]:
    draw = random.Random(seed)
    return [
        draw.choice([draw.randbytes(draw.randint(0, 12)), b"\\" * draw.randint(0, 5), None]) for _ in range(n)
    ]


@pytest.mark.parametrize(
    ("there", "back"), [(to_hex, from_hex), (to_base64, from_base64), (to_escaped, from_escaped)]
)
def test_spelled_and_read_back(there: object, back: object) -> None:
    given = pa.array(random_bytes(1, 300), pa.binary())[7:]
    spelled = there(given)  # type: ignore[operator]  # parametrised
    assert back(spelled).values.equals(given)  # type: ignore[operator]  # parametrised
    assert back(spelled).errors is None  # type: ignore[operator]  # parametrised


def test_utf8_is_told_as_python_tells_it() -> None:
    """3,000 rows of bytes around the edges of UTF-8's ranges, which are what a validator gets wrong."""
    draw = random.Random(2)
    edges = bytes.fromhex("417f808f909fa0bfc1c2dfe0edeff0f4f5ff")
    rows = [bytes(draw.choices(edges, k=draw.randint(0, 4))) for _ in range(3_000)]
    values, errors = from_utf8(pa.array(rows, pa.binary()))
    assert errors is not None
    for row, value, error in zip(rows, values.to_pylist(), errors.to_pylist(), strict=True):
        try:
            expected = row.decode("utf-8")
        except UnicodeDecodeError:
            expected = None
        assert value == expected
        assert (error is None) == (expected is not None)


# ---------------------------------------------------------------- over containers

EXPRESSIONS: list[Expr] = [
    call("||", B, literal(b"x", BYTEA)),
    call("||", literal(b"x", BYTEA), B),
    call("length", B),
    call("bit_length", B),
    call("md5", B),
    call("sha256", B),
    *(call("encode", B, text(f)) for f in ("hex", "base64", "escape", "foo")),
    call("convert_from", B, text("utf8")),
    call("convert_from", B, text("latin1")),
    cast(B, TEXT),
    cast(B, parse_type("varchar(5)")),
    call("get_byte", B, literal(1, INT4)),
    call("substring", B, literal(1, INT4), literal(2, INT4)),
    call("substring", B, literal(2, INT4), literal(2, INT4)),
    call("substring", B, literal(1, INT4), literal(-2, INT4)),
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=spelled)
def test_every_row_of_bytes_is_covered(expr: Expr) -> None:
    triples = list(zip(*[iter(v for v in random_bytes(3, 1_400) if v is not None)] * 3, strict=False))
    low, value, high = zip(*map(sorted, triples), strict=True)
    specs = Specs.ranged(BYTEA, pa.array(low, pa.binary()), pa.array(high, pa.binary()))
    assert_sound(expr, pa.array(value, pa.binary()), specs)


@pytest.mark.parametrize(
    "expr",
    [
        cast(X, parse_type("varchar(2)")),
        cast(X, BYTEA),
        cast(X, UUID),
        call("convert_to", X, text("utf8")),
        call("convert_to", X, text("latin1")),
        call("convert_to", X, text("nope")),
        call("decode", X, text("hex")),
        call("decode", X, text("escape")),
        call("md5", X),
    ],
    ids=spelled,
)
def test_every_row_of_text_is_covered(expr: Expr) -> None:
    assert_sound(expr, *boxes(4, 300))


def test_every_uuid_is_covered() -> None:
    draw = random.Random(5)
    low, value, high = zip(*(sorted(draw.randbytes(16) for _ in range(3)) for _ in range(100)), strict=True)
    kept = pa.binary(16)
    specs = Specs.ranged(UUID, pa.array(low, kept), pa.array(high, kept))
    described = assert_sound(cast(Column(0, UUID), TEXT), pa.array(value, kept), specs)
    assert described.low is not None
    assert described.low[0].as_py() == str(uuid.UUID(bytes=low[0]))


def test_order_is_kept_where_it_can_be() -> None:
    cut = interpreted(cast(X, parse_type("varchar(2)")), "abc", "abd")
    assert [b[0].as_py() for b in cut.bounds()] == ["ab", "ab"]
    assert not cut.error.any()
    bytes_ = Specs.ranged(BYTEA, pa.array([b"\x01"]), pa.array([b"\x02\xff"]))
    for expr, low, high in (
        (cast(B, TEXT), "\\x01", "\\x02ff"),
        (call("encode", B, text("hex")), "01", "02ff"),
        (call("substring", B, literal(1, INT4), literal(1, INT4)), b"\x01", b"\x02"),
    ):
        specs = Interpretation([bytes_]).of(expr)
        assert [b[0].as_py() for b in specs.bounds()] == [low, high]
        assert not specs.error.any()


def test_types_of_results() -> None:
    found: list[Type] = [call("md5", X).type, call("sha256", B).type, call("encode", B, text("hex")).type]
    assert found == [TEXT, BYTEA, TEXT]
