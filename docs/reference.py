"""The reference of types and functions, printed from their declarations: `python -m tidegate.expr.document > docs/sql.md`.

Nothing is written twice: a function's row is its signature, the first line of its docstring and its claims. What people
must know beyond that, where Tidegate differs from PostgreSQL on purpose, is the text at the end.

| trend | meaning |
|---|---|
| ↑ ↓ ↕ | bounds of that argument give bounds of the result: rising, falling, or either way |
| – | only a constant does |
| own rule | the function has a rule of its own |
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import tidegate.expr.functions  # noqa: F401  # fills the registry
from tidegate.expr.function import REGISTRY, Function, Trend
from tidegate.expr.types import NAMES, SCALARS, Kind, Type

_ARROWS = {Trend.UP: "↑", Trend.DOWN: "↓", Trend.EITHER: "↕", None: "–"}

INTRO = """\
# Types and functions

This page is printed from the declarations (`make docs`); do not edit it by hand.

Every function is declared once: how it computes, how it behaves over ranges, and where it can fail. The column *prunes* says how
statistics pass through it: ↑ (↓) the result rises (falls) with that argument, so bounds of the argument give bounds of the result;
↕ it does one or the other; – only a constant lets anything through; *own rule*: it has a rule of its own; *sometimes*: the
trend depends on the arguments (an interval without months, a constant unit). The column *fails* says where it
can fail: *never*; *at ends*: where both ends of a range succeed, so does everything between; *anywhere*.
A filter prunes a part if it is surely false there and nothing in it can fail.
"""

DIFFERENCES = """\
## Differences from PostgreSQL

Semantics are PostgreSQL's, except for what is listed here.

Decided:

- AND and OR do not depend on order: for AND, False beats an error, an error beats NULL. CASE, COALESCE are lazy.
- Text is ordered and compared by code point. The session's time zone is UTC.
- `mz_now()` is milliseconds since 1970, and is compared exactly in the unit of the other side.

Numbers:

- `numeric` without precision is `numeric(38,18)`; integers become `numeric(5|10|19, 0)`, and literals keep the digits they have.
  `+` and `-` keep the greater scale; `*` has the sum of both, cut where more than 38 digits would be needed, but never below the
  greater one (at most 18); `/` has 18 or more. Overflow is an error.
- `greatest`, `least`, `coalesce` and CASE over numerics give a numeric with the most digits that any argument has, before and
  after the point. `round(x, n)` keeps the type of x.
- A literal has at most 38 digits; `1e300` is a float8. Casting to mz_timestamp rounds down.

Text:

- Regular expressions run on RE2: no back references, no lookaround; of alternatives the first wins, not the longest; an empty match
  right behind another match is none; `\\y`, `\\m`, `\\M` see ASCII words. What RE2 cannot do is an error of the row.
- An optional group of `regexp_match` that took no part, but could match nothing, is '' and not NULL.
- `concat(true)` is 'true'. `convert_from` and `convert_to` know UTF8 and LATIN1. `upper` and `lower` follow Unicode.

Times:

- `date + 'a string'` reads the string as an interval; `timestamp - 'a string'` as a timestamp, as in PostgreSQL: write
  `INTERVAL '30 days'` there.
- `now`, `today`, `epoch` and the like are not read from text. Zones are those of the tz database that comes with Tidegate.
- Only a result can leave the calendar, not a step on the way to it.

JSON:

- jsonb is canonical text: keys by length, then bytes; trailing zeros of numbers are dropped; ordered by that text. Nesting goes
  to 400 levels, and an exponent may stand for 1,000 zeros.
- There are no casts to jsonb but from text: use `to_jsonb`. An odd number of arguments of `jsonb_build_object` is an error of
  the row.

Arrays and records:

- Arrays of arrays are arrays whose elements are arrays: `a[1]` of an `int8[][]` is an `int8[]` (PostgreSQL gives NULL),
  rows may differ in size, and subscripts always start at 1. `a[:j]` and `a[i:]` count from 1 and to the end.
- `ROW(1, NULL) = ROW(1, NULL)` compares records as stored ones are compared: NULL fields are equal, and greatest.
- `cardinality` of an array of arrays counts the innermost elements; `array_position` takes no start.

SQL:

- `==` is `=`, a select list may end with a comma, a subquery in FROM needs no alias, and `(r).x` is how a field is read.
- Not supported, each with a clear error: `$1`, `U&''`, `x''`, SIMILAR TO, named arguments, collations other than "C".
"""


def document() -> str:
    """The whole page."""
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
