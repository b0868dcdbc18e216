"""The frame over all parts: what is unknown, absent, filtered, joined, packed; in segments, and in a part's own pages."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.laws.poison import corpus, mixed
from tests.unit.storage.shard.test_state import FIRST, append_one, machine, part
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Verdict
from tidegate.expr.model.types import BYTEA, FLOAT8, INT4, INT8, JSONB, TEXT, Type
from tidegate.sql.bind.query import bind_expression
from tidegate.storage.blob.protocol import MemoryBlob
from tidegate.storage.consensus.protocol import MemoryConsensus
from tidegate.storage.part.encode import encode_part, page_frame, text_bounds
from tidegate.storage.part.part import Part
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.changes import Append, Replace
from tidegate.storage.shard.state import State
from tidegate.storage.stats import encode as codec
from tidegate.storage.stats.collect import ColumnValues, collect
from tidegate.storage.stats.counters import StatsCounters
from tidegate.storage.stats.frame import Frame
from tidegate.storage.stats.part_stats import read_pages, summarise


def encoded(values: list[object], type_: Type, id_: int = 0) -> bytes:
    given = pa.array(values, type_.arrow)
    return codec.encode(collect([ColumnValues(id_, "c", type_, given)], len(given)).part())


def verdicts(
    frame: Frame, sql: str, *columns: tuple[str, Type], absent: dict[int, np.ndarray] | None = None
) -> list[str]:
    specs = frame.specs([(i, type_) for i, (_, type_) in enumerate(columns)], absent)
    found = Interpretation(specs).of(bind_expression(sql, list(columns))).verdict()
    return [Verdict(v).name for v in np.broadcast_to(found, len(frame))]


def test_unknown_is_read_and_absent_is_null() -> None:
    frame = Frame.of_parts(
        np.array([2, 2, 2, 2]), [encoded([1, 2], INT4), b"", b"junk", encoded([None, None], INT4)]
    )
    assert verdicts(frame, "a > 5", ("a", INT4)) == ["NONE", "SOME", "SOME", "NONE"]
    absent = {0: np.array([False, True, False, False])}
    assert verdicts(frame, "a > 5", ("a", INT4), absent=absent) == ["NONE", "NONE", "SOME", "NONE"]
    assert verdicts(frame, "a IS NULL", ("a", INT4), absent=absent) == ["NONE", "ALL", "SOME", "ALL"]
    assert frame.nulls(0).to_pylist() == [0, None, None, 2]


def test_a_column_of_another_form_is_unknown() -> None:
    frame = Frame.of_parts(np.array([1, 1]), [encoded(["x"], TEXT), encoded([7], INT8)])
    assert verdicts(frame, "a > 5", ("a", INT8)) == ["SOME", "SOME"], (
        "the first to come decides the form of the fact"
    )


def test_json_keys_of_some_parts() -> None:
    parts = [
        encoded(['{"a":1}', '{"a":2,"b":"x"}'], JSONB),
        encoded(['{"c":5}'], JSONB),
        b"",
        encoded(["7", None], JSONB),
    ]
    frame = Frame.of_parts(np.array([2, 1, 3, 2]), parts)
    column = ("j", JSONB)
    assert verdicts(frame, "(j->>'a')::int8 > 1", column) == ["SOME", "NONE", "SOME", "NONE"]
    assert verdicts(frame, "(j->>'a')::int8 > 2", column) == ["NONE", "NONE", "SOME", "NONE"]
    assert verdicts(frame, "j->>'c' = '5'", column) == ["NONE", "ALL", "SOME", "NONE"]
    assert verdicts(frame, "j ? 'b'", column) == ["SOME", "NONE", "SOME", "NONE"]


def test_frames_are_joined_filtered_sliced_and_packed() -> None:
    one = Frame.of_parts(np.array([1, 1]), [encoded([1], INT8), encoded([9], INT8)])
    two = Frame.of_parts(np.array([1]), [encoded([5.0], FLOAT8, 1)])
    both = Frame.concat([one, two])
    again = Frame(both.rows, Frame.unpack(both.pack()))
    columns = (("a", INT8), ("f", FLOAT8))
    for frame in (both, again, Frame.concat([again.slice(0, 1), again.slice(1, 3)])):
        assert verdicts(frame, "a > 3 AND f > 3", *columns) == ["NONE", "SOME", "SOME"]
        assert verdicts(frame, "f < 3", *columns) == ["SOME", "SOME", "NONE"]
        mask = np.array([False, True, True])
        assert verdicts(frame.filter(mask), "a < 9", *columns) == ["NONE", "SOME"]
        assert [(begin, len(block)) for begin, block in frame.blocks(2)] == [(0, 2), (2, 1)]
    assert len(Frame.concat([])) == 0
    assert verdicts(Frame.concat([]), "a > 3", ("a", INT8)) == []


def test_a_fact_is_read_when_it_is_asked_for() -> None:
    packed = Frame.unpack(Frame.of_parts(np.array([1]), [encoded([1], INT8)]).pack())
    asked = []
    read = packed.read
    packed.read = lambda name: asked.append(name) or read(name)  # type: ignore[method-assign,func-returns-value]  # to see it
    frame = Frame(np.array([1]), packed)
    frame.specs([(0, INT8)])
    frame.specs([(0, INT8)])
    assert asked == ['["nulls",0]', '["low",0]', '["high",0]']


@pytest.mark.parametrize(("type_", "values", "value", "share"), [
    (INT8, list(range(1000)), 250, 0.25),
    (TEXT, [f"customer {i:04d}" for i in range(1000)], "customer 0250", 0.25),
    (FLOAT8, [float(i) ** 3 for i in range(1000)], 500.0**3, 0.5),
    (BYTEA, [bytes([7, i // 4]) for i in range(1000)], bytes([7, 125]), 0.5),
], ids=["int8", "text", "float8", "bytea"])  # fmt: skip
def test_how_many_rows_lie_below_a_value(
    type_: Type, values: list[object], value: object, share: float
) -> None:
    frame = Frame.of_parts(np.array([1000, 5]), [encoded(values, type_), b""])
    (specs,) = frame.specs([(0, type_)])
    got = frame.below(0, pa.scalar(value, type_.arrow), specs)
    assert abs(got[0] - share) < 0.05
    assert got[1] == 0.5


def test_below_and_above_all_that_begins_alike() -> None:
    """Both bounds begin with 'customer ': what does not begin so is below or above, whatever follows."""
    frame = Frame.of_parts(np.array([1000]), [encoded([f"customer {i:04d}" for i in range(1000)], TEXT)])
    (specs,) = frame.specs([(0, TEXT)])
    got = [
        frame.below(0, pa.scalar(value), specs)[0]
        for value in ("", "b", "customer", "customer x", "d", "zzz")
    ]
    assert got == [0, 0, 0, 1, 1, 1]


def test_frequent_values_fill_buckets() -> None:
    values = [0] * 900 + list(range(1, 101))
    frame = Frame.of_parts(np.array([1000]), [encoded(values, INT8)])
    (specs,) = frame.specs([(0, INT8)])
    places = frame.places(0, specs)
    assert [int(places.edges_at(pa.scalar(value))[0]) for value in (0, 50, 100, -1, 101)] == [14, 0, 0, 0, 0]


# ---------------------------------------------------------------- in a part's file


def test_pages_sit_in_the_file_and_prune() -> None:
    n = 20_000
    schema = Schema.of([("a", INT8, True), ("t", TEXT, True), ("j", JSONB, True)])
    columns = [
        pa.array(np.arange(n)),
        pa.array([f"k{i:06d}" for i in range(n)]),
        pa.array([f'{{"x":{i}}}' for i in range(n)]),
    ]
    given = [
        ColumnValues(c.id, c.name, c.type, values) for c, values in zip(schema.columns, columns, strict=True)
    ]
    summary = summarise(given, n)
    times = pa.array(np.zeros(n, np.int64))
    data = encode_part(schema, columns, times, pa.array(np.ones(n, np.int64)), summary.pages)
    metadata = pq.read_metadata(pa.BufferReader(data))
    pages = page_frame(metadata, StatsCounters())
    assert pages is not None
    assert pages.rows.tolist() == [8192, 8192, 3616]
    named = [(c.name, c.type) for c in schema.columns]
    assert verdicts(pages, "a < 5000", *named) == ["SOME", "NONE", "NONE"]
    assert verdicts(pages, "t = 'k009000'", *named) == ["NONE", "SOME", "NONE"], (
        "text that is sorted has bounds a page"
    )
    assert verdicts(pages, "(j->>'x')::int8 >= 8192", *named) == ["NONE", "ALL", "ALL"]
    (specs,) = Frame.of_parts(np.array([n]), [summary.encoded(lambda: text_bounds(data))]).specs([(1, TEXT)])
    assert [bound.to_pylist() for bound in specs.bounds()] == [["k000000"], ["k019999"]]
    metadata.metadata[b"tidegate.pages"].decode("ascii")
    assert read_pages(b"", n, StatsCounters()) is None
    assert read_pages(summary.pages[:-50], n, StatsCounters()) is None
    assert read_pages(summary.pages, 8192, StatsCounters()) is None


@pytest.mark.parametrize("type_", [TEXT, BYTEA], ids=str)
def test_the_footer_knows_the_bounds_of_text(type_: Type) -> None:
    """Poison values, several row groups, NULLs, nothing at all: the footer says what our own kernel says, or nothing."""
    rng = np.random.default_rng(4)
    values = [corpus(type_), mixed(type_, rng, 300), pa.nulls(5, type_.arrow), pa.array([], type_.arrow)]
    for given in (*values, pa.concat_arrays(values)):
        schema = Schema.of([("id", INT8, True), ("t", type_, True)])
        n = len(given)
        zeros = pa.array(np.zeros(n, np.int64))
        footer = text_bounds(encode_part(schema, [zeros, given], zeros, zeros))
        collected = collect([ColumnValues(1, "t", type_, given)], n, footed=True)
        own = collect([ColumnValues(1, "t", type_, given)], n).part()[1]
        found = collected.part(footer)[1]
        assert 1 in footer or not n
        assert (found.low, found.high) == (own.low, own.high)
        assert collected.part() == collect([ColumnValues(1, "t", type_, given)], n).part(), (
            "without a footer we look ourselves"
        )


# ---------------------------------------------------------------- in segments


def stated(at: int, low: int) -> Part:
    return part(at, stats=encoded([low, low + 9], INT8), rows=2)


def test_statistics_survive_rollups_merges_and_removals() -> None:
    blob, log = MemoryBlob(), MemoryConsensus()
    m = machine(blob, log)
    m.create(FIRST)

    def add(state: State) -> Append:
        return Append(
            state.upper, state.upper + 1, (stated(state.upper, 10 * state.upper),), f"{state.upper}"
        )

    for _ in range(700):
        m.update(add)
    m.update(lambda s: Replace((3, 698), (part(699, rows=4),)))
    append_one(m, "without statistics")
    again = machine(blob, log)
    for parts in (m.fetch().parts, again.fetch().parts):
        tables, frames = list(parts.tables()), list(parts.frames())
        assert [t.num_rows for t in tables] == [len(f) for f in frames]
        assert len(parts.segments) > 1
        kept = []
        for table, frame in zip(tables, frames, strict=True):
            found = verdicts(frame, "a BETWEEN 30 AND 55", ("a", INT8))
            kept += [i for i, v in zip(table.column("id").to_pylist(), found, strict=True) if v != "NONE"]
        assert kept == [4, 5, 700, 701], "part 3 is gone; of the last two nothing is known"
        assert all(
            not any(segment.table(["stats"]).column("stats").to_pylist())
            for segment in parts.segments
            if segment.name
        )
