"""What is asked of PostgreSQL: rows are loaded, an expression is evaluated over them, and every row gives a
value or fails.

Values travel in forms that lose nothing: floats, times and intervals as the hexadecimal of PostgreSQL's own
binary form, numerics and texts as text, jsonb as parsed JSON. `ours` brings an Arrow array to the same Python
values.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from tidegate.expr.model import order
from tidegate.expr.model.types import Kind, Type

EPOCH_2000_DAYS = 10_957
EPOCH_2000_MICROS = EPOCH_2000_DAYS * 86_400_000_000

WIDE = Context(prec=200)

TRY_ROWS = """
CREATE FUNCTION try_rows(expression text) RETURNS TABLE (value text, failed text) LANGUAGE plpgsql AS $$
DECLARE
    found text[];
    one text;
    i int;
BEGIN
    BEGIN  -- no row at all: what PostgreSQL does not have fails here, while the syntax of a value may fail below
        EXECUTE 'SELECT (' || expression || ')::text FROM given LIMIT 0';
    EXCEPTION WHEN syntax_error_or_access_rule_violation THEN RAISE; WHEN OTHERS THEN NULL;
    END;
    BEGIN  -- all at once, and row by row only if some row fails
        EXECUTE 'SELECT array_agg((' || expression || ')::text ORDER BY id) FROM given' INTO found;
        RETURN QUERY SELECT v, NULL::text FROM unnest(found) WITH ORDINALITY AS u(v, n) ORDER BY n;
        RETURN;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    FOR i IN SELECT id FROM given ORDER BY id LOOP
        BEGIN
            EXECUTE 'SELECT (' || expression || ')::text FROM given WHERE id = $1' INTO one USING i;
            value := one; failed := NULL;
        EXCEPTION WHEN OTHERS THEN
            value := NULL;
            BEGIN
                failed := encode(convert_to(SQLERRM, 'UTF8'), 'hex');
            EXCEPTION WHEN OTHERS THEN  -- the message was cut inside of a character
                failed := encode('unreadable', 'hex');
            END;
        END;
        RETURN NEXT;
    END LOOP;
