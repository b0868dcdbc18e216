"""Generates the reference of types and functions from their declarations, for docs/sql.md (`docs/generate.py`).

The row of a function consists of its signature, the first line of its docstring and its claims, so nothing is written twice.
Only the differences from PostgreSQL are text of their own, at the end of the page.

| trend | meaning |
|---|---|
| ↑ ↓ ↕ | bounds of that argument give bounds of the result: rising, falling, or one of the two |
| – | only a constant gives bounds |
| own rule | the function has a rule of its own |
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

from tidegate.expr.model.function import REGISTRY, Function, Trend
from tidegate.expr.model.types import NAMES, SCALARS, Kind, Type

_ARROWS = {Trend.UP: "↑", Trend.DOWN: "↓", Trend.EITHER: "↕", None: "–"}

INTRO = """\
# Types and functions

This page is generated from the declarations of functions (`make docs`); do not edit it by hand.

Each function is declared once: how it computes values, how it behaves over ranges, and when it can fail. A filter prunes a part
if it is certainly false there and nothing in it can fail.

The column *prunes* says how statistics pass through a function:

| prunes | meaning |
|---|---|
| ↑ | the result rises with that argument, so bounds of the argument give bounds of the result |
| ↓ | the result falls with that argument; bounds pass through as well |
| ↕ | the result either rises or falls with that argument |
| – | bounds pass through only if the argument is a constant |
| own rule | the function has its own rule for bounds |
| sometimes | the trend depends on the arguments: an interval without months, a constant unit |

The column *fails* says when a function can fail:

| fails | meaning |
|---|---|
| never | it never fails |
| at ends | if both ends of a range succeed, everything between them succeeds |
| anywhere | any value may fail |
"""

DIFFERENCES = """\
## Differences from PostgreSQL

Semantics are those of PostgreSQL, except for the differences listed here.

General:

- AND and OR do not depend on the order of their arguments. For AND, False wins over an error, and an error wins over NULL. CASE
  and COALESCE are lazy.
- Text is ordered and compared by code point. The session's time zone is UTC.
- `mz_now()` is milliseconds since 1970. It is compared exactly, in the unit of the other side.

Numbers:

- `numeric` without precision is `numeric(38,18)`. Integers become `numeric(5|10|19, 0)`, and literals keep their digits. `+`
  and `-` keep the greater scale. `*` has the sum of both scales; if the result would need more than 38 digits, the scale is
  reduced, but never below the greater one (at most 18). `/` has a scale of 18 or more. Overflow is an error.
- `greatest`, `least`, `coalesce` and CASE over numerics return a numeric with as many digits before and after the point as any
  argument has. `round(x, n)` keeps the type of x.
- A literal has at most 38 digits; zeros at its end behind the point do not count. `1e300` is a float8.
- Casting to mz_timestamp rounds down.

Text:

- Regular expressions run on RE2. There are no back references and no lookaround. The first matching alternative wins, not the
  longest. An empty match right after another match does not count. `\\y`, `\\m` and `\\M` recognise ASCII words. What RE2 does
  not support is an error of the row.
- If an optional group of `regexp_match` takes no part in the match, but could match the empty text, it is '' and not NULL.
- `concat(true)` is 'true'. `convert_from` and `convert_to` support UTF8 and LATIN1. `upper` and `lower` follow Unicode.

Times:

- `date + 'a string'` reads the string as an interval. `timestamp - 'a string'` reads it as a timestamp, as in PostgreSQL: write
  `INTERVAL '30 days'` there.
- `now`, `today`, `epoch` and similar words are not read from text. Time zones are those of the tz database that comes with
  Tidegate.
- Only the result of an expression can be out of the calendar's range, not an intermediate step.

JSON:

- jsonb is canonical text: keys are sorted by length, then by bytes, and numbers have no trailing zeros. It is ordered by that
  text. Nesting is limited to 400 levels, and an exponent to 1,000 zeros.
