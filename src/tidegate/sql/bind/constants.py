"""Constants: the text of a number → a typed value, and many constants at once → an Arrow array.

    number("42")        int4          number("1.50")     numeric(3,2)
    number("3e9")       numeric(10,0) number("1e300")    float8: no numeric has 301 digits
    number("3000000000") int8             number("5" + "0" * 40 + "e-20")    numeric(21,0): the value fits

A decimal keeps the scale it is written with, so `price * 1.10` is exact. If it has too many digits for that, zeros at its end are
dropped; what has too many digits even then is a float8 if it has an exponent, else an error. A list of constants (`x IN (…)`, a
column of VALUES) is converted in one go: strings by one run of the cast that reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Context, Decimal, Inexact
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.errors import (
    BindError,
    ErrorCode,
    Position,
    TidegateError,
    TypeMismatch,
    UnsupportedError,
    row_error_code,
)
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import REGISTRY, Call, Column, Expr, Kind, Literal, Type, build, types
from tidegate.sql.parse.lexer import Token
from tidegate.sql.parse.syntax import Constant, Node, NonScalar, walk

if TYPE_CHECKING:
    from tidegate.sql.bind.expression import Binder

LEAST = {Kind.INT2: -(2**15), Kind.INT4: -(2**31), Kind.INT8: -(2**63)}
_LEAST_WRITTEN = {"2147483648": types.INT4, "9223372036854775808": types.INT8}
_EXACT = Context(prec=types.MAX_PRECISION + 1, traps=[Inexact])


def number(text: str) -> Literal:
    """The constant that `text` spells: the first of int4, int8, numeric to hold it; float8 for `1e300`."""
    value, type_ = _number(text)
    return build.literal(value, type_)


def _number(text: str) -> tuple[Any, Type]:
    if text.isdigit() and len(text) <= types.MAX_PRECISION:
        whole = int(text)
        if whole < 2**31:
            return whole, types.INT4
        return (whole, types.INT8) if whole < 2**63 else (Decimal(text), types.numeric(len(str(whole)), 0))
    mantissa, _, exponent = text.lower().partition("e")
    before, _, after = mantissa.partition(".")
    power = int(exponent) if 0 < len(exponent) < 7 else 0 if not exponent else None
    digits = (before + after).lstrip("0")
    if power is not None:
        places = len(after) - power
        zeros = len(digits) - len(digits.rstrip("0")) if digits else places
        whole_digits = max(0, len(digits) - places) if digits else 0
        for scale in (max(0, places), max(0, places - zeros)):  # as it is written, or without needless zeros
            if scale + whole_digits <= types.MAX_PRECISION:
                value = Decimal(text).quantize(Decimal(1).scaleb(-scale), context=_EXACT)
                return value, types.numeric(max(1, scale + whole_digits), scale)
    if exponent and 0 < float(text) < float("inf"):
        return float(text), types.FLOAT8
    raise BindError(
        f"a number has at most {types.MAX_PRECISION} digits", hint="write it as 1e300 to have a float8"
    )


def folded(expr: Expr) -> Literal:
    """A constant expression as the constant that it gives; its error is that of the statement."""
    values, errors = evaluate(expr, [], 1)
    if errors is not None and errors[0].is_valid:
        message = errors[0].as_py()
        code = row_error_code(message) or ErrorCode.INVALID_LITERAL
        raise BindError(message, code=code, subject=str(expr.type))
    return Literal(values[0], expr.type)


_PLAIN_NUMBER = re.compile(r"\s*([+-]?)(\d+\.?\d*|\.\d+)(e[+-]?\d{1,5})?\s*", re.ASCII | re.IGNORECASE)


def plain_numeric(text: str) -> Literal | None:
    """`'text'::numeric` with all its digits; None if 38 do not suffice, or it is no number."""
    match = _PLAIN_NUMBER.fullmatch(text)
    if match is None:
        return None
    try:
        value, type_ = _number(match[2] + (match[3] or ""))
    except BindError:
        return None
    if type_.is_float:
        return None
    if type_.is_integer:
        type_ = types.numeric(len(str(value)), 0)
    value = Decimal(value)
    return build.literal(value.copy_negate() if match[1] == "-" else value, type_)


def negated(constant: Literal, node: Node | None = None) -> Literal | None:
    """-constant; None for what is no number, or the least integer of its type.

    Of a number as it is written the least integers are integers: -2147483648 is an int4, and -9223372036854775808 an int8.
    """
    if isinstance(node, Constant) and node.kind == "number" and node.text in _LEAST_WRITTEN:
        return build.literal(-int(node.text), _LEAST_WRITTEN[node.text])
    if constant.is_null or not constant.type.is_number:
        return None
    value = constant.value.as_py()
    if constant.type.is_integer and value == LEAST[constant.type.kind]:
        return None
    # -value would round a Decimal to the 28 digits of Python's default context.
    return build.literal(value.copy_negate() if isinstance(value, Decimal) else -value, constant.type)


class ConstantError(Exception):
    """Constant number `index` of a list cannot be read as the list's type; never leaves this package."""

    def __init__(self, index: int, message: str, target: Type) -> None:
        super().__init__(message)
        self.index = index
        self.message = message
        self.target = target

    def bind_error(self, position: Position) -> BindError:
        """The error for the user, at the constant."""
        code = row_error_code(self.message) or ErrorCode.INVALID_LITERAL
        return BindError(self.message, position=position, code=code, subject=str(self.target))


