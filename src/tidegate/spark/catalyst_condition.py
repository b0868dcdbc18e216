"""Conditions: comparisons, AND, OR, NOT, IN, CASE and the like, exactly or from above.

A filter need not be translated whole. `above(node)` gives a condition that passes, or fails, at least where Spark's passes:

| Spark | from above |
|---|---|
| `a AND b`, b unknown | a |
| `a OR b`, b unknown | nothing |
| `x > y`, each between two ends | `high(x) > low(y)` |
| `NOT (x > y)` | `low(x) <= high(y)`: NOT is moved inwards, where the other end is taken |
| `IF(c, a, b)` | CASE of what lies above a and b; c must be exact |

The conjuncts of a filter are asked one by one: a part in which one of them is never true is skipped, even where another, that could
not be translated, would fail for some row. So does Spark itself with the row groups of a Parquet file, and the order in
which it evaluates conjuncts is its own.

Where a value is not `sure`, Spark's may be NULL where ours is not. Comparisons, AND, OR and NOT then give NULL or the same, so
what passes ours still covers what passes Spark's; but IS NULL, CASE, COALESCE and `<=>` turn a NULL into something, and are not
translated over such a value.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidegate.expr import build
from tidegate.expr.tree import Expr, Literal
from tidegate.expr.types import (
    BOOL,
    BYTEA,
    FLOAT4,
    FLOAT8,
    INT8,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Kind,
    array,
)
from tidegate.spark.catalyst_json import strict
from tidegate.spark.catalyst_tree import Node
from tidegate.spark.catalyst_value import Context, Value, called, exactly, node
from tidegate.spark.catalyst_zone import micros

COMPARISONS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_BINARY_SIZE = 16


def above(context: Context, given: Node, negated: bool = False) -> Expr | None:
    """A condition that passes or fails wherever Spark's passes; with `negated`, of its negation."""
    match given.kind:
        case "Not":
            return above(context, given.children[0], not negated)
        case "And" | "Or":
            sides = [above(context, side, negated) for side in _joined(given)]
            known = [side for side in sides if side is not None]
            if (given.kind == "And") != negated:
                return build.conjunction(known) if known else None
            return build.disjunction(known) if len(known) == len(sides) else None
        case "If" | "CaseWhen":
            return _above_case(context, given, negated)
        case "IsNotNull" if not negated:
            return _present(context, given)
        case "IsNull" if negated:
            return _present(context, given)
        case "EqualNullSafe" if not negated:
            return _above_same(context, given)
        case kind if kind in COMPARISONS:
            sign = COMPARISONS[kind]
            found = _sides(context, given)
            return None if found is None else compared(_OPPOSITE[sign] if negated else sign, *found)
        case _:
            value = context.exact(given)
            if value is None or value.type != BOOL:
                return None
            return build.call("not", value.low) if negated else value.low


def _joined(given: Node) -> list[Node]:
    """All that one chain of ANDs, or of ORs, joins: it may be thousands deep."""
    found: list[Node] = []
    waiting = [given]
    while waiting:
        at = waiting.pop()
        if at.kind == given.kind:
            waiting.extend(reversed(at.children))
        else:
            found.append(at)
    return found


def _present(context: Context, given: Node) -> Expr | None:
    """IS NOT NULL, from above: what may be NULL in Spark although it is not here does no harm."""
    value = context.value(given.children[0])
    return None if value is None else build.call("not", build.call("is null", value.low))


def _above_same(context: Context, given: Node) -> Expr | None:
    """`x <=> constant` passes where `x = constant` does."""
    if any(child.is_value for child in given.children):
        found = _sides(context, given)
        return None if found is None else compared("=", *found)
    value = context.exact(given)
    return None if value is None else value.low


def _above_case(context: Context, given: Node, negated: bool) -> Expr | None:
    branches, otherwise = _branches(given)
    made: list[tuple[Expr, Expr]] = []
    for condition, value in branches:
        when, then = context.exact(condition), above(context, value, negated)
        if when is None or not when.sure or then is None:
            return None
        made.append((when.low, then))
    last = build.null(BOOL) if otherwise is None else above(context, otherwise, negated)
    return None if last is None else build.case(made, last)


