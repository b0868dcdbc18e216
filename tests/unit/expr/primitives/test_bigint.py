"""Long integers by limbs against Python's, and what Arrow gets wrong through them: values near 2**k * 10**18."""

import random
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.expr.boxes import outcomes
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.model.build import call, cast, literal
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import FLOAT8, NUMERIC, numeric
from tidegate.expr.primitives import bigint as limbs
from tidegate.expr.primitives.bigint import floor_to_int64
from tidegate.expr.primitives.float_digits import decimal_to_float
from tidegate.sql.bind.query import bind_expression

EXACT = Context(prec=400)
ROWS = 400


def number(rng: random.Random, bits: int) -> int:
    """Any length, with runs of ones and zeros, where guesses of a quotient's digits go wrong."""
    size = rng.randint(1, bits)
    kinds = (
        rng.getrandbits(size),
        2**size - 1,
        2 ** (size - 1),
        10 ** rng.randint(0, bits * 3 // 10),
        rng.getrandbits(size) >> 32 << 32,
    )
    return rng.choice(kinds) & (2**bits - 1)


def split(values: list[int], bits: int) -> limbs.Limbs:
    return [np.array([v >> 32 * i & 0xFFFF_FFFF for v in values], np.uint64) for i in range(bits // 32)]


def whole(parts: limbs.Limbs) -> list[int]:
    columns = [part.tolist() for part in np.broadcast_arrays(*parts)]
    return [sum(limb << 32 * i for i, limb in enumerate(row)) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize(
    ("x_bits", "y_bits"), [(128, 128), (256, 128), (256, 256), (64, 128), (512, 256), (128, 32)]
)
def test_arithmetic(x_bits: int, y_bits: int) -> None:
    rng = random.Random(x_bits * 1000 + y_bits)
    x = [number(rng, x_bits) for _ in range(ROWS)]
    y = [number(rng, y_bits) or 1 for _ in range(ROWS)]
    # Just below a multiple: a digit of the quotient is guessed one too great.
    x[::3] = [min(max(b * number(rng, 32) - rng.randint(0, 1), 0), 2**x_bits - 1) for b in y[::3]]
    a, b = split(x, x_bits), split(y, y_bits)
    quotient, rest = limbs.divide(a, b)
    assert (whole(quotient), whole(rest)) == (
        [p // q for p, q in zip(x, y, strict=True)],
        [p % q for p, q in zip(x, y, strict=True)],
    )
    assert whole(limbs.multiply(a, b)) == [p * q for p, q in zip(x, y, strict=True)]
    assert whole(limbs.add(a, b)) == [p + q for p, q in zip(x, y, strict=True)]
    assert limbs.not_less(a, b).tolist() == [p >= q for p, q in zip(x, y, strict=True)]
    assert limbs.bit_length(a).tolist() == [p.bit_length() for p in x]
    for digits in (0, 1, 9, 10, 19, 38):
        assert whole(limbs.divide_by_power(a, digits)) == [p // 10**digits for p in x]
        assert whole(limbs.multiply_by_power(a, digits)) == [p * 10**digits for p in x]


HARD = "9223372036854775807.999999999999999999"
ROUNDED = [
    (f"floor(-{HARD}::numeric)", "-9223372036854775808"),
    (f"ceil({HARD}::numeric)", "9223372036854775808"),
    (f"round({HARD}::numeric)", "9223372036854775808"),
    (f"trunc({HARD}::numeric)", "9223372036854775807"),
    (f"{HARD}::numeric::numeric(38,0)", "9223372036854775808"),
    (f"(-{HARD})::numeric::int8", "-9223372036854775808"),
    ("trunc(2147483647.999999999999999999::numeric, 3)", "2147483647.999"),
    ("trunc(9223372036854775807.000000000000000001::numeric, 3)", "9223372036854775807"),
    ("round(-9223372036854775807.5::numeric, 1)", "-9223372036854775807.5"),
    ("(-9223372036854775807.499999999999999999)::numeric % 1.00", "-0.499999999999999999"),
    ("(-9223372036854775807.5)::numeric % 2.50", "0"),
    ("9223372036854775807.500000000000000001::numeric % (-10.00)", "7.500000000000000001"),
    ("18446744073709551615::numeric(38,0) / 4294967295::numeric(38,0)", "4294967297"),
    ("div(99999999999999999999.9::numeric, 0.000000000000000001::numeric(19,18))", "99999999999999999999900000000000000000"),
    # exact powers
    ("100.01::numeric ^ 4", "100040006.00040001"),
    ("2.5::numeric ^ -2", "0.16"),
    ("(-2)::numeric ^ 63", "-9223372036854775808"),
    ("power(-1.00::numeric, 67797705194840972588977)", "-1"),
    ("power(0::numeric, 0::numeric)", "1"),
    # next to 1
    ("ln(0.99999::numeric)", "-0.000010000050000333"),
    ("log(0.999999999999999999::numeric, 2::numeric)", "-693147180559945000"),
    ("power(1.000000000000000001::numeric, 1000000000000000000::numeric)", "2.71828182845905"),
    # exp(709) and more
    ("power(10::numeric, 20::numeric)", "numeric field overflow"),
    ("power(0::numeric, -1::numeric)", "zero raised to a negative power is undefined"),
    ("(-0.5)::numeric ^ 9.999999999999999999", "a negative number raised to a non-integer power yields a complex result"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "result"), ROUNDED)
def test_what_arrow_divides_wrongly(sql: str, result: str) -> None:
    values, errors = evaluate(bind_expression(sql, [("a", NUMERIC)]), [pa.nulls(2, NUMERIC.arrow)])
    got = values[0].as_py() if errors is None else errors[0].as_py()
    assert got == (Decimal(result) if isinstance(got, (Decimal, int)) else result)


def test_powers_by_row() -> None:
    base = pa.array(
        [Decimal("1.5"), Decimal(-3), None, Decimal("0.1"), Decimal(2), Decimal(2)], NUMERIC.arrow
    )
    power = pa.array(
        [Decimal(3), Decimal(-1), Decimal(2), Decimal(18), None, Decimal("0.5")], numeric(10, 2).arrow
    )
    got = outcomes(call("^", Column(0, NUMERIC), Column(1, numeric(10, 2))), base, power)
    root = Decimal("1.414213562373100000")  # 15 digits
    assert got == [Decimal("3.375"), Decimal("-0.333333333333333333"), None, Decimal("1e-18"), None, root]


def test_floors() -> None:
    a = pa.array([Decimal(HARD), -Decimal("0.5"), Decimal(3), None], NUMERIC.arrow)[0:3]
    assert floor_to_int64(a)[0].tolist() == [2**63 - 1, -1, 3]
    assert (floor_to_int64(a, minus=1)[0] + 1).tolist()[1:] == [0, 3]


@pytest.mark.parametrize("scale", [0, 2, 18, 30, 38])
def test_decimals_to_floats(scale: int) -> None:
    """Halves between two floats among them, and their neighbours: there one rounding too many shows."""
    rng = random.Random(scale)
    found = []
    for _ in range(ROWS):
        x = abs(rng.gauss(0, 1)) * 10 ** rng.randint(-3, 10)
        middle = EXACT.divide(EXACT.add(Decimal(x), Decimal(float(np.nextafter(x, 1e300)))), Decimal(2))
        unscaled = rng.choice(
            [rng.randrange(10 ** rng.randint(1, 38)), int(middle.scaleb(scale, EXACT)) + rng.randint(-1, 1)]
        )
        found.append(Decimal(rng.choice([1, -1]) * (unscaled % 10**38)).scaleb(-scale, EXACT))
    array = pa.array(found, pa.decimal128(38, scale))
    assert decimal_to_float(array, pa.float64()).to_pylist() == [float(x) for x in found]
    assert decimal_to_float(array, pa.float32()) == array.cast(pa.string()).cast(pa.float32())


@pytest.mark.parametrize(("precision", "scale"), [(38, 18), (38, 0), (38, 38), (12, 2), (1, 0)])
def test_floats_to_decimals(precision: int, scale: int) -> None:
    rng = random.Random(precision + scale)
    floats = [rng.gauss(0, 1) * 10 ** rng.randint(-25, 25) for _ in range(ROWS)]
    floats += [0.0, -0.0, 5e-324, 1.7e308, 9.5, 9.499999999999999, 1e20, 0.05, 99999999999999999999.0]
    floats += [10.0**k * f for k in range(-40, 40) for f in (1, 0.9999999999999999, 9.999999999999995)]
    values, errors = evaluate(cast(Column(0, FLOAT8), numeric(precision, scale)), [pa.array(floats)])
    messages = [None] * len(floats) if errors is None else errors.to_pylist()
    for x, value, message in zip(floats, values.to_pylist(), messages, strict=True):
        digits = Context(prec=15).plus(Decimal(x)) if x else Decimal(0)
        exact = digits.quantize(Decimal(1).scaleb(-scale), "ROUND_HALF_UP", EXACT)
        too_long = abs(exact) >= Decimal(10) ** (precision - scale)
        assert (value, message) == ((None, "numeric field overflow") if too_long else (exact, None)), x


def test_literal_is_negated_exactly() -> None:
    assert bind_expression(f"-{HARD}", []) == literal(Decimal(HARD).copy_negate(), numeric(37, 18))