def constant_list(beside: Type, constants: Sequence[Token], others: Sequence[Literal]) -> Literal | None:
    """All constants as one array literal, of the type that they have in common with `beside`.

    None if no numeric has digits enough for all of them: 0.5 and a number of 38 digits have 39 together.
    """
    spelled = [
        _string_beside(one.text, beside) if one.kind == "string" else _number(one.text) for one in constants
    ]
    all_types = list(
        dict.fromkeys([beside, *(type_ for _, type_ in spelled), *(other.type for other in others)])
    )
    common = build.common_type(all_types)
    if common is None:
        raise TypeMismatch(
            f"these types cannot be compared: {', '.join(str(t) for t in all_types if t != types.UNKNOWN)}"
        )
    if types.UNKNOWN in all_types and common.kind is not Kind.NUMERIC:
        common = build.literal_type("", common)
    # A string is read as the type of what it is compared with; that itself need not fit, as `in` brings nothing to the list's type.
    exact = {type_ for _, type_ in spelled} | {other.type for other in others}
    exact = exact - {types.UNKNOWN} | {beside} if types.UNKNOWN in exact else exact
    if common.kind is Kind.NUMERIC and not all(_fits(type_, common) for type_ in exact):
        return None
    parts = [
        read_strings(
            [(i, one.text) for i, one in enumerate(constants) if spelled[i][1] == types.UNKNOWN], common
        ),
        _numbers([value for value, type_ in spelled if type_ != types.UNKNOWN], common),
        _array([build.coerce(other, common).value for other in others], common),  # type: ignore[union-attr]  # a constant stays one
    ]
    values = pa.concat_arrays(parts)
    return Literal(pa.ListArray.from_arrays([0, len(values)], values)[0], types.array(common))


def _string_beside(text: str, beside: Type) -> tuple[Any, Type]:
    """A string beside a numeric as the number that it spells; any other as a string that is read later."""
    found = plain_numeric(text) if beside.kind is Kind.NUMERIC else None
    return (None, types.UNKNOWN) if found is None else (found.value.as_py(), found.type)


def _fits(type_: Type, common: Type) -> bool:
    """Whether a numeric type has all digits of another one."""
    wanted, there = build.numeric_digits(type_), build.numeric_digits(common)
    return wanted[0] <= there[0] and wanted[1] <= there[1]


def _array(values: list[pa.Scalar], type_: Type) -> pa.Array:
    if not type_.is_nested:  # numerics of the same scale need no cast to be compared, but Arrow's arrays do
        return pa.array([v if v.type == type_.arrow else v.cast(type_.arrow) for v in values], type_.arrow)
    # Of a list that is NULL, pyarrow asks the length.
    return pa.concat_arrays([pa.array([], type_.arrow), *(pa.repeat(value, 1) for value in values)])


def _numbers(values: list[Any], target: Type) -> pa.Array:
    if target.is_float:
        values = [float(value) for value in values]
    elif target.kind is Kind.NUMERIC:
        values = [Decimal(value) for value in values]
    return pa.array(values, target.arrow)


def read_strings(texts: Sequence[tuple[int, str]], target: Type) -> pa.Array:
    """Strings as `target`, by the cast that reads them."""
    values = pa.array([text for _, text in texts], pa.string())
    if target == types.TEXT or not texts:
        return values if target == types.TEXT else pa.array([], target.arrow)
    function = REGISTRY.cast(Kind.TEXT, target.kind)
    if function is None:
        raise TypeMismatch(f"a string cannot be read as {target}")
    outcome = evaluate(Call(function, (Column(0, types.TEXT),), target), [values])
    if outcome.errors is not None:
        bad = next(i for i, message in enumerate(outcome.errors) if message.is_valid)
        raise ConstantError(texts[bad][0], outcome.errors[bad].as_py(), target)
    return outcome.values


def bind_constant(expr: Expr, target: Type, binder: Binder, node: Node, clause: str) -> pa.Scalar:
    """The value of an expression that reads no columns, as `target`."""
    try:
        outcome = evaluate(build.cast(expr, target), [], 1)
    except TidegateError as error:
        error.message = f"{clause}: {error.message}"
        error.position = binder.position(node.at)
        raise
    if outcome.errors is not None and outcome.errors[0].is_valid:
        raise BindError(f"{clause}: {outcome.errors[0].as_py()}", position=binder.position(node.at))
    return outcome.values[0]


def row_count(binder: Binder, node: Node, clause: str) -> int | None:
    """The number in LIMIT or OFFSET; None for NULL."""
    if any(isinstance(one, NonScalar) for one in walk(node)):
        hint = "WHERE n <= (SELECT …) around a subquery that selects row_number() OVER (ORDER BY …) AS n"
        message = f"a subquery in {clause} is not supported"
        raise UnsupportedError(message, position=binder.position(node.at), hint=hint)
    value = bind_constant(binder.bind(node), types.INT8, binder, node, clause)
    if value.is_valid and value.as_py() < 0:
        raise BindError(f"{clause} must not be negative", position=binder.position(node.at))
    return int(value.as_py()) if value.is_valid else None
