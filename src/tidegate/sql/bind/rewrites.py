"""Calls that stand for others: subscripts of JSON, spans of OVERLAPS, and values that are shown.

p['a'][0]                                   p #> '{a}' #> '{0}'
(at, interval '1 hour') OVERLAPS (…)        overlaps(at, at + interval '1 hour', …)
x LIKE ANY (ARRAY['a%', 'b%'])              x LIKE 'a%' OR x LIKE 'b%'
concat(true)                                concat(CASE WHEN true THEN 't' …)
"""

from __future__ import annotations

from tidegate.errors import TypeMismatch, UnsupportedError
from tidegate.expr.model import Call, Expr, Kind, Literal, build, types

SHOWS_VALUES = frozenset(("concat", "concat_ws", "format"))
"""Functions that write values as they are shown, and not as a cast to text: a bool as t or f."""


PATTERN_OPERATORS: dict[str, tuple[str, bool]] = {
    "like": ("like", True), "~~": ("like", True), "not like": ("like", False), "!~~": ("like", False),
    "ilike": ("ilike", True), "~~*": ("ilike", True), "not ilike": ("ilike", False), "!~~*": ("ilike", False),
    "~": ("~", True), "!~": ("!~", True), "~*": ("~*", True), "!~*": ("!~*", True),
}  # fmt: skip
"""Operators of patterns, as the function and whether it is meant as it is; after ANY and ALL they take a list of patterns."""


def match_patterns(operator: str, quantifier: str, x: Expr, patterns: Expr) -> Expr:
    """`x LIKE ANY (patterns)`: each pattern asked by itself, so that each may prune."""
    name, meant = PATTERN_OPERATORS[operator]
    if isinstance(patterns, Call) and patterns.function.name == "array":
        elements: list[Expr] = list(patterns.args)
    elif isinstance(patterns, Literal):
        array = build.coerce(patterns, types.array(types.TEXT))
        assert isinstance(array, Literal)
        if array.is_null:
            return build.null(types.BOOL)
        elements = [Literal(element, types.TEXT) for element in array.value]
    else:
        raise UnsupportedError(
            f"{operator.upper()} {quantifier.upper()} takes patterns that are written in the query",
            hint=f"write … {operator.upper()} {quantifier.upper()} (ARRAY['a%', 'b%'])",
        )
    tests = [build.call(name, x, element) for element in elements]
    tests = tests if meant else [build.call("not", test) for test in tests]
    return build.disjunction(tests) if quantifier == "any" else build.conjunction(tests)


def json_subscript(document: Expr, subscript: Expr) -> Expr:
    """`document['key'][0]`: what is at a path; a number finds a key too, as in PostgreSQL."""
    if subscript.type.kind not in (Kind.INT2, Kind.INT4, Kind.TEXT, Kind.UNKNOWN):
        raise TypeMismatch(
            f"subscript type {subscript.type} is not supported", hint="a key is a text, a position an integer"
        )
    return build.call("#>", document, build.call("array", build.cast(subscript, types.TEXT)))


def span(start: Expr, end: Expr) -> tuple[Expr, Expr]:
    """The ends of a span of time that is given by both, or by one and its length."""
    return (start, build.call("+", start, end)) if end.type.kind is Kind.INTERVAL else (start, end)


def shown(arg: Expr) -> Expr:
    """A value as it is shown."""
    if arg.type != types.BOOL:
        return arg
    return build.case([(arg, build.text("t")), (build.call("not", arg), build.text("f"))])
