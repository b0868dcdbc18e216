"""Casts of numbers and booleans: values as PostgreSQL 15 gave them, sound claims, pruning that happens."""

import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.expr.boxes import between, box, column, outcomes, told, unsound
from tidegate.expr.domain.json_domain import JsonDomain, JsonRange
from tidegate.expr.domain.specs import Specs
from tidegate.expr.functions.cast.number import number_from_lanes
from tidegate.expr.model.build import cast
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.types import (
    BOOL,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTEGERS,
    MZ_TIMESTAMP,
    NUMBERS,
    NUMERIC,
    TEXT,
    Kind,
    Type,
    numeric,
)

INF, NAN = math.inf, math.nan
YES, NO = np.ones(1, bool), np.zeros(1, bool)


def test_floats_to_integers() -> None:
    a = pa.array([0.5, 1.5, 2.5, -2.5, 2147483647.4, 2147483647.5, NAN, -INF, None])
    beyond = "integer out of range"
    assert outcomes(cast(column(FLOAT8), INT4), a) == [0, 2, 2, -2, 2147483647, beyond, beyond, beyond, None]
    b = pa.array([9223372036854774784.0, 2.0**63, -(2.0**63)])
    assert outcomes(cast(column(FLOAT8), INT8), b) == [9223372036854774784, "bigint out of range", -(2**63)]


def test_numerics_to_integers() -> None:
    a = pa.array(
        [Decimal(x) for x in ("0.5", "-0.5", "2.5", "32767.49", "32767.5", "-32768.5")], NUMERIC.arrow
    )
    beyond = "smallint out of range"
    assert outcomes(cast(column(NUMERIC), INT2), a) == [1, -1, 3, 32767, beyond, beyond]
    long = pa.array([Decimal("9223372036854775807.4"), Decimal("9223372036854775807.5")], NUMERIC.arrow)
    assert outcomes(cast(column(NUMERIC), INT8), long) == [2**63 - 1, "bigint out of range"]
    assert outcomes(cast(column(NUMERIC), MZ_TIMESTAMP), a[:3]) == [0, -1, 2]


def test_floats_to_numerics() -> None:
    """15 leading digits of a double, 6 of a real, halves of the exact binary value to even."""
    a = pa.array(
        [0.1, 1 / 3, 0.1 + 0.2, 123456789.123456789, 1e-19, 5e-19, 1000000000000005.0, 1e19, 1e20, NAN, -0.0]
    )
    odd = "cannot convert NaN or infinity to numeric"
    assert outcomes(cast(column(FLOAT8), NUMERIC), a) == [
        Decimal("0.1"),
        Decimal("0.333333333333333"),
        Decimal("0.3"),
        Decimal("123456789.123457"),
        0,
        Decimal("1e-18"),
        Decimal("1e15"),
        Decimal("1e19"),
        "numeric field overflow",
        odd,
        0,
    ]
    b = pa.array([0.1, 1234567.0, 3.14159274], pa.float32())
    assert outcomes(cast(column(FLOAT4), NUMERIC), b) == [
        Decimal("0.1"),
        Decimal(1234570),
        Decimal("3.14159"),
    ]
    assert outcomes(cast(column(FLOAT8), numeric(3, 2)), pa.array([9.994, 9.995, 9.996])) == [
        Decimal("9.99"),
        "numeric field overflow",
        "numeric field overflow",
    ]


def test_numerics_to_floats_are_rounded_once() -> None:
    texts = [
        "0.1",
        "123456789012345678.9",
        "0.000000000000000001",
        "99999999999999999999.999999999999999999",
        "9007199254740993",
    ]
    a = pa.array([Decimal(x) for x in texts], NUMERIC.arrow)
    assert outcomes(cast(column(NUMERIC), FLOAT8), a) == [float(x) for x in texts]
    assert outcomes(cast(column(NUMERIC), FLOAT4), a) == [float(np.float32(x)) for x in texts]


