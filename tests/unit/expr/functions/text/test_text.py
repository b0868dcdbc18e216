"""Text functions: PostgreSQL's answers, and what they tell about ranges."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from tests.unit.expr.functions.text_cases import assert_sound, boxes, interpreted, outcomes, spelled
from tidegate.errors import LimitError
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.text_prefix import LAST, common_prefix, successor, successors
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.functions.text import edit as text_edit
from tidegate.expr.model.build import call, literal, text
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import INT4, TEXT

X = Column(0, TEXT)


def n(value: int) -> Expr:
    return literal(value, INT4)


POSTGRES = [
    ("||", ("a", "é"), ("value", "aé")),
    ("||", ("", ""), ("value", "")),
    ("||", (None, "a"), ("value", None)),
    ("concat", ("a", None, "b"), ("value", "ab")),
    ("concat", (None, None), ("value", "")),
    ("concat_ws", (",", "a", None, "b"), ("value", "a,b")),
    ("concat_ws", (",", None, None), ("value", "")),
    ("concat_ws", (None, "a", "b"), ("value", None)),
    ("length", ("日本語é",), ("value", 4)),
    ("char_length", ("",), ("value", 0)),
    ("octet_length", ("日本語é",), ("value", 11)),
    ("bit_length", ("é",), ("value", 16)),
    ("upper", ("straße éÿ",), ("value", "STRAßE ÉŸ")),
    ("lower", ("ÀÉ STRASSE İ",), ("value", "àé strasse i")),
    ("initcap", ("hELLO wORLD 1abc d'eF éA ßx",), ("value", "Hello World 1abc D'Ef Éa ßx")),
    ("left", ("déjà", 2), ("value", "dé")),
    ("left", ("déjà", -1), ("value", "déj")),
    ("left", ("déjà", -9), ("value", "")),
    ("left", ("abc", 0), ("value", "")),
    ("right", ("déjà", 2), ("value", "jà")),
    ("right", ("déjà", -1), ("value", "éjà")),
    ("right", ("abc", 0), ("value", "")),
    ("right", ("abc", 9), ("value", "abc")),
    ("substring", ("déjà vu", 3), ("value", "jà vu")),
    ("substring", ("déjà vu", -3), ("value", "déjà vu")),
    ("substr", ("déjà vu", 2, 3), ("value", "éjà")),
    ("substring", ("abc", 0, 2), ("value", "a")),
    ("substring", ("abc", -5, 3), ("value", "")),
    ("substring", ("abc", 2, 0), ("value", "")),
    ("substring", ("abc", 2, -1), ("error", "negative substring length not allowed")),
    ("substring", ("abc", 2147483647, 5), ("value", "")),
    ("substring", ("abc", -2147483648, 3), ("value", "")),
    ("substring", ("abc", 5, 2147483647), ("value", "")),
    ("overlay", ("Txxxxas", "hom", 2, 4), ("value", "Thomas")),
    ("overlay", ("abcdef", "é", 3), ("value", "abédef")),
    ("overlay", ("abc", "x", 0, 1), ("error", "negative substring length not allowed")),
    ("overlay", ("abcdef", "XX", 2, -1), ("value", "aXXabcdef")),
    ("overlay", ("ab", "x", 2147483647), ("error", "integer out of range")),
    ("overlay", ("ab", "x", 101, 2147483647), ("error", "integer out of range")),
    ("reverse", ("aé日",), ("value", "日éa")),
    ("ascii", ("é",), ("value", 233)),
    ("ascii", ("",), ("value", 0)),
    ("chr", (233,), ("value", "é")),
    ("chr", (128512,), ("value", "😀")),
    ("chr", (0,), ("error", "null character not permitted")),
    ("chr", (-1,), ("error", "character number must be positive")),
    ("chr", (55296,), ("error", "requested character not valid for encoding: 55296")),
    ("chr", (1114112,), ("error", "requested character too large for encoding: 1114112")),
    ("trim", ("  a b ",), ("value", "a b")),
    ("btrim", ("xyaxy", "yx"), ("value", "a")),
    ("ltrim", ("  a ",), ("value", "a ")),
    ("ltrim", ("éaé", "é"), ("value", "aé")),
    ("rtrim", ("abab", "b"), ("value", "aba")),
    ("rtrim", ("a  ",), ("value", "a")),
    ("btrim", ("abc", ""), ("value", "abc")),
    ("repeat", ("ab", 3), ("value", "ababab")),
    ("repeat", ("ab", -1), ("value", "")),
    ("repeat", ("", 2147483647), ("value", "")),
    ("repeat", ("abc", 2147483647), ("error", "requested length too large")),
    ("lpad", ("é", 3), ("value", "  é")),
    ("lpad", ("abc", 8, "xy"), ("value", "xyxyxabc")),
    ("lpad", ("abc", 2), ("value", "ab")),
    ("lpad", ("abc", -1, "x"), ("value", "")),
    ("lpad", ("abc", 9, ""), ("value", "abc")),
    ("lpad", ("a", 2147483647), ("error", "requested length too large")),
    ("rpad", ("é", 3, "日本"), ("value", "é日本")),
    ("rpad", ("abc", 2, "x"), ("value", "ab")),
    ("rpad", ("abc", 5), ("value", "abc  ")),
    ("replace", ("banana", "an", "<>"), ("value", "b<><>a")),
    ("replace", ("abc", "", "x"), ("value", "abc")),
    ("replace", ("aaa", "aa", "b"), ("value", "ba")),
    ("translate", ("12345", "143", "ax"), ("value", "a2x5")),
    ("translate", ("aéa", "aéa", "xyz"), ("value", "xyx")),
    ("strpos", ("日本語", "語"), ("value", 3)),
    ("strpos", ("abc", ""), ("value", 1)),
    ("strpos", ("abc", "x"), ("value", 0)),
    ("split_part", ("a,b,c", ",", 2), ("value", "b")),
    ("split_part", ("a,b,c", ",", -1), ("value", "c")),
    ("split_part", ("a,b,c", ",", 9), ("value", "")),
    ("split_part", ("abc", "", 1), ("value", "abc")),
    ("split_part", ("abc", "", 2), ("value", "")),
    ("split_part", ("abc", "b", 0), ("error", "field position must not be zero")),
    ("split_part", ("a--b", "--", 2), ("value", "b")),
    ("to_hex", (255,), ("value", "ff")),
    ("to_hex", (-1,), ("value", "ffffffff")),
    ("to_hex", (0,), ("value", "0")),
    ("quote_literal", ("it's",), ("value", "'it''s'")),
    ("quote_literal", ("a\\b",), ("value", "E'a\\\\b'")),
    ("starts_with", ("abc", "ab"), ("value", True)),
    ("starts_with", ("abc", ""), ("value", True)),
]


@pytest.mark.parametrize(("name", "args", "expected"), POSTGRES)
def test_as_postgres_says(name: str, args: tuple[object, ...], expected: tuple[str, object]) -> None:
    """Values and messages that PostgreSQL 15 gave; for constants, columns and any mixture of them."""
    assert outcomes(name, args) == {expected}


def test_joining_takes_what_is_no_text() -> None:
    expr = call("||", n(1), text("a"))
    assert Evaluation([], 1).of(expr)[0].values.to_pylist() == ["1a"]


def test_a_batch_cannot_eat_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits is made, the rest fails as a value."""
    monkeypatch.setattr(text_edit, "MAX_BATCH", 1_000)
    for expr in (call("repeat", X, n(100)), call("lpad", X, n(101)), call("rpad", X, n(101), text("ab"))):
        values, errors = Evaluation([pa.array(["x"] * 20)], 20).of(expr)[0]
        assert errors is not None
        assert errors.to_pylist() == [None] * 10 + ["requested length too large"] * 10
        assert values.null_count == 10


