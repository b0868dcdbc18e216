"""Rows full of poison, and the expressions that are put to Spark and to us over them."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.expr.model.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    JSONB,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip
from tidegate.expr.primitives.json.canonical import to_canonical

COLUMNS: dict[str, Type] = {
    "b": BOOL, "i2": INT2, "i": INT4, "l": INT8, "m": INT8, "f": FLOAT4, "d": FLOAT8, "e": FLOAT8, "dec": numeric(10, 2),
    "dd": numeric(38, 18), "s": TEXT, "s2": TEXT, "bin": BYTEA, "dt": DATE, "dt2": DATE, "ts": TIMESTAMPTZ,
    "ts2": TIMESTAMPTZ, "tn": TIMESTAMP, "payload": JSONB, "r": record(("x", INT8), ("y", TEXT)), "arr": array(INT8),
    "ti": TIME,
}  # fmt: skip
PLACES = {name: (i, type_) for i, (name, type_) in enumerate(COLUMNS.items())}

_FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    0.5,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e300,
    -1e300,
    5e-324,
    9.3e18,
    0.1,
    1e15 + 0.3,
]
_LONGS = [
    0,
    1,
    -1,
    5,
    7,
    -7,
    2**63 - 1,
    -(2**63),
    2**31,
    -(2**31) - 1,
    1_704_067_200,
    1_704_067_200_000,
    10**15 + 7,
    999,
    -999,
]
_TEXTS = ["", "a", "A", "ab", "abc", "ß", "é", "e\u0301", "a_c", "a%c", "a\\c", " x ", "\tx\n", "5", " 5 ", "+5", "-0", "5.0",
          "5.5",           "1e3", "nan", "-nan", "NaN", "inf", "true", "t",
          "2024-01-01", "2024-01-01 00:00:00", "\U0001f600b", "\x00", "0x10",
          "9223372036854775808", "１"]  # fmt: skip
_DAYS = ["0001-01-01", "0001-01-02", "1582-10-04", "1582-10-15", "1883-11-18", "1900-03-01", "1969-12-31", "1970-01-01",
         "1986-01-01", "2000-02-29", "2023-12-31", "2024-01-01", "2024-01-31", "2024-02-29", "2024-03-10", "2024-03-11",
         "2024-11-03", "2024-12-30", "2025-12-31", "9999-12-31", "9999-12-01"]  # fmt: skip
_CLOCKS = ["00:00:00", "00:00:00.000001", "05:59:59.999999", "06:00:00", "06:30:00", "07:00:00", "12:03:57", "18:15:00",
           "23:59:59.999999", "04:59:59", "05:30:00", "18:29:59.5"]  # fmt: skip
_JSON_VALUES = ["1", "5", "6", "-3", "0", "5.5", "0.00001", "1e300", "123456789012345678901234567890", "9223372036854775807",
                "9223372036854775808", '"5"', '" 5 "', '"abc"', '"zed"', '""', '"nan"', '"2024-01-02"', "true", "false",
                "null", "[]",                 "[1,2]", "{}", '{"c":7}', '{"c":2.5,"d":"x"}', "0.1", "12345678901234567.5",
                '"é"', "-0", '{"c":null}',
                '[{"c":1}]', '"[1]"', "1704067200000"]  # fmt: skip


def rows(count: int, seed: int) -> pa.Table:
    """So many rows of every column; about one value in eight is NULL."""
    pick = random.Random(seed)
    made = {name: [_value(name, type_, pick) for _ in range(count)] for name, type_ in COLUMNS.items()}
    arrays = [pa.array(made[name], type_.arrow) for name, type_ in COLUMNS.items()]
    at = list(COLUMNS).index("payload")
    outcome = to_canonical(arrays[at])
    assert outcome.errors is None
    arrays[at] = outcome.values
    return pa.table(dict(zip(COLUMNS, arrays, strict=True)))


def stored(table: pa.Table) -> pa.Table:
    """The rows as Spark is to read them: a time of day is a bigint there."""
    at = table.column_names.index("ti")
    return table.set_column(at, "ti", table["ti"].cast(pa.int64()))


def _value(name: str, type_: Type, pick: random.Random) -> Any:
    if pick.random() < 0.12:
        return None
    match name:
        case "s" | "s2":
            return pick.choice(_TEXTS)
        case "bin":
            return pick.choice([b"", b"\x00", b"\x00\xff", b"abc", b"\xff" * 5])
        case "dt" | "dt2":
            return pick.choice(
                [dt.date.fromisoformat(d) for d in _DAYS]
                + [dt.date(2024, 1, 1) + dt.timedelta(pick.randint(-99, 99))]
            )
        case "ts" | "ts2" | "tn":
            if pick.random() < 0.3:
                return pick.randint(-(10**9), 2 * 10**9) * 1_000_000 + pick.choice([0, 1, 999_999])
            at = dt.datetime.fromisoformat(f"{pick.choice(_DAYS)} {pick.choice(_CLOCKS)}")
            return (at - dt.datetime.fromisoformat("1970-01-01")) // dt.timedelta(microseconds=1)
        case "payload":
            return _document(pick)
        case "ti":
            return pick.choice([0, 1, 86_399_999_999, 43_200_000_000])
        case "r":
            return {"x": pick.choice([None, 1, 5, 2**63 - 1]), "y": pick.choice([None, "a", "5"])}
        case "arr":
            return [pick.choice([None, 1, 5, 7]) for _ in range(pick.randint(0, 3))]
        case _:
            return _number(name, pick)


def _number(name: str, pick: random.Random) -> Any:
    match name:
        case "b":
            return pick.random() < 0.5
        case "i2":
            return pick.choice([0, 1, -1, 5, 32767, -32768, pick.randint(-9, 9)])
        case "i":
            return pick.choice([0, 1, -1, 5, 2**31 - 1, -(2**31), 19723, pick.randint(-9, 9), 2024])
        case "l" | "m":
            return pick.choice([*_LONGS, pick.randint(-9, 9), pick.randint(-(2**40), 2**40)])
        case "f":
            return pick.choice([*_FLOATS[:9], 3.4e38, 1e-45, 16777217.0, pick.uniform(-9, 9)])
        case "d" | "e":
            return pick.choice([*_FLOATS, pick.uniform(-9, 9), pick.uniform(-1e12, 1e12)])
        case "dec":
            return Decimal(
                f"{pick.choice([0, 1, -1, 550, 9999999999, -9999999999, pick.randint(-999, 999)])}E-2"
            )
        case "dd":
            return Decimal(
                f"{pick.choice([0, 1, 10**18, -(10**37), 10**38 - 1, pick.randint(-(10**19), 10**19)])}E-18"
            )
        case _:
            raise AssertionError(name)


def _document(pick: random.Random) -> str:
    if pick.random() < 0.08:
        return pick.choice(
            ["[]", '[{"ts":6}]', "5", '"x"', "null", "true", "{}", f'{{"ts":5,"x":1{"0" * 1000}}}']
        )
    keys = pick.sample(["ts", "s", "b", "x y"], pick.randint(1, 4))
    return "{" + ",".join(f'"{key}":{pick.choice(_JSON_VALUES)}' for key in keys) + "}"


def expressions() -> list[str]:
    """What users write: one a line in the file beside this one."""
    text = (Path(__file__).parent / "catalyst_expressions.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line]
