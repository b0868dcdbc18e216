"""Constants in DuckDB's SQL.

literal_sql(Literal(pa.scalar(5), INT4))            "CAST(5 AS INTEGER)"
value_sql(pa.scalar("it's"), TEXT)                  "'it''s'"
"""

from __future__ import annotations

import pyarrow as pa

from tidegate.expr.duckdb_sql.types import duckdb_type
from tidegate.expr.model.tree import Literal
from tidegate.expr.model.types import Kind, Type


def quote_text(value: str) -> str:
    """A string literal."""
    return "'" + value.replace("'", "''") + "'"


def literal_sql(literal: Literal) -> str | None:
    """A constant, or None if it has no exact form here."""
    if literal.is_null:
        return f"CAST(NULL AS {duckdb_type(literal.type)})"
    return value_sql(literal.value, literal.type)


def value_sql(value: pa.Scalar, type_: Type) -> str | None:
    """A value of a type, or None if it has no exact form here."""
    name = duckdb_type(type_)
    if not value.is_valid:
        return f"CAST(NULL AS {name})"
    match type_.kind:
        case Kind.BOOL:
            return "true" if value.as_py() else "false"
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.MZ_TIMESTAMP:
            return f"CAST({value.as_py()} AS {name})"
        case Kind.NUMERIC:
            return f"CAST('{value.as_py():f}' AS {name})"
        case Kind.FLOAT4 | Kind.FLOAT8:
            return f"CAST('{value.as_py()!r}' AS {name})"
        case Kind.TEXT | Kind.JSONB | Kind.UNKNOWN:
            text = value.as_py()
            return None if "\0" in text else quote_text(text)
        case Kind.DATE:
            return f"CAST('{value.as_py().isoformat()}' AS DATE)"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return f"make_timestamp({value.cast(pa.int64()).as_py()})"
        case Kind.ARRAY:
            assert type_.element is not None
            texts = [value_sql(one, type_.element) for one in value.values]
            return None if None in texts else f"CAST([{', '.join(map(str, texts))}] AS {name})"
        case _:
            return None