def test_narrowing_and_refining() -> None:
    assert outcomes(cast(column(INT8), INT2), pa.array([1, 32768, None])) == [
        1,
        "smallint out of range",
        None,
    ]
    assert outcomes(cast(column(INT4), numeric(3, 1)), pa.array([99, 100], pa.int32())) == [
        99,
        "numeric field overflow",
    ]
    a = pa.array([Decimal("1.005"), Decimal("-1.005"), Decimal("99.995")], pa.decimal128(38, 18))
    assert outcomes(cast(column(NUMERIC), numeric(4, 2)), a) == [
        Decimal("1.01"),
        Decimal("-1.01"),
        "numeric field overflow",
    ]
    assert outcomes(cast(column(FLOAT8), FLOAT4), pa.array([1e39, 1e-60])) == [
        "value out of range: overflow",
        0.0,
    ]
    assert outcomes(cast(column(BOOL), INT4), pa.array([True, False, None])) == [1, 0, None]
    assert outcomes(cast(column(INT4), BOOL), pa.array([2, 0, None], pa.int32())) == [True, False, None]


READ = {
    INT4: {
        "12": 12,
        " +12\n": 12,
        "-0": 0,
        "\v7\f": 7,
        "000000000000000000000000000000000000000000000001": 1,
        "-2147483648": -(2**31),
        "2147483648": 'value "2147483648" is out of range for type integer',
        "9" * 50: f'value "{"9" * 50}" is out of range for type integer',
        "": 'invalid input syntax for type integer: ""',
        "1_2": 'invalid input syntax for type integer: "1_2"',
        "0x1": 'invalid input syntax for type integer: "0x1"',
        "1.0": 'invalid input syntax for type integer: "1.0"',
        "1 2": 'invalid input syntax for type integer: "1 2"',
        "+-1": 'invalid input syntax for type integer: "+-1"',
        "\u00a01": 'invalid input syntax for type integer: "\u00a01"',
    },
    FLOAT8: {
        "1": 1.0,
        ".5": 0.5,
        "5.": 5.0,
        " -1e3 ": -1000.0,
        "1.e5": 1e5,
        "inf": INF,
        "-INFINITY": -INF,
        "+inf": INF,
        "1e400": '"1e400" is out of range for type double precision',
        "1e-400": 0.0,
        "2.2250738585072014e-308": 2.0**-1022,
        "0x1": 'invalid input syntax for type double precision: "0x1"',
        ".": 'invalid input syntax for type double precision: "."',
        "infinit": 'invalid input syntax for type double precision: "infinit"',
        "1e": 'invalid input syntax for type double precision: "1e"',
    },
    FLOAT4: {"16777217": 16777216.0, "3.5e38": '"3.5e38" is out of range for type real'},
    NUMERIC: {
        "1.50": Decimal("1.5"),
        " +.5": Decimal("0.5"),
        "5.": 5,
        "1e3": 1000,
        "-1.5E-3": Decimal("-0.0015"),
        "4e-19": 0,
        "5e-19": Decimal("1e-18"),
        "1e20": "numeric field overflow",
        "1e0000000019": Decimal("1e19"),
        "1e-99999999999999": 0,
        "0e99999999999999": 0,
        "1e99999999999999": "numeric field overflow",
        "0.0000000000000000005": Decimal("1e-18"),
        "99999999999999999999.9999999999999999994": Decimal("99999999999999999999.999999999999999999"),
        "99999999999999999999.9999999999999999995": "numeric field overflow",
        "9" * 60: "numeric field overflow",
        "0." + "1" * 80: Decimal("0.111111111111111111"),
        "0" * 60 + "7": 7,
        "NaN": 'invalid input syntax for type numeric: "NaN"',
        "1e": 'invalid input syntax for type numeric: "1e"',
    },
    numeric(2, 2): {
        "0.994": Decimal("0.99"),
        "0.995": "numeric field overflow",
        "1": "numeric field overflow",
        "-.05": Decimal("-0.05"),
    },
    BOOL: {
        "t": True,
        " TRUE ": True,
        "ye": True,
        "on": True,
        "1": True,
        "of": False,
        "F": False,
        "no": False,
        "0": False,
        "o": 'invalid input syntax for type boolean: "o"',
        "": 'invalid input syntax for type boolean: ""',
    },
    MZ_TIMESTAMP: {
        "1700000000000": 1700000000000,
        "2024-01-01": 1704067200000,
        "2024-01-01T00:00:00.0019Z": 1704067200001,
        "1969-12-31 23:59:59.9999": -1,
        "2024-01-01 00:00:00+02": 1704060000000,
        "20240101": 20240101,
        "1999.008": 'invalid input syntax for type mz_timestamp: "1999.008"',
        "2024-13-01": 'date/time field value out of range: "2024-13-01"',
        "99999999999999999999": 'value "99999999999999999999" is out of range for type mz_timestamp',
        "x": 'invalid input syntax for type mz_timestamp: "x"',
    },
}


