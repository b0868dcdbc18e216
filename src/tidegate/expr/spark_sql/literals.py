r"""Constants as Spark SQL text, with exactly the same value and type.

    literal_sql(Literal(2.5, FLOAT4))            CAST('2.5' AS float)
    literal_sql(Literal('it''s ${x}', TEXT))     'it\'s \u0024{x}'

Text needs care in two ways: Spark interprets backslashes in literals, and before parsing it replaces `${name}` by a setting, in
literals too. So a dollar is written as its code.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidegate.expr.model.tree import Literal
from tidegate.expr.model.types import Kind, Type

_ESCAPES = {"\\": "\\\\", "'": "\\'", "$": "\\u0024", "\n": "\\n", "\r": "\\r", "\0": "\\0"}


def quote_text(text: str) -> str:
    """A text as a Spark SQL literal."""
    return "'" + "".join(_ESCAPES.get(c, c) for c in text) + "'"


def quote_name(name: str) -> str:
    """The name of a column or field in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def literal_sql(literal: Literal) -> str:
    """A constant as Spark SQL."""
    return value_sql(literal.value, literal.type)


def value_sql(value: pa.Scalar, type_: Type) -> str:
    """An Arrow scalar of a type as Spark SQL."""
    if not value.is_valid:
        return f"CAST(NULL AS {type_.spark})"
    match type_.kind:
        case Kind.ARRAY:
            assert type_.element is not None
            inner = ", ".join(value_sql(item, type_.element) for item in value.values)
            return f"CAST(array({inner}) AS {type_.spark})"
        case Kind.RECORD:
            fields = [
                f"{quote_text(name)}, {value_sql(value[i], inner)}"
                for i, (name, inner) in enumerate(type_.fields)
            ]
            return f"named_struct({', '.join(fields)})"
        case _:
            return _plain(value, type_)


def _plain(value: pa.Scalar, type_: Type) -> str:
    match type_.kind:
        case Kind.BOOL:
            return "true" if value.as_py() else "false"
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.MZ_TIMESTAMP:
            return (
                f"CAST('{value.as_py()}' AS {type_.spark})" if value.as_py() < 0 else _natural(value, type_)
            )
        case Kind.FLOAT4 | Kind.FLOAT8:
            return f"CAST('{_float(value)}' AS {type_.spark})"
        case Kind.NUMERIC:
            return f"CAST('{value.as_py():f}' AS {type_.spark})"
        case Kind.TEXT | Kind.JSONB | Kind.UNKNOWN:
            return quote_text(value.as_py())
        case Kind.BYTEA | Kind.UUID:
            return f"X'{value.as_py().hex()}'"
        case Kind.DATE:
            return f"CAST('{value.as_py().isoformat()}' AS date)"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            zoned = f"timestamp_micros({value.value}L)"
            return zoned if type_.kind is Kind.TIMESTAMPTZ else f"CAST({zoned} AS timestamp_ntz)"
        case Kind.TIME:
            return _time(value, type_)
        case Kind.INTERVAL:
            months, days, nanos = value.as_py()
            return (
                f"named_struct('months', {months}, 'days', {days}, 'micros', CAST({nanos // 1000} AS bigint))"
            )
        case _:
            raise AssertionError(type_)


def _natural(value: pa.Scalar, type_: Type) -> str:
    return f"{value.as_py()}{'S' if type_.kind is Kind.INT2 else '' if type_.kind is Kind.INT4 else 'L'}"


def _float(value: pa.Scalar) -> str:
    """The shortest digits that parse to exactly this number."""
    number: Any = value.as_py()
    if value.type == pa.float32():
        number = pa.array([value], pa.float32()).to_numpy()[0]
    return str(number).replace("inf", "Infinity").replace("nan", "NaN")


def _time(value: pa.Scalar, type_: Type) -> str:
    if type_.spark == "bigint":
        return f"{value.value}L"
    return f"CAST('{value.as_py().isoformat()}' AS {type_.spark})"
