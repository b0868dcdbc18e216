"""Trimming: what goes first, what never goes, and that it fits."""

import json

import numpy as np
import pyarrow as pa
import pytest

from tidegate.expr.model.types import INT8, JSONB, TEXT, TIMESTAMPTZ, Type, array, record
from tidegate.expr.primitives.json.exact import canonical_text
from tidegate.storage.stats import encode as codec
from tidegate.storage.stats.collect import ColumnValues, collect
from tidegate.storage.stats.model import ColumnStats
from tidegate.storage.stats.time_like import Place, time_like
from tidegate.storage.stats.trim import named, size, trim

N = 400
COLUMNS: list[tuple[str, Type, pa.Array]] = [
    ("id", INT8, pa.array(np.arange(N) * 1_000_003)),
    ("note", TEXT, pa.array([f"customer number {i:06d} with a long tail" for i in range(N)])),
    ("created_at", TIMESTAMPTZ, pa.array(np.arange(N) + 1_700_000_000_000_000).cast(TIMESTAMPTZ.arrow)),
    ("iso", TEXT, pa.array([f"2024-01-01T00:00:00.{i:03d}Z" for i in range(N)])),
    (
        "payload",
        JSONB,
        pa.array(
            [
                canonical_text(json.dumps({"ts": i, "a": f"value {i}", "b": {"c": i, "d_at": "x"}}))
                for i in range(N)
            ]
        ),
    ),
    (
        "r",
        record(("x", INT8), ("at", TEXT), ("last_seen", TEXT)),
        pa.array([{"x": i, "at": "aa", "last_seen": f"{i}"} for i in range(N)]),
    ),
    ("l", array(TEXT), pa.array([[f"element {i}"] for i in range(N)])),
]
NAMES = {i: named(name, type_) for i, (name, type_, _) in enumerate(COLUMNS)}


def whole(keep: frozenset[Place] = frozenset()) -> dict[int, ColumnStats]:
    return collect([ColumnValues(i, *column) for i, column in enumerate(COLUMNS)], N, keep).part()


def trimmed(budget: int, keep: frozenset[Place] = frozenset()) -> dict[str, ColumnStats]:
    return {COLUMNS[i][0]: found for i, found in trim(whole(keep), NAMES, budget, keep).items()}


def test_nothing_goes_that_fits() -> None:
    assert trim(whole(), NAMES, size(whole())) == whole()


def test_histograms_go_first() -> None:
    found = trimmed(size(whole()) - 1)
    assert found["id"].histogram == b""
    assert (found["id"].low, found["note"].low) == (0, "customer number 000000 with a long tail")
    assert set(found) == {name for name, _, _ in COLUMNS}


def test_then_text_is_cut_but_no_timestamps_and_nothing_that_is_forced() -> None:
    keep = frozenset({("l",)})
    bare = size(trim(whole(keep), NAMES, size(whole(keep)) - 1, keep))
    found = trimmed(bare - 1, keep)
    assert (found["note"].low, found["note"].high) == ("customer number 0000", "customer number 0004")
    assert found["iso"].low == "2024-01-01T00:00:00.000Z"
    assert found["l"].element is not None
    assert found["l"].element.low == "element 0"


def test_at_last_only_what_is_forced_is_left() -> None:
    found = trimmed(0)
    assert set(found) == {"created_at", "payload", "r"}
    json_ = found["payload"].json
    assert json_ is not None
    assert set(json_.keys) == {"ts", "b"}
    assert set(json_.keys["b"].keys) == {"d_at"}
    assert not json_.closed
    assert [inner is not None for inner in found["r"].fields] == [False, False, True]


def test_what_the_user_keeps_is_kept_with_all_that_leads_there() -> None:
    keep: frozenset[Place] = frozenset({("note",), ("payload", "b", "c"), ("r", "x")})
    found = trimmed(0, keep)
    assert found["note"].low == "customer number 000000 with a long tail"
    json_ = found["payload"].json
    assert json_ is not None
    assert json_.keys["b"].keys["c"].number_high == (N - 1) * 10**18
    assert found["r"].fields[0] is not None
    assert "id" not in found


@pytest.mark.parametrize("budget", [10_000, 1024, 600, 400, 300, 200, 100])
def test_it_fits_unless_what_is_forced_does_not(budget: int) -> None:
    left = trim(whole(), NAMES, budget)
    forced = size(trim(whole(), NAMES, 0))
    assert len(codec.encode(left)) == size(left) <= max(budget, forced)
    assert len(left) >= len(trim(whole(), NAMES, budget // 2))


def test_names_of_times() -> None:
    assert all(
        map(
            time_like,
            ("ts", "TS", "created_at", "eventTime", "timestamp", "last_seen", "order_date", "dbts_ts"),
        )
    )
    assert not any(map(time_like, ("id", "amount", "status", "cats", "att", "timer_id")))
