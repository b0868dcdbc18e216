"""DuckDB forms of functions: the values of `duckdb=` in a declaration.

    scalar("not", (BOOL,), BOOL, duckdb="(NOT {0})", …)               {0} is the text of the argument
    scalar("=", …, duckdb=comparison("({0} = {1})"))                   a form: the call and those texts → text, or None

A form exists only where DuckDB yields the value of our kernel for every row. Most never fail. DuckDB evaluates conditions in an
order of its own, so a condition that can fail is evaluated by our kernels, whole (`query/embedded/evaluator.py`). A form that fails
for the rows for which our kernel fails is a `FallibleText`, and is used only for values of rows that have passed all conditions.
`tests/laws/test_duckdb_forms.py` checks every form on edge values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tidegate.expr.duckdb_sql.literals import quote_text, value_sql
from tidegate.expr.duckdb_sql.types import duckdb_type
from tidegate.expr.model.tree import Call, Expr, Literal
from tidegate.expr.model.types import MAX_PRECISION, Kind, Type

Form: TypeAlias = Callable[[Call, Sequence[str]], str | None]

_PLAIN = frozenset(Kind) - {Kind.ARRAY, Kind.RECORD, Kind.JSONB, Kind.UNKNOWN}


def _digits(type_: Type) -> tuple[int, int]:
    return (type_.precision or MAX_PRECISION) - (type_.scale or 0), type_.scale or 0


def fits(*types: Type) -> bool:
    """Whether 38 digits hold all digits of these numerics; else DuckDB cannot bring them to one type."""
    each = [_digits(type_) for type_ in types if type_.kind is Kind.NUMERIC]
    return max((w for w, _ in each), default=0) + max((s for _, s in each), default=0) <= MAX_PRECISION


def comparison(template: str) -> Form:
    """A comparison of two values of one kind."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        types = [arg.type for arg in call.args]
        same = len({type_.kind for type_ in types}) == 1 and types[0].kind in _PLAIN
        return template.format(*args) if same and fits(*types) else None

    return form


def junction(symbol: str) -> Form:
    """AND and OR of any number of arguments."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        return "(" + f" {symbol} ".join(args) + ")"

    return form


def _as_type(text: str, source: Type, target: Type) -> str:
    return text if duckdb_type(source) == duckdb_type(target) else f"CAST({text} AS {duckdb_type(target)})"


def _widens(source: Type, target: Type) -> bool:
    """Whether each value of one type is one of the other: a cast that cannot fail and rounds nothing."""
    if source.kind is not Kind.NUMERIC or target.kind is not Kind.NUMERIC:
        return source.kind is target.kind
    (whole, scale), (wider, finer) = _digits(source), _digits(target)
    return wider >= whole and finer >= scale


def case(call: Call, args: Sequence[str]) -> str | None:
    """CASE: case(c1, v1, c2, v2, …, else)."""
    places = [*range(1, len(args) - 1, 2), len(args) - 1]
    if not all(_widens(call.args[i].type, call.type) for i in places):
        return None
    values = {i: _as_type(args[i], call.args[i].type, call.type) for i in places}
    branches = [f"WHEN {args[i]} THEN {values[i + 1]}" for i in range(0, len(args) - 1, 2)]
    return f"(CASE {' '.join(branches)} ELSE {values[len(args) - 1]} END)" if branches else f"({values[0]})"


def coalesce(call: Call, args: Sequence[str]) -> str | None:
    """COALESCE."""
    if not all(_widens(arg.type, call.type) for arg in call.args):
        return None
    values = [_as_type(text, arg.type, call.type) for text, arg in zip(args, call.args, strict=True)]
    return f"coalesce({', '.join(values)})"


def membership(call: Call, args: Sequence[str]) -> str | None:
    """`x IN (…)` of constants."""
    value, constants = call.args
    if not isinstance(constants, Literal) or constants.is_null or constants.type.element is None:
        return None
    element = constants.type.element
    if value.type.kind is not element.kind or value.type.kind not in _PLAIN or not fits(value.type, element):
        return None
    texts = [value_sql(one, element) for one in constants.value.values]
    if any(text is None for text in texts):
        return None
    return f"({args[0]} IN ({', '.join(text for text in texts if text)}))" if texts else "false"


class FallibleText(str):
    """SQL that fails for the rows for which our kernel fails, and for no other."""

    __slots__ = ()


def exact_sum(symbol: str) -> Form:
    """A sum or difference of numerics that always fits its type."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        whole = max(_digits(arg.type)[0] for arg in call.args) + 1
        scale = max(_digits(arg.type)[1] for arg in call.args)
        return _exact(call, args, symbol, whole, scale)

    return form


