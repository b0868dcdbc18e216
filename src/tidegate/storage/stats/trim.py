"""Statistics made to fit a budget: they are read by every query and kept in memory for every part.

What goes, in this order, until the rest fits:

1. what cannot help to prune: histograms, estimates of distinct values, JSON keys that hold only lists;
2. the ends of text bounds: `customer/00174 … customer/00921` say nearly as much by `customer/001 …
   customer/00:`. Timestamps in ISO form are never cut, as no time could be read from what is left;
3. the dearest columns, fields and JSON paths, by their bytes.

Never what the user marked KEEP STATISTICS, nor what is named as times are (`time_like.py`), nor what leads
there. So the result fits unless these alone do not. What is dropped is *unknown*: a map that lost a key is
no longer closed, and a column that lost everything is not mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tidegate.expr.model import Type
from tidegate.storage.stats.counters import StatsCounters
from tidegate.storage.stats.encode import OVERHEAD, encode_column
from tidegate.storage.stats.json import model as lane
from tidegate.storage.stats.json.model import JsonStats
from tidegate.storage.stats.model import ColumnStats, Form
from tidegate.storage.stats.shorten import shorter_bytes, shorter_texts
from tidegate.storage.stats.time_like import Place, is_forced

BUDGET = 1024
"""Bytes a part, unless told otherwise."""


@dataclass(frozen=True)
class Named:
    """A column as trimming sees it: its name and, for records, those of its fields."""

    name: str
    fields: tuple[Named, ...] = ()
    element: Named | None = None


def named(name: str, type_: Type) -> Named:
    """The names in a column of that type."""
    fields = tuple(named(inner, inside) for inner, inside in type_.fields)
    return Named(name, fields, None if type_.element is None else named(name, type_.element))


def trim(
    columns: Mapping[int, ColumnStats],
    names: Mapping[int, Named],
    budget: int = BUDGET,
    keep: frozenset[Place] = frozenset(),
    counters: StatsCounters | None = None,
) -> dict[int, ColumnStats]:
    """The statistics in at most `budget` bytes, or as few as what must be kept allows."""
    whole = size(columns)
    if whole <= budget:
        return dict(columns)
    left = _fitted(columns, names, budget, keep)
    if counters is not None:
        counters.count_trimmed(whole - size(left))
    return left


def _fitted(
    columns: Mapping[int, ColumnStats], names: Mapping[int, Named], budget: int, keep: frozenset[Place]
) -> dict[int, ColumnStats]:
    left = dict(columns)
    for step in (_without_guesses, _without_bare_keys, _shorter):
        left = {id_: step(stats, names[id_], (names[id_].name,), keep) for id_, stats in left.items()}
        if size(left) <= budget:
            return left
    return _without_dearest(left, names, budget, keep)


def size(columns: Mapping[int, ColumnStats]) -> int:
    """How many bytes the encoding takes."""
    return sum(len(encode_column(id_, stats)) for id_, stats in columns.items()) + (
        OVERHEAD if columns else 0
    )


# ---------------------------------------------------------------- what cannot help, and what can be shorter


def _everywhere(
    stats: ColumnStats, name: Named, place: Place, change: Callable[[ColumnStats, Place], ColumnStats]
) -> ColumnStats:
    """`change` made to a column and to what is in it."""
    fields = tuple(
        None if inner is None else _everywhere(inner, inside, (*place, inside.name), change)
        for inner, inside in zip(stats.fields, name.fields, strict=True)
    )
    element = stats.element
    if element is not None and name.element is not None:
        element = _everywhere(element, name.element, place, change)
    return change(replace(stats, fields=fields, element=element), place)


def _without_guesses(stats: ColumnStats, name: Named, place: Place, keep: frozenset[Place]) -> ColumnStats:
    del keep  # they never prune: not even of what must be kept are they needed
    return _everywhere(stats, name, place, lambda s, _: replace(s, histogram=b"", distinct=None))


def _without_bare_keys(stats: ColumnStats, name: Named, place: Place, keep: frozenset[Place]) -> ColumnStats:
    def change(inner: ColumnStats, at: Place) -> ColumnStats:
        return inner if inner.json is None else replace(inner, json=_keys_that_help(inner.json, at, keep))

    return _everywhere(stats, name, place, change)


def _keys_that_help(stats: JsonStats, place: Place, keep: frozenset[Place]) -> JsonStats:
    inside = {name: _keys_that_help(inner, (*place, name), keep) for name, inner in stats.keys.items()}
    kept = {
        name: inner
        for name, inner in inside.items()
        if inner.keys or not _only_nested(inner) or is_forced((*place, name), keep)
    }
    return replace(stats, keys=kept, closed=stats.closed and len(kept) == len(inside))


def _only_nested(stats: JsonStats) -> bool:
    return stats.counts is None or not any(stats.counts[: lane.LIST])


def _shorter(stats: ColumnStats, name: Named, place: Place, keep: frozenset[Place]) -> ColumnStats:
    def change(inner: ColumnStats, at: Place) -> ColumnStats:
        if inner.json is not None:
            inner = replace(inner, json=_shorter_json(inner.json, at, keep))
        if is_forced(at, keep):
            return inner
        low, high = inner.low, inner.high
        if inner.form is Form.TEXT:
            low, high = shorter_texts(low, high)  # type: ignore[arg-type]  # of that form
        elif inner.form is Form.BYTES:
            low, high = shorter_bytes(low, high)  # type: ignore[arg-type]  # of that form
        return replace(inner, low=low, high=high)

    return _everywhere(stats, name, place, change)


def _shorter_json(stats: JsonStats, place: Place, keep: frozenset[Place]) -> JsonStats:
    keys = {name: _shorter_json(inner, (*place, name), keep) for name, inner in stats.keys.items()}
    if is_forced(place, keep):
        return replace(stats, keys=keys)
    low, high = shorter_texts(stats.text_low, stats.text_high)
    return replace(stats, keys=keys, text_low=low, text_high=high)


# ---------------------------------------------------------------- dropping what is dearest


def _without_dearest(
    columns: dict[int, ColumnStats], names: Mapping[int, Named], budget: int, keep: frozenset[Place]
) -> dict[int, ColumnStats]:
    """Drops columns and paths, the dearest first, until the rest fits or all that is left must be kept."""
    dear = sorted(_droppable(columns, names, keep), reverse=True)
    over = size(columns) - budget
    for _, id_, steps in dear:
        if over <= 0:
            break
        before = len(encode_column(id_, columns[id_]))
        left = _without(columns[id_], steps)
        if left is None:
            del columns[id_]
        else:
            columns[id_] = left
        over -= before - (0 if left is None else len(encode_column(id_, left)))
    if over > 0:
        columns = {id_: _bare(stats, names[id_], (names[id_].name,), keep) for id_, stats in columns.items()}
    return columns


def _bare(stats: ColumnStats, name: Named, place: Place, keep: frozenset[Place]) -> ColumnStats:
    """Without the bounds of what only leads to something that must be kept."""

    def change(inner: ColumnStats, at: Place) -> ColumnStats:
        return inner if inner.json is None else replace(inner, json=_bare_json(inner.json, at, keep))

    return _everywhere(stats, name, place, change)


def _bare_json(stats: JsonStats, place: Place, keep: frozenset[Place]) -> JsonStats:
    keys = {name: _bare_json(inner, (*place, name), keep) for name, inner in stats.keys.items()}
    if is_forced(place, keep):
        return replace(stats, keys=keys)
    return JsonStats(stats.counts, keys=keys, closed=stats.closed)


Steps = tuple[int | str | None, ...]


def _droppable(
    columns: Mapping[int, ColumnStats], names: Mapping[int, Named], keep: frozenset[Place]
) -> Iterator[tuple[int, int, Steps]]:
    """What may be dropped, as bytes, column and path: leaves, or columns without anything to keep."""
    for id_, stats in columns.items():
        for steps, bytes_, forced in _leaves(stats, names[id_], (names[id_].name,), keep):
            if not forced:
                yield bytes_, id_, steps


def _leaves(
    stats: ColumnStats, name: Named, place: Place, keep: frozenset[Place], steps: Steps = ()
) -> Iterator[tuple[Steps, int, bool]]:
    if stats.json is not None:
        yield from _json_leaves(stats.json, place, keep, steps)
    elif stats.fields:
        for i, (inner, inside) in enumerate(zip(stats.fields, name.fields, strict=True)):
            if inner is not None:
                yield from _leaves(inner, inside, (*place, inside.name), keep, (*steps, i))
    elif stats.element is not None and name.element is not None:
        yield from _leaves(stats.element, name.element, place, keep, (*steps, None))
    else:
        yield steps, len(encode_column(0, stats)), is_forced(place, keep)


def _json_leaves(
    stats: JsonStats, place: Place, keep: frozenset[Place], steps: Steps
) -> Iterator[tuple[Steps, int, bool]]:
    if not stats.keys:
        one = ColumnStats(Form.JSON, 0, 0, json=stats)
        yield steps, len(encode_column(0, one)) + len(place[-1].encode()), is_forced(place, keep)
    for name, inner in stats.keys.items():
        yield from _json_leaves(inner, (*place, name), keep, (*steps, name))


def _without(stats: ColumnStats, steps: Steps) -> ColumnStats | None:
    """The column without the leaf that the steps lead to; None if nothing is left of it."""
    if stats.json is not None:
        json = _without_key(stats.json, steps)
        return None if json is None else replace(stats, json=json)
    if not steps:
        return None
    step, rest = steps[0], steps[1:]
    if step is None:
        assert stats.element is not None
        inner = _without(stats.element, rest)
        return None if inner is None else replace(stats, element=inner)
    assert isinstance(step, int)
    field = stats.fields[step]
    assert field is not None
    fields = (*stats.fields[:step], _without(field, rest), *stats.fields[step + 1 :])
    return replace(stats, fields=fields) if any(inner is not None for inner in fields) else None


def _without_key(stats: JsonStats, steps: Steps) -> JsonStats | None:
    if not steps:
        return None
    name = steps[0]
    assert isinstance(name, str)
    inner = _without_key(stats.keys[name], steps[1:])
    keys = {k: v for k, v in stats.keys.items() if k != name}
    if inner is not None:
        keys = {**stats.keys, name: inner}
    if not keys:
        return None
    return replace(stats, keys=keys, closed=stats.closed and inner is not None)