END $$
"""

SEND = {
    Kind.FLOAT4: "encode(float4send({}), 'hex')",
    Kind.FLOAT8: "encode(float8send({}), 'hex')",
    Kind.DATE: "encode(date_send({}), 'hex')",
    Kind.TIME: "encode(time_send({}), 'hex')",
    Kind.TIMESTAMP: "encode(timestamp_send({}), 'hex')",
    Kind.TIMESTAMPTZ: "encode(timestamptz_send({}), 'hex')",
    Kind.INTERVAL: "encode(interval_send({}), 'hex')",
    Kind.BYTEA: "encode({}, 'hex')",
    Kind.ARRAY: "array_to_json({})",
}


class NotThere(Exception):  # noqa: N818  # it is an answer
    """PostgreSQL has no such function or does not take these types."""


@dataclass
class Postgres:
    """One connection to a private cluster."""

    connection: Any
    version: int

    @staticmethod
    @contextmanager
    def connect(socket_folder: str) -> Iterator[Postgres]:
        """Connects over a Unix socket and makes the functions that are needed."""
        import psycopg

        with psycopg.connect(
            host=socket_folder, user="postgres", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(TRY_ROWS)
            connection.execute("SET client_min_messages = error")
            yield Postgres(connection, connection.info.server_version)

    def load(self, columns: Sequence[tuple[str, Type]], arrays: Sequence[pa.Array]) -> None:
        """Replaces the table `given` by these columns, and a column `id` that counts rows."""
        declared = "".join(f", {name} {type_}" for name, type_ in columns)
        self.connection.execute(
            f"DROP TABLE IF EXISTS given; CREATE UNLOGGED TABLE given (id int PRIMARY KEY{declared})"
        )
        texts = [
            [written(type_, v) for v in array] for (_, type_), array in zip(columns, arrays, strict=True)
        ]
        with self.connection.cursor().copy("COPY given FROM STDIN") as copy:
            for i, row in enumerate(zip(*texts, strict=True) if texts else []):
                copy.write_row((i, *row))

    def evaluate(self, expression: str, type_: Type) -> tuple[list[Any], list[str | None]]:
        """Values (as `ours` gives them) and messages for every row of `given`."""
        import psycopg

        sent = SEND.get(type_.kind, "{}").format(f"({expression})")
        try:
            rows = self.connection.execute("SELECT value, failed FROM try_rows(%s)", (sent,)).fetchall()
        except psycopg.ProgrammingError as error:
            raise NotThere(str(error)) from None
        messages = [None if f is None else bytes.fromhex(f).decode("utf-8", "replace") for _, f in rows]
        return [None if v is None else read_sent(type_, v) for v, _ in rows], messages

    def select(self, items: Sequence[tuple[str, Type]], rest: str) -> list[tuple[Any, ...]]:
        """The rows of `SELECT items rest`, each item an expression and the type it must have here."""
        import psycopg

        names = [f"c{i}" for i in range(len(items))]
        sent = [
            f"({SEND.get(t.kind, '{}').format(name)})::text"
            for name, (_, t) in zip(names, items, strict=True)
        ]
        inner = f"SELECT {', '.join(sql for sql, _ in items)} {rest}"
        try:
            rows = self.connection.execute(
                f"SELECT {', '.join(sent)} FROM ({inner}) AS found({', '.join(names)})"
            ).fetchall()
        except psycopg.ProgrammingError as error:
            raise NotThere(str(error)) from None
        types = [type_ for _, type_ in items]
        return [
            tuple(None if v is None else read_sent(t, v) for t, v in zip(types, row, strict=True))
            for row in rows
        ]


def written(type_: Type, value: pa.Scalar) -> str | None:
    """A value as COPY takes it."""
    if not value.is_valid:
        return None
    match type_.kind:
        case Kind.FLOAT4 | Kind.FLOAT8:
            return repr(value.as_py())
        case Kind.INTERVAL:
            months, days, nanos = value.as_py()
            return f"{months} mons {days} days {nanos // 1000} microseconds"
        case Kind.BYTEA:
            return "\\x" + value.as_py().hex()
        case Kind.UUID:
            return str(value.as_py().hex())
        case Kind.BOOL:
            return "t" if value.as_py() else "f"
        case Kind.ARRAY:
            assert type_.element is not None
            inside = (written(type_.element, v) for v in value.values)
            return "{" + ",".join("NULL" if v is None else _within_array(v) for v in inside) + "}"
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.TIME:
            return str(value.as_py().isoformat())
        case _:
            return str(value.as_py())


def _within_array(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def read_sent(type_: Type, sent: str) -> Any:
    """What PostgreSQL sent, as a Python value."""
    match type_.kind:
        case Kind.BOOL:
            return sent == "true"
        case Kind.INT2 | Kind.INT4 | Kind.INT8:
            return int(sent)
        case Kind.FLOAT4:
            return struct.unpack(">f", bytes.fromhex(sent))[0]
        case Kind.FLOAT8:
            return struct.unpack(">d", bytes.fromhex(sent))[0]
        case Kind.NUMERIC:
            return Decimal(sent)
        case Kind.DATE:
            return struct.unpack(">i", bytes.fromhex(sent))[0] + EPOCH_2000_DAYS
        case Kind.TIME:
            return struct.unpack(">q", bytes.fromhex(sent))[0]
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return struct.unpack(">q", bytes.fromhex(sent))[0] + EPOCH_2000_MICROS
        case Kind.INTERVAL:
            micros, days, months = struct.unpack(">qii", bytes.fromhex(sent))
            return months, days, micros
        case Kind.JSONB | Kind.ARRAY:
            return parsed(sent)
        case _:
            return sent


def parsed(text: str) -> Any:
    """JSON with exact numbers."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def ours(type_: Type, array: pa.Array) -> list[Any]:
    """Our values in the same form."""
    match type_.kind:
        case Kind.DATE:
            return list(array.view(pa.int32()).to_pylist())
        case Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return list(array.view(pa.int64()).to_pylist())
        case Kind.INTERVAL:
            months, days, micros = order.interval_parts(array)
            parts = zip(months.tolist(), days.tolist(), micros.tolist(), strict=True)
            return [p if v else None for p, v in zip(parts, array.is_valid().to_pylist(), strict=True)]
        case Kind.BYTEA:
            return [None if v is None else v.hex() for v in array.to_pylist()]
        case Kind.UUID:
            return [
                None
                if v is None
                else f"{v[:4].hex()}-{v[4:6].hex()}-{v[6:8].hex()}-{v[8:10].hex()}-{v[10:].hex()}"
                for v in array.to_pylist()
            ]
        case Kind.JSONB:
            return [None if v is None else parsed(v) for v in array.to_pylist()]
        case Kind.ARRAY:
            return [_listed(type_, v) if v.is_valid else None for v in array]
        case _:
            return list(array.to_pylist())


def _listed(type_: Type, value: pa.Scalar) -> list[Any]:
    assert type_.element is not None
    inside = ours(type_.element, value.values)
    numbers = type_.element.is_integer or type_.element.kind is Kind.NUMERIC
    return [Decimal(v) if numbers and v is not None else v for v in inside]


def same(type_: Type, a: Any, b: Any, exact: bool) -> bool:
    """Whether our value is PostgreSQL's. Numerics are compared at our scale, floats of inexact functions to
    13 (or 6) digits.
    """
    if a is None or b is None:
        return a is b
    if type_.is_float:
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        digits = 1e-6 if type_.kind is Kind.FLOAT4 else 1e-13
        return a == b or (not exact and math.isclose(a, b, rel_tol=digits, abs_tol=1e-300))
    if type_.kind is Kind.NUMERIC:
        if not b.is_finite():
            return False
        digits = min(type_.scale or 0, max(-int(b.as_tuple().exponent), 0))
        apart, unit = WIDE.abs(WIDE.subtract(a, b)), Decimal(1).scaleb(-digits)
        return apart < unit or (not exact and apart <= WIDE.multiply(WIDE.abs(b), Decimal("1e-12")) + unit)
    return bool(a == b)
