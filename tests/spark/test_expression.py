"""Every `spark=` form of the registry: Spark's own value is ours, on poison values; where ours fails, Spark fails.

Many expressions go into one job: a DataFrame has a few columns of poison for each type, and each query selects some fifty
expressions over it. Of an expression whose kernel fails for some rows, these rows are left out there, and one of them is asked by
itself, as constants.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.laws.boxes import pool
from tests.laws.cases import cases
from tests.laws.engine_cases import ROWS, Case, argument, engine_cases, same
from tests.laws.instances import Instance
from tests.laws.poison import corpus, with_nulls
from tidegate.errors import EvaluationError
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.model import build
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.tree import Call, Column, Expr, Literal
from tidegate.expr.model.types import (
    FLOAT8,
    INT4,
    INTERVAL,
    JSONB,
    SCALARS,
    TEXT,
    TIME,
    TIMESTAMPTZ,
    UUID,
    Type,
    array,
    record,
)
from tidegate.expr.spark_sql.literals import literal_sql
from tidegate.spark.arrow import arrow_schema, batch, from_spark, spark_schema
from tidegate.spark.task_errors import tidegate_error
from tidegate.spark.translate.evaluator_udf import sql_of, udf_sql
from tidegate.spark.translate.to_spark_sql import MAX_NESTING, SETTINGS, spark_sql

CHUNK = 50
"""Expressions of one query: more make code that Java does not compile."""


@pytest.fixture(scope="module")
def strict(spark: SparkSession) -> SparkSession:
    """A session in which texts mean what they say."""
    fresh = spark.newSession()
    for name, value in SETTINGS.items():
        fresh.conf.set(name, value)
    return fresh


def all_cases(seed: int) -> list[Case]:
    return engine_cases(seed, spark_sql, lambda function: function.spark is not None)


def frame_of(spark: SparkSession, some: Sequence[Case]) -> None:
    names, arrays, types = ["row"], [pa.array(range(ROWS), pa.int32())], [INT4]
    for case in some:
        names += case.texts
        arrays += case.columns
        types += case.types
    schema = spark_schema(names, types)
    table = pa.Table.from_batches([batch(arrays, types, arrow_schema(schema))])
    spark.createDataFrame(table, schema).createOrReplaceTempView("poison")


def asked(case: Case, failed: np.ndarray) -> str:
    text = spark_sql(case.expr, case.texts)
    if not failed.any():
        return f"{text} AS {case.name}"
    rows = ", ".join(map(str, np.flatnonzero(failed)))
    return f"CASE WHEN row NOT IN ({rows}) THEN {text} END AS {case.name}"


def show(case: Case, row: int) -> str:
    given = ", ".join(str(column[row]) for column in case.columns)
    return f"{signature(case)} of ({given}): {spark_sql(case.expr, case.texts)}"


def signature(case: Case) -> str:
    assert isinstance(case.expr, Call)
    return case.expr.function.signature


def compare(spark: SparkSession, some: Sequence[Case]) -> tuple[list[str], list[tuple[Case, int]]]:
    """What differs; and of each expression a row that must fail."""
    frame_of(spark, some)
    outcomes = [evaluate(case.expr, case.columns, ROWS) for case in some]
    masks = [
        np.zeros(ROWS, bool) if errors is None else np.asarray(errors.is_valid()) for _, errors in outcomes
    ]
    selected = [asked(case, mask) for case, mask in zip(some, masks, strict=True)]
    got = spark.sql(f"SELECT row, {', '.join(selected)} FROM poison").toArrow().sort_by("row")
    wrong, failing = [], []
    for case, (values, _), mask in zip(some, outcomes, masks, strict=True):
        theirs = from_spark(got.column(case.name).combine_chunks(), case.expr.type)
        bad = np.flatnonzero(~same(values, theirs))
        wrong += [f"{show(case, i)}\n   ours {values[i]}, Spark's {theirs[i]}" for i in bad[:2].tolist()]
        failing += [(case, row) for row in np.flatnonzero(mask)[:1].tolist()]
    return wrong, failing


@pytest.mark.parametrize("seed", range(min(cases(1), 4)))
def test_every_form(strict: SparkSession, seed: int) -> None:
    wrong: list[str] = []
    failing: list[tuple[Case, int]] = []
    found = all_cases(seed)
    for at in range(0, len(found), CHUNK):
        differ, fail = compare(strict, found[at : at + CHUNK])
        wrong += differ
        failing += fail
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)
    said = {case.expr.function for case in found if isinstance(case.expr, Call)}
    assert said == {function for function in REGISTRY if function.spark is not None}, (
        "a form that is never used"
    )
    once = {signature(case): (case, row) for case, row in failing}
    lenient = [show(case, row) for case, row in once.values() if not fails_in_spark(strict, case, row)]
    assert not lenient, f"{len(lenient)} of {len(once)} do not fail in Spark:\n" + "\n".join(lenient)
    assert len(once) > 40


def constants(case: Case, row: int) -> list[str]:
    return [
        literal_sql(Literal(column[row], type_))
        for column, type_ in zip(case.columns, case.types, strict=True)
    ]


def fails_in_spark(spark: SparkSession, case: Case, row: int) -> bool:
    try:
        spark.sql(f"SELECT {spark_sql(case.expr, constants(case, row))}").collect()
    except PySparkException:
        return True
    return False


def test_a_lie_is_found(strict: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law can fail: Spark's own division, and floor of a float, are not ours."""
    for name, params, lie in (
        ("/", (INT4, INT4), "CAST(round({0} / {1}) AS int)"),
        ("round", (FLOAT8,), "round({0})"),
    ):
        function = next(f for f in REGISTRY.overloads(name) if f.params == params)
        rng = np.random.default_rng(1)
        instance = Instance(function, params, params[0])
        args = [argument(instance, i, rng) for i in range(len(params))]
        expr = Call(function, tuple(Column(i, type_) for i, type_ in enumerate(params)), params[0])
        with monkeypatch.context() as patch:
            patch.setitem(function.__dict__, "spark", lie)
            wrong, _ = compare(strict, [Case("lie", expr, args, list(params))])
        assert wrong, name


