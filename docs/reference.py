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

- A column of type `numeric` without precision is `numeric(38,18)`: data that is cast to it (text, jsonb, floats) is rounded to 18
  digits after the point. `x::numeric` keeps the digits of a numeric, an integer or a literal; integers become
  `numeric(5|10|19, 0)`.
- `+` and `-` keep the greater scale. `*` is exact up to 20 digits after the point, or more where 38 digits have room; else it
  is rounded, to 18 or more. `/` gives 16 significant digits even of the least quotient where there is room, and at least 18
  digits after the point. Of two constants `*` and `/` keep as many digits as 38 allow for the value.
- A result that does not fit is an error (`numeric field overflow`), and so is a product or quotient that is not 0 but would be
  rounded to 0 (`numeric field underflow`): cast an operand to a numeric with fewer digits before the point, or to float8.
- `greatest`, `least`, `coalesce` and CASE over numerics return a numeric with as many digits before and after the point as any
  argument has. `round(x, 2)` has two digits after the point; with an n that differs by row it keeps the scale of x.
- A literal has at most 38 digits; zeros at its end behind the point do not count. `1e300` is a float8.
- Casting to mz_timestamp rounds down.
- `to_char` of an int4 by a pattern with V fails if the shifted number is no int4, and `width_bucket` never leaves the buckets by
  rounding. `factorial` goes up to 33. `scale` and `trim_scale` do not exist: a numeric has the scale of its type.

Text:

- Regular expressions run on RE2. There are no back references and no lookaround. The first matching alternative wins, not the
  longest. An empty match right after another match does not count. `\\y`, `\\m` and `\\M` recognise ASCII words. What RE2 does
  not support is an error of the row.
- If an optional group of `regexp_match` takes no part in the match, but could match the empty text, it is '' and not NULL.
- `convert_from` and `convert_to` support UTF8 and LATIN1. `upper` and `lower` follow Unicode.

Times:

- `date + 'a string'` reads the string as an interval. `timestamp - 'a string'` reads it as a timestamp, as in PostgreSQL: write
  `INTERVAL '30 days'` there.
- Texts of dates, times and intervals are read by PostgreSQL's rules, with `DateStyle` ISO, MDY: `January 8, 1999`, `8-Jan-1999`,
  `19990108T040506Z`, `04:05 PM`, `J2451187`, `1 year 2 mons ago`, `P1Y2M3DT4H5M6S`. Words whose meaning moves (`now`, `today`,
  `tomorrow`, `yesterday`) are refused, as a stored row would change its meaning: write `now()` or `current_date`. Time zones are
  those of the tz database that comes with Tidegate, and the session's zone is always UTC.
- Casts and constants take digits of seconds and fields of intervals: `at::timestamp(3)`, `INTERVAL '90' MINUTE`,
  `i::interval day to hour`. A column has none, since times are stored in microseconds: `timestamp(3)` is refused there. So are
  `char(n)` and `bpchar`, which PostgreSQL pads with blanks: use `varchar(n)`.
- Only the result of an expression can be out of the calendar's range, not an intermediate step.

JSON:

- jsonb is canonical text: keys are sorted by length, then by bytes, and numbers have no trailing zeros. Nesting is limited to 400
  levels, and an exponent to 1,000 zeros.
- jsonb compares and sorts as in PostgreSQL: null < strings < numbers < booleans < arrays < objects, numbers by value, strings by
  code point, arrays and objects by size first; an empty array that is the whole value is less than all else. `min` and `max` of
  jsonb, which PostgreSQL does not have, follow the same order.
- A jsonpath is a text, which is read where it is used. `.datetime()`, `.keyvalue()` and the flags q and x of
  `like_regex` are refused by name.
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
- These functions take arguments by name: `make_interval(days => 3)`, `make_date` and its kin, `jsonb_set`, `jsonb_insert`,
  `parse_ident`, `jsonb_path_…`.
- `current_time` is a time without a zone, that of UTC. Each row of a common table has one value of `random()`, however
  often it is read; a view with `random()` that is read twice is refused.
- Not supported, each with a clear error: `U&''`, `x''`, VARIADIC, SUBSTRING … SIMILAR, collations other than "C".
"""


CONSTANTS = """### Constants of a query

These have one value for a whole query. Those of the time and the session are refused in what is kept (TRANSFORM USING).

| written | value |
|---|---|
| `now()`, `current_timestamp`, `transaction_timestamp()`, `statement_timestamp()` | the time at which the query is bound |
| `current_timestamp(0)`, `localtime(3)` | the same, rounded to so many digits of a second |
| `current_date`, `localtimestamp`, `localtime`, `current_time` | the same as a date, a timestamp, a time |
| `age(x)` | the time from x until midnight of today |
| `current_user`, `session_user`, `user`, `current_role` | the user of a client of the PostgreSQL server, else `tidegate` |
| `current_database()`, `current_catalog` | the database that such a client named, else `tidegate` |
| `current_schema`, `current_schema()` | `public` |
| `version()` | the version of PostgreSQL whose SQL is meant |
| `pi()` | π |
| `pg_typeof(x)` | the name of the type of x |

"""


def document() -> str:
    """Returns the page without aggregates and settings."""
    return "\n".join([INTRO, *_types(), *_functions(), CONSTANTS, *_casts(), DIFFERENCES])


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
