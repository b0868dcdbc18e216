"""What is collected of JSON: lanes, keys, templates; and that the quick ways find what the exact one does."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.expr.model.types import JSONB
from tidegate.expr.primitives.json.exact import canonical_text
from tidegate.storage.stats.collect import tally
from tidegate.storage.stats.columns import facts_of
from tidegate.storage.stats.frame import Frame
from tidegate.storage.stats.json.collect import MAX_PARSED_WHOLE, extract, tally_decoded, tally_documents
from tidegate.storage.stats.json.model import LANES, JsonStats
from tidegate.storage.stats.json.paths import plan
from tidegate.storage.stats.json.template import Template, reach, read
from tidegate.storage.stats.time_like import Place, time_like

ONE = 10**18


def described(documents: list[Any], keep: frozenset[Place] = frozenset()) -> JsonStats:
    texts = pa.array([None if d is ... else canonical_text(json.dumps(d)) for d in documents], pa.string())
    return tally_documents(texts, np.array([0, len(texts)]), ("payload",), keep).row(0)


def lanes(stats: JsonStats) -> dict[str, int]:
    assert stats.counts is not None
    return {name: count for name, count in zip(LANES, stats.counts, strict=True) if count}


def test_every_lane_by_itself() -> None:
    found = described([None, True, False, 1, 2.5, "a", "z", [1], {"k": 1}, {"k": "x"}, {}, ...])
    assert lanes(found) == {"null": 1, "true": 1, "false": 1, "number": 2, "text": 2, "list": 1, "map": 3}
    assert (found.number_low, found.number_high, found.whole) == (ONE, 25 * ONE // 10, False)
    assert (found.text_low, found.text_high, found.closed) == ("a", "z", True)
    key = found.keys["k"]
    assert lanes(key) == {"number": 1, "text": 1}
    assert key.whole


def test_numbers_are_rounded_outwards_or_given_up() -> None:
    tiny = tally_documents(
        pa.array(["0.0000000000000000001", "-0.0000000000000000001"]), np.array([0, 2]), ("p",), frozenset()
    )
    assert (tiny.row(0).number_low, tiny.row(0).number_high) == (-1, 1)
    huge = tally_documents(pa.array(["1" + "0" * 30, "5"]), np.array([0, 2]), ("p",), frozenset()).row(0)
    assert (huge.number_low, huge.number_high, huge.whole) == (5 * ONE, None, True)


def event(i: int, **more: Any) -> dict[str, Any]:
    return {
        "id": i,
        "ok": i % 3 > 0,
        "ts": 1_700_000_000 + i,
        "kind": ("buy", "view")[i % 2],
        "user": {"id": i % 7},
    } | more


def test_large_parts_are_read_by_a_template() -> None:
    found = described([event(i) for i in range(1000)])
    assert list(found.keys) == ["ts", "id", "ok", "kind"]
    assert (found.keys["ts"].number_low, found.keys["ts"].whole) == (1_700_000_000 * ONE, True)
    assert (found.keys["kind"].text_low, found.keys["kind"].text_high) == ("buy", "view")
    assert lanes(found.keys["ok"]) == {"true": 666, "false": 334}
    assert not found.closed
    assert "user" not in found.keys, "it comes behind the fields that are looked at"


def test_forced_paths_are_always_looked_at() -> None:
    documents = [event(i, list=[1] * (i % 5), seen_at=f"2024-01-{i % 28 + 1:02d}") for i in range(1000)]
    found = described(documents, frozenset({("payload", "user", "id")}))
    assert found.keys["seen_at"].text_high == "2024-01-28"
    user = found.keys["user"]
    assert lanes(user) == {"map": 1000}, "every document has it, so it is a map everywhere"
    assert (user.keys["id"].number_low, user.keys["id"].number_high) == (0, 6 * ONE)
    assert time_like("seen_at")


POISON = [
    "a,b", 'say "x"', "back\\slash", "\U0010ffff", "", ",", '","', "{", "}", "x y!", "x", "line\nbreak",
    ',"ts":5', "\u0001", '"', "é" * 200,
]  # fmt: skip


def odd(i: int, rng: np.random.Generator) -> Any:
    """Mostly one shape, with values that break it."""
    value: Any = rng.choice([0, 1, 2, 3, 4, 5], p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
    text = POISON[int(rng.integers(len(POISON)))] if rng.random() < 0.2 else f"v{i % 9}"
    inner: Any = {"id": int(rng.integers(-5, 5)), "at": text}
    if value == 1:
        inner = {"at": text}
    if value == 2:
        inner = text
    if value == 3:
        return {"id": i, "ts": text, "user": inner, "zz": [1, {"ts": 9}]}
    if value == 4:
        return [inner, 5]
    return {"id": i if value != 5 else None, "ts": i * 1.5, "name": text, "user": inner, "aaaaaaaa": {}}


@pytest.mark.parametrize("seed", range(12))
def test_quick_ways_find_what_the_exact_one_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents = [odd(i, rng) for i in range(400)]
    texts = pa.array([canonical_text(json.dumps(d)) for d in documents])
    exact = tally_decoded([[json.loads(t, parse_int=_dec, parse_float=_dec) for t in texts.to_pylist()]]).row(
        0
    )
    quick = tally_documents(texts, np.array([0, 400]), ("payload",), frozenset()).row(0)
    _same(exact, quick)


def _dec(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


def _same(exact: JsonStats, quick: JsonStats, at: str = "") -> None:
    """What `quick` says is what `exact` says; numbers that went through doubles may be a little further out."""
    if quick.counts is not None:
        assert quick.counts == exact.counts, at
        assert (quick.text_low, quick.text_high) == (exact.text_low, exact.text_high), at
        assert quick.whole <= exact.whole
    if exact.number_low is not None and exact.number_high is not None and quick.counts is not None:
        assert quick.number_low is not None
        assert quick.number_high is not None
        assert 0 <= exact.number_low - quick.number_low <= ONE // 10**9
        assert 0 <= quick.number_high - exact.number_high <= ONE // 10**9
    for name, inner in quick.keys.items():
        _same(exact.keys[name], inner, f"{at}.{name}")


def test_a_template_is_the_text_around_the_values() -> None:
    template = Template.of({"id": 7, "ts": 1700, "user": {"id": 3, "name": "x"}, "tags": ["a", "b"]})
    assert [(f.path, f.before, f.behind) for f in template.fields] == [
        (("id",), '{"id":', ""), (("ts",), '"ts":', ""), (("user", "id"), '"user":{"id":', ""), (("user", "name"), '"name":', "}"),
    ]  # fmt: skip
    assert not template.complete
    assert template.needed(("ts",)) == 2
    assert template.needed(("aa",)) == 1, (
        "shorter keys come first, and then by letters: it would stand before `id`"
    )
    assert template.needed(("id", "x")) == 1, "a number is no map"
    assert template.needed(("user",)) is None, "a map: its lane is not told by values"
    assert template.needed(("zzzzz",)) is None, "behind the list"
    whole = Template.of({"a": 1, "b": {"c": "x"}})
    assert whole.complete
    assert whole.fields[-1].behind == "}}"
    assert whole.needed(("zz",)) == 2


def test_a_document_that_does_not_fit_is_left_out() -> None:
    template = Template.of({"a": 1, "bb": "x", "ccc": {"d": True}})
    fitting = ['{"a":5,"bb":"y","ccc":{"d":null}}', '{"a":"s","bb":-1.5,"ccc":{"d":"z"}}']
    others = [
        '{"a":5,"bb":"y,z","ccc":{"d":1}}', '{"a":5,"bb":"q\\"","ccc":{"d":1}}', '{"a":5,"ccc":{"d":1}}',
        '{"a":{},"bb":1,"ccc":{"d":1}}',
        '{"a":5,"bb":"y","ccc":{"d":1},"eeee":1}', '{"a":5,"bb":[1],"ccc":{"d":1}}', '{"a":5,"bb":",","ccc":{"d":1}}', "7",
        "[1,2,3]", '"a,b,c"',
        '{"a":5,"bb":"y","ccc":{"d":1,"e":2}}', '{"a":5,"bb":{"x":1},"ccc":{"d":1}}', '{"a":5,"bb":"\\",\\"ccc\\":{\\"d\\":1}}',
    ]  # fmt: skip
    values, passed = read(pa.array([*fitting, *others]), template, 1000)
    assert passed.tolist() == [True] * len(fitting) + [False] * len(others)
    assert [column.to_pylist() for column in values] == [["5", '"s"'], ['"y"', "-1.5"], ["null", '"z"']]
    short = template.first(1)
    values, passed = read(pa.array(fitting), short, reach(fitting, short))
    assert values[0].to_pylist() == ["5", '"s"']


def test_duckdb_reads_the_paths_that_no_template_tells() -> None:
    texts = pa.array([None, '{"a":{"b":1},"*":2,"x/y":3,"0":4}', "[5]", '"s"'])
    got = extract(texts, [("a", "b"), ("x/y",), ("0",)])
    assert [column.to_pylist() for column in got] == [
        [None, "1", None, None],
        [None, "3", None, None],
        [None, "4", None, None],
    ]


def test_without_a_common_shape_the_best_paths_are_looked_at() -> None:
    rng = np.random.default_rng(2)
    documents = [
        {f"k{j}": j for j in rng.permutation(40)[:8].tolist()}
        | {"n": i, "text": f"random {rng.integers(10**9)}"}
        for i in range(300)
    ]
    chosen = plan([canonical_text(json.dumps(d)) for d in documents], ("payload",), frozenset())
    assert not chosen.templates
    assert ("n",) in chosen.paths
    assert ("text",) not in chosen.paths


def test_the_absent_and_the_unknown() -> None:
    """In a closed map an unlisted key is absent; in an open one it may be anything."""
    few = tally(pa.array(['{"a":1}'] * 3), JSONB, np.array([0, 3]))
    many = tally(
        pa.array([canonical_text(json.dumps(event(i))) for i in range(MAX_PARSED_WHOLE + 1)]),
        JSONB,
        np.array([0, MAX_PARSED_WHOLE + 1]),
    )
    for found, empty in ((few, True), (many, False)):
        (specs,) = Frame(found.rows, facts_of({0: found})).specs([(0, JSONB)])
        assert specs.json is not None
        assert specs.json.key("nothing").empty.all() == empty