# ---------------------------------------------------------------- prefixes


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", None),
        ("a", "b"),
        ("az", "a{"),
        ("\x7f", "\x80"),
        ("\ud7ff", "\ue000"),
        ("a\ud7ff", "a\ue000"),
        ("\uffff", "\U00010000"),
        (LAST, None),
        (LAST * 3, None),
        ("a" + LAST * 2, "b"),
        ("\ud7ff" + LAST, "\ue000"),
    ],
)
def test_successor(prefix: str, expected: str | None) -> None:
    assert successor(prefix) == expected
    assert successors(pa.array([prefix, None, "a"])).to_pylist() == [expected, None, "b"]


def test_successor_bounds_all_that_start_with_a_prefix() -> None:
    values, _ = boxes(1, 500)
    for prefix in {v[:k] for v in values.to_pylist() for k in (1, 2)}:
        above = successor(prefix)
        for value in values.to_pylist():
            assert value.startswith(prefix) == (value >= prefix and (above is None or value < above))


def test_common_prefix() -> None:
    low = ["abc", "abc", "é", "日本", "", "x" * 100, "a", None, "aé"]
    high = ["abd", "abc", "è", "日b", "b", "x" * 100 + "y", None, None, "aéé"]
    expected = ["ab", "abc", "", "日", "", "x" * 64, "", "", "aé"]
    for start in (0, 3):
        found = common_prefix(pa.array(low)[start:], pa.array(high)[start:])
        assert found.to_pylist() == expected[start:]
    assert common_prefix(pa.array(["a" * 63 + "é"]), pa.array(["a" * 63 + "é"])).to_pylist() == ["a" * 63]
    assert common_prefix(pa.array(["ab", "b"]), pa.array(["ac"])).to_pylist() == ["a", ""]


# ---------------------------------------------------------------- over containers

