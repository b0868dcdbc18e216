"""Functions whose value is known when a query is bound: the time, the session, the server, and π.

    now(), current_date, localtime, current_timestamp(0)     the time at which the query is bound
    current_user, current_database(), current_schema          who asks, and of what
    version(), pi(), pg_typeof(x)                             the same for everyone

They become constants. In a query that is kept (TRANSFORM USING) the time and the session are refused, since they would be those
of the session that wrote it. `session_identity` says who asks; a server sets it for each of its connections.

>>> with session_identity("alice", "lake"):
...     session_constant("current_user").value.as_py()
'alice'
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

from tidegate.expr.model import Kind, Literal, Type, build, types

POSTGRES_VERSION = "15.0"
"""The version of PostgreSQL whose SQL is meant."""
CURRENT_TIME_FUNCTIONS = {
    "now": types.TIMESTAMPTZ,
    "current_timestamp": types.TIMESTAMPTZ,
    "transaction_timestamp": types.TIMESTAMPTZ,
    "statement_timestamp": types.TIMESTAMPTZ,
    "localtimestamp": types.TIMESTAMP,
    "current_date": types.DATE,
    "current_time": types.TIME,
    "localtime": types.TIME,
}
"""Words whose value is the time at which a query is bound. A time has no zone here: current_time is that of UTC, too."""
_USER = ("current_user", "session_user", "user", "current_role")
_DATABASE = ("current_database", "current_catalog")
SESSION_FUNCTIONS = frozenset((*_USER, *_DATABASE, "current_schema"))
"""Words whose value depends on who asks."""
DEPENDS_ON_SESSION = re.compile(
    rf"\b(?:{'|'.join((*CURRENT_TIME_FUNCTIONS, *sorted(SESSION_FUNCTIONS)))}|age\s*\()", re.IGNORECASE
)
"""What every query has, or one of its views, that means something else when it is bound again. `age(x)` is the time since x."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONSTANTS = {
    "version": (f"PostgreSQL {POSTGRES_VERSION} (Tidegate)", types.TEXT),
    "pi": (math.pi, types.FLOAT8),
}
CONSTANT_FUNCTIONS = frozenset(_CONSTANTS)
"""Functions without arguments that give everyone the same."""
_identity: ContextVar[tuple[str, str]] = ContextVar(
    "tidegate_session_identity", default=("tidegate", "tidegate")
)
_MAX_DIGITS = 6


@contextmanager
def session_identity(user: str, database: str) -> Iterator[None]:
    """The user and database that queries bound in this block see."""
    token = _identity.set((user, database))
    try:
        yield
    finally:
        _identity.reset(token)


def session_constant(name: str) -> Literal:
    """The value of one of `SESSION_FUNCTIONS` or `CONSTANT_FUNCTIONS`."""
    if name in _CONSTANTS:
        return build.literal(*_CONSTANTS[name])
    user, database = _identity.get()
    value = user if name in _USER else database if name in _DATABASE else "public"
    return build.literal(value, types.TEXT)


def moment(name: str, now_ms: int, digits: int = _MAX_DIGITS) -> Literal:
    """The value of one of `CURRENT_TIME_FUNCTIONS`, to so many digits of a second."""
    unit = 10 ** (_MAX_DIGITS - min(digits, _MAX_DIGITS))
    micros = (now_ms * 1000 + unit // 2) // unit * unit
    at, type_ = _EPOCH + timedelta(microseconds=micros), CURRENT_TIME_FUNCTIONS[name]
    match type_.kind:
        case Kind.DATE:
            return build.literal(at.date(), type_)
        case Kind.TIME:
            return build.literal(at.time(), type_)
        case _:
            return build.literal(at if type_ == types.TIMESTAMPTZ else at.replace(tzinfo=None), type_)


_TYPE_NAMES = {
    Kind.BOOL: "boolean",
    Kind.INT2: "smallint",
    Kind.INT4: "integer",
    Kind.INT8: "bigint",
    Kind.FLOAT4: "real",
    Kind.FLOAT8: "double precision",
    Kind.NUMERIC: "numeric",
    Kind.TIME: "time without time zone",
    Kind.TIMESTAMP: "timestamp without time zone",
    Kind.TIMESTAMPTZ: "timestamp with time zone",
    Kind.RECORD: "record",
}


def type_name(type_: Type) -> str:
    """The name that pg_typeof gives: without precision, and `[]` once for arrays of any dimension."""
    if type_.element is not None:
        inner = type_.element
        while inner.element is not None:
            inner = inner.element
        return f"{type_name(inner)}[]"
    if type_.kind is Kind.TEXT and type_.length is not None:
        return "character varying"
    return _TYPE_NAMES.get(type_.kind, type_.kind.value)