@pytest.mark.parametrize("type_", READ, ids=str)
def test_reading_text(type_: Type) -> None:
    """All rows at once, and each by itself: what one row holds must not change how another is read."""
    texts = pa.array([None, *READ[type_]])
    expr = cast(column(TEXT), type_)
    assert outcomes(expr, texts) == [None, *READ[type_].values()]
    assert [outcomes(expr, texts[i : i + 1])[0] for i in range(len(texts))] == [None, *READ[type_].values()]
    assert outcomes(expr, texts[:0]) == []


WRITE = [
    (FLOAT8, 1.0, "1"),
    (FLOAT8, -0.0, "-0"),
    (FLOAT8, 0.1 + 0.2, "0.30000000000000004"),
    (FLOAT8, 1e14, "100000000000000"),
    (FLOAT8, 1e15, "1e+15"),
    (FLOAT8, 123456789012345.6, "123456789012345.6"),
    (FLOAT8, 12345678901.25, "12345678901.25"),
    (FLOAT8, 0.0001, "0.0001"),
    (FLOAT8, -0.000012, "-1.2e-05"),
    (FLOAT8, 1e-5, "1e-05"),
    (FLOAT8, 9.5e-6, "9.5e-06"),
    (FLOAT8, 1.5e-7, "1.5e-07"),
    (FLOAT8, 5e-324, "5e-324"),
    (FLOAT8, 1e100, "1e+100"),
    (FLOAT8, 1e23, "9.999999999999999e+22"),
    (FLOAT8, NAN, "NaN"),
    (FLOAT8, INF, "Infinity"),
    (FLOAT8, -INF, "-Infinity"),
    (FLOAT4, 123456.0, "123456"),
    (FLOAT4, 1e6, "1e+06"),
    (FLOAT4, 1234567.0, "1.234567e+06"),
    (FLOAT4, 0.1, "0.1"),
    (FLOAT4, 50160272.0, "5.0160272e+07"),
    (FLOAT4, 1e10, "1e+10"),
    (numeric(10, 2), Decimal("1.50"), "1.50"),
    (numeric(10, 2), Decimal(0), "0.00"),
    (numeric(10, 0), Decimal(-7), "-7"),
    (NUMERIC, Decimal("1.5"), "1.5"),
    (NUMERIC, Decimal(100), "100"),
    (NUMERIC, Decimal("-0.0000001"), "-0.0000001"),
    (NUMERIC, Decimal(0), "0"),
    (numeric(12, 9), Decimal("0.000000001"), "0.000000001"),
    (INT8, -(2**63), "-9223372036854775808"),
    (BOOL, True, "true"),
    (BOOL, False, "false"),
    (MZ_TIMESTAMP, 12, "12"),
]


@pytest.mark.parametrize(("type_", "value", "text"), WRITE)
def test_writing_text(type_: Type, value: object, text: str) -> None:
    a = pa.array([value, None], type_.arrow, from_pandas=False)
    assert outcomes(cast(column(type_), TEXT), a) == [text, None]
    same = [v for t, v, _ in WRITE if t == type_]
    together = outcomes(cast(column(type_), TEXT), pa.array(same, type_.arrow, from_pandas=False))
    assert text in together
    assert outcomes(cast(column(INT8), Type(Kind.TEXT, length=3)), pa.array([12345])) == ["123"]


# ---------------------------------------------------------------- over containers


@pytest.mark.parametrize("source", [*NUMBERS, BOOL, MZ_TIMESTAMP, numeric(10, 2)], ids=str)
def test_casts_are_sound(source: Type) -> None:
    rng = random.Random(str(source))
    for target in (*NUMBERS, BOOL, MZ_TIMESTAMP, numeric(10, 2), numeric(5, 4), TEXT):
        function = REGISTRY.cast(source.kind, target.kind)
        if function is None or (source == target):
            continue
        for i in range(4):
            a = box(source, 150, rng, constant=i == 0)
            assert unsound(cast(column(source), target), [a]) == [], f"{source} -> {target}"