def test_literals_of_every_type(strict: SparkSession) -> None:
    types = [*SCALARS, array(INTERVAL), array(TEXT), record(("x", INT4), ("a `b", TEXT), ("t", TIMESTAMPTZ))]
    for type_ in types:
        values = pa.concat_arrays([corpus(type_), pa.nulls(1, type_.arrow)])
        texts = [f"{literal_sql(Literal(value, type_))} AS c{i}" for i, value in enumerate(values)]
        got = strict.sql(f"SELECT {', '.join(texts)}").toArrow()
        for i, value in enumerate(values):
            theirs = from_spark(got.column(i).combine_chunks(), type_)
            assert same(pa.array([value], type_.arrow) if not _odd(type_) else pa.repeat(value, 1), theirs)[0], (
                type_, value, texts[i],
            )  # fmt: skip


def _odd(type_: Type) -> bool:
    return type_.is_nested or type_ == INTERVAL


def test_a_setting_is_not_read_in_a_text(strict: SparkSession) -> None:
    nasty = "${spark.app.name} $$ ${env:HOME} \\ \\' ' \n \r \t \\u0041 :x ? -- /* ` \" \x01 é \U0001f600"
    text = literal_sql(Literal(pa.scalar(nasty), TEXT))
    assert strict.sql(f"SELECT {text}").collect()[0][0] == nasty


# ---------------------------------------------------------------- our evaluator in a UDF


def test_any_expression_by_our_evaluator(strict: SparkSession) -> None:
    types = [*SCALARS, array(UUID), array(INTERVAL), record(("x", INT4), ("t", TIME), ("v", INTERVAL))]
    rng = np.random.default_rng(3)
    arrays = [pool(type_, 0).values for type_ in types]
    arrays = [with_nulls(rng, a.take(pa.array(rng.integers(0, len(a), ROWS))), 0.2) for a in arrays]
    names = [f"c{i}" for i in range(len(types))]
    schema = spark_schema(names, types)
    table = pa.Table.from_batches([batch(arrays, types, arrow_schema(schema))])
    strict.createDataFrame(table, schema).createOrReplaceTempView("every")
    columns = {type_: Column(i, type_) for i, type_ in enumerate(types)}
    exprs: list[Expr] = list(columns.values())
    exprs += [
        build.call("->>", columns[JSONB], build.text("a")),
        build.call("to_jsonb", columns[INTERVAL]),
        build.call("upper", columns[TEXT]),
        build.call("row", columns[UUID], columns[TIME]),
        build.literal(7, INT4),
    ]
    texts = [f"{udf_sql(strict, expr, names)} AS e{i}" for i, expr in enumerate(exprs)]
    got = strict.sql(f"SELECT {', '.join(texts)} FROM every").toArrow()
    for i, expr in enumerate(exprs):
        ours = evaluate(expr, arrays, ROWS).values
        theirs = from_spark(got.column(i).combine_chunks(), expr.type)
        assert same(ours, theirs).all(), expr.type


