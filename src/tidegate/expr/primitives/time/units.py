"""Units and fields of date_trunc and extract, and evaluation by distinct unit.

A unit is a text argument, so in principle each row may have another. `distinct_choices` yields the distinct units with their rows:
one for a constant, and one for each different unit of a column, never one per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from tidegate.expr.model.outcome import Datum, Outcome, length, only_where, spread, with_errors
from tidegate.expr.model.types import Type
from tidegate.expr.primitives.cancel import check
from tidegate.expr.primitives.time.interval_text import UNITS
from tidegate.expr.primitives.time.tokens import shorten

_LONG_NAMES = {
    "us": "microseconds", "ms": "milliseconds", "s": "second", "min": "minute", "h": "hour",
    "d": "day", "y": "year",
}  # fmt: skip
FIELDS = {spelling: _LONG_NAMES.get(short, short) for spelling, short in UNITS.items()} | {
    "quarter": "quarter", "qtr": "quarter", "isoyear": "isoyear", "isodow": "isodow", "dow": "dow",
    "doy": "doy", "epoch": "epoch", "julian": "julian", "jd": "julian", "j": "julian", "timezone": "timezone",
    "timezone_h": "timezone_hour", "timezone_hour": "timezone_hour", "timezone_m": "timezone_minute",
    "timezone_minute": "timezone_minute",
}  # fmt: skip
"""The canonical name of each spelling of a field."""

SQL_NAMES = {
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
}


def field_of(text: str) -> str | None:
    """The canonical name of a field in any case, or None."""
    word = text.lower()
    return FIELDS.get(word) or FIELDS.get(shorten(word))


_FIELDS_ONLY = {"isoyear", "isodow", "dow", "doy", "epoch", "julian"}


def unit_error(text: str, type_: Type, truncating: bool = False) -> str:
    """PostgreSQL's message for a unit that the function does not support for this type."""
    unknown = field_of(text) is None or (truncating and field_of(text) in _FIELDS_ONLY)
    verb = "recognized" if unknown else "supported"
    return f'unit "{text.lower()}" not {verb} for type {SQL_NAMES.get(type_.kind.value, type_.kind.value)}'


def distinct_choices(choice: Datum) -> Iterator[tuple[str | None, pa.Array | None]]:
    """Each distinct text with its row numbers; rows None: all rows, text None: NULL."""
    if isinstance(choice, pa.Scalar):
        yield choice.as_py(), None
        return
    encoded = choice.dictionary_encode()
    texts, which = encoded.dictionary.to_pylist(), encoded.indices
    if len(texts) == 1 and which.null_count == 0:
        yield texts[0], None
        return
    codes = which.fill_null(-1).to_numpy()
    rising = np.argsort(codes, kind="stable")
    distinct, starts = np.unique(codes[rising], return_index=True)
    ends = [*starts[1:].tolist(), len(codes)]
    for code, start, end in zip(distinct.tolist(), starts.tolist(), ends[: len(distinct)], strict=True):
        check()
        yield (None if code < 0 else texts[code]), pa.array(rising[start:end])


def evaluate_by_choice(choice: Datum, run: Callable[..., Outcome], out: pa.DataType, *args: Datum) -> Outcome:
    """Runs `run(text, *args)` for each distinct text of `choice` over its rows, and joins the results."""
    n = length(choice, *args)
    pieces, places = [], []
    for text, rows in distinct_choices(choice):
        if rows is None and text is not None:
            values, errors = run(text, *(spread(arg, n) for arg in args))
            return with_errors(values, errors)
        size = n if rows is None else len(rows)
        row_args = [spread(arg, n) if rows is None else spread(arg, n).take(rows) for arg in args]
        outcome = Outcome(pa.nulls(size, out)) if text is None else run(text, *row_args)
        pieces.append(
            Outcome(outcome.values, pa.nulls(size, pa.string()) if outcome.errors is None else outcome.errors)
        )
        places.append(np.arange(n) if rows is None else rows.to_numpy())
    if not pieces:
        return Outcome(pa.nulls(0, out))
    back = pa.array(np.argsort(np.concatenate(places), kind="stable"))
    values = pa.concat_arrays([values for values, _ in pieces]).take(back)
    errors = pa.concat_arrays([errors for _, errors in pieces if errors is not None]).take(back)
    return with_errors(values, only_where(errors, errors.is_valid()))


def fail_all_rows(message: str, n: int, out: pa.DataType) -> Outcome:
    """The same error for every row."""
    return Outcome(pa.nulls(n, out), pa.repeat(pa.scalar(message), n))
