"""Spark SQL forms of functions: the values of `spark=` in a declaration.

    scalar("+", (INT4, INT4), INT4, spark="({0} + {1})", …)                 {0} and {1} are the texts of the arguments
    scalar("+", (FLOAT8, FLOAT8), FLOAT8, spark=float_result("{0} + {1}"))   a `Form`: the call and those texts → text, or None

A form exists only where Spark, in ANSI mode and with time zone UTC, yields the value of our kernel for every row, and fails where
it fails. `tests/spark/test_expression.py` checks every form on poison values. A function without a form is evaluated by our own
kernel in a UDF (`spark/translate/evaluator_udf.py`).

Where Spark would continue and we fail (a float that overflows, a date beyond year 9999), the form checks and raises. The text of an
argument may occur several times in a form; a text that grows too long is abandoned (`spark/translate/to_spark_sql.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tidegate.expr.model.function import NEVER
from tidegate.expr.model.tree import Call, Expr, Literal, walk
from tidegate.expr.model.types import MAX_PRECISION, Kind, Type
from tidegate.expr.spark_sql.literals import quote_name, quote_text, value_sql

Form: TypeAlias = Callable[[Call, Sequence[str]], str | None]
ERROR_PREFIX = "tidegate: "
"""The prefix of our own error messages, by which they are recognised when Spark raises them."""
MAX_ROUNDED_DIGITS = 34
"""Digits of Java's MathContext.DECIMAL128, to which Spark rounds by default."""


def failing_if(bad: str, message: str, value: str) -> str:
    """The value, or an error where `bad` is true."""
    return f"IF({bad}, raise_error({quote_text(ERROR_PREFIX + message)}), {value})"


def form_failing_if(bad: str, message: str, value: str) -> Form:
    """A form that fails where the template `bad` is true."""

    def form(_: Call, args: Sequence[str]) -> str | None:
        return failing_if(bad.format(*args), message, value.format(*args))

    return form


def constant(expr: Expr) -> object:
    """The Python value of a constant; None for anything else."""
    return expr.value.as_py() if isinstance(expr, Literal) else None


# ---------------------------------------------------------------- numbers


def _digits(type_: Type) -> tuple[int, int]:
    assert type_.precision is not None
    assert type_.scale is not None
    return type_.precision - type_.scale, type_.scale


def fits(*types: Type) -> bool:
    """Whether 38 digits hold all digits of these numerics; else Spark drops some."""
    each = [_digits(type_) for type_ in types if type_.kind is Kind.NUMERIC]
    return max((w for w, _ in each), default=0) + max((s for _, s in each), default=0) <= MAX_PRECISION


def as_type(text: str, source: Type, target: Type) -> str:
    """The text of an argument cast to another numeric type, if that differs in Spark."""
    return text if source.spark == target.spark else f"CAST({text} AS {target.spark})"


def numeric_result(template: str, *, spare: int = 0) -> Form:
    """An exact operation on numerics, cast to our result type; None where Spark might drop digits.

    `spare` is the number of digits that Spark's result has beyond ours.
    """

    def form(call: Call, args: Sequence[str]) -> str | None:
        whole, scale = _digits(call.type)
        if whole + scale + spare > MAX_PRECISION or not fits(*(arg.type for arg in call.args)):
            return None
        return f"CAST({template.format(*args)} AS {call.type.spark})"

    return form


def exact_sign(template: str) -> Form:
    """`-x` and `abs(x)` of a numeric, which Spark rounds to 34 digits."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        return template.format(*args) if (call.type.precision or 0) <= MAX_ROUNDED_DIGITS else None

    return form


def product_form(call: Call, args: Sequence[str]) -> str | None:
    """A product of numerics; Spark's has one digit more than the factors together."""
    if sum(arg.type.precision or 0 for arg in call.args) + 1 > MAX_PRECISION:
        return None
    return f"CAST({args[0]} * {args[1]} AS {call.type.spark})"


