"""Statistics cover every row: collected, trimmed to any budget, encoded, decoded, put into a frame and read back as Specs.

For every type, with poison values and NULLs: the Specs of the part, of each page and of each row group admit each of their
rows. The budgets are those at which something else is left each time: everything, half, a quarter, 16 bytes, nothing. Then
whole filters: random rows in random parts, and NONE never loses a row that passes or fails, ALL never admits one that does
not pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.laws.admits import admits
from tests.laws.boxes import sorted_by_order
from tests.laws.cases import cases
from tests.laws.grow import COLUMNS, Grower
from tests.laws.poison import mixed, with_nulls
from tests.laws.test_order import TYPES
from tests.laws.test_soundness import written
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs, Verdict
from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.model import order
from tidegate.expr.model.outcome import to_bools
from tidegate.expr.model.types import BOOL, FLOAT8, INT4, INTERVAL, JSONB, TEXT, UUID, Type, array, record
from tidegate.storage.stats import collect as collect_module
from tidegate.storage.stats import encode as codec
from tidegate.storage.stats import extremes as extremes_module
from tidegate.storage.stats import shorten as cut
from tidegate.storage.stats import trim as trim_module
from tidegate.storage.stats.collect import ColumnValues, collect, tally
from tidegate.storage.stats.extremes import extremes
from tidegate.storage.stats.frame import Frame
from tidegate.storage.stats.json.model import JsonStats
from tidegate.storage.stats.model import ColumnStats
from tidegate.storage.stats.trim import Named, named, size, trim

NESTED = (
    record(("x", INT4), ("at", TEXT), ("f", FLOAT8)), record(("j", JSONB), ("r", record(("v", INTERVAL)))), array(JSONB),
    array(FLOAT8), array(record(("x", TEXT))), array(array(INT4)), record(("a", array(TEXT))),
)  # fmt: skip
ALL = [*TYPES, *NESTED]
SHARES = (1.0, 0.5, 0.25)
QUIET = (Phase.explicit, Phase.reuse, Phase.generate)


def rows_of(type_: Type, rng: np.random.Generator, n: int) -> pa.Array:
    """Poison rows: all NULL, without NULL, or some; often few different ones, so that bounds are narrow."""
    values = mixed(type_, rng, n)
    if rng.random() < 0.6:
        some = np.sort(rng.integers(0, n, int(rng.integers(1, 4))))
        values = values.take(pa.array(some[rng.integers(0, len(some), n)]))
    values = with_nulls(rng, values, float(rng.choice([0, 0, 0.2, 1.0], p=[0.4, 0.2, 0.3, 0.1])))
    before = values.slice(0, int(rng.integers(0, 4)))
    return pa.concat_arrays([before, values]).slice(len(before))  # kernels must mind where a slice begins


def budgets(full: int) -> list[int]:
    """From everything to nothing."""
    return [*(int(full * share) for share in SHARES), 16, 0]


def kept(stats: dict[int, ColumnStats], names: dict[int, Named], budget: int, rows: int) -> Frame:
    """A frame of one part, after all that happens to its statistics."""
    trimmed = trim(stats, names, budget)
    data = codec.encode(trimmed)
    forced = b"\x02ts" in data or "at" in [field.name for field in names[7].fields]
    assert len(data) <= budget or forced, "it fits"
    assert codec.decode(data) == (trimmed or None), "what is encoded comes back"
    return Frame.of_parts(np.array([rows]), [data])


@pytest.mark.parametrize("type_", ALL, ids=str)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(10), phases=QUIET)
def test_every_row_is_covered(type_: Type, seed: int) -> None:
    """10 cases a type: each is 5 budgets of a part and 4 of its pages. The lies below are found in as many."""
    check_coverage(type_, np.random.default_rng(seed))


def check_coverage(type_: Type, rng: np.random.Generator) -> None:
    """A random part of one column."""
    n = int(rng.integers(1, 300))
    values = rows_of(type_, rng, n)
    collected = collect([ColumnValues(7, "c", type_, values)], n, page_rows=int(rng.choice([7, 64, 1000])))
    names = {7: named("c", type_)}
    part = collected.part()
    for budget in budgets(size(part)):
        (specs,) = kept(part, names, budget, n).specs([(7, type_)])
        assert admits(specs, values).all(), f"the part, in {budget} bytes"
    pages = Frame(collected.page_rows(), collected.pages())
    again = Frame(pages.rows, Frame.unpack(pages.pack()))
    for i in rng.integers(0, len(pages), 4).tolist():
        begin, end = collected.starts[i : i + 2].tolist()
        frame = again if rng.random() < 0.5 else pages
        (specs,) = frame.slice(i, i + 1).specs([(7, type_)])
        assert admits(specs, values.slice(begin, end - begin)).all(), f"page {i}"


@pytest.mark.parametrize("type_", [t for t in TYPES if not t.is_nested], ids=str)
def test_bounds_follow_the_one_order(type_: Type) -> None:
    """The least and greatest by statistics are those of `order.py`, for stretches of every size."""
    rng = np.random.default_rng(11)
    values = mixed(type_, rng, 400)
    starts = np.array([0, 1, 1, 3, 60, 60, 222, 400])
    low, high = (
        extremes(values, starts)
        if type_ != JSONB
        else extremes(values.cast(pa.binary()).cast(pa.string()), starts)
    )
    found = tally(values, type_, starts)
    for i, (begin, end) in enumerate(pairwise(starts)):
        some = values.slice(begin, end - begin)
        if type_.is_float:
            some = some.filter(pa.array(~np.isnan(some.to_numpy())))
        if not len(some):
            assert (low[i].is_valid, high[i].is_valid) == (False, False)
            continue
        ends = sorted_by_order(some)
        for bound, wanted in ((low, ends[0]), (high, ends[-1])):
            (specs,) = Frame(np.array([1]), {}).specs([(0, type_)])
            assert admits(specs, pa.array([None], type_.arrow)).all()
            assert _equal(bound, i, wanted, type_)
    assert (found.rows == np.diff(starts)).all()


def _equal(bound: pa.Array, i: int, wanted: pa.Scalar, type_: Type) -> bool:
    """Whether a stored bound is that value."""
    frame = Frame(
        np.array([1]),
        {'["low",0]': bound.slice(i, 1), '["high",0]': bound.slice(i, 1), '["nulls",0]': pa.array([0])},
    )
    if type_ == JSONB:
        return bool(bound[i].as_py() == wanted.as_py())
    (specs,) = frame.specs([(0, type_)])
    low, _ = specs.bounds()
    return bool(order.equal(low, pa.repeat(wanted, 1))[0].as_py())


def parts_of(rng: np.random.Generator, many: int) -> tuple[list[list[pa.Array]], list[bytes], np.ndarray]:
    """Random parts of all columns, and their encoded statistics, each trimmed to another budget."""
    rows, encoded, sizes = [], [], []
    names = {i: named(f"c{i}", type_) for i, type_ in enumerate(COLUMNS)}
    for _ in range(many):
        n = int(rng.integers(1, 12))
        columns = [rows_of(type_, rng, n) for type_ in COLUMNS]
        stats = collect(
            [ColumnValues(i, f"c{i}", t, c) for i, (t, c) in enumerate(zip(COLUMNS, columns, strict=True))], n
        ).part()
        budget = int(rng.choice([10**6, 1024, 600, 300, 16]))
        rows.append(columns)
        encoded.append(codec.encode(trim(stats, names, budget)) if rng.random() < 0.95 else b"junk")
        sizes.append(n)
    return rows, encoded, np.array(sizes)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(4), phases=QUIET)
def test_filters_lose_no_row(seed: int) -> None:
    """4 cases of 30 filters over 30 parts, some 3,000 verdicts."""
    check_filters(np.random.default_rng(seed))


def check_filters(rng: np.random.Generator) -> None:
    """Random filters over random parts."""
    rows, encoded, sizes = parts_of(rng, 30)
    frame = Frame.concat(
        [Frame.of_parts(sizes[a : a + 8], encoded[a : a + 8]) for a in range(0, len(sizes), 8)]
    )
    specs: list[Specs | None] = list(frame.specs(enumerate(COLUMNS)))
    now = 1_700_000_000_000
    interpretation = Interpretation(specs, (now - 5, now + 5))
    whole = [pa.concat_arrays([part[i] for part in rows]) for i in range(len(COLUMNS))]
    total = int(sizes.sum())
    evaluation = Evaluation(whole, total, now)
    grower = Grower(rng)
    for _ in range(30):
        expr = grower.grow(BOOL, int(rng.integers(2, 5)))
        verdict = np.repeat(np.broadcast_to(interpretation.of(expr).verdict(), len(sizes)), sizes)
        outcome = evaluation.of(expr)[0]
        failed = np.zeros(total, bool) if outcome.errors is None else to_bools(outcome.errors.is_valid())
        passed = to_bools(outcome.values) & ~failed
        lost, wrong = (verdict == Verdict.NONE) & (passed | failed), (verdict == Verdict.ALL) & ~passed
        assert not lost.any(), f"NONE lost a row: {written(expr)}"
        assert not wrong.any(), f"ALL admitted a row: {written(expr)}"


def _not_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "high_text", cut.low_text)


def _still_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = trim_module._without_key

    def lie(stats: JsonStats, steps: trim_module.Steps) -> JsonStats | None:
        left = honest(stats, steps)
        return left and replace(left, closed=True)

    monkeypatch.setattr(trim_module, "_without_key", lie)


def _last_byte_first(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = extremes_module._halves
    monkeypatch.setattr(
        extremes_module, "_halves", lambda values, word: honest(values, word.replace(">u8", "<u8"))
    )


def _nan_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = collect_module.float_extremes
    monkeypatch.setattr(collect_module, "float_extremes", lambda *a: (honest(*a)[0], honest(*a)[1] & False))


@pytest.mark.parametrize(
    ("lie", "type_"),
    [(_not_rounded_up, TEXT), (_still_closed, JSONB), (_last_byte_first, UUID), (_nan_forgotten, FLOAT8)],
)
def test_a_planted_lie_is_found(
    monkeypatch: pytest.MonkeyPatch, lie: Callable[[pytest.MonkeyPatch], None], type_: Type
) -> None:
    """Within the cases of `make test`."""
    lie(monkeypatch)

    def look() -> None:
        for case in range(10):
            check_coverage(type_, np.random.default_rng([3, case]))

    with pytest.raises(AssertionError):
        look()
