r"""The functions of Tidegate as rows of pg_proc: what `\df` lists, and what drivers look up.

    function_rows()      ({"oid": 20000, "proname": "abs", "pronamespace": PUBLIC, "proargtypes": [20], …}, …)

Every overload that users can call is a function of the schema `public`, so that `\df` shows it. Functions that read and write the
values of a type (`int8recv`) are in `pg_catalog`: drivers recognise types by their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.expr.model import REGISTRY, Function, Kind, Type
from tidegate.plan import AGGREGATE_NAMES, GENERAL_AGGREGATES
from tidegate.statements.postgres_catalog import postgres_types as types
from tidegate.statements.postgres_catalog.views import CATALOG, OWNER, PUBLIC

ARRAY_IN = 750
_FIRST_IO, _FIRST_FUNCTION = 9_000, 20_000
_ANY = 2283
"""PostgreSQL's type anyelement."""
_WITH_UNDERSCORE = frozenset(
    [
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
        "numeric",
        "uuid",
        "json",
        "jsonb",
        "record",
        "array",
    ]
)
"""Types whose functions are called `date_in`, not `datein`."""
_LANGUAGE = 12
"""PostgreSQL's language internal."""


def io_functions(names: list[str]) -> dict[str, tuple[int, int, int, int]]:
    """Returns the OIDs of the functions in, out, recv and send of each type."""
    oids = {"array": (ARRAY_IN, 751, 2400, 2401)}
    for i, name in enumerate(names):
        first = _FIRST_IO + 4 * i
        oids[name] = (first, first + 1, first + 2, first + 3)
    return oids


def io_rows(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yields rows for the functions that read and write the values of types."""
    for name, oids in io_functions(names).items():
        between = "_" if name in _WITH_UNDERSCORE else ""
        for oid, what in zip(oids, ("in", "out", "recv", "send"), strict=True):
            yield _row(oid, f"{name}{between}{what}", CATALOG, "f") | {
                "arguments": "internal",
                "result": "internal",
            }


def function_rows() -> Iterator[dict[str, Any]]:
    """Yields a row for each overload that users can call, and for each aggregate."""
    oid = _FIRST_FUNCTION
    for name in sorted(REGISTRY.names()):
        for function in REGISTRY.overloads(name):
            if not function.hidden and name.isidentifier():
                yield _overload(oid, function)
                oid += 1
    for name in sorted(AGGREGATE_NAMES | GENERAL_AGGREGATES):
        more = {"pronargs": 1, "proargtypes": [_ANY], "arguments": "any", "prorettype": _ANY, "result": "any"}
        yield _row(oid, name, PUBLIC, "a") | more
        oid += 1


def _overload(oid: int, function: Function) -> dict[str, Any]:
    arguments = [_name(param) for param in function.params]
    if function.variadic and arguments:
        arguments[-1] = f"VARIADIC {arguments[-1]}"
    result = function.result if isinstance(function.result, Type) else None
    volatile = "v" if function.volatile else "i"
    return _row(oid, function.name, PUBLIC, "f") | {
        "pronargs": len(function.params),
        "proargtypes": [_oid(param) for param in function.params],
        "prorettype": _ANY if result is None else _oid(result),
        "arguments": ", ".join(arguments),
        "result": "any" if result is None else _name(result),
        "provolatile": volatile,
        "description": function.doc.strip().split("\n")[0],
    }


def _row(oid: int, name: str, schema: int, kind: str) -> dict[str, Any]:
    return {
        "oid": oid, "proname": name, "pronamespace": schema, "proowner": OWNER, "prolang": _LANGUAGE, "procost": 1.0,
        "prokind": kind, "proisstrict": kind == "f", "provolatile": "i", "proparallel": "s", "prosrc": name,
        "proisagg": kind == "a", "arguments": "", "result": "", "description": None, "proargtypes": [],
    }  # fmt: skip


def _oid(param: object) -> int:
    return types.oid(param) if isinstance(param, Type) and param.kind is not Kind.UNKNOWN else _ANY


def _name(param: object) -> str:
    """Returns the SQL name of a type; `any` where a function takes several."""
    if not isinstance(param, Type):
        return "any"
    known = types.BY_OID.get(types.oid(param))
    return str(param) if known is None else known.long
