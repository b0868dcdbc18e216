"""LIKE and regular expressions: PostgreSQL's answers, and which ranges they rule out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.expr.functions.text_cases import assert_sound, boxes, interpreted, outcomes, spelled
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs, Verdict
from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.functions.text.pattern import parse_like
from tidegate.expr.model.build import call, text
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import BOOL, TEXT
from tidegate.expr.primitives.regex import RegexEnding, compile_regex

X, Y = Column(0, TEXT), Column(1, TEXT)
NONE, SOME, ALL = Verdict.NONE, Verdict.SOME, Verdict.ALL

POSTGRES = [
    ("like", ("abc", "a%"), ("value", True)),
    ("like", ("a\nb", "a_b"), ("value", True)),
    ("like", ("a%b", "a\\%b"), ("value", True)),
    ("like", ("axb", "a\\%b"), ("value", False)),
    ("like", ("é", "_"), ("value", True)),
    ("like", ("", ""), ("value", True)),
    ("like", ("", "%"), ("value", True)),
    ("like", ("abc", "%b%"), ("value", True)),
    ("like", ("abc", "abc_"), ("value", False)),
    ("like", ("a\\b", "a\\\\b"), ("value", True)),
    ("like", ("a\\", "a\\"), ("error", "LIKE pattern must not end with escape character")),
    ("like", ("a%b", "ax%b", "x"), ("value", True)),
    ("like", ("a\\b", "a\\%", ""), ("value", True)),
    ("like", ("abc", "a%c", "cc"), ("error", "invalid escape string")),
    ("like", ("aaa", "a%a%a%a"), ("value", False)),
    ("like", (None, "a"), ("value", None)),
    ("like", ("a", None), ("value", None)),
    ("ilike", ("ÉCOLE", "éc%"), ("value", True)),
    ("ilike", ("abc", "ABC"), ("value", True)),
    ("ilike", ("aA%", "AAA%%", "A"), ("value", False)),
    ("ilike", ("K", "k"), ("value", True)),
    ("~", ("abc", "^ab"), ("value", True)),
    ("~", ("a\nb", "a.b"), ("value", True)),
    ("~", ("abc", "b$"), ("value", False)),
    ("~", ("hello world", "\\mworld\\M"), ("value", True)),
    ("~", ("helloworld", "\\yworld"), ("value", False)),
    ("~", ("é", "^\\w$"), ("value", True)),
    ("~", ("b-c", "[a-c]-[c-]"), ("value", True)),
    ("~", ("a]b", "[]]"), ("value", True)),
    ("~", ("x", "["), ("error", "invalid regular expression: brackets [] not balanced")),
    ("~", ("x", "("), ("error", "invalid regular expression: parentheses () not balanced")),
    ("~", ("x", "x{2,1}"), ("error", "invalid regular expression: invalid repetition count(s)")),
    ("~", ("x{", "x{"), ("value", True)),
    ("~", ("x", "*x"), ("error", "invalid regular expression: quantifier operand invalid")),
    ("~", ("a", "\\u0061"), ("value", True)),
    ("~", ("a1", "^[[:alpha:]][[:digit:]]$"), ("value", True)),
    ("~", ("x", "(?i)X"), ("value", True)),
    ("~", ("a.b", "***=a.b"), ("value", True)),
    ("~", ("axb", "***=a.b"), ("value", False)),
    ("~", ("x", "[[:foo:]]"), ("error", "invalid regular expression: invalid character class")),
    ("~", ("x", "\\q"), ("error", "invalid regular expression: invalid escape \\ sequence")),
    ("~", ("x", ")"), ("error", "invalid regular expression: parentheses () not balanced")),
    ("~", ("\x08", "\\b"), ("value", True)),
    ("~*", ("ÉCOLE", "éc"), ("value", True)),
    ("!~", ("abc", "^b"), ("value", True)),
    ("!~*", ("ABC", "^a"), ("value", False)),
    ("regexp_like", ("ABC", "^a", "i"), ("value", True)),
    ("regexp_like", ("a\nb", "^b", "n"), ("value", True)),
    ("regexp_replace", ("foobarbaz", "b(.)", "<\\1>"), ("value", "foo<a>rbaz")),
    ("regexp_replace", ("foobarbaz", "b(.)", "<\\1>", "g"), ("value", "foo<a>r<a>z")),
    ("regexp_replace", ("abc", "B", "[\\&]", "i"), ("value", "a[b]c")),
    ("regexp_replace", ("abc", "b", "\\\\"), ("value", "a\\c")),
    ("regexp_replace", ("abc", "b", "\\5"), ("value", "ac")),
    ("regexp_replace", ("abc", "b", "x", "z"), ("error", 'invalid regular expression option: "z"')),
    ("regexp_replace", ("日本", "x*", "-", "g"), ("value", "-日-本-")),
    ("regexp_match", ("key=value", "(\\w+)=(\\w+)"), ("value", ("key", "value"))),
    ("regexp_match", ("abc", "b."), ("value", ("bc",))),
    ("regexp_match", ("abc", "x"), ("value", None)),
    ("regexp_match", ("a", "(a)|(b)"), ("value", ("a", None))),
    ("regexp_match", ("ab", "(x*)b"), ("value", ("",))),
    ("regexp_match", ("a", "a", "g"), ("error", 'regexp_match() does not support the "global" option')),
    ("regexp_count", ("banana", "an"), ("value", 2)),
    ("regexp_count", ("日本", "^"), ("value", 1)),
    ("substring", ("order 4711", "\\d+"), ("value", "4711")),
    ("substring", ("abc", "a(b)c"), ("value", "b")),
    ("substring", ("abc", "x"), ("value", None)),
]


@pytest.mark.parametrize(("name", "args", "expected"), POSTGRES)
def test_as_postgres_says(name: str, args: tuple[object, ...], expected: tuple[str, object]) -> None:
    """Values and messages that PostgreSQL 15 gave; for constants, columns and any mixture of them."""
    assert outcomes(name, args) == {expected}


DIFFERENT = [
    # A pattern that ends in its escape fails for every row; PostgreSQL looks no further than it must.
    ("like", ("x", "a\\"), ("error", "LIKE pattern must not end with escape character")),
    ("~", ("aa", r"(a)\1"), ("error", "invalid regular expression: back references are not supported")),
    (
        "~",
        ("ab", "a(?=b)"),
        ("error", "invalid regular expression: lookahead and lookbehind are not supported"),
    ),
    (
        "~",
        ("a", r"\m[ab]"),
        ("error", r"invalid regular expression: \m is only supported next to a letter or digit"),
    ),
    # The first alternative, not the longest; an empty match right behind another is none.
    ("substring", ("foobar", "foo|foobar"), ("value", "foo")),
    ("regexp_count", ("xax", "x*"), ("value", 2)),
    # Ignoring case follows Unicode: ſ is an s.
    ("~*", ("ſ", "s"), ("value", True)),
]


@pytest.mark.parametrize(("name", "args", "expected"), DIFFERENT)
def test_differences_on_purpose(name: str, args: tuple[str, ...], expected: tuple[str, object]) -> None:
    assert outcomes(name, args) == {expected}


def test_patterns_that_differ_from_row_to_row() -> None:
    subjects = pa.array(["abc", "abc", None, "xyz", "a", "abc", ""])
    patterns = pa.array(["^a", "(", "(", None, "^a", "z", ""])
    values, errors = Evaluation([subjects, patterns], 7).of(call("~", X, Y))[0]
    assert values.to_pylist() == [True, None, None, None, True, False, True]
    message = "invalid regular expression: parentheses () not balanced"
    assert errors is not None
    assert errors.to_pylist() == [None, message, None, None, None, None, None]
    patterns = pa.array(["a%", "_b_", "a", "b", "b\\", "", "%"])
    values, errors = Evaluation([subjects, patterns], 7).of(call("like", X, Y))[0]
    assert values.to_pylist() == [True, True, None, False, None, False, True]
    assert errors is not None
    assert errors.null_count == 6


def test_a_wild_pattern_is_an_error_and_not_a_crash() -> None:
    for pattern in (
        "(" * 20_000,
        "(" * 5_000 + ")" * 5_000,
        "[" * 1_000,
        "((a{255}){255}){255}",
        "\\x" + "f" * 50,
        "a{99999999999}",
    ):
        assert (compile_regex(pattern).error or "").startswith("invalid regular expression: ")


@pytest.mark.parametrize(
    ("pattern", "prefix", "ending"),
    [
        ("^abc", "abc", RegexEnding.ANYTHING),
        ("^abc.*", "abc", RegexEnding.ANYTHING),
        ("^abc$", "abc", RegexEnding.NOTHING),
        ("^abc.+", "abc", RegexEnding.SOMETHING),
        ("^abc*", "ab", RegexEnding.SOMETHING),
        ("^abc?", "ab", RegexEnding.SOMETHING),
        ("^abc{0,2}", "ab", RegexEnding.SOMETHING),
        ("^ab(c|d)", "ab", RegexEnding.SOMETHING),
        ("^ab|c", "", RegexEnding.SOMETHING),
        ("^a\\.b", "a.b", RegexEnding.ANYTHING),
        ("\\Aab", "ab", RegexEnding.ANYTHING),
        ("abc", "", RegexEnding.SOMETHING),
        ("(^ab)", "", RegexEnding.SOMETHING),
        ("^a[b]", "a", RegexEnding.SOMETHING),
        ("^", "", RegexEnding.ANYTHING),
        ("(?n)^ab", "", RegexEnding.SOMETHING),
        ("(?i)^aBsc", "ab", RegexEnding.SOMETHING),
        ("^*ab", "", RegexEnding.SOMETHING),
        ("***=^a", "", RegexEnding.SOMETHING),
        ("^ab$c", "ab", RegexEnding.SOMETHING),
        ("^ab^", "ab", RegexEnding.SOMETHING),
    ],
)
def test_anchored_prefix(pattern: str, prefix: str, ending: RegexEnding) -> None:
    regex = compile_regex(pattern)
    assert (regex.prefix, regex.ending) == (prefix, ending)


def test_like_taken_apart() -> None:
    assert parse_like("a%%b_").parts == ((True, "a"), (False, "%"), (False, "%"), (True, "b"), (False, "_"))
    assert parse_like("ab%").ending is RegexEnding.ANYTHING
    assert parse_like("a!%b", "!").parts == ((True, "a%b"),)
    assert parse_like("a%%", "%").canonical == "a\\%"


# ---------------------------------------------------------------- over containers

CONDITIONS: list[Expr] = [
    *(
        call(name, X, text(p))
        for name in ("like", "ilike")
        for p in (
            "",
            "%",
            "a%",
            "A%",
            "a",
            "ab%",
            "é%",
            "%a",
            "_%",
            "a_",
            "a\\%%",
            "a%b",
            "\U0010ffff%",
            "a\U0010ffff%",
            "\ud7ff%",
            "ß%",
            "s%",
            "ſ%",
            "a\\",
        )
    ),
    *(
        call(name, X, text(p))
        for name in ("~", "~*", "!~", "!~*")
        for p in (
            "",
            "^",
            "^a",
            "^A",
            "^ab",
            "^a$",
            "^$",
            "^é",
            "^ab*",
            "^a.*",
            "^s",
            "^aS",
            "a",
            "^a|b",
            "^(a)",
            "^\U0010ffff",
            "(",
            "^a(?i)",
        )
    ),
    *(call("starts_with", X, text(p)) for p in ("", "a", "ab", "é", "\U0010ffff", "\ud7ff", "ß")),
    call("like", X, text("a!%%"), text("!")),
    call("like", X, text("a%"), text("")),
    call("like", X, text("a"), text("xx")),
    call("like", X, X),
    call("starts_with", X, call("left", X, call("length", text("a")))),
    call("~", text("ab"), X),
    call("regexp_like", X, text("^a")),
    call("regexp_like", X, text("^a"), text("i")),
    call("like", call("upper", X), text("A%")),
    call("regexp_replace", X, text("a"), text("b")),
    call("regexp_replace", X, text("("), text("b"), text("g")),
    call("regexp_count", X, text("a")),
    call("substring", X, text("a(.)")),
    call("substring", X, text("(")),
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=spelled)
def test_every_row_is_covered(condition: Expr) -> None:
    """400 boxes: each of the four ways a range can lie to a prefix comes up dozens of times."""
    for seed in range(2):
        assert_sound(condition, *boxes(seed, 200))


def test_regexp_match_is_covered() -> None:
    values, specs = boxes(5, 50)
    for pattern, fails in (("(a)(b)?", False), ("(", True)):
        described = assert_sound(call("regexp_match", X, text(pattern)), values, specs)
        assert described.error.any() == fails


@pytest.mark.parametrize(
    ("condition", "low", "high", "verdict"),
    [
        (call("like", X, text("ab%")), "aa", "aaz", NONE),
        (call("like", X, text("ab%")), "ac", "b", NONE),
        (call("like", X, text("ab%")), "aa", "ab", SOME),
        (call("like", X, text("ab%")), "ab", "abzz", ALL),
        (call("like", X, text("ab%")), "ab", "ac", SOME),
        (call("like", X, text("ab%")), None, "aa", NONE),
        (call("like", X, text("ab%")), "ab", None, SOME),
        (call("like", X, text("%")), None, None, ALL),
        (call("like", X, text("ab")), "aba", "b", NONE),
        (call("like", X, text("ab")), "ab", "ab", ALL),
        (call("like", X, text("ab_d")), "ac", "ad", NONE),
        (call("like", X, text("ab_d")), "abcd", "abce", SOME),
        (call("like", X, text("a\\%%")), "b", "c", NONE),
        (call("like", X, text("a\\%%")), "a%b", "a%c", ALL),
        (call("like", X, text("a!%%"), text("!")), "a%b", "a%c", ALL),
        (call("like", X, text("\U0010ffff%")), "\U0010ffff", None, ALL),
        (call("ilike", X, text("AB%")), "ax1", "ax2", NONE),
        (call("ilike", X, text("AB%")), "aBc", "aBd", ALL),
        (call("ilike", X, text("AB%")), "A", "b", SOME),
        (call("ilike", X, text("Éa%")), "éa1", "éa2", ALL),
        (call("starts_with", X, text("ab")), "aa", "aaz", NONE),
        (call("starts_with", X, text("ab")), "abb", "abc", ALL),
        (call("~", X, text("^ab")), "b", "c", NONE),
        (call("~", X, text("^ab")), "abb", "abc", ALL),
        (call("~", X, text("^ab.*")), "abb", "abc", ALL),
        (call("~", X, text("^ab+")), "abb", "abc", SOME),
        (call("~", X, text("^ab$")), "abb", "abc", NONE),
        (call("~*", X, text("^ab")), "xa", "xb", NONE),
        (call("!~", X, text("^ab")), "abb", "abc", NONE),
        (call("!~", X, text("^ab")), "b", "c", ALL),
        (call("~", X, text("(")), "b", "c", SOME),
        (call("like", call("upper", X), text("MILL%")), "miller, a", "miller, b", ALL),
        (call("like", call("upper", X), text("MILL%")), "moe a", "moe b", NONE),
        (call("like", call("||", X, text("!")), text("ab%")), "ac1", "ac2", NONE),
    ],
    ids=spelled,
)
def test_verdict(condition: Expr, low: str | None, high: str | None, verdict: Verdict) -> None:
    assert interpreted(condition, low, high).verdict().tolist() == [verdict]


def test_many_parts_at_once_keep_their_verdicts() -> None:
    low, high = pa.array(["aa", "ab", None, "ab"]), pa.array(["ab", "abz", "aa", "b"])
    specs = Specs.ranged(TEXT, low, high)
    verdicts = Interpretation([specs]).of(call("like", X, text("ab%"))).verdict()
    assert verdicts.tolist() == [SOME, ALL, NONE, SOME]


def test_patterns_beyond_reason_are_errors_of_the_row_and_quick() -> None:
    """Such a pattern comes from repeat(), and reading it letter by letter would take minutes."""
    huge = pa.scalar("a(" * 10_000_000)
    text = pa.array(["x"])
    for name, message in (("like", "LIKE pattern is too long"), ("~", "regular expression is too complex")):
        (function,) = [f for f in REGISTRY.overloads(name) if len(f.params) == 2]
        errors = function.run([text, huge], BOOL).errors
        assert errors is not None
        assert message in errors[0].as_py()


def test_a_text_in_many_texts() -> None:
    """From `MIN_ROWS_FOR_POLARS` rows on polars searches, with equal results: NULL, empty, zero bytes, emoji, slices."""
    from tidegate.expr.primitives.text_search import MIN_ROWS_FOR_POLARS, contains

    some = ["", None, "a.b", "axb", "ä.b", "x\0a.b", "\U0001f600a.b\U0001f600", "A.B", "a.", ".b"]
    many = pa.array(some * (MIN_ROWS_FOR_POLARS // len(some) + 1))
    for wanted in ("a.b", "ä", "\0", "\U0001f600", "%", "(", "b"):
        right = [None if text is None else wanted in text for text in some]
        assert contains(pa.array(some), wanted).to_pylist() == right, wanted
        got = contains(many.slice(3), wanted)
        assert got.type == pa.bool_()
        assert got.slice(7, len(some)).to_pylist() == right, wanted
    assert contains(pa.array([], pa.string()), "x").to_pylist() == []
    assert contains(pa.nulls(MIN_ROWS_FOR_POLARS, pa.string()), "x").null_count == MIN_ROWS_FOR_POLARS