def sum_form(symbol: str) -> Form:
    """A sum or a difference; ours has one whole digit more than the terms, up to 38 digits."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        each = [_digits(arg.type) for arg in call.args]
        if max(w for w, _ in each) + max(s for _, s in each) + 1 > MAX_PRECISION:
            return None
        return f"CAST({args[0]} {symbol} {args[1]} AS {call.type.spark})"

    return form


def float_result(template: str, *, divides: bool = False) -> Form:
    """An operation on floats that fails where finite arguments yield an infinity."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        value = template.format(*args)
        finite = " AND ".join(f"abs({arg}) < CAST('Infinity' AS double)" for arg in args)
        checked = failing_if(
            f"abs({value}) = CAST('Infinity' AS double) AND {finite}", "value out of range: overflow", value
        )
        if not divides:
            return checked
        # NaN / 0 is NaN here, and an error in Spark.
        return f"IF(isnan({args[0]}) AND {args[1]} = 0, {args[0]}, {checked})"

    return form


def round_form(call: Call, args: Sequence[str]) -> str | None:
    """`round(numeric, n)` for a constant number of digits."""
    digits = constant(call.args[1])
    whole, scale = _digits(call.args[0].type)
    if not isinstance(digits, int) or not 0 <= digits <= scale or whole + scale + 1 > MAX_PRECISION:
        return None
    return f"CAST(round({args[0]}, {digits}) AS {call.type.spark})"


def whole_number(name: str) -> Form:
    """`floor`, `ceil` and `round` of a numeric."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        if _digits(call.args[0].type)[0] + 1 > MAX_PRECISION:
            return None
        return f"CAST({name}({args[0]}) AS {call.type.spark})"

    return form


def cast_form(template: str = "{0}") -> Form:
    """A cast to the exact result type."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        return f"CAST({template.format(*args)} AS {call.type.spark})"

    return form


def float_to_integer(call: Call, args: Sequence[str]) -> str | None:
    """A float rounded to an integer, halves to even; fails for 2**63, where Spark does not."""
    rounded_ = f"rint(CAST({args[0]} AS double))"
    value = f"CAST({rounded_} AS {call.type.spark})"
    if call.type.kind is not Kind.INT8:
        return value
    return failing_if(f"{args[0]} >= CAST('9223372036854775808' AS double)", "bigint out of range", value)


def text_cast(template: str) -> Form:
    """A cast to text, cut to the length of varchar(n)."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        text = template.format(*args)
        return text if call.type.length is None else f"substring({text}, 1, {call.type.length})"

    return form


def uuid_text(call: Call, args: Sequence[str]) -> str | None:
    """A uuid's text: its digits, with hyphens."""
    hyphens = f"regexp_replace(lower(hex({args[0]})), '^(.{{8}})(.{{4}})(.{{4}})(.{{4}})', '\\u00241-\\u00242-\\u00243-\\u00244-')"
    return text_cast(hyphens.replace("{", "{{").replace("}", "}}"))(call, args)


# ---------------------------------------------------------------- comparisons and choices


def _holds(type_: Type, *kinds: Kind) -> bool:
    inner = [type_.element] if type_.element is not None else [t for _, t in type_.fields]
    return type_.kind in kinds or any(_holds(t, *kinds) for t in inner)


def comparable(*types: Type, ordered: bool = False) -> bool:
    """Whether Spark compares values of these types as we do.

    Not so for intervals, which are structs in Spark. Inside arrays and records NULL is greatest here, and least in Spark.
    """
    if any(_holds(type_, Kind.INTERVAL) for type_ in types) or not fits(*types):
        return False
    if any(type_.is_nested for type_ in types):
        return not ordered and len({type_.spark for type_ in types}) == 1
    return True


