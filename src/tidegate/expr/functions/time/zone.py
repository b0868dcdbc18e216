"""AT TIME ZONE: the function `timezone(zone, t)`, both ways, and date_trunc by a zone's clock.

    timezone('Europe/Berlin', timestamptz '2024-07-01 10:00+00')  →  timestamp   '2024-07-01 12:00'
    timezone('Europe/Berlin', timestamp   '2024-07-01 12:00')     →  timestamptz '2024-07-01 10:00+00'

Where clocks are set back, a later instant shows an earlier time, so there is no trend, but there are bounds:
between two changes of the clock the order is kept, and elsewhere the result lies within the zone's least and
greatest offset of its ends. A zone that is not one constant for all containers gives no bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import civil, order
from tidegate.expr.civil import FIRST_MICRO, LAST_MICRO, MICROS_A_SECOND, Ints
from tidegate.expr.enclose import bound, claimed, constant, inherited, numbers, widest
from tidegate.expr.function import scalar
from tidegate.expr.functions.calendar import truncated
from tidegate.expr.interval_text import interval_texts
from tidegate.expr.outcome import Datum, Outcome, failing, first_error, length, spread, to_numpy, with_errors
from tidegate.expr.specs import Specs
from tidegate.expr.types import INTERVAL, TEXT, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.units import by_choice, field_of, refused, unit_error
from tidegate.expr.zones import Zone, find_zone

Convert = Callable[[Zone, np.ndarray], np.ndarray]


def _shown(zone: Zone, at: Ints) -> Ints:
    return at + zone.offset_at(at)


def _meant(zone: Zone, local: Ints) -> Ints:
    return local - zone.offset_of_local(local)


def _in_zone(name: str, t: pa.Array, convert: Convert, out: Type) -> Outcome:
    zone = find_zone(name)
    if zone is None:
        return refused(f'time zone "{name}" not recognized', len(t), out.arrow)
    return civil.timestamps(convert(zone, to_numpy(t)), out.arrow, t)


def _zone_of(specs: Specs) -> Zone | None:
    value = constant(specs)
    if value is None:
        return None
    if specs.type == INTERVAL:
        return None
    return find_zone(value.as_py())


def _clamped(
    out: Type,
    args: tuple[Specs, ...],
    ends: tuple[np.ndarray, np.ndarray],
    known: tuple[np.ndarray, np.ndarray],
) -> Specs:
    """Bounds from microseconds; a side beyond the calendar is unknown there, and rows may fail."""
    flags = inherited(*args)
    inside = [
        is_known & (end >= FIRST_MICRO) & (end <= LAST_MICRO)
        for end, is_known in zip(ends, known, strict=True)
    ]
    low, high = (bound(end, fine, out.arrow) for end, fine in zip(ends, inside, strict=True))
    error = flags.pop("error") | (~(inside[0] & inside[1]) & ~flags["empty"])
    return Specs.ranged(out, low, high, error=error, **flags)


def _zone_bounds(out: Type, name: Specs, t: Specs) -> Specs:
    zone = _zone_of(name)
    if zone is None:
        return (_shown_exact if out == TIMESTAMP else _meant_exact)(out, name, t)
    n = widest(t)
    (low, low_known), (high, high_known) = (numbers(b, n) for b in t.bounds())
    least, greatest = int(zone.offsets.min()), int(zone.offsets.max())
    if out == TIMESTAMP:
        together = low_known & high_known & (zone.period(low) == zone.period(high))
        ends = [_shown(zone, at) for at in (low, high)]
        wide = low + least, high + greatest
    else:
        together = low_known & high_known & (zone.local_period(low) == zone.local_period(high))
        ends = [_meant(zone, at) for at in (low, high)]
        wide = low - greatest, high - least
    first, last = (np.where(together, end, outer) for end, outer in zip(ends, wide, strict=True))
    return _clamped(out, (name, t), (first, last), (low_known, high_known))


@scalar("timezone", (TEXT, TIMESTAMPTZ), TIMESTAMP, transfer=_zone_bounds, stable=True)
def shown_in_zone(zone: Datum, t: Datum) -> Outcome:
    """What a zone's clock shows at an instant: `t AT TIME ZONE zone`."""
    return by_choice(zone, lambda name, at: _in_zone(name, at, _shown, TIMESTAMP), TIMESTAMP.arrow, t)