def test_a_row_that_fails_in_our_evaluator(strict: SparkSession) -> None:
    a = Column(0, INT4, "a")
    text = udf_sql(strict, build.call("/", build.literal(10, INT4), a), ["id - 3"])
    with pytest.raises(PySparkException) as failed:
        strict.sql(f"SELECT {text} FROM (SELECT CAST(id AS int) AS id FROM range(10))").collect()
    error = tidegate_error(failed.value)
    assert isinstance(error, EvaluationError)
    assert str(error) == "division by zero\nin the row a = 0"
    assert "Traceback" not in str(failed.value)
    lazy = build.case(
        [(build.call("=", a, build.literal(0, INT4)), build.literal(-1, INT4))],
        build.call("/", build.literal(10, INT4), a),
    )
    found = strict.sql(f"SELECT {udf_sql(strict, lazy, ['CAST(id - 3 AS int)'])} FROM range(10)").collect()
    assert [row[0] for row in found] == [-3, -5, -10, -1, 10, 5, 3, 2, 2, 1]


def test_deep_expressions(strict: SparkSession) -> None:
    deep: Expr = Column(0, INT4, "a")
    while deep.depth < 390:
        deep = build.call("+", deep, build.literal(1, INT4))
    text = udf_sql(strict, deep, ["CAST(id AS int)"])
    assert [row[0] for row in strict.sql(f"SELECT {text} FROM range(2)").collect()] == [389, 390]
    assert spark_sql(deep, ["id"]) is None, "Spark's parser would overflow its stack"
    fine: Expr = Column(0, INT4, "a")
    while spark_sql(fine, ["CAST(id AS int)"]) is not None:
        shown, fine = fine, build.call("-", build.call("+", build.literal(1, INT4), fine))
    said = spark_sql(shown, ["CAST(id AS int)"])
    assert said is not None
    assert said.count("(") > MAX_NESTING - 4
    assert len(strict.sql(f"SELECT {said} FROM range(2)").collect()) == 2


def test_what_has_no_words(strict: SparkSession) -> None:
    path = build.call("->>", Column(0, JSONB), build.text("k"))
    assert spark_sql(path, ["j"]) is None
    assert sql_of(strict, path, ["j"]).startswith("tg_expr_")
    assert sql_of(strict, build.call("+", Column(0, INT4), build.literal(1, INT4)), ["i"]) == "(i + 1)"
    wide: Expr = Column(0, FLOAT8)
    while wide.depth < 60:
        wide = build.call("*", wide, wide)
    assert spark_sql(wide, ["x"]) is None, "forms of floats repeat their arguments"


def test_what_cannot_fail_is_asked_first(strict: SparkSession) -> None:
    x = Column(0, INT4, "x")
    divides = build.call("=", build.call("/", build.literal(10, INT4), x), build.literal(2, INT4))
    both = build.call("and", divides, build.call("<>", x, build.literal(0, INT4)))
    either = build.call("or", divides, build.call("=", x, build.literal(0, INT4)))
    said = [spark_sql(expr, ["CAST(id AS int)"]) for expr in (both, either)]
    rows = strict.sql(f"SELECT {said[0]}, {said[1]} FROM range(7)").collect()
    assert [tuple(row) for row in rows] == [
        (False, True), (False, False), (False, False), (False, False), (True, True), (True, True), (False, False),
    ]  # fmt: skip
    assert len(strict.sql(f"SELECT id FROM range(7) WHERE {said[0]}").collect()) == 2


def test_errors_that_forms_raise(strict: SparkSession) -> None:
    product = spark_sql(build.call("*", Column(0, FLOAT8), Column(0, FLOAT8)), ["x"])
    with pytest.raises(PySparkException) as failed:
        strict.sql(f"SELECT {product} FROM (SELECT CAST('1e200' AS double) AS x)").collect()
    assert str(tidegate_error(failed.value)) == "value out of range: overflow"
