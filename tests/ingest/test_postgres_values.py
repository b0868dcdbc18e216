"""Values cut out of the bytes that came, beside a reading of the same bytes one at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.expr.model.types import INT8, TEXT, TIMESTAMPTZ, UUID, Type
from tidegate.ingest.upstreams.postgres.table import type_of
from tidegate.ingest.upstreams.postgres.values import PADDING, Tuples, gather, parse_copy, read_column

_ESCAPES = {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\"}
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from("\\\\\\Nt\t\n\b"), max_size=40
)


def line(row: list[str | None]) -> str:
    """A row as COPY writes it."""
    return "\t".join("\\N" if v is None else "".join(_ESCAPES.get(c, c) for c in v) for v in row) + "\n"


@settings(
    max_examples=100, deadline=None
)  # short rows: escapes meet each other, ends of values and NULLs in the first tens
@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(st.none() | TEXTS, min_size=n, max_size=n))))
def test_rows_of_copy(rows: list[list[str | None]]) -> None:
    """Whatever is in a value, it comes out again."""
    names = tuple("abc"[: len(rows[0]) if rows else 1])
    tuples = parse_copy("".join(map(line, rows)).encode(), names)
    assert tuples.count == len(rows)
    for column in range(len(names)):
        values, errors = read_column(tuples, column, TEXT)
        assert errors is None
        assert values.to_pylist() == [row[column] for row in rows]
    if rows:
        assert tuples.row(len(rows) - 1) == dict(zip(names, rows[-1], strict=True))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=100), st.lists(st.tuples(st.integers(0, 100), st.integers(-1, 100)), max_size=20))
def test_values_anywhere(data: bytes, places: list[tuple[int, int]]) -> None:
    """In any order, overlapping, short and long, and none."""
    some = [(min(start, len(data)), length) for start, length in places]
    some = [(start, min(length, len(data) - start)) for start, length in some]
    letters = np.frombuffer(data + bytes(PADDING), np.uint8)
    starts, lengths = (np.array([place[i] for place in some], np.int64) for i in (0, 1))
    expected = [None if length < 0 else data[start : start + length] for start, length in some]
    assert gather(letters, starts, lengths).to_pylist() == expected


def texts(*values: str | None) -> Tuples:
    return parse_copy("".join(line([value]) for value in values).encode(), ("a",))


def test_instants() -> None:
    """All of one zone, and with others among them: the same values, and errors only where ours end."""
    plain = ["2026-11-16 07:30:15.123456+00", None, "0001-01-01 00:00:00+00"]
    quick = read_column(texts(*plain), 0, TIMESTAMPTZ)
    assert quick.errors is None
    values, errors = read_column(
        texts(*plain, "infinity", "2026-11-16 07:30:15+05:30", "0044-03-15 00:00:00+00 BC"), 0, TIMESTAMPTZ
    )
    assert values.slice(0, 3).equals(quick.values)
    assert values[4].as_py().isoformat() == "2026-11-16T02:00:15+00:00"
    assert [error is None for error in errors.to_pylist()] == [True, True, True, False, True, False]
    some = read_column(texts(*plain, "infinity"), 0, TIMESTAMPTZ, np.array([0, 1]))
    assert some.values.equals(quick.values.slice(0, 2))


def test_uuids() -> None:
    """Of some rows, and none."""
    found = read_column(
        texts("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None, "f" * 8 + "-ffff" * 3 + "-" + "f" * 12), 0, UUID
    )
    first = bytes.fromhex("a0eebc999c0b4ef8bb6d6bb9bd380a11")
    assert found.values.to_pylist() == [first, None, b"\xff" * 16]
    assert len(read_column(texts(), 0, UUID).values) == 0


def test_what_is_no_number_is_an_error_of_its_row() -> None:
    values, errors = read_column(texts("1", "x", None), 0, INT8)
    assert values[0].as_py() == 1
    assert [error is None for error in errors.to_pylist()] == [True, False, True]


def test_types() -> None:
    """Digits are in the modifier; what has none, or too many, is a numeric of ours."""
    shown = {
        ("numeric", ((10 << 16) | 2) + 4): "numeric(10,2)",
        ("numeric", -1): "numeric",
        ("numeric", ((50 << 16) | 2) + 4): "numeric",
        ("numeric", ((5 << 16) | (-2 & 0x7FF)) + 4): "numeric",
        ("varchar", 14): "text",
        ("json", -1): "jsonb",
        ("tsvector", -1): "text",
        ("", -1): "text",
    }
    assert {key: str(type_of(*key)) for key in shown} == shown
    array: Type = type_of("_int4", -1, "int4")
    assert str(array) == "int4[]"