@scalar("timezone", (TEXT, TIMESTAMP), TIMESTAMPTZ, transfer=_zone_bounds, stable=True)
def meant_in_zone(zone: Datum, t: Datum) -> Outcome:
    """The instant at which a zone's clock shows a time: `t AT TIME ZONE zone`."""
    return by_choice(zone, lambda name, at: _in_zone(name, at, _meant, TIMESTAMPTZ), TIMESTAMPTZ.arrow, t)


_shown_exact = claimed(shown_in_zone, TIMESTAMP)
_meant_exact = claimed(meant_in_zone, TIMESTAMPTZ)


@scalar("timezone", (INTERVAL, TIMESTAMPTZ), TIMESTAMP, stable=True)
@scalar("timezone", (INTERVAL, TIMESTAMP), TIMESTAMPTZ, stable=True)
def at_offset(offset: Datum, t: Datum, out: Type) -> Outcome:
    """The same by an offset east of Greenwich, given as an interval of hours, minutes and seconds."""
    n = length(offset, t)
    months, days, span = order.interval_parts(offset)
    step = span - np.fmod(span, MICROS_A_SECOND)  # a zone has no fractions of a second: cut towards zero
    moved = to_numpy(t) + (step if out == TIMESTAMP else -step)
    values, errors = civil.timestamps(np.broadcast_to(moved, n), out.arrow, offset, t)
    mixed = np.broadcast_to((months != 0) | (days != 0), n)
    if not mixed.any():
        return Outcome(values, errors)
    shown = interval_texts(*order.interval_parts(spread(offset, n)))
    odd = pc.binary_join_element_wise('interval time zone "', shown, '" must not include months or days', "")
    return with_errors(values, first_error(errors, failing(mixed, odd)))


def _trunc_bounds(out: Type, unit: Specs, t: Specs, name: Specs) -> Specs:
    """The ends cut by the zone's clock, with its least and greatest offset there and back."""
    zone, text = _zone_of(name), constant(unit)
    field = None if text is None else field_of(text.as_py())
    if zone is None or field is None or truncated(field, np.zeros(1, np.int64)) is None:
        return _trunc_exact(out, unit, t, name)
    n = widest(t)
    (low, low_known), (high, high_known) = (numbers(b, n) for b in t.bounds())
    least, greatest = int(zone.offsets.min()), int(zone.offsets.max())
    first, last = truncated(field, low + least), truncated(field, high + greatest)
    assert first is not None
    assert last is not None
    fixed = np.broadcast_to(t.exact, n)
    if fixed.any():
        exact = _truncated_in(zone, field, low)
        first, last = np.where(fixed, exact, first - greatest), np.where(fixed, exact, last - least)
    else:
        first, last = first - greatest, last - least
    return _clamped(out, (unit, t, name), (first, last), (low_known, high_known))


def _truncated_in(zone: Zone, field: str, at: Ints) -> Ints:
    offset = zone.offset_at(at)
    cut = truncated(field, at + offset)
    assert cut is not None
    # Below a day the clock cannot change within the unit in a way that matters: the offset stays.
    if field in ("microseconds", "milliseconds", "second", "minute", "hour"):
        return cut - offset
    return cut - zone.offset_of_local(cut)


@scalar("date_trunc", (TEXT, TIMESTAMPTZ, TEXT), TIMESTAMPTZ, transfer=_trunc_bounds, stable=True)
def date_trunc_in_zone(unit: Datum, t: Datum, zone: Datum) -> Outcome:
    """The start of the unit that an instant lies in by a zone's clock."""

    def by_zone(name: str, field_name: str, at: pa.Array) -> Outcome:
        found, field = find_zone(name), field_of(field_name)
        if field is None or truncated(field, np.zeros(1, np.int64)) is None:
            return refused(unit_error(field_name, TIMESTAMPTZ, truncating=True), len(at), TIMESTAMPTZ.arrow)
        if found is None:
            return refused(f'time zone "{name}" not recognized', len(at), TIMESTAMPTZ.arrow)
        return civil.timestamps(_truncated_in(found, field, to_numpy(at)), TIMESTAMPTZ.arrow, at)

    def by_unit(name: str, units: pa.Array, at: pa.Array) -> Outcome:
        return by_choice(units, lambda text, given: by_zone(name, text, given), TIMESTAMPTZ.arrow, at)

    return by_choice(zone, by_unit, TIMESTAMPTZ.arrow, unit, t)


_trunc_exact = claimed(date_trunc_in_zone, TIMESTAMPTZ)