def test_pruning_happens() -> None:
    assert told(cast(column(INT8), INT2), between(INT8, -5, 300)) == (-5, 300, False)
    assert told(cast(column(INT8), INT2), between(INT8, -5, 40000)) == (-5, None, True)
    assert told(cast(column(INT4), FLOAT8), between(INT4, -5, 300)) == (-5.0, 300.0, False)
    assert told(cast(column(FLOAT8), INT4), between(FLOAT8, 0.5, 2.5)) == (0, 2, False)
    assert told(cast(column(FLOAT8), INT4), between(FLOAT8, 0.5, INF))[2] is True
    assert told(cast(column(FLOAT8), FLOAT4), between(FLOAT8, 0.5, 2.5)) == (0.5, 2.5, False)
    assert told(cast(column(FLOAT8), FLOAT4), between(FLOAT8, 0.5, INF))[2] is True
    assert told(cast(column(FLOAT8), NUMERIC), between(FLOAT8, 0.1, 2.5)) == (
        Decimal("0.1"),
        Decimal("2.5"),
        False,
    )
    assert told(cast(column(NUMERIC), INT8), between(NUMERIC, Decimal("0.5"), Decimal("7.4"))) == (
        1,
        7,
        False,
    )
    assert told(cast(column(INT8), MZ_TIMESTAMP), between(INT8, 5, 7)) == (5, 7, False)
    assert told(cast(column(INT4), BOOL), between(INT4, 5, 7)) == (True, True, False)
    assert told(cast(column(INT4), BOOL), between(INT4, 0, 0)) == (False, False, False)


def from_json(lanes: JsonDomain, target: Type) -> tuple[object, object, bool]:
    text = Specs.ranged(TEXT, None, None, null=YES, json=lanes)
    return told(cast(column(TEXT), target), text)


def test_text_out_of_json() -> None:
    number = JsonRange(
        YES, pa.array([Decimal("1.5")], NUMERIC.arrow), pa.array([Decimal("9.25")], NUMERIC.arrow)
    )
    endless = JsonRange(YES, pa.array([Decimal("1.5")], NUMERIC.arrow), None)
    words = JsonRange(YES, pa.array(["a"]), pa.array(["b"]))
    assert from_json(JsonDomain(null=YES, number=number), NUMERIC) == (Decimal("1.5"), Decimal("9.25"), False)
    assert from_json(JsonDomain(number=number), FLOAT8) == (1.5, 9.25, False)
    assert from_json(JsonDomain(number=number, true=YES), FLOAT8) == (1.5, 9.25, True)
    assert from_json(JsonDomain(number=endless), FLOAT8)[1:] == (None, True)
    # '1.5'::int4 fails, and who knows whether there is one between 1.5 and 9.25.
    assert from_json(JsonDomain(number=number), INT4) == (2, 9, True)
    assert from_json(JsonDomain(number=number, text=words), NUMERIC) == (None, None, True)
    assert from_json(JsonDomain(true=YES), BOOL) == (True, True, False)
    assert from_json(JsonDomain(true=YES, map=YES), BOOL) == (True, True, True)
    jsonb = Specs.ranged(TEXT, None, None, json=JsonDomain(number=number, text=words, null=YES))
    for target in (*INTEGERS, NUMERIC):
        told_ = number_from_lanes(target, jsonb, strings=False, fails=YES)
        assert told_.error.all()
        assert told_.bounds()[1][0].as_py() in (9, Decimal("9.25"))
    absent = number_from_lanes(
        NUMERIC, Specs.ranged(TEXT, None, None, null=YES, json=JsonDomain()), strings=True
    )
    assert (absent.empty.all(), absent.error.any()) == (True, False)


def test_small_numerics_of_a_large_scale_to_text() -> None:
    """Few digits far behind the point: Arrow has no zero of a type whose scale is above its precision."""
    tiny = pa.array([Decimal("1e-25"), Decimal("-1.25e-25"), None], pa.decimal128(38, 30))
    text = outcomes(cast(column(numeric(38, 30)), TEXT), tiny)
    assert text == ["0.0000000000000000000000001", "-0.000000000000000000000000125", None]