- Only text can be cast to jsonb: use `to_jsonb` for other types. An odd number of arguments of `jsonb_build_object` is an error of
  the row.

Arrays and records:

- An array of arrays is an array whose elements are arrays: `a[1]` of an `int8[][]` is an `int8[]` (PostgreSQL gives NULL),
  inner arrays may differ in size, and subscripts always start at 1. `a[:j]` starts at 1, and `a[i:]` goes to the end.
- `ROW(1, NULL) = ROW(1, NULL)` compares records as stored records are compared: NULL fields are equal, and greater than other
  values.
- `cardinality` of an array of arrays counts the innermost elements. `array_position` does not accept a start.

SQL:

- `==` means `=`, a select list may end with a comma, and a subquery in FROM needs no alias. Write `(r).x` to read a field.
- Not supported, each with a clear error: `$1`, `U&''`, `x''`, SIMILAR TO, named arguments, collations other than "C".
"""


def document() -> str:
    """Returns the page without aggregates and settings."""
    return "\n".join([INTRO, *_types(), *_functions(), *_casts(), DIFFERENCES])


def _types() -> Iterator[str]:
    yield "## Types\n"
    yield "| type | also written | in Arrow | in Spark |"
    yield "|---|---|---|---|"
    for type_ in SCALARS:
        others = ", ".join(
            f"`{name}`" for name, one in NAMES.items() if one == type_ and name != type_.kind.value
        )
        spark = type_.spark.replace("`", "")
        yield f"| `{type_.kind.value}` | {others} | `{type_.arrow}` | `{spark}` |"
    yield "| `T[]` | | `list<T>` | `array<T>` |"
    yield "| `row(name T, …)` | | `struct<name: T, …>` | `struct<name: T, …>` |"
    yield ""


def _functions() -> Iterator[str]:
    yield "## Functions\n"
    groups: dict[str, list[Function]] = {}
    for function in REGISTRY:
        if not function.hidden and function.name != "cast":
            groups.setdefault(function.kernel.__module__, []).append(function)
    for module in sorted(groups):
        yield f"### {_title(module)}\n"
        yield "| function | | prunes | fails | cost |"
        yield "|---|---|---|---|---|"
        for function in sorted(groups[module], key=lambda one: (one.name, one.signature)):
            cells = (
                _signature(function),
                _first_line(function.doc),
                _prunes(function),
                function.errors.value,
            )
            yield f"| {' | '.join(map(_cell, cells))} | {function.cost.name.lower()} |"
        yield ""


def _casts() -> Iterator[str]:
    yield "## Casts\n"
    yield "| from | to | prunes | fails |"
    yield "|---|---|---|---|"
    order = {kind: i for i, kind in enumerate(Kind)}
    casts = [(_kind(f.params[0]), _kind(f.result), f) for f in REGISTRY if f.name == "cast"]
    for source, target, function in sorted(casts, key=lambda row: (order[row[0]], order[row[1]])):
        yield f"| {source.value} | {target.value} | {_prunes(function)} | {function.errors.value} |"
    yield ""


def _kind(type_: object) -> Kind:
    assert isinstance(type_, Type)
    return type_.kind


def _title(module: str) -> str:
    doc = inspect.getdoc(sys.modules[module]) or module
    return _first_line(doc).rstrip(".")


def _signature(function: Function) -> str:
    params = ", ".join(map(str, function.params)) + (", …" if function.variadic else "")
    result = (
        function.result
        if isinstance(function.result, Type)
        else function.result.__name__.strip("_").replace("_", " ")
    )
    return f"`{function.name}({params})` → {result}"


def _prunes(function: Function) -> str:
    if function.transfer is not None:
        return "own rule"
    if callable(function.trend):
        return "sometimes"
    if function.trend is None or function.lenient:
        return "–"
    return " ".join(
        _ARROWS[one if one is None or isinstance(one, Trend) else one.trend] for one in function.trend
    )


def _first_line(doc: str) -> str:
    return doc.strip().split("\n", 1)[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(document(), end="")