def _branches(given: Node) -> tuple[list[tuple[Node, Node]], Node | None]:
    """Conditions with their values, and what else is given; IF is such a CASE."""
    pairs = len(given.children) // 2
    found = [(given.children[2 * i], given.children[2 * i + 1]) for i in range(pairs)]
    return found, given.children[-1] if len(given.children) % 2 else None


def _sides(context: Context, given: Node) -> tuple[Value, Value] | None:
    left, right = (context.value(child) for child in given.children)
    if left is None or right is None:
        return None
    first, second = strict(left, right), strict(right, left)
    return None if first is None or second is None else matched(first, second)


def matched(left: Value, right: Value) -> tuple[Value, Value] | None:
    """Two values brought to one form: instants that are kept as microseconds on one side, uuids beside bytes."""
    kinds = {left.type.kind, right.type.kind}
    if kinds in ({Kind.TIMESTAMPTZ, Kind.INT8}, {Kind.TIMESTAMP, Kind.INT8}):
        return left.rising(micros), right.rising(micros)
    if kinds == {Kind.UUID, Kind.BYTEA}:
        found = _as_uuid(left), _as_uuid(right)
        return None if found[0] is None or found[1] is None else (found[0], found[1])
    if Kind.RECORD in kinds or Kind.ARRAY in kinds or Kind.INTERVAL in kinds:
        return None
    if kinds == {Kind.NUMERIC} and left.type.scale != right.type.scale:
        return None  # Spark has brought both to one scale; what it did not is not compared here
    same = left.type.kind is right.type.kind
    return (left, right) if same or (left.type.is_integer and right.type.is_integer) else None


def _as_uuid(value: Value) -> Value | None:
    if value.type == UUID:
        return value
    fits = isinstance(value.low, Literal) and not value.low.is_null and value.type == BYTEA
    raw = value.low.value.as_py() if fits and isinstance(value.low, Literal) else b""
    return exactly(build.literal(raw, UUID)) if len(raw) == _BINARY_SIZE else None


def compared(sign: str, left: Value, right: Value) -> Expr | None:
    """A comparison from above: of each side the end that makes it true sooner."""
    exact = left.low is left.high and right.low is right.high
    if exact:
        return build.call(sign, left.low, right.low)
    match sign:
        case "<" | "<=":
            return build.call(sign, left.low, right.high)
        case ">" | ">=":
            return build.call(sign, left.high, right.low)
        case "=":
            return build.conjunction(
                [build.call("<=", left.low, right.high), build.call(">=", left.high, right.low)]
            )
        case _:
            return build.call("not", build.call("is null", build.call("=", left.low, right.low)))


@node(*COMPARISONS)
def comparison(context: Context, given: Node) -> Value | None:
    """= < <= > >= where both sides are exact. Spark's order of floats is ours: NaN is greatest, and -0.0 = 0.0."""
    found = _sides(context, given)
    if found is None or any(side.low is not side.high for side in found):
        return None
    return exactly(build.call(COMPARISONS[given.kind], found[0].low, found[1].low), *found)


@node("EqualNullSafe")
def same(context: Context, given: Node) -> Value | None:
    """`<=>`."""
    found = _sides(context, given)
    if found is None or not all(side.low is side.high and side.sure for side in found):
        return None
    distinct = build.call("is distinct from", found[0].low, found[1].low)
    return exactly(build.call("not", distinct))


@node("And", "Or", "Not")
def connective(context: Context, given: Node) -> Value | None:
    """AND, OR, NOT of what is exact."""
    sides = [context.exact(side) for side in (given.children if given.kind == "Not" else _joined(given))]
    values = [side for side in sides if side is not None]
    return called(given.kind.lower(), *values) if len(values) == len(sides) else None


@node("IsNull", "IsNotNull")
def null_test(context: Context, given: Node) -> Value | None:
    """IS [NOT] NULL of what is sure."""
    value = context.value(given.children[0])
    if value is None or not value.sure:
        return None
    found = build.call("is null", value.low)
    return exactly(found if given.kind == "IsNull" else build.call("not", found))


@node("IsNaN")
def is_nan(context: Context, given: Node) -> Value | None:
    """Whether a float is NaN; false for NULL."""
    value = context.exact(given.children[0])
    if value is None or value.type not in (FLOAT4, FLOAT8) or not value.sure:
        return None
    # Only NaN is greater than infinity, and statistics that know of no NaN prove that nothing is.
    found = build.call(">", value.low, build.literal(float("inf"), value.type))
    return exactly(build.call("coalesce", found, build.literal(False, BOOL)))


