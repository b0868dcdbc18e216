"""Spark SQL forms of functions of dates and times; see `forms.py`.

    created_at + '30 days'        (`created_at` + make_dt_interval(30, 0, 0, …)), or an error beyond year 9999
    date_trunc('month', at)       CAST(date_trunc('MONTH', CAST(`at` AS timestamp)) AS timestamp)

Spark's calendar extends beyond the years 1 to 9999, so a form that moves a time checks the result. Units, fields and intervals must
be constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.expr.model.tree import Call
from tidegate.expr.model.types import Kind, Type
from tidegate.expr.primitives.time import units
from tidegate.expr.spark_sql.forms import Form, constant, failing_if

FIRST_DATE, LAST_DATE = "DATE'0001-01-01'", "DATE'9999-12-31'"
FIRST_TIME, LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999


def check_range(value: str, type_: Type) -> str:
    """A date or timestamp, or an error if it lies beyond the years 1 to 9999."""
    match type_.kind:
        case Kind.DATE:
            bad = f"{value} < {FIRST_DATE} OR {value} > {LAST_DATE}"
            return failing_if(bad, "date out of range", value)
        case _:
            micros = f"unix_micros(CAST({value} AS timestamp))"
            return failing_if(
                f"NOT {micros} BETWEEN {FIRST_TIME}L AND {LAST_TIME}L", "timestamp out of range", value
            )


def add_days_form(template: str) -> Form:
    """A date moved by a constant number of days."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        days = next((arg for arg in call.args if arg.type.kind is Kind.INT4), None)
        number = None if days is None else constant(days)
        if not isinstance(number, int) or abs(number) > 4_000_000:
            return None
        return check_range(template.format(*args), call.type)

    return form


def add_interval_form(sign: int) -> Form:
    """A date or timestamp moved by a constant interval: months, then days, then time."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        at = next(i for i, arg in enumerate(call.args) if arg.type.kind is not Kind.INTERVAL)
        interval: Any = constant(call.args[1 - at])
        if interval is None:
            return None
        months, days, nanos = interval
        start = f"CAST({args[at]} AS {call.type.spark})"
        micros = days * 86_400_000_000 + nanos // 1000
        out = start
        if months:
            out = f"({out} + make_ym_interval(0, {sign * months}))"
        if micros:
            out = f"({out} + make_dt_interval({_days_to_seconds(sign * micros)}))"
        return check_range(out, call.type)

    return form


def _days_to_seconds(micros: int) -> str:
    size, sign = abs(micros), -1 if micros < 0 else 1
    seconds, rest = divmod(size % 86_400_000_000, 1_000_000)
    parts = [sign * (size // 86_400_000_000), sign * (seconds // 3600), sign * (seconds % 3600 // 60)]
    return (
        ", ".join(map(str, parts))
        + f", CAST('{'-' if sign < 0 else ''}{seconds % 60}.{rest:06}' AS decimal(18,6))"
    )


def field_of_unit(unit: object) -> str:
    """The canonical field named by a constant; empty for anything else."""
    return units.field_of(unit) or "" if isinstance(unit, str) else ""


TRUNCATE_UNITS = {
    "microseconds": "MICROSECOND", "milliseconds": "MILLISECOND", "second": "SECOND", "minute": "MINUTE",
    "hour": "HOUR", "day": "DAY", "week": "WEEK", "month": "MONTH", "quarter": "QUARTER", "year": "YEAR",
}  # fmt: skip


def date_trunc_form(call: Call, args: Sequence[str]) -> str | None:
    """`date_trunc` with a constant unit."""
    unit = TRUNCATE_UNITS.get(field_of_unit(constant(call.args[0])))
    if unit is None or len(call.args) > 2:
        return None
    return f"CAST(date_trunc('{unit}', CAST({args[1]} AS timestamp)) AS {call.type.spark})"


EXTRACT_TEMPLATES = {
    "year": "year({0})", "month": "month({0})", "day": "day({0})", "quarter": "quarter({0})", "week": "weekofyear({0})",
    "doy": "dayofyear({0})", "dow": "dayofweek({0}) - 1", "isodow": "weekday({0}) + 1", "isoyear": "extract(YEAROFWEEK FROM {0})",
    "hour": "hour({0})", "minute": "minute({0})", "second": "extract(SECOND FROM {0})",
    "epoch": "CAST(unix_micros({0}) AS decimal(19,0)) * CAST('0.000001' AS decimal(6,6))",
}  # fmt: skip


def extract_form(call: Call, args: Sequence[str]) -> str | None:
    """`extract` and `date_part` with a constant field, of dates and timestamps."""
    field = field_of_unit(constant(call.args[0]))
    if field not in EXTRACT_TEMPLATES or call.args[1].type.kind is Kind.TIME:
        return None
    if call.args[1].type.kind is Kind.DATE and field in ("hour", "minute", "second"):
        return None
    template = EXTRACT_TEMPLATES[field]
    if field == "epoch" and call.type.is_float:
        template = "CAST(unix_micros({0}) AS double) / CAST('1000000' AS double)"
    value = template.format(f"CAST({args[1]} AS timestamp)")
    return f"CAST({value} AS {call.type.spark})"