def exact_product(call: Call, args: Sequence[str]) -> str | None:
    """A product of numerics that loses no digit."""
    (whole, scale), (other, finer) = (_digits(arg.type) for arg in call.args)
    return _exact(call, args, "*", whole + other, scale + finer)


_INT64_DIGITS = 18


def _exact(call: Call, args: Sequence[str], symbol: str, whole: int, scale: int) -> str | None:
    mine, own = _digits(call.type)
    name = duckdb_type(call.type)
    if symbol == "*" and own == scale and mine + own == MAX_PRECISION < whole + scale:
        return FallibleText(_overflowing_product(call, args))
    if whole + scale > MAX_PRECISION or mine < whole or own < scale:
        return None
    if symbol == "*":
        # DuckDB multiplies decimals of up to 18 digits as 64-bit integers, which the product may exceed.
        wide = whole + scale > _INT64_DIGITS
        first = (
            f"CAST({args[0]} AS DECIMAL({whole + scale},{_digits(call.args[0].type)[1]}))"
            if wide
            else args[0]
        )
        return f"CAST(({first} * {args[1]}) AS {name})"
    # Both sides are brought to the result first, as DuckDB's own result may be too narrow.
    return f"(CAST({args[0]} AS {name}) {symbol} CAST({args[1]} AS {name}))"


def _overflowing_product(call: Call, args: Sequence[str]) -> str:
    """A product that has all digits after the point, and may have too many before it."""
    whole, scale = _digits(call.args[0].type)
    return f"(CAST({args[0]} AS DECIMAL({max(whole + scale, _INT64_DIGITS + 1)},{scale})) * {args[1]})"


_INTEGER_DIGITS = {Kind.INT2: 5, Kind.INT4: 10, Kind.INT8: 19, Kind.MZ_TIMESTAMP: 19}


def widening(call: Call, args: Sequence[str]) -> str | None:
    """A cast that cannot fail and rounds nothing."""
    source, target = call.args[0].type, call.type
    if source.kind is Kind.NUMERIC:
        fitting = target.kind is Kind.NUMERIC and _widens(source, target)
    elif target.kind is Kind.NUMERIC:
        fitting = _digits(target)[0] >= _INTEGER_DIGITS[source.kind]
    else:
        fitting = True
    return f"CAST({args[0]} AS {duckdb_type(target)})" if fitting else None


def like(call: Call, args: Sequence[str]) -> str | None:
    """LIKE with a constant pattern."""
    pattern = call.args[1]
    if len(call.args) > 2 or not isinstance(pattern, Literal) or pattern.is_null:
        return None
    text = pattern.value.as_py()
    if "\\" in text or "\0" in text:
        return None
    return f"({args[0]} LIKE {quote_text(text)})"


def minimum(template: str, *least: int) -> Form:
    """A function of a text and constant numbers, each at least a minimum."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        numbers = [_constant(arg) for arg in call.args[1:]]
        if any(not isinstance(n, int) or n < low for n, low in zip(numbers, least, strict=True)):
            return None
        return template.format(*args)

    return form


_FIELDS = frozenset(("year", "month", "day", "quarter", "doy"))
"""Fields of `extract` that dates and timestamps have alike, and that DuckDB counts as we do."""


def extract(field_of: Callable[[str], str | None]) -> Form:
    """`extract` of a constant field from a date or timestamp; `field_of` gives the field of a name."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        name = _constant(call.args[0])
        field = field_of(name) if isinstance(name, str) else None
        if field not in _FIELDS or call.args[1].type.kind not in (
            Kind.DATE,
            Kind.TIMESTAMP,
            Kind.TIMESTAMPTZ,
        ):
            return None
        return f"CAST(date_part('{field}', {args[1]}) AS {duckdb_type(call.type)})"

    return form


def _constant(expr: Expr) -> object:
    return expr.value.as_py() if isinstance(expr, Literal) else None
