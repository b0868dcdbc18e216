"""Text to canonical JSON: the vectorised way gives what the exact loop gives, for every odd document."""

import json
import random
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.expr.primitives.json import canonical as module
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.canonical import quote_strings, to_canonical
from tidegate.expr.primitives.json.exact import InvalidJson, canonical_text

NUMBERS = [
    "0",
    "-0",
    "-0.0",
    "0.0",
    "1",
    "-1",
    "12.0",
    "12.50",
    "100",
    "1e5",
    "1E+5",
    "1e-7",
    "0.000001",
    "0.0000001",
    "-0.00000123",
    "1.2345678901234567891",
    "0.1",
    "0.30000000000000004",
    "0.2550690257394217",
    "123456789012345.6",
    "1234567890123456.7",
    "12345678901234567890.50",
    "9007199254740993",
    "9007199254740993.0",
    "18446744073709551616",
    "-9223372036854775809",
    "1e400",
    "1e-400",
    "1.5e300",
    "5e-324",
    "100000000000000000000.5",
    "99999999999999999999999999999999999999.10",
    "0.1000000000000000055511151231257827",
]
STRINGS = [
    '""',
    '"a"',
    '"é\\u00e9\\/\\\\"',
    '"\\u001f\\n"',
    '"1e5 [1.0,2] {"',
    '",]"',
    '":null,"',
    '"\\ud83d\\ude00"',
    '" x  y\\t"',
    '"-0"',
    '"NaN"',
]
BROKEN = [
    "",
    " ",
    "[1,]",
    '{"a":1,}',
    "NaN",
    "[Infinity]",
    "-inf",
    "[nan]",
    "01",
    "+1",
    ".5",
    "1.",
    "tru",
    "{'a':1}",
    '{"a" 1}',
    "[1 2]",
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    '{"\\u0000":1}',
    '"\\x"',
    '"\t"',
    '"a',
    "1e99999999999999999999",
    "1e2000",
    "// c\n1",
    "[" * 10_000 + "]" * 10_000,
    "[" * 401 + "]" * 401,
    '{"a":' * 10_000 + "1" + "}" * 10_000,
    "[" * 100_000,
    "\ufeff1",
    "1 2",
    "nul",
]


def random_text(dice: random.Random, depth: int, keys: str) -> str:
    """A document with random white space, key orders, doubled keys and odd leaves."""
    space = dice.choice(["", "", " ", "\n\t"])
    kind = dice.randint(0, 9 if depth else 5)
    if kind < 3:
        return space + dice.choice(NUMBERS) + space
    if kind < 5:
        return space + dice.choice(STRINGS)
    if kind == 5:
        return dice.choice(["true", "false", "null", "[]", "{ }"])
    items = [random_text(dice, depth - 1, keys) for _ in range(dice.randint(0, 4))]
    if kind < 7:
        return "[" + ",".join(items) + space + "]"
    return (
        "{"
        + ",".join(f'{space}"{dice.choice(keys) * dice.randint(1, 3)}"{space}:{item}' for item in items)
        + "}"
    )


def exactly(texts: Sequence[str | None]) -> tuple[list[str | None], list[str | None]]:
    values: list[str | None] = []
    errors: list[str | None] = []
    for text in texts:
        value = error = None
        try:
            value = None if text is None else canonical_text(text)
        except InvalidJson as bad:
            error = str(bad)
        values.append(value)
        errors.append(error)
    return values, errors


@pytest.fixture(autouse=True)
def vectorised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is what the vectorised way is compared with, so no batch here is too small for it."""
    monkeypatch.setattr(module, "MAX_ROWS_ONE_BY_ONE", -1)


def check(texts: Sequence[str | None]) -> None:
    outcome = to_canonical(pa.array([None, *texts, None], pa.string()).slice(1, len(texts)))
    values, errors = exactly(texts)
    assert outcome.values.to_pylist() == values
    assert ([None] * len(texts) if outcome.errors is None else outcome.errors.to_pylist()) == errors


def test_random_documents() -> None:
    dice = random.Random(3)
    check([random_text(dice, 3, "abéz") for _ in range(1500)] + BROKEN)


def test_random_leaves_in_one_layout() -> None:
    """2,000 documents of one shape, so that every odd leaf is met on the vectorised way."""
    dice = random.Random(4)

    def leaf() -> str:
        return random_text(dice, 1 if dice.random() < 0.2 else 0, "ab")

    check([f'{{"zz": {leaf()}, "b":{{"y/~":{leaf()}, "" :{leaf()}}},"a":{leaf()}}}' for _ in range(2000)])


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_are_exact(text: str) -> None:
    check([f'{{"b":[{text}],"a":{text}}}', f"[ {text}]", text] * 12)
    got = canonical_text(text)
    assert Decimal(got) == Decimal(text)
    assert "e" not in got.lower()
    assert canonical_text(got) == got
    assert not ("." in got and got.endswith("0"))


@pytest.mark.parametrize("text", BROKEN, ids=lambda t: repr(t[:12]))
def test_what_is_no_json_is_an_error_of_its_row(text: str) -> None:
    check([text] + ['{"b":1,"a":2}'] * 40)
    with pytest.raises(InvalidJson):
        canonical_text(text)


def test_depth() -> None:
    for depth in (399, 400):
        check(["[" * depth + "]" * depth] * 40 + ['{"a":' * depth + "1" + "}" * depth])
    # Brackets side by side, or in strings, are not depth.
    check(["[" + "[]," * 2000 + "1]", '"' + "[" * 2000 + '"'] * 20)


def test_keys_are_sorted_as_postgres_sorts_them() -> None:
    assert (
        canonical_text('{"b":1,"aa":2,"c":3,"é":4,"zz":1,"":0}') == '{"":0,"b":1,"c":3,"aa":2,"zz":1,"é":4}'
    )


def test_usual_documents_never_reach_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(5)
    texts = [
        json.dumps({"id": i, "user": {"name": f"n{i}", "at": 1.5e9 + i, "tags": ["x"]}, "lat": dice.random()})
        for i in range(500)
    ]
    texts += [json.dumps({"kind": "b", "id": str(i), "c": {}}, separators=(",", ":")) for i in range(500)]
    expected = [canonical_text(text) for text in texts]
    looped: list[str] = []

    def counted(text: str) -> str:
        looped.append(text)
        return canonical_text(text)

    monkeypatch.setattr(exact_json, "canonical_text", counted)
    assert to_canonical(pa.array(texts)).values.to_pylist() == expected
    assert looped == []


def test_huge_document() -> None:
    large = json.dumps({"b": list(range(100_000)), "a": "x" * 1_000_000})
    check([large] * 2 + ["1"] * 40)


def test_quoted() -> None:
    texts = ["", "a", 'q"\\/', "\x00\x1f\x7f\u2028é😀\n\t\b\f\r", None]
    assert quote_strings(pa.array(texts)).to_pylist() == [
        None if t is None else exact_json.quote(t) for t in texts
    ]
