"""Conditions: comparisons, AND, OR, NOT, IN, CASE and the like, exact or from above.

A filter need not be translated completely. `above(node)` returns a condition that passes, or fails, at least where Spark's passes:

| Spark | from above |
|---|---|
| `a AND b`, b unknown | a |
| `a OR b`, b unknown | nothing |
| `x > y`, each between two bounds | `high(x) > low(y)` |
| `NOT (x > y)` | `low(x) <= high(y)`: NOT is moved inwards, where the other bounds are used |
| `IF(c, a, b)` | CASE of conditions above a and b; c must be exact |

The conjuncts of a filter are used one by one: a part in which one of them is never true is pruned, even if another one, which
could not be translated, would fail for some row. Spark does the same with the row groups of a Parquet file, and it evaluates
conjuncts in any order.

If a value is not `sure`, Spark's may be NULL where ours is not. Comparisons, AND, OR and NOT then give NULL or the same, so what
passes ours still covers what passes Spark's; but IS NULL, CASE, COALESCE and `<=>` turn a NULL into something, and are not
translated over such a value.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidegate.expr.model import Expr, Kind, Literal, build, types
from tidegate.spark.translate.catalyst_tree import CatalystNode
from tidegate.spark.translate.json import strict
from tidegate.spark.translate.value import SparkValue, TranslationScope, call, exact_value, translates
from tidegate.spark.translate.zones import micros

COMPARISONS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_BINARY_SIZE = 16


def above(scope: TranslationScope, node: CatalystNode, negated: bool = False) -> Expr | None:
    """Returns a condition that passes or fails wherever Spark's passes; with `negated`, its negation's."""
    match node.kind:
        case "Not":
            return above(scope, node.children[0], not negated)
        case "And" | "Or":
            sides = [above(scope, side, negated) for side in _operands(node)]
            known = [side for side in sides if side is not None]
            if (node.kind == "And") != negated:
                return build.conjunction(known) if known else None
            return build.disjunction(known) if len(known) == len(sides) else None
        case "If" | "CaseWhen":
            return _above_case(scope, node, negated)
        case "IsNotNull" if not negated:
            return _present(scope, node)
        case "IsNull" if negated:
            return _present(scope, node)
        case "EqualNullSafe" if not negated:
            return _above_same(scope, node)
        case kind if kind in COMPARISONS:
            sign = COMPARISONS[kind]
            values = _sides(scope, node)
            return None if values is None else compared(_OPPOSITE[sign] if negated else sign, *values)
        case _:
            value = scope.exact(node)
            if value is None or value.type != types.BOOL:
                return None
            return build.call("not", value.low) if negated else value.low


def _operands(node: CatalystNode) -> list[CatalystNode]:
    """Returns the operands of a chain of ANDs or ORs, which may be thousands deep."""
    operands: list[CatalystNode] = []
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.kind == node.kind:
            waiting.extend(reversed(at.children))
        else:
            operands.append(at)
    return operands


def _present(scope: TranslationScope, node: CatalystNode) -> Expr | None:
    """Returns IS NOT NULL from above: a value that is NULL in Spark alone does no harm."""
    value = scope.value(node.children[0])
    return None if value is None else build.call("not", build.call("is null", value.low))


def _above_same(scope: TranslationScope, node: CatalystNode) -> Expr | None:
    """Returns `x <=> constant` from above: it passes where `x = constant` does."""
    if any(child.is_value for child in node.children):
        sides = _sides(scope, node)
        return None if sides is None else compared("=", *sides)
    value = scope.exact(node)
    return None if value is None else value.low


def _above_case(scope: TranslationScope, node: CatalystNode, negated: bool) -> Expr | None:
    branches, otherwise = _branches(node)
    cases: list[tuple[Expr, Expr]] = []
    for condition, value in branches:
        when, then = scope.exact(condition), above(scope, value, negated)
        if when is None or not when.sure or then is None:
            return None
        cases.append((when.low, then))
    last = build.null(types.BOOL) if otherwise is None else above(scope, otherwise, negated)
    return None if last is None else build.case(cases, last)


def _branches(node: CatalystNode) -> tuple[list[tuple[CatalystNode, CatalystNode]], CatalystNode | None]:
    """Returns conditions with their values, and the ELSE; IF is such a CASE."""
    pairs = len(node.children) // 2
    branches = [(node.children[2 * i], node.children[2 * i + 1]) for i in range(pairs)]
    return branches, node.children[-1] if len(node.children) % 2 else None


def _sides(scope: TranslationScope, node: CatalystNode) -> tuple[SparkValue, SparkValue] | None:
    left, right = (scope.value(child) for child in node.children)
    if left is None or right is None:
        return None
    first, second = strict(left, right), strict(right, left)
    return None if first is None or second is None else match_types(first, second)


def match_types(left: SparkValue, right: SparkValue) -> tuple[SparkValue, SparkValue] | None:
    """Brings two values to one type: times and their microseconds, uuids and bytes."""
    kinds = {left.type.kind, right.type.kind}
    if kinds in ({Kind.TIMESTAMPTZ, Kind.INT8}, {Kind.TIMESTAMP, Kind.INT8}):
        return left.rising(micros), right.rising(micros)
    if kinds == {Kind.UUID, Kind.BYTEA}:
        first, second = _as_uuid(left), _as_uuid(right)
        return None if first is None or second is None else (first, second)
    if Kind.RECORD in kinds or Kind.ARRAY in kinds or Kind.INTERVAL in kinds:
        return None
    if kinds == {Kind.NUMERIC} and left.type.scale != right.type.scale:
        return None  # Spark normally brings both to one scale
    same = left.type.kind is right.type.kind
    return (left, right) if same or (left.type.is_integer and right.type.is_integer) else None


def _as_uuid(value: SparkValue) -> SparkValue | None:
    if value.type == types.UUID:
        return value
    fits = isinstance(value.low, Literal) and not value.low.is_null and value.type == types.BYTEA
    raw = value.low.value.as_py() if fits and isinstance(value.low, Literal) else b""
    return exact_value(build.literal(raw, types.UUID)) if len(raw) == _BINARY_SIZE else None


def compared(sign: str, left: SparkValue, right: SparkValue) -> Expr | None:
    """Returns a comparison from above: it uses the bound of each side that makes it true sooner."""
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


@translates(*COMPARISONS)
def comparison(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates = < <= > >= of exact values. Spark orders floats as we do: NaN is greatest, -0.0 = 0.0."""
    sides = _sides(scope, node)
    if sides is None or any(side.low is not side.high for side in sides):
        return None
    return exact_value(build.call(COMPARISONS[node.kind], sides[0].low, sides[1].low), *sides)


