"""AT TIME ZONE: `timezone(zone, t)` in both directions, and date_trunc in a time zone.

    timezone('Europe/Berlin', timestamptz '2024-07-01 10:00+00')  →  timestamp   '2024-07-01 12:00'
    timezone('Europe/Berlin', timestamp   '2024-07-01 12:00')     →  timestamptz '2024-07-01 10:00+00'

Where clocks are set back, a later instant shows an earlier time, so there is no trend, but there are bounds:
between two changes of the clock the order is kept, and elsewhere the result lies within the zone's least and
greatest offset of its ends. A zone that is not a constant gives no bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import (
    bound_integers,
    constant,
    container_count,
    inherited_flags,
    temporal_bound,
)
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.functions.time.truncate import truncate_micros
from tidegate.expr.model import order
from tidegate.expr.model.function import ANYWHERE, BoundTransfer, Function, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    length,
    spread,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import INTERVAL, TEXT, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.time import calendar as civil
from tidegate.expr.primitives.time.calendar import FIRST_MICRO, LAST_MICRO, MICROS_A_SECOND, Ints
from tidegate.expr.primitives.time.interval_text import interval_texts
from tidegate.expr.primitives.time.units import evaluate_by_choice, fail_all_rows, field_of, unit_error
from tidegate.expr.primitives.time.zones import Zone, find_zone

Convert = Callable[[Zone, np.ndarray], np.ndarray]


def _shown(zone: Zone, at: Ints) -> Ints:
    return at + zone.offset_at(at)


def _meant(zone: Zone, local: Ints) -> Ints:
    return local - zone.offset_of_local(local)


def _in_zone(name: str, t: pa.Array, convert: Convert, out: Type) -> Outcome:
    zone = find_zone(name)
    if zone is None:
        return fail_all_rows(f'time zone "{name}" not recognized', len(t), out.arrow)
    return civil.timestamps(convert(zone, to_numpy(t)), out.arrow, t)


def _zone_of(specs: Specs) -> Zone | None:
    value = constant(specs)
    return None if value is None or specs.type == INTERVAL else find_zone(value.as_py())


def _clamped(
    out: Type,
    args: tuple[Specs, ...],
    ends: tuple[np.ndarray, np.ndarray],
    known: tuple[np.ndarray, np.ndarray],
) -> Specs:
    """Bounds from microseconds; a side beyond the calendar is unknown, and rows may fail."""
    flags = inherited_flags(*args)
    inside = [
        is_known & (end >= FIRST_MICRO) & (end <= LAST_MICRO)
        for end, is_known in zip(ends, known, strict=True)
    ]
    low, high = (temporal_bound(end, fine, out.arrow) for end, fine in zip(ends, inside, strict=True))
    error = flags.pop("error") | (~(inside[0] & inside[1]) & ~flags["empty"])
    return Specs.ranged(out, low, high, error=error, **flags)


@BoundTransfer
def zone_transfer(function: Function, out: Type, name: Specs, t: Specs) -> Specs:
    """AT TIME ZONE over containers, in both directions."""
    zone = _zone_of(name)
    if zone is None:
        return by_trend(function.claiming(errors=ANYWHERE), (name, t), out)
    n = container_count(t)
    (low, low_known), (high, high_known) = (bound_integers(b, n) for b in t.bounds())
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


@scalar("timezone", (TEXT, TIMESTAMPTZ), TIMESTAMP, transfer=zone_transfer, stable=True)
def shown_in_zone(zone: Datum, t: Datum) -> Outcome:
    """The local time of an instant in a time zone: `t AT TIME ZONE zone`."""
    return evaluate_by_choice(
        zone, lambda name, at: _in_zone(name, at, _shown, TIMESTAMP), TIMESTAMP.arrow, t
    )


@scalar("timezone", (TEXT, TIMESTAMP), TIMESTAMPTZ, transfer=zone_transfer, stable=True)
def meant_in_zone(zone: Datum, t: Datum) -> Outcome:
    """The instant of a local time in a time zone: `t AT TIME ZONE zone`."""
    return evaluate_by_choice(
        zone, lambda name, at: _in_zone(name, at, _meant, TIMESTAMPTZ), TIMESTAMPTZ.arrow, t
    )


@scalar(
    "timezone",
    (INTERVAL, TIMESTAMP),
    TIMESTAMPTZ,
    overloads=[((INTERVAL, TIMESTAMPTZ), TIMESTAMP)],
    stable=True,
)
def at_offset(offset: Datum, t: Datum, out: Type) -> Outcome:
    """AT TIME ZONE with an offset east of Greenwich, as an interval of hours, minutes and seconds."""
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


@BoundTransfer
def trunc_transfer(function: Function, out: Type, unit: Specs, t: Specs, name: Specs) -> Specs:
    """date_trunc in a zone over containers: the ends, widened by the zone's least and greatest offset."""
    zone, text = _zone_of(name), constant(unit)
    field = None if text is None else field_of(text.as_py())
    if zone is None or field is None or truncate_micros(field, np.zeros(1, np.int64)) is None:
        return by_trend(function.claiming(errors=ANYWHERE), (unit, t, name), out)
    n = container_count(t)
    (low, low_known), (high, high_known) = (bound_integers(b, n) for b in t.bounds())
    least, greatest = int(zone.offsets.min()), int(zone.offsets.max())
    first, last = truncate_micros(field, low + least), truncate_micros(field, high + greatest)
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
    cut = truncate_micros(field, at + offset)
    assert cut is not None
    # Below a day the offset does not change within the unit.
    if field in ("microseconds", "milliseconds", "second", "minute", "hour"):
        return cut - offset
    return cut - zone.offset_of_local(cut)


@scalar("date_trunc", (TEXT, TIMESTAMPTZ, TEXT), TIMESTAMPTZ, transfer=trunc_transfer, stable=True)
def date_trunc_in_zone(unit: Datum, t: Datum, zone: Datum) -> Outcome:
    """The instant truncated to a unit in a time zone."""

    def by_zone(name: str, field_name: str, at: pa.Array) -> Outcome:
        zone_, field = find_zone(name), field_of(field_name)
        if field is None or truncate_micros(field, np.zeros(1, np.int64)) is None:
            return fail_all_rows(
                unit_error(field_name, TIMESTAMPTZ, truncating=True), len(at), TIMESTAMPTZ.arrow
            )
        if zone_ is None:
            return fail_all_rows(f'time zone "{name}" not recognized', len(at), TIMESTAMPTZ.arrow)
        return civil.timestamps(_truncated_in(zone_, field, to_numpy(at)), TIMESTAMPTZ.arrow, at)

    def by_unit(name: str, units: pa.Array, at: pa.Array) -> Outcome:
        return evaluate_by_choice(
            units, lambda text, instants: by_zone(name, text, instants), TIMESTAMPTZ.arrow, at
        )

    return evaluate_by_choice(zone, by_unit, TIMESTAMPTZ.arrow, unit, t)
