"""Values of every type, through a real driver: as text and as binary, to and fro."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.types.json import Jsonb

import tidegate
from tests.server.pg_server import Serving, serving
from tidegate.expr.model.types import NUMERIC, Type, numeric
from tidegate.server.postgres.wire import encode

UTC = dt.UTC


def at_(text: str) -> dt.datetime:
    """A time without a zone."""
    return dt.datetime.fromisoformat(text)


VALUES: list[tuple[str, list[Any]]] = [
    ("bool", [True, False]),
    ("int2", [0, -32768, 32767]),
    ("int4", [0, -(2**31), 2**31 - 1]),
    ("int8", [0, -(2**63), 2**63 - 1]),
    ("float4", [0.5, -1.25, math.inf]),
    ("float8", [0.1, -1e300, 5e-324, -math.inf, 0.0]),
    ("numeric(38,8)", [Decimal("12345.67000000"), Decimal("-0.00000001"), Decimal("9" * 30 + ".00000001")]),
    ("numeric(9,0)", [Decimal(0), Decimal(10000), Decimal(-999999999)]),
    (
        "numeric",
        [Decimal("1.5"), Decimal("-20000.0001"), Decimal("0.000000000000000001"), Decimal(100000000)],
    ),
    ("text", ["", "a'b\\c", "ö – 漢字 🙂", "x" * 5000, "line\nline\ttab"]),
    ("varchar(10)", ["", "abc"]),
    ("bytea", [b"", b"\0\xff'\\", bytes(range(256))]),
    ("date", [dt.date(1, 1, 1), dt.date(2000, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    ("time", [dt.time(0), dt.time(23, 59, 59, 999999)]),
    ("timestamp", [at_("0001-01-01"), at_("1999-12-31 23:59:59.999999"), at_("9999-12-31")]),
    ("timestamptz", [dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC)]),
    ("interval", [dt.timedelta(0), dt.timedelta(days=3, microseconds=-1), dt.timedelta(days=-40, hours=5)]),
    ("uuid", [uuid.UUID(int=0), uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")]),
    ("jsonb", [{"a": [1, None, "x"]}, "text", 1.5, []]),
    ("int8[]", [[], [1, None, -3], [2**62]]),
    ("text[]", [[], ["a b", 'c"d', "", "NULL", None, "{x,y}", "\\"]]),
    ("bool[]", [[True, None, False]]),
    ("timestamptz[]", [[dt.datetime(2026, 2, 3, tzinfo=UTC), None]]),
    ("numeric(10,2)[]", [[Decimal("1.50"), Decimal("-3.25")]]),
    ("bytea[]", [[b"\0", b"\\x"]]),
]


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with tidegate.open("memory://") as db, serving(db) as found:
        yield found


def _parameter(type_: str, value: Any) -> Any:
    return Jsonb(value) if type_ == "jsonb" and value is not None else value


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize(("type_", "values"), VALUES, ids=[type_ for type_, _ in VALUES])
def test_through_a_table(at: Serving, type_: str, values: list[Any], binary: bool) -> None:
    """Written as parameters, and read back: the same values, in both formats."""
    mark = "%b" if binary else "%t"
    with psycopg.connect(at.conninfo(), autocommit=True) as conn, conn.cursor(binary=binary) as cur:
        cur.execute("DROP TABLE IF EXISTS v")
        cur.execute(f"CREATE TABLE v (i int4, x {type_})")
        for i, value in enumerate([*values, None]):
            cur.execute(f"INSERT INTO v VALUES (%s, {mark}::{type_})", (i, _parameter(type_, value)))
            assert cur.statusmessage == "INSERT 0 1"
        got = cur.execute("SELECT x FROM v ORDER BY i").fetchall()
    assert [row[0] for row in got] == [*values, None]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_numerics_at_random(binary: bool) -> None:
    """What a driver reads is what Arrow holds; 300 values a scale reach every number of groups, and of zeros at either end."""
    chance = random.Random(7)
    from psycopg.pq import Format
    from psycopg.types.numeric import NumericBinaryLoader, NumericLoader

    loader = (NumericBinaryLoader if binary else NumericLoader)(1700)
    assert loader.format == (Format.BINARY if binary else Format.TEXT)
    for type_ in (numeric(38, 0), numeric(38, 38), numeric(20, 5), numeric(4, 4), numeric(1, 0), NUMERIC):
        assert type_.precision is not None
        whole = [chance.randrange(10 ** chance.randint(1, type_.precision)) for _ in range(300)]
        scaled = [Decimal(n * chance.choice((1, -1))).scaleb(-(type_.scale or 0)) for n in whole]
        array = pa.array([None, *scaled, Decimal(0)], type_.arrow)[1:]
        cells = encode.encode_column(array, type_, int(binary)).to_pylist()
        assert [loader.load(cell) for cell in cells] == array.to_pylist()


def test_numerics_with_and_without_a_scale(at: Serving) -> None:
    with psycopg.connect(at.conninfo()) as conn, conn.cursor(binary=True) as cur:
        row = cur.execute("SELECT 1.50::numeric(10,2), 1.50::numeric").fetchone()
        assert [str(value) for value in row or ()] == ["1.50", "1.50"]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_records_and_nested_arrays(at: Serving, binary: bool) -> None:
    with psycopg.connect(at.conninfo()) as conn, conn.cursor(binary=binary) as cur:
        row = cur.execute(
            "SELECT ROW(1, 'a b', NULL::int8), ARRAY[ARRAY[1], ARRAY[2, 3]], ARRAY[ROW(1, 'x')]"
        ).fetchone()
        assert row is not None
        assert row[0] == ((1, "a b", None) if binary else ("1", "a b", None))
        assert row[1] == "{{1},{2,3}}"
        assert row[2] == '{"(1,x)"}'


def test_what_columns_are_called(at: Serving) -> None:
    """Types as PostgreSQL numbers them, and what refines them."""
    with psycopg.connect(at.conninfo()) as conn:
        cur = conn.execute(
            "SELECT 1::int2 a, 'x'::varchar(7) b, 1::numeric(12,3) c, now() d, ARRAY[1::int8] e, '{}'::jsonb f, mz_now() g"
        )
        found = cur.description or []
        assert [one.name for one in found] == list("abcdefg")
        assert [one.type_code for one in found] == [21, 1043, 1700, 1184, 1016, 3802, 20]
        assert (found[1].display_size, found[2].precision, found[2].scale) == (7, 12, 3)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_many_rows_in_batches(at: Serving, binary: bool) -> None:
    """More than one batch, with NULLs and slices of lists, against the rows themselves."""
    n = 40_000
    at.db.sql("DROP TABLE IF EXISTS many")
    at.db.sql("CREATE TABLE many (id int8, s text, n numeric(12,3), l int8[], j jsonb)")
    rows = {
        "id": list(range(n)),
        "s": [None if i % 7 == 0 else f"text {i} ö" * (i % 5) for i in range(n)],
        "n": [None if i % 11 == 0 else Decimal(i * 37).scaleb(-3) for i in range(n)],
        "l": [None if i % 13 == 0 else [i, None, -i][: i % 4] for i in range(n)],
        "j": [json.dumps({"i": i}) for i in range(n)],
    }
    at.db.append("many", rows)
    with psycopg.connect(at.conninfo()) as conn, conn.cursor(binary=binary) as cur:
        got = cur.execute("SELECT * FROM many ORDER BY id").fetchall()
    wanted = list(zip(rows["id"], rows["s"], rows["n"], rows["l"], ({"i": i} for i in range(n)), strict=True))
    assert got == wanted


def test_types_have_both_forms() -> None:
    """Each type that a column may have gives as many values as there are, in both formats."""
    from tidegate.expr.model.types import SCALARS, array, record

    kinds: list[Type] = [
        *SCALARS,
        *(array(one) for one in SCALARS),
        array(array(NUMERIC)),
        record(("a", NUMERIC)),
    ]
    for type_ in kinds:
        empty, nulls = pa.array([], type_.arrow), pa.array([None, None], type_.arrow)
        for form in (0, 1):
            assert encode.encode_column(empty, type_, form).to_pylist() == []
            assert encode.encode_column(nulls, type_, form).to_pylist() == [None, None]
