"""Every way into a numeric, against Python's decimals: right, or an error; never another number.

Arrow multiplies by a power of ten modulo 2**128 and looks at the result only afterwards, so what does not fit
comes back as another number of 38 digits. Values here have lengths around every precision, and columns come
pure (all rows digits, which takes the fast ways) and mixed with what no fast way reads.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from io import BytesIO

import fastavro
import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.unit.expr.boxes import column, outcomes
from tidegate.errors import EvaluationError
from tidegate.expr.functions.cast import text_to_number as read_number
from tidegate.expr.model import build, order
from tidegate.expr.model.types import FLOAT8, INT8, JSONB, NUMERIC, TEXT, Type, numeric
from tidegate.ingest.formats.avro.types import mapped

pytestmark = pytest.mark.slow

EXACT = Context(prec=6000, rounding=ROUND_HALF_UP, Emin=-(10**6), Emax=10**6)
OVERFLOW = "numeric field overflow"
TYPES = (
    NUMERIC, numeric(38, 0), numeric(38, 2), numeric(38, 9), numeric(38, 29),
    numeric(38, 38), numeric(20, 5), numeric(10, 2), numeric(3, 1),
)  # fmt: skip
ROWS = 1500
"""Values of a column: of whole numbers with 21 to 38 digits, every seventh was another number before."""


def spelled(rng: random.Random, *, exponents: bool) -> str:
    """A number as people and programs spell it, of up to 45 digits on either side of the point."""
    whole = "".join(rng.choices("0123456789", k=rng.choice((0, 1, 2, 5, rng.randrange(15, 46)))))
    fraction = "".join(rng.choices("0123456789", k=rng.choice((0, 0, 1, 3, rng.randrange(0, 46)))))
    text = rng.choice(("", "", "-")) + (whole or ("0" if not fraction else ""))
    text += f".{fraction}" if fraction else rng.choice(("", "", "."))
    return text + (
        rng.choice(("e", "E")) + rng.choice(("", "-", "+")) + str(rng.randrange(60)) if exponents else ""
    )


def expected(number: Decimal, type_: Type) -> Decimal | str:
    """The number rounded to the type, or the error."""
    assert type_.precision is not None
    assert type_.scale is not None
    rounded = number.quantize(Decimal(1).scaleb(-type_.scale), context=EXACT)
    return OVERFLOW if rounded.copy_abs() >= Decimal(10) ** (type_.precision - type_.scale) else rounded


def same(found: Sequence[object], wanted: Sequence[object], given: Sequence[object]) -> None:
    wrong = [row for row in zip(given, found, wanted, strict=True) if row[1] != row[2]]
    assert not wrong, f"{len(wrong)} of {len(given)} are wrong, such as {wrong[0]}"


@pytest.mark.parametrize("exponents", [False, True])
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_text(type_: Type, exponents: bool) -> None:
    rng = random.Random(19)
    texts = [spelled(rng, exponents=exponents and i % 2 == 0) for i in range(ROWS)]
    wanted = [expected(Decimal(text), type_) for text in texts]
    read = build.cast(column(TEXT), type_)
    same(outcomes(read, pa.array(texts)), wanted, texts)
    mixed = [text if i % 3 else f" {text}" for i, text in enumerate(texts)]
    same(outcomes(read, pa.array(mixed)), wanted, mixed)
    # Alone and in small columns the fast way is taken where no other row stands in it.
    for start in range(0, 300, 3):
        same(
            outcomes(read, pa.array(texts[start : start + 3])),
            wanted[start : start + 3],
            texts[start : start + 3],
        )


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_whole_numbers_of_every_length(type_: Type) -> None:
    """One by one: the fast way is taken for each that it can read."""
    rng = random.Random(7)
    for digits in (*range(1, 42), 76, 77, 78, 150, 291, 300, 308, 309, 330, 5000):
        texts = ["".join(rng.choices("123456789", k=digits)) for _ in range(12)]
        for text in texts:
            same(
                outcomes(build.cast(column(TEXT), type_), pa.array([text])),
                [expected(Decimal(text), type_)],
                [text],
            )
        if digits <= 400:
            number = build.cast(build.call("->>", column(JSONB), build.text("id")), type_)
            documents = [f'{{"id":{text}}}' for text in texts]
            same(
                outcomes(number, pa.array(documents)),
                [expected(Decimal(text), type_) for text in texts],
                texts,
            )


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_json_numbers(type_: Type) -> None:
    rng = random.Random(11)
    texts = [f"{rng.choice(('', '-'))}{rng.randrange(1, 10 ** rng.randrange(1, 45))}" for _ in range(ROWS)]
    wanted = [expected(Decimal(text), type_) for text in texts]
    same(outcomes(build.cast(column(JSONB), type_), pa.array(texts)), wanted, texts)


def random_decimals(rng: random.Random, type_: Type) -> list[Decimal]:
    assert type_.precision is not None
    assert type_.scale is not None
    sizes = [rng.randrange(1, type_.precision + 1) for _ in range(ROWS)]
    return [
        Decimal(rng.choice((-1, 1)) * rng.randrange(10**size)).scaleb(-type_.scale, EXACT) for size in sizes
    ]


@pytest.mark.parametrize("source", TYPES, ids=str)
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_numerics(source: Type, type_: Type) -> None:
    numbers = random_decimals(random.Random(3), source)
    given = pa.array(numbers, source.arrow)
    wanted = [expected(number, type_) for number in numbers]
    same(outcomes(build.cast(column(source), type_), given), wanted, numbers)
    other = pa.array(reversed(random_decimals(random.Random(4), type_)), type_.arrow)
    found = order.less(given, other).to_pylist()
    same(found, [a < b for a, b in zip(numbers, other.to_pylist(), strict=True)], numbers)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_integers_and_floats(type_: Type) -> None:
    rng = random.Random(5)
    whole = [rng.choice((-1, 1)) * rng.randrange(2 ** rng.randrange(1, 64)) for _ in range(ROWS)]
    same(
        outcomes(build.cast(column(INT8), type_), pa.array(whole)),
        [expected(Decimal(x), type_) for x in whole],
        whole,
    )
    floats = [rng.uniform(-1, 1) * 10.0 ** rng.randrange(-40, 45) for _ in range(ROWS)]
    wanted = [expected(Decimal(f"{Context(prec=15).create_decimal_from_float(x)}"), type_) for x in floats]
    same(outcomes(build.cast(column(FLOAT8), type_), pa.array(floats)), wanted, floats)


def append_each(db: tidegate.Database, values: pa.Array, type_: Type) -> None:
    """Appends values one by one; each is kept exactly, or refused."""
    db.sql(f"CREATE TABLE t (x {type_})")
    kept = []
    for value in values:
        number = Decimal(value.as_py())
        fits = expected(number, type_) == number
        table = pa.table({"x": pa.array([value.as_py()], values.type)})
        if fits:
            db.append("t", table)
            kept.append(number)
        else:
            with pytest.raises(EvaluationError, match="does not fit"):
                db.append("t", table)
    assert sorted(db.sql("SELECT x FROM t").arrow()["x"].to_pylist()) == sorted(kept)
    db.sql("DROP TABLE t")


def test_append_of_arrow_decimals_and_integers() -> None:
    """717445719622.6570 as numeric(38,29) was 285274908.86862… and nobody was told."""
    rng = random.Random(9)
    db = tidegate.open("memory://")
    cases = [
        (pa.decimal128(25, 4), numeric(38, 29)), (pa.decimal128(38, 0), NUMERIC), (pa.decimal128(38, 18), numeric(38, 2)),
        (pa.decimal256(50, 10), numeric(38, 20)), (pa.decimal32(5, 1), numeric(38, 37)), (pa.decimal64(18, 3), numeric(38, 30)),
        (pa.int64(), numeric(38, 37)), (pa.uint64(), numeric(38, 20)), (pa.int32(), numeric(38, 35)),
    ]  # fmt: skip
    for arrow, type_ in cases:
        if pa.types.is_decimal(arrow):
            sizes = [rng.randrange(1, arrow.precision + 1) for _ in range(12)]
            whole = [rng.choice((-1, 1)) * rng.randrange(10**size) for size in sizes]
            numbers: list[object] = [Decimal(x).scaleb(-arrow.scale, EXACT) for x in whole]
        else:
            numbers = [rng.randrange(2 ** rng.randrange(1, arrow.bit_width)) for _ in range(12)]
        append_each(db, pa.array(numbers, arrow), type_)


def test_a_wrapped_decimal_is_refused_in_a_batch_that_is_else_fine() -> None:
    db = tidegate.open("memory://")
    db.sql("CREATE TABLE t (x numeric(38,29))")
    good = [Decimal(i) / 8 for i in range(1000)]
    bad = [*good, Decimal("717445719622.6570")]
    db.append("t", pa.table({"x": pa.array(good, pa.decimal128(25, 4))}))
    with pytest.raises(EvaluationError, match="does not fit"):
        db.append("t", pa.table({"x": pa.array(bad, pa.decimal128(25, 4))}))
    assert db.sql("SELECT count(*), max(x) FROM t").rows() == [(1000, Decimal("124.875"))]


def test_avro_decimals_of_38_digits() -> None:
    """Python's default context has 28 digits: what was longer lost its last ten."""
    rng = random.Random(2)
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}
    whole = [rng.choice((-1, 1)) * rng.randrange(10 ** rng.randrange(1, 39)) for _ in range(500)]
    raw = [x.to_bytes((x.bit_length() + 8) // 8, "big", signed=True) for x in whole]
    wanted = [Decimal(x).scaleb(-4, EXACT) for x in whole]
    same(mapped(schema).convert([*raw, None]).to_pylist()[:-1], wanted, whole)
    # The encoder of others agrees.
    record = fastavro.parse_schema({"type": "record", "name": "r", "fields": [{"name": "x", "type": schema}]})
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, record, {"x": wanted[0]})
    assert buffer.getvalue().endswith(raw[0])


def test_a_long_column_of_digits_is_still_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of lengths must not send ordinary columns to the slow way."""

    def slow(*_: object) -> None:
        raise AssertionError("read by regular expressions")

    monkeypatch.setattr(read_number, "_read_plain", slow)
    for texts in (
        np.char.mod("%d.25", np.arange(5000)),
        np.char.mod("%d.123456789012345678", np.arange(5000)),
    ):
        found = outcomes(build.cast(column(TEXT), NUMERIC), pa.array(texts.tolist()))
        assert found == [Decimal(str(text)) for text in texts]


def test_lists_of_constants_that_no_numeric_holds_together() -> None:
    """An IN over 38 digits and a fraction raised pyarrow's own error."""
    db = tidegate.open("memory://")
    nines = "9" * 38
    db.sql("CREATE TABLE t (x numeric(38,18))")
    db.sql("INSERT INTO t VALUES (0.1234567890123456), (0.5), (2)")
    for list_, wanted in (
        (f"{nines}, 0.5", [Decimal("0.5")]),
        (f"{nines}, 0.123456789012346", []),
        (f"{nines}, '0.1234567890123456'", [Decimal("0.1234567890123456")]),
        (f"{nines}, 2, {nines}.0", [Decimal(2)]),  # a zero behind the point is no digit of the value
    ):
        assert [x for (x,) in db.sql(f"SELECT x FROM t WHERE x IN ({list_})").rows()] == wanted
