"""Executes a jsonpath over a decoded document.

    list(JsonPathRun(parse_jsonpath("$.a[*] ? (@ > 1)"), {"a": [1, 2]}).items())      [2]

In lax mode an array is unwrapped where an object or a number is wanted, a value is wrapped where an array is, and what is missing
is nothing; in strict mode each of these is an error. A condition is true, false or unknown (None), as where an error is inside it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.primitives.json.exact import Json, type_name
from tidegate.expr.primitives.jsonpath import syntax
from tidegate.expr.primitives.jsonpath.syntax import Condition, JsonPath, Path
from tidegate.expr.primitives.regex import compile_regex
from tidegate.expr.primitives.row_loop import RowFailure

_EXACT = Context(prec=2000)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class PathFailure(RowFailure):
    """An error of a path over this document, which a silent call gives as NULL."""


class JsonPathRun:
    """One execution: a path, a document and variables."""

    def __init__(self, path: JsonPath, document: Json, variables: dict[str, Any] | None = None) -> None:
        """Without `variables` each of them is null."""
        self.path, self.document, self.variables = path.path, document, variables
        self.lax = not path.strict

    def items(self) -> Iterator[Json]:
        """What the path finds, one after the other; raises PathFailure for an error."""
        return self._items(self.path, None, None)

    # ------------------------------------------------------------ paths

    def _items(self, path: Path, current: Json, last: int | None) -> Iterator[Json]:
        """The items of a path; `current` is `@`, `last` the position of the last element."""
        match path:
            case syntax.PathRoot():
                yield self.document
            case syntax.Current():
                yield current
            case syntax.PathConstant(value):
                yield value
            case syntax.Last():
                yield Decimal(last or 0)
            case syntax.Variable(name):
                if self.variables is not None and name not in self.variables:
                    raise RowFailure(f'could not find jsonpath variable "{name}"')
                yield None if self.variables is None else self.variables[name]
            case syntax.Arithmetic():
                yield from self._arithmetic(path, current, last)
            case syntax.Comparison() | syntax.LikeRegex() | syntax.Exists() | syntax.Logic():
                yield self._test(path, current, last)
            case _:
                for item in self._items(path.base, current, last):
                    yield from self._step(path, item, current, last)

    def _step(
        self,
        path: syntax.Key
        | syntax.Elements
        | syntax.Descendants
        | syntax.Subscripts
        | syntax.Method
        | syntax.PathFilter,
        item: Json,
        current: Json,
        last: int | None,
    ) -> Iterator[Json]:
        """What an accessor makes of one item."""
        match path:
            case syntax.Elements():
                if isinstance(item, list) or self.lax or not _below_descendants(path.base):
                    yield from self._array(
                        item, "jsonpath wildcard array accessor can only be applied to an array"
                    )
            case syntax.Descendants():
                yield from _descendants(item, path.first, path.final)
            case syntax.Subscripts():
                if isinstance(item, list) or self.lax or not _below_descendants(path.base):
                    yield from self._subscripts(path, item, current)
            case syntax.Key():
                for one in self._unwrapped(item):
                    yield from self._member(one, path)
            case syntax.PathFilter():
                for one in self._unwrapped(item):
                    if self._test(path.condition, one, last) is True:
                        yield one
            case syntax.Method():
                yield from self._method(path.name, item)
            case _:
                assert_never(path)

    def _unwrapped(self, item: Json) -> list[Any]:
        """The elements of an array in lax mode, else the item itself."""
        return item if self.lax and isinstance(item, list) else [item]

    def _array(self, item: Json, message: str) -> list[Any]:
        """An array, or in lax mode a value as an array of itself."""
        if isinstance(item, list):
            return item
        if not self.lax:
            raise PathFailure(message)
        return [item]

    def _member(self, item: Json, path: syntax.Key) -> list[Any]:
        name, lax = path.name, self.lax or _below_descendants(path.base)
        if not isinstance(item, dict):
            if lax:
                return []
            kind = "wildcard member" if name is None else "member"
            raise PathFailure(f"jsonpath {kind} accessor can only be applied to an object")
        if name is None:
            return list(item.values())
        if name not in item and not lax:
            raise PathFailure(f'JSON object does not contain key "{name}"')
        return [item[name]] if name in item else []

    def _subscripts(self, path: syntax.Subscripts, item: Json, current: Json) -> Iterator[Json]:
        elements = self._array(item, "jsonpath array accessor can only be applied to an array")
        size = len(elements)
        for low, high in path.ranges:
            first = self._position(low, current, size - 1)
            final = first if high is None else self._position(high, current, size - 1)
            lax = self.lax or _below_descendants(path.base)
            if not lax and (first < 0 or first > final or final >= size):
                raise PathFailure("jsonpath array subscript is out of bounds")
            yield from elements[max(first, 0) : final + 1 if final >= 0 else 0]

    def _position(self, path: Path, current: Json, last: int) -> int:
        found = list(self._items(path, current, last))
        if len(found) != 1 or not isinstance(found[0], Decimal):
            raise PathFailure("jsonpath array subscript is not a single numeric value")
        if not -(2**31) <= found[0] < 2**31:
            raise PathFailure("jsonpath array subscript is out of integer range")
        return int(found[0])

    # ------------------------------------------------------------ methods and arithmetic

    def _method(self, name: str, item: Json) -> Iterator[Json]:
        if name == "type":
            yield type_name(item)
        elif name == "size":
            message = "jsonpath item method .size() can only be applied to an array"
            yield Decimal(len(self._array(item, message)))
        else:
            for one in self._unwrapped(item):
                yield self._double(one) if name == "double" else self._rounded(name, one)

    def _rounded(self, name: str, item: Json) -> Decimal:
        if not isinstance(item, Decimal):
            raise PathFailure(f"jsonpath item method .{name}() can only be applied to a numeric value")
        if name == "abs":
            return item.copy_abs()
        return item.to_integral_value(ROUND_FLOOR if name == "floor" else ROUND_CEILING)

    def _double(self, item: Json) -> Decimal:
        if not isinstance(item, Decimal | str):
            message = "jsonpath item method .double() can only be applied to a string or numeric value"
            raise PathFailure(message)
        try:
            number = float(item)
        except ValueError:
            number = float("nan")
        if number != number or abs(number) == float("inf"):
            kind = "numeric" if isinstance(item, Decimal) else "string"
            wrong = "is out of range for type double precision"
            raise PathFailure(f"{kind} argument of jsonpath item method .double() {wrong}")
        return item if isinstance(item, Decimal) else Decimal(f"{number:.15g}")

    def _operands(self, path: Path, current: Json, last: int | None) -> list[Any]:
        """The items of an operand, arrays unwrapped in lax mode."""
        return [one for item in self._items(path, current, last) for one in self._unwrapped(item)]

    def _arithmetic(self, path: syntax.Arithmetic, current: Json, last: int | None) -> Iterator[Json]:
        right = self._operands(path.right, current, last)
        if path.left is None:
            for one in right:
                if not isinstance(one, Decimal):
                    raise PathFailure(
                        f"operand of unary jsonpath operator {path.operator} is not a numeric value"
                    )
                yield one.copy_negate() if path.operator == "-" else one
            return
        left = self._operands(path.left, current, last)
        for side, found in (("left", left), ("right", right)):
            if len(found) != 1 or not isinstance(found[0], Decimal):
                message = f"{side} operand of jsonpath operator {path.operator} is not a single numeric value"
                raise PathFailure(message)
        a, b = left[0], right[0]
        if path.operator in ("/", "%") and not b:
            raise PathFailure("division by zero")
        if path.operator == "/":
            yield _quotient(a, b)
            return
        compute = {"+": _EXACT.add, "-": _EXACT.subtract, "*": _EXACT.multiply, "%": _EXACT.remainder}
        yield compute[path.operator](a, b)

    # ------------------------------------------------------------ conditions

    def _test(self, condition: Condition, current: Json, last: int | None) -> bool | None:
        """Whether a condition holds; None: unknown."""
        match condition:
            case syntax.Logic("!", (inner,)):
                answer = self._test(inner, current, last)
                return None if answer is None else not answer
            case syntax.Logic("is unknown", (inner,)):
                return self._test(inner, current, last) is None
            case syntax.Logic(name, (one, other)):
                deciding = name == "||"
                answers = [self._test(side, current, last) for side in (one, other)]
                if deciding in answers:
                    return deciding
                return None if None in answers else not deciding
            case syntax.Exists(path):
                return self._exists(path, current, last)
            case syntax.Comparison() | syntax.LikeRegex():
                return self._compare(condition, current, last)
            case _:
                raise AssertionError(condition)

    def _exists(self, path: Path, current: Json, last: int | None) -> bool | None:
        try:
            found = self._items(path, current, last)
            return bool(list(found)) if not self.lax else next(found, _NOTHING) is not _NOTHING
        except PathFailure:
            return None

    def _compare(
        self, condition: syntax.Comparison | syntax.LikeRegex, current: Json, last: int | None
    ) -> bool | None:
        """Compares all items of both sides: true if any pair is; unknown if one cannot be compared."""
        try:
            left = self._operands(condition.left, current, last)
            if isinstance(condition, syntax.LikeRegex):
                right: list[Any] = [None]
            elif condition.operator == "starts with":
                right = list(self._items(condition.right, current, last))
            else:
                right = self._operands(condition.right, current, last)
        except PathFailure:
            return None
        answers = []
        for a in left:
            for b in right:
                answer = _pair(condition, a, b)
                if (answer is None and not self.lax) or (answer and self.lax):
                    return answer
                answers.append(answer)
        return True if True in answers else None if None in answers else False


_NOTHING = object()


def _below_descendants(path: Path) -> bool:
    """Whether `.**` is before a step: what does not fit the step is then left out in strict mode, too."""
    while isinstance(path, syntax.Key | syntax.Elements | syntax.Subscripts | syntax.PathFilter):
        path = path.base
    return isinstance(path, syntax.Descendants)


def _descendants(item: Json, first: int | None, final: int | None) -> Iterator[Json]:
    """What lies between two levels below an item, the outer first; None: where leaves are, no end."""
    stack = [] if first is None and final is not None else [(item, 0)]
    while stack:
        one, level = stack.pop()
        inner = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else None
        if (
            (inner is None and level > 0)
            if first is None
            else level >= first and (final is None or level <= final)
        ):
            yield one
        if inner is not None and (first is None or final is None or level < final):
            stack += [(each, level + 1) for each in reversed(inner)]


def _quotient(a: Decimal, b: Decimal) -> Decimal:
    """A quotient with PostgreSQL's digits: 16 significant ones at least, in groups of four.

    1 / 3 = 0.33333333333333333333, and 10000 / 3 = 3333.3333333333333333.
    """
    (weight, lead), (below, other) = _leading_group(a), _leading_group(b)
    groups = weight - below - (lead <= other)
    scale = min(max(16 - 4 * groups, _scale(a), _scale(b), 0), 1000)
    return _EXACT.divide(a, b).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)


def _leading_group(number: Decimal) -> tuple[int, int]:
    """The place and the value of the first group of four digits, which are counted from the point."""
    if not number:
        return 0, 0
    weight = number.adjusted() // 4
    return weight, int(number.copy_abs().scaleb(-4 * weight, _EXACT))


def _scale(number: Decimal) -> int:
    return max(0, -int(number.as_tuple().exponent))


def _pair(condition: syntax.Comparison | syntax.LikeRegex, a: Json, b: Json) -> bool | None:
    if isinstance(condition, syntax.LikeRegex):
        return _matches(condition, a) if isinstance(a, str) else None
    if condition.operator == "starts with":
        return a.startswith(b) if isinstance(a, str) and isinstance(b, str) else None
    kinds = type_name(a), type_name(b)
    if kinds[0] != kinds[1]:
        return condition.operator == "!=" if "null" in kinds else None
    if isinstance(a, list | dict):
        return None
    if a is None:
        return condition.operator in ("==", "<=", ">=")
    return _ORDER[condition.operator](a, b)


def _matches(condition: syntax.LikeRegex, text: str) -> bool:
    pattern = compile_regex(condition.pattern, condition.options).re2
    return bool(pc.match_substring_regex(pa.array([text]), pattern)[0].as_py())