def _among(value: Value, elements: pa.Array) -> Value | None:
    """`x IN (constants)`; elements are of the value's Spark type."""
    expr = value.low
    if expr.type == INT8 and pa.types.is_timestamp(elements.type):
        elements = elements.cast(pa.int64())
    of = {Kind.TIMESTAMPTZ: TIMESTAMPTZ, Kind.TIMESTAMP: TIMESTAMP}.get(expr.type.kind, expr.type)
    if elements.type != of.arrow:
        return None
    listed = pa.ListArray.from_arrays(pa.array([0, len(elements)], pa.int32()), elements)
    return exactly(build.call("in", expr, Literal(listed[0], array(of))), value)


@node("In")
def among(context: Context, given: Node) -> Value | None:
    """IN of a list: of constants one look-up, else an OR of comparisons."""
    value = context.value(given.children[0])
    others = [context.exact(child) for child in given.children[1:]]
    known = [other for other in others if other is not None]
    if value is None or value.low is not value.high or len(known) != len(others) or not known:
        return None
    tests: list[Expr] = []
    constants = [other.low.value for other in known if isinstance(other.low, Literal)]
    plain = strict_all(value, known)
    if plain is None:
        return None
    if len(constants) == len(known) and not plain.type.is_float and known[0].type.arrow == plain.type.arrow:
        return _among(plain, pa.array(constants, known[0].type.arrow))
    for other in known:
        found = matched(plain, other)
        if found is None:
            return None
        tests.append(build.call("=", found[0].low, found[1].low))
    return exactly(build.disjunction(tests), plain, *known)


def strict_all(value: Value, others: list[Value]) -> Value | None:
    """A text out of JSON made exact for comparing it with each of these."""
    for other in others:
        found = strict(value, other)
        if found is None:
            return None
        if found is not value and value.loose and found.low is not value.low:
            return found  # the strictest form is right for all
    return Value(value.low, value.high, value.sure)


@node("InSet")
def in_set(context: Context, given: Node) -> Value | None:
    """IN of many constants, which Spark keeps as a set."""
    value = context.value(given.children[0])
    elements = given.set_of()
    if value is None or value.low is not value.high or elements is None:
        return None
    texts = [exactly(build.literal(text, TEXT)) for text in elements.to_pylist()] if value.loose else []
    plain = strict_all(value, texts)
    return None if plain is None else _among(plain, elements)


@node("If", "CaseWhen")
def case(context: Context, given: Node) -> Value | None:
    """IF and CASE: lazy in both, and a NULL condition takes the next branch."""
    branches, otherwise = _branches(given)
    made: list[tuple[Expr, Expr]] = []
    results: list[Value] = []
    for condition, value in branches:
        when, then = context.exact(condition), context.exact(value)
        if when is None or not when.sure or then is None:
            return None
        made.append((when.low, then.low))
        results.append(then)
    last = exactly(build.null(results[0].type)) if otherwise is None else context.exact(otherwise)
    if last is None or not _alike([*results, last]):
        return None
    return exactly(build.case(made, last.low), *results, last)


def _alike(values: list[Value]) -> bool:
    """Whether values share a type, so that none is changed by bringing them together."""
    return all(value.type == values[0].type for value in values)


def _choosing(name: str) -> Callable[[Context, Node], Value | None]:
    def translator(context: Context, given: Node) -> Value | None:
        values = context.exacts(given)
        if values is None or not _alike(values) or not all(value.sure for value in values):
            return None
        return called(name, *values)

    return translator


node("Coalesce")(_choosing("coalesce"))
node("Greatest")(_choosing("greatest"))
node("Least")(_choosing("least"))


@node("ArrayContains")
def array_contains(context: Context, given: Node) -> Value | None:
    """Whether an array has an element; NULL if it has not, but has a NULL."""
    values = context.exacts(given)
    if values is None or values[0].type.element != values[1].type or values[1].type.is_float:
        return None
    return called("any =", values[1], values[0])


@node("Size")
def size(context: Context, given: Node) -> Value | None:
    """How many elements an array has."""
    value = context.exact(given.children[0])
    if value is None or given.fields.get("legacySizeOfNull") is not False:
        return None
    element = value.type.element
    return None if element is None or element.is_nested else called("cardinality", value)