@translates("EqualNullSafe")
def same(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates `<=>`."""
    sides = _sides(scope, node)
    if sides is None or not all(side.low is side.high and side.sure for side in sides):
        return None
    distinct = build.call("is distinct from", sides[0].low, sides[1].low)
    return exact_value(build.call("not", distinct))


@translates("And", "Or", "Not")
def connective(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates AND, OR, NOT of exact values."""
    sides = [scope.exact(side) for side in (node.children if node.kind == "Not" else _operands(node))]
    values = [side for side in sides if side is not None]
    return call(node.kind.lower(), *values) if len(values) == len(sides) else None


@translates("IsNull", "IsNotNull")
def null_test(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates IS [NOT] NULL of sure values."""
    value = scope.value(node.children[0])
    if value is None or not value.sure:
        return None
    is_null = build.call("is null", value.low)
    return exact_value(is_null if node.kind == "IsNull" else build.call("not", is_null))


@translates("IsNaN")
def is_nan(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates isnan, which is false for NULL."""
    value = scope.exact(node.children[0])
    if value is None or value.type not in (types.FLOAT4, types.FLOAT8) or not value.sure:
        return None
    # Only NaN is greater than infinity, and statistics that know of no NaN prove that nothing is.
    is_nan = build.call(">", value.low, build.literal(float("inf"), value.type))
    return exact_value(build.call("coalesce", is_nan, build.literal(False, types.BOOL)))


def _among(value: SparkValue, elements: pa.Array) -> SparkValue | None:
    """Returns `x IN (constants)`; elements have the Spark type of the value."""
    expr = value.low
    if expr.type == types.INT8 and pa.types.is_timestamp(elements.type):
        elements = elements.cast(pa.int64())
    of = {Kind.TIMESTAMPTZ: types.TIMESTAMPTZ, Kind.TIMESTAMP: types.TIMESTAMP}.get(expr.type.kind, expr.type)
    if elements.type != of.arrow:
        return None
    listed = pa.ListArray.from_arrays(pa.array([0, len(elements)], pa.int32()), elements)
    return exact_value(build.call("in", expr, Literal(listed[0], types.array(of))), value)


@translates("In")
def among(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates IN: a list of constants is one look-up, other lists are an OR of comparisons."""
    value = scope.value(node.children[0])
    others = [scope.exact(child) for child in node.children[1:]]
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
        pair = match_types(plain, other)
        if pair is None:
            return None
        tests.append(build.call("=", pair[0].low, pair[1].low))
    return exact_value(build.disjunction(tests), plain, *known)


def strict_all(value: SparkValue, others: list[SparkValue]) -> SparkValue | None:
    """Makes a text out of JSON exact for a comparison with each of these."""
    for other in others:
        exact = strict(value, other)
        if exact is None:
            return None
        if exact is not value and value.loose and exact.low is not value.low:
            return exact  # the strictest form is right for all
    return SparkValue(value.low, value.high, value.sure)


@translates("InSet")
def in_set(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates IN of many constants, which Spark keeps as a set."""
    value = scope.value(node.children[0])
    elements = node.set_of()
    if value is None or value.low is not value.high or elements is None:
        return None
    texts = (
        [exact_value(build.literal(text, types.TEXT)) for text in elements.to_pylist()] if value.loose else []
    )
    plain = strict_all(value, texts)
    return None if plain is None else _among(plain, elements)


@translates("If", "CaseWhen")
def case(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates IF and CASE: both sides are lazy, and a NULL condition takes the next branch."""
    branches, otherwise = _branches(node)
    cases: list[tuple[Expr, Expr]] = []
    results: list[SparkValue] = []
    for condition, value in branches:
        when, then = scope.exact(condition), scope.exact(value)
        if when is None or not when.sure or then is None:
            return None
        cases.append((when.low, then.low))
        results.append(then)
    last = exact_value(build.null(results[0].type)) if otherwise is None else scope.exact(otherwise)
    if last is None or not _alike([*results, last]):
        return None
    return exact_value(build.case(cases, last.low), *results, last)


def _alike(values: list[SparkValue]) -> bool:
    """Whether all values have the same type, so that no cast is needed."""
    return all(value.type == values[0].type for value in values)


def _chooses(name: str) -> Callable[[TranslationScope, CatalystNode], SparkValue | None]:
    def translator(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
        values = scope.exacts(node)
        if values is None or not _alike(values) or not all(value.sure for value in values):
            return None
        return call(name, *values)

    return translator


translates("Coalesce")(_chooses("coalesce"))
translates("Greatest")(_chooses("greatest"))
translates("Least")(_chooses("least"))


@translates("ArrayContains")
def array_contains(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates array_contains: NULL if the element is not found and the array has a NULL."""
    values = scope.exacts(node)
    if values is None or values[0].type.element != values[1].type or values[1].type.is_float:
        return None
    return call("any =", values[1], values[0])


@translates("Size")
def size(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates the number of elements of an array."""
    value = scope.exact(node.children[0])
    if value is None or node.fields.get("legacySizeOfNull") is not False:
        return None
    element = value.type.element
    return None if element is None or element.is_nested else call("cardinality", value)
