"""Prints expressions as SQL that parses back to the same tree.

    show(expr)                  created_at + '30 days' >= mz_now()
    show(expr, names=False)     #1 + '30 days' >= mz_now()

EXPLAIN, messages and golden files use it. The text is as short as possible: parentheses only where PostgreSQL's precedence needs
them, and types of constants and casts only where the call would resolve differently without them. To find out, the shorter call
is built by the same `build.call` that SQL uses, and printed if it equals the original.

| tree | shorter call | the same? | shown |
|---|---|---|---|
| `+(timestamptz, 30 days::interval)` | `created_at + '30 days'` | yes | `created_at + '30 days'` |
| `=(int4::int8, int8)` | `small = big` | yes | `small = big` |
| `=(text::int8, int8)` | `word = big` | refused | `word::int8 = big` |

Lists of more than `MAX_LIST_ITEMS` constants are cut with a count of the rest, and expressions at `MAX_LENGTH` characters (a common
subexpression used twice on each of 30 levels would print as a billion copies of itself). `whole=True` prints everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import assert_never

import pyarrow as pa

from tidegate.errors import TidegateError, shorten
from tidegate.expr.model import build
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.sort_keys import without_sort_key
from tidegate.expr.model.tree import Call, Column, Expr, Literal, Now, walk
from tidegate.expr.model.types import FLOAT8, INT4, INT8, MAX_PRECISION, TEXT, UNKNOWN, Kind, Type, numeric
from tidegate.text import SqlText, identifier

MAX_LIST_ITEMS, MAX_LENGTH, MAX_CONSTANT_LENGTH = 20, 2_000, 80
"""Limits of printed text: constants in a list, characters of an expression, characters of a constant."""

OR, AND, NOT, IS, COMPARISON, MEMBERSHIP, OTHER, SUM, PRODUCT, POWER, ZONE, MINUS, CAST, ATOM = range(1, 15)
"""Operator precedence, from the lowest."""

_POWERS = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), COMPARISON),
    **dict.fromkeys(("+", "-"), SUM),
    **dict.fromkeys(("*", "/", "%"), PRODUCT),
    "^": POWER,
}
_TESTS = {"is null": "NULL", "is true": "TRUE", "is false": "FALSE"}
_LIKES = {"like": "LIKE", "ilike": "ILIKE"}

Shown = tuple[str, int]
"""A text, and the precedence of its outermost operator."""


def show(expr: Expr, names: Sequence[str] | bool | None = None, *, whole: bool = False) -> str:
    """`expr` on one line, with its own column names, those of `names`, or none (False: `#0`, `#1`)."""
    return _Printer(names, whole).show(expr)[0]


def show_value(value: pa.Scalar, type_: Type) -> str:
    """A constant as SQL without its type: 42, 'abc', '2024-01-31 00:00:00+00', NULL."""
    if not value.is_valid:
        return "NULL"
    if type_.kind is Kind.BOOL:
        return "true" if value.as_py() else "false"
    text = text_of(value, type_)
    plain = type_.is_number and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", text)
    return text if plain else _quote(text)


def text_of(value: pa.Scalar, type_: Type) -> str:
    """A value as the cast to text prints it."""
    if type_.is_integer:
        return str(value.as_py())
    function = REGISTRY.cast(type_.kind, Kind.TEXT) if type_.kind not in (Kind.TEXT, Kind.UNKNOWN) else None
    if function is not None:
        values, errors = build.run_cast(function, Literal(value, type_), TEXT)
        if errors is None and values[0].is_valid:
            return str(values[0].as_py())
    return str(value.as_py())


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class _Printer:
    """The texts of all nodes of one expression, from the leaves up."""

    def __init__(self, names: Sequence[str] | bool | None, whole: bool) -> None:
        self.names = names
        self.whole = whole
        self.shown: dict[Expr, Shown] = {}

    def show(self, expr: Expr) -> Shown:
        for node in walk(expr):
            if node not in self.shown:
                text, power = self._node(node)
                self.shown[node] = (text if self.whole else shorten(text, MAX_LENGTH)), power
        return self.shown[expr]

    def _node(self, node: Expr) -> Shown:
        match node:
            case Column():
                return self._column(node), ATOM
            case Literal():
                return self._literal(node)
            case Now():
                return "mz_now()", ATOM
            case Call():
                args = _plain_args(node)
                return self._call(node, [self._argument(arg) for arg in args])
            case _:
                assert_never(node)

    def _column(self, node: Column) -> str:
        if isinstance(self.names, Sequence):
            name = self.names[node.index] if node.index < len(self.names) else ""
        else:
            name = "" if self.names is False else node.name
        if isinstance(name, SqlText):
            return name
        return identifier(name) if name else f"#{node.index}"

    def _argument(self, arg: Expr) -> Shown:
        """An argument; `_plain_args` has decided whether a constant has its type."""
        if isinstance(arg, Literal) and arg.type.kind is Kind.TEXT:
            return (
                f"{self._cut(_quote(str(arg.value.as_py())))}::{arg.type}"
                if not arg.is_null
                else "NULL::text",
                CAST,
            )
        return self.show(arg)

    def _literal(self, node: Literal) -> Shown:
        """A constant with its type, unless SQL would infer that type."""
        if node.is_null:
            return ("NULL", ATOM) if node.type == UNKNOWN else (f"NULL::{node.type}", CAST)
        value = node.value
        if node.type.kind is Kind.ARRAY and not self.whole and len(value.values) > MAX_LIST_ITEMS:
            value = pa.ListArray.from_arrays([0, MAX_LIST_ITEMS], value.values[:MAX_LIST_ITEMS])[0]
        text = self._cut(show_value(value, node.type))
        if value is not node.value:
            text = text.removesuffix("}'") + "…'"
        if node.type.kind in (Kind.BOOL, Kind.UNKNOWN) or node.type == TEXT:
            return text, ATOM
        if not text.startswith("'"):
            if natural(node) == node:
                return text, MINUS if text.startswith("-") else ATOM
            return f"({text})::{node.type}" if text.startswith("-") else f"{text}::{node.type}", CAST
        return f"{text}::{node.type}", CAST

    def _cut(self, text: str) -> str:
        return (
            text if self.whole or len(text) <= MAX_CONSTANT_LENGTH else text[: MAX_CONSTANT_LENGTH - 2] + "…'"
        )

    def _call(self, node: Call, args: list[Shown]) -> Shown:
        name = node.function.name
        if name in _FORMS:
            return _FORMS[name](self, node, args)
        if name[:4] in ("any ", "all ") and len(args) == 2:
            return f"{_tight(args[0], OTHER)} {name[4:]} {name[:3].upper()}({args[1][0]})", _POWERS[name[4:]]
        if not name[0].isalpha() and len(args) == 2:
            power = _POWERS.get(name, OTHER)
            left = power + 1 if power == COMPARISON else power
            return f"{_tight(args[0], left)} {name} {_tight(args[1], power + 1)}", power
        if not name[0].isalpha() and len(args) == 1:
            # `--x` would be a comment, and `- 5` a constant.
            return f"{name}{_tight(args[0], MINUS + 1)}", MINUS if name == "-" else OTHER
        return f"{name}({', '.join(text for text, _ in args)})", ATOM

    def members(self, x: Expr, values: pa.Scalar, type_: Type) -> str:
        """The constants of an IN list, without their type if SQL infers it for all of them."""
        items = values.values
        shown = items if self.whole else items[:MAX_LIST_ITEMS]
        literals = [Literal(item, type_) for item in shown]
        texts = [self._literal(literal)[0] for literal in literals]
        for pick in (0, -1):
            plain = [(_shorter_forms(literal) or [literal])[pick] for literal in literals]
            if build.common_type([x.type, *{literal.type: None for literal in plain}]) == type_:
                texts = [
                    show_value(literal.value, literal.type)
                    for literal in plain
                    if isinstance(literal, Literal)
                ]
                break
        if len(items) > len(shown):
            texts.append(f"… {len(items) - len(shown):,} more")
        return ", ".join(texts)


def _tight(shown: Shown, power: int) -> str:
    """The text, in parentheses if its precedence is below `power`."""
    return shown[0] if shown[1] >= power else f"({shown[0]})"


# ---------------------------------------------------------------- shorter arguments


def natural(literal: Literal) -> Literal:
    """The constant that SQL reads from the bare text: a number of minimal type, or an unknown string."""
    if literal.is_null or literal.type.kind is Kind.BOOL:
        return literal
    if not literal.type.is_number:
        return build.text(text_of(literal.value, literal.type))
    value = literal.value.as_py()
    if isinstance(value, float):
        value = Decimal(repr(value))
    if not isinstance(value, int) and not value.is_finite():
        return build.text(text_of(literal.value, literal.type))
    if isinstance(value, int):
        return build.literal(
            value, INT4 if abs(value) < 2**31 else INT8 if abs(value) < 2**63 else numeric(19, 0)
        )
    digits = format(value.copy_abs(), "f")  # abs() would round to 28 digits
    whole, _, scale = digits.partition(".")
    if len(whole.lstrip("0") + scale) > MAX_PRECISION:
        return build.literal(float(value), FLOAT8)
    return build.literal(value, numeric(max(1, len(whole.lstrip("0") + scale)), len(scale)))


def _shorter_forms(arg: Expr) -> list[Expr]:
    """Shorter forms that SQL may convert to `arg` as an argument, the shortest first."""
    if isinstance(arg, Call):
        implicit = (
            arg.function.name == "cast"
            and arg.args[0].type != UNKNOWN
            and not isinstance(arg.args[0], Literal)
        )
        return [arg.args[0]] if implicit else []
    if not isinstance(arg, Literal) or arg.type.kind in (Kind.BOOL, Kind.UNKNOWN):
        return []
    if arg.is_null:
        return [build.null()]
    if arg.type.kind is Kind.ARRAY and len(arg.value.values) > MAX_LIST_ITEMS:
        return []
    plain = natural(arg)
    value = plain.value.as_py()
    if isinstance(value, (Decimal, float)) and arg.type != plain.type and -(2**63) < value < 2**63:
        whole = int(value)
        if value == whole:
            return [natural(build.literal(whole, INT8)), plain]
    return [plain]


def _plain_args(call: Call) -> list[Expr]:
    """The arguments without casts, types and sort keys that the call adds implicitly."""
    args = [] if call.function.volatile else [without_sort_key(arg) for arg in call.args]
    if call.function.name in ("cast", "field", "in", "and", "or", "not"):
        return args
    if call.function.name == "join_all":
        return [natural(arg) if isinstance(arg, Literal) and not arg.is_null else arg for arg in args]
    choices = [_shorter_forms(arg) for arg in args]
    for pick in range(max(map(len, choices), default=0)):
        trial = [
            choice[min(pick, len(choice) - 1)] if choice else arg
            for choice, arg in zip(choices, args, strict=True)
        ]
        if _rebuild(call, trial) == call:
            return trial
    for i, choice in enumerate(choices):
        for shorter in choice:
            trial = [*args[:i], shorter, *args[i + 1 :]]
            if _rebuild(call, trial) == call:
                args = trial
                break
    return args


def _rebuild(call: Call, args: list[Expr]) -> Expr | None:
    try:
        if call.function.name == "case":
            return build.case(list(zip(args[:-1:2], args[1:-1:2], strict=True)), args[-1])
        return build.call(call.function.name, *args)
    except TidegateError:
        return None


# ---------------------------------------------------------------- special syntax


def _junction(word: str, power: int) -> Callable[[_Printer, Call, list[Shown]], Shown]:
    return lambda printer, node, args: (f" {word} ".join(_tight(arg, power + 1) for arg in args), power)


def _not(printer: _Printer, node: Call, args: list[Shown]) -> Shown:
    """NOT, inside the predicates that have a negated form."""
    inner = node.args[0]
    if isinstance(inner, Call):
        for word, power in (
            (" IS ", IS),
            (" IN (", MEMBERSHIP),
            (" LIKE ", MEMBERSHIP),
            (" ILIKE ", MEMBERSHIP),
        ):
            name = inner.function.name
            if (
                args[0][1] == power
                and word.strip(" (").lower() == name.split()[0]
                and name not in ("is true", "is false")
            ):
                first = _tight(printer.show(_plain_args(inner)[0]), OTHER)
                rest = args[0][0][len(first) :]
                return first + (f" IS NOT {rest[4:]}" if word == " IS " else f" NOT{rest}"), power
    return f"NOT {_tight(args[0], NOT)}", NOT


def _test(printer: _Printer, node: Call, args: list[Shown]) -> Shown:
    return f"{_tight(args[0], OTHER)} IS {_TESTS[node.function.name]}", IS


def _like(printer: _Printer, node: Call, args: list[Shown]) -> Shown:
    escape = f" ESCAPE {_tight(args[2], OTHER)}" if len(args) > 2 else ""
    return (
        f"{_tight(args[0], OTHER)} {_LIKES[node.function.name]} {_tight(args[1], OTHER)}{escape}",
        MEMBERSHIP,
    )


def _in(printer: _Printer, node: Call, args: list[Shown]) -> Shown:
    x, values = node.args
    if (
        isinstance(values, Literal)
        and not values.is_null
        and len(values.value.values)
        and values.type.element
    ):
        return (
            f"{_tight(args[0], OTHER)} IN ({printer.members(x, values.value, values.type.element)})",
            MEMBERSHIP,
        )
    return f"{_tight(args[0], OTHER)} = ANY({args[1][0]})", COMPARISON


def _case(printer: _Printer, node: Call, args: list[Shown]) -> Shown:
    texts = [text for text, _ in args]
    whens = [f"WHEN {c} THEN {v}" for c, v in zip(texts[:-1:2], texts[1:-1:2], strict=True)]
    otherwise = node.args[-1]
    missing = isinstance(otherwise, Literal) and otherwise.is_null
    return " ".join(["CASE", *whens, *([] if missing else [f"ELSE {texts[-1]}"]), "END"]), ATOM


def _subscript(printer: _Printer, node: Call, args: list[Shown]) -> Shown:
    ends = {"subscript": "{0}", "slice": "{0}:{1}", "slice from": "{0}:", "slice to": ":{0}"}[
        node.function.name
    ]
    return f"{_tight(args[0], ATOM)}[{ends.format(*(text for text, _ in args[1:]))}]", ATOM


def _field(printer: _Printer, node: Call, args: list[Shown]) -> Shown:
    index = node.args[1]
    assert isinstance(index, Literal)
    return f"({args[0][0]}).{identifier(node.args[0].type.fields[index.value.as_py()][0])}", ATOM


def _extract(printer: _Printer, node: Call, args: list[Shown]) -> Shown:
    unit = node.args[0]
    if isinstance(unit, Literal) and not unit.is_null and str(unit.value.as_py()).isalpha():
        return f"extract({unit.value.as_py()} FROM {args[1][0]})", ATOM
    return f"extract({args[0][0]}, {args[1][0]})", ATOM


def _zone(printer: _Printer, node: Call, args: list[Shown]) -> Shown:
    if len(args) != 2:
        return f"timezone({', '.join(text for text, _ in args)})", ATOM
    return f"{_tight(args[1], ZONE)} AT TIME ZONE {_tight(args[0], ZONE + 1)}", ZONE


_FORMS: dict[str, Callable[[_Printer, Call, list[Shown]], Shown]] = {
    "and": _junction("AND", AND),
    "or": _junction("OR", OR),
    "join_all": _junction("||", OTHER),
    "not": _not,
    **dict.fromkeys(_TESTS, _test),
    "is distinct from": lambda printer, node, args: (
        f"{_tight(args[0], OTHER)} IS DISTINCT FROM {_tight(args[1], OTHER)}",
        IS,
    ),
    **dict.fromkeys(_LIKES, _like),
    "in": _in,
    "case": _case,
    "cast": lambda printer, node, args: (f"{_tight(args[0], CAST)}::{node.type}", CAST),
    **dict.fromkeys(("subscript", "slice", "slice from", "slice to"), _subscript),
    "field": _field,
    "array": lambda printer, node, args: (f"ARRAY[{', '.join(text for text, _ in args)}]", ATOM),
    "row": lambda printer, node, args: (f"ROW({', '.join(text for text, _ in args)})", ATOM),
    "extract": _extract,
    "timezone": _zone,
    **dict.fromkeys(("sort key", "from sort key"), lambda printer, node, args: args[0]),
}
"""Printers of functions with special syntax; all others are operators or `name(…)`."""
