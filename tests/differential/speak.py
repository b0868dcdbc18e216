"""SQL text that both sides read: how each declared function is written, and which ones PostgreSQL does not
have.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tests.differential.postgres import written
from tests.laws.instances import Instance
from tidegate.expr.model.types import Kind, Type

OURS = {
    "mz_now", "try_parse_monotonic_iso8601_timestamp", "may pass", "in", "field", "row", "array", "is true",
    "is false", "time_precision", "interval_precision",
}  # fmt: skip
"""Names that are not compared one by one: PostgreSQL lacks them, or they have no form with columns alone."""

OUR_CASTS = {
    (Kind.BOOL, Kind.INT2), (Kind.BOOL, Kind.INT8), (Kind.INT2, Kind.BOOL), (Kind.INT8, Kind.BOOL),
}  # fmt: skip
"""Casts that PostgreSQL does not have."""


def ours_alone(instance: Instance) -> bool:
    """Whether there is nothing to compare with."""
    if not all(map(shared, (*instance.types, instance.out))):
        return True
    if instance.function.name == "normalize" and len(instance.types) == 2:
        return True  # the form is a word, and no value
    if instance.function.name == "strpos" and instance.types[0].kind is Kind.BYTEA:
        return True  # PostgreSQL has it as position(… IN …) alone
    if instance.function.name == "cast":
        return (instance.types[0].kind, instance.out.kind) in OUR_CASTS
    return instance.function.name in OURS


_FORMS = {
    "is null": "({0} IS NULL)",
    "is true": "({0} IS TRUE)",
    "is false": "({0} IS FALSE)",
    "is distinct from": "({0} IS DISTINCT FROM {1})",
    "not": "(NOT {0})",
    "subscript": "({0})[{1}]",
    "slice": "({0})[{1}:{2}]",
    "slice from": "({0})[{1}:]",
    "slice to": "({0})[:{1}]",
    "at time zone": "({0} AT TIME ZONE {1})",
    "position": "position({0} IN {1})",
    "trim": "trim({0})",
    "overlaps": "(({0}, {1}) OVERLAPS ({2}, {3}))",
    "@?": "({0} @? ({1})::jsonpath)",
    "@@": "({0} @@ ({1})::jsonpath)",
    "array_length": "array_length({0}, ({1})::int4)",
    "array_upper": "array_upper({0}, ({1})::int4)",
    "array_lower": "array_lower({0}, ({1})::int4)",
}
_KEYWORD_LIKE = {"like": "LIKE", "ilike": "ILIKE", "not like": "NOT LIKE", "not ilike": "NOT ILIKE"}


def spell(instance: Instance, args: Sequence[str]) -> str:
    """A call as SQL text."""
    name = instance.function.name
    if name == "cast":
        return f"({args[0]})::{instance.out}"
    if name == "case":
        pairs = zip(args[::2], args[1::2], strict=False)
        whens = " ".join(f"WHEN {c} THEN {v}" for c, v in pairs)
        return f"(CASE {whens}{f' ELSE {args[-1]}' if len(args) % 2 else ''} END)"
    if name in ("and", "or"):
        return "(" + f" {name.upper()} ".join(args) + ")"
    if name in _KEYWORD_LIKE:
        escape = f" ESCAPE {args[2]}" if len(args) > 2 else ""
        return f"({args[0]} {_KEYWORD_LIKE[name]} {args[1]}{escape})"
    if name[:4] in ("any ", "all "):
        return f"({args[0]} {name[4:]} {name[:3].upper()} ({args[1]}))"
    if name == "trim" and len(args) == 2:
        return f"trim(BOTH {args[1]} FROM {args[0]})"
    if name == "extract":
        return f"extract({args[0]} FROM {args[1]})"
    if name.startswith("jsonb_path_"):
        return f"{name}({', '.join([args[0], f'({args[1]})::jsonpath', *args[2:]])})"
    if name in _FORMS:
        return _FORMS[name].format(*args)
    if name[0].isalpha():
        return f"{name}({', '.join(args)})"
    return f"({name} {args[0]})" if len(args) == 1 else f"({args[0]} {name} {args[1]})"


def quoted(type_: Type, value: pa.Scalar) -> str:
    """A constant as SQL text."""
    text = written(type_, value)
    return f"NULL::{type_}" if text is None else "'" + text.replace("'", "''") + f"'::{type_}"


def shared(type_: Type) -> bool:
    """Whether PostgreSQL has the type, and values of it travel both ways."""
    if type_.element is not None:
        return type_.element.kind in (Kind.INT2, Kind.INT4, Kind.INT8, Kind.TEXT, Kind.BOOL, Kind.NUMERIC)
    return type_.kind not in (Kind.MZ_TIMESTAMP, Kind.RECORD, Kind.UNKNOWN)