def comparison_form(template: str, *, ordered: bool = False) -> Form:
    """A comparison of two values of one type."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        types = [arg.type for arg in call.args]
        return template.format(*args) if comparable(*types, ordered=ordered) else None

    return form


def may_fail(expr: Expr) -> bool:
    """Whether the expression may fail for a row, by the claims of its functions."""
    return any(isinstance(node, Call) and node.function.errors is not NEVER for node in walk(expr))


def junction_form(symbol: str) -> Form:
    """AND and OR of any number of arguments, those that never fail first.

    Spark evaluates from left to right, and stops at the first deciding operand. So `10 / x = 2 AND x <> 0` is written the other way
    round, and does not fail for x = 0, as here. Only where two sides may fail is there a difference: a failure hides the other
    side's False.
    """

    def form(call: Call, args: Sequence[str]) -> str | None:
        order = sorted(range(len(args)), key=lambda i: may_fail(call.args[i]))
        return "(" + f" {symbol} ".join(args[i] for i in order) + ")"

    return form


def case_form(call: Call, args: Sequence[str]) -> str | None:
    """CASE: case(c1, v1, c2, v2, …, else)."""
    values = [as_type(arg, node.type, call.type) for arg, node in zip(args, call.args, strict=True)]
    branches = [f"WHEN {args[i]} THEN {values[i + 1]}" for i in range(0, len(args) - 1, 2)]
    return f"CASE {' '.join(branches)} ELSE {values[-1]} END" if branches else f"({values[-1]})"


def choice_form(name: str, *, ordered: bool = False) -> Form:
    """COALESCE, and with `ordered` GREATEST and LEAST, which for floats may yield either zero."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        if ordered and (call.type.is_float or not comparable(call.type, ordered=True)):
            return None
        values = [as_type(arg, node.type, call.type) for arg, node in zip(args, call.args, strict=True)]
        return f"{name}({', '.join(values)})" if len(values) > 1 else f"({values[0]})"

    return form


def in_form(call: Call, args: Sequence[str]) -> str | None:
    """`x IN (…)` of constants; floats are compared one by one, since Spark's lookup of -0 misses 0."""
    value_node, list_node = call.args
    if (
        not isinstance(list_node, Literal)
        or list_node.is_null
        or not comparable(value_node.type, list_node.type.element or value_node.type)
    ):
        return None
    assert list_node.type.element is not None
    if value_node.type.is_nested:
        return None
    values = [value_sql(value, list_node.type.element) for value in list_node.value.values]
    if not values:
        return "false"
    if value_node.type.is_float:
        return "(" + " OR ".join(f"{args[0]} = {value}" for value in values) + ")"
    return f"({args[0]} IN ({', '.join(values)}))"


# ---------------------------------------------------------------- text


def like_form(call: Call, args: Sequence[str]) -> str | None:
    """LIKE with a constant pattern, rewritten since Spark rejects needless escapes."""
    pattern = constant(call.args[1])
    escape = constant(call.args[2]) if len(call.args) > 2 else "\\"
    if not isinstance(pattern, str) or escape != "\\":
        return None
    rewritten, at = "", 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
            if at == len(pattern):
                return None
            rewritten += ("\\" if pattern[at] in "%_\\" else "") + pattern[at]
        else:
            rewritten += pattern[at]
        at += 1
    return f"({args[0]} LIKE {quote_text(rewritten)})"


def texts_only(template: Callable[[Sequence[str]], str]) -> Form:
    """A form of a function that reads its arguments as text, where all are text."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        return template(args) if all(arg.type.kind is Kind.TEXT for arg in call.args) else None

    return form


def minimum_form(template: str, *least: int) -> Form:
    """A form of a function of a text and constant numbers, each at least a minimum."""

    def form(call: Call, args: Sequence[str]) -> str | None:
        numbers = [constant(arg) for arg in call.args[1:]]
        for number, minimum in zip(numbers, least, strict=True):
            if not isinstance(number, int) or number < minimum:
                return None
        return template.format(*args)

    return form


# ---------------------------------------------------------------- arrays and records


def element_form(call: Call, args: Sequence[str]) -> str | None:
    """An array element by its constant number from 1; NULL outside."""
    number = constant(call.args[1])
    if not isinstance(number, int) or abs(number) > 2**30:
        return None
    return f"get({args[0]}, {number - 1})"


def array_form(call: Call, args: Sequence[str]) -> str | None:
    """An array built from its elements."""
    return f"CAST(array({', '.join(args)}) AS {call.type.spark})"


def record_form(call: Call, args: Sequence[str]) -> str | None:
    """A record built from its fields."""
    pairs = [f"{quote_text(name)}, {arg}" for (name, _), arg in zip(call.type.fields, args, strict=True)]
    return f"named_struct({', '.join(pairs)})"


def field_form(call: Call, args: Sequence[str]) -> str | None:
    """A field of a record by its constant position."""
    place, fields = constant(call.args[1]), call.args[0].type.fields
    if not isinstance(place, int) or not 0 <= place < len(fields):
        return None
    name, type_ = fields[place]
    if type_ != call.type or [other for other, _ in fields].count(name) > 1:
        return None
    return f"({args[0]}).{quote_name(name)}"