EXPRESSIONS: list[Expr] = [
    call("upper", X),
    call("lower", X),
    call("initcap", X),
    call("length", X),
    call("octet_length", X),
    call("bit_length", X),
    call("||", X, text("aé")),
    call("||", text("aé"), X),
    call("||", X, X),
    call("concat", X, text("b")),
    call("concat", text("b"), X),
    call("concat_ws", text("-"), X),
    call("concat_ws", text("-"), X, X),
    call("ascii", X),
    call("reverse", X),
    *(
        call(f, X, n(k))
        for f in ("left", "right", "substring", "lpad", "rpad", "repeat")
        for k in (-2, -1, 0, 1, 2, 3)
    ),
    *(call("substring", X, n(s), n(k)) for s in (-1, 0, 1, 2, 3) for k in (-1, 0, 1, 2, 4)),
    *(call(f, X) for f in ("trim", "ltrim", "rtrim")),
    *(call(f, X, text("aé ")) for f in ("trim", "ltrim", "rtrim")),
    call("lpad", X, n(4), text("xy")),
    call("rpad", X, n(4), text("xy")),
    call("rpad", X, n(500), text("é")),
    call("replace", X, text("a"), text("zz")),
    call("translate", X, text("ab"), text("é")),
    call("strpos", X, text("b")),
    *(call("split_part", X, text(d), n(k)) for d in ("", "a", "ab", "-") for k in (-1, 1, 2)),
    call("split_part", X, text("a"), n(0)),
    call("chr", call("ascii", X)),
    call("left", X, call("length", X)),
    call("left", call("upper", X), n(1)),
    call("substring", call("lower", call("||", X, text("!"))), n(2)),
    call("quote_literal", X),
    call("to_hex", call("length", X)),
    call("left", text("déjà"), call("length", X)),
    call("repeat", text("ab"), call("length", X)),
    call("substring", text("abcdef"), call("length", X), n(2)),
    call("substring", text("abcdef"), n(2), call("length", X)),
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=spelled)
def test_every_row_is_covered(expr: Expr) -> None:
    """600 boxes: the rarest case, a common start that ends in U+10FFFF, comes up some 5 times."""
    for seed in range(2):
        assert_sound(expr, *boxes(seed, 300))


def test_no_transfer_minds_missing_bounds() -> None:
    values, _ = boxes(3, 20)
    for expr in EXPRESSIONS:
        assert_sound(expr, values, Specs.ranged(TEXT, pa.nulls(20, pa.string()), pa.nulls(20, pa.string())))


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (call("left", X, n(3)), "Mil", "Mil"),
        (call("substring", X, n(1), n(6)), "Miller", "Miller"),
        (call("substring", X, n(9), n(1)), "A", "J"),
        (call("substring", X, n(9)), "A", "J"),
        (call("right", X, n(-8)), "A", "J"),
        (call("right", X, n(-9)), None, None),
        (call("left", X, n(-1)), None, None),
        (call("upper", X), "MILLER, ", "MILLER,!"),
        (call("lower", X), "miller, ", "miller,!"),
        (call("initcap", X), "Miller, ", "Miller,!"),
        (call("||", X, text("!")), "Miller, A", "Miller,!"),
        (call("||", text("Dr. "), X), "Dr. Miller, A", "Dr. Miller, J"),
        (call("concat", X, text("x")), "Miller, A", "Miller,!"),
        (call("rtrim", X), "Miller,", "Miller-"),
        (call("trim", X, text("M")), "iller, ", "iller,!"),
        (call("rpad", X, n(6)), "Miller", "Milles"),
        (call("split_part", X, text(","), n(1)), "Miller", "Milles"),
        (call("split_part", X, text(", "), n(1)), "Miller", "Milles"),
        (call("translate", X, text("il"), text("1")), "M1er, ", "M1er,!"),
        (call("length", X), 0, None),
        (call("ascii", X), 77, 77),
    ],
    ids=spelled,
)
def test_ranges_carry_through(expr: Expr, low: object, high: object) -> None:
    specs = interpreted(expr, "Miller, A", "Miller, J")
    bounds = tuple(b[0].as_py() for b in specs.bounds())
    assert bounds == (low, high)
    assert not specs.error.any()


def test_only_a_negative_length_fails() -> None:
    for size, fails in ((2, False), (-1, True)):
        specs = interpreted(call("substring", X, n(1), n(size)), None, None)
        assert specs.error.tolist() == [fails]


def test_a_long_text_beside_one_that_is_repeated_often() -> None:
    """Together they are small; Arrow's own estimate is all texts times the greatest number."""
    texts, times = ["ab", *["y" * 9000] * 300], [100_000, *[1] * 300]
    columns = [pa.array(texts), pa.array(times, pa.int32())]
    (got,) = Evaluation(columns, len(texts)).of(call("repeat", X, Column(1, INT4)))
    assert got.errors is None
    assert got.values.to_pylist() == [one * many for one, many in zip(texts, times, strict=True)]


def test_a_batch_that_does_not_fit_is_a_limit() -> None:
    def full(_: pa.Array) -> pa.Array:
        raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")

    function = replace(REGISTRY.overloads("upper")[0], kernel=full)
    with pytest.raises(LimitError, match="upper makes more than 2 GB of text at once"):
        function.run([pa.array(["x"])], TEXT)
    assert not by_trend(function, [Specs.ranged(TEXT, pa.array(["x"]), pa.array(["x"]))], TEXT).exact.any()
