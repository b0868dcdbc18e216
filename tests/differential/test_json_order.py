"""The order of jsonb in a real PostgreSQL: comparisons, ORDER BY, GREATEST and LEAST of random documents."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.differential.postgres import Postgres
from tests.laws.cases import cases
from tests.laws.json_order_oracle import documents
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model.types import BOOL, JSONB, TEXT, array
from tidegate.expr.primitives.json.sort_key import sort_keys
from tidegate.sql.bind.query import bind_expression

pytestmark = pytest.mark.postgres
COUNT = 2000
"""Documents of a case: of some 400 different ones each is compared with equal and with similar ones."""
COMPARISONS = (
    "a < b", "a <= b", "a > b", "a >= b", "a = b", "a <> b", "a BETWEEN b AND '10'", "a > '9'", "a < '\"b\"'", "a > '[]'",
    "a < 'null'", "a <= '{}'", "a IN (b, '1.50', '10')", "a < ANY (ARRAY[b, '9'])", "a >= ALL (ARRAY[b, '9'])",
    "ARRAY[a] < ARRAY[b]", "ROW(a, 1) >= ROW(b, 1)", "a IS DISTINCT FROM b", "CASE a WHEN b THEN true WHEN '10.0' THEN false END",
    "greatest(a, b) = a", "least(a, b, '9') = b", "nullif(a, b) IS NULL", "a -> 'n' > '9'", "'\"b\"' >= b -> 'a'",
)  # fmt: skip


def load(postgres: Postgres, seed: int) -> list[pa.Array]:
    rng = np.random.default_rng([17, seed])
    columns = [pa.array(documents(rng, COUNT)) for _ in range(2)]
    postgres.load([("a", JSONB), ("b", JSONB)], columns)
    return columns


@pytest.fixture(scope="module")
def loaded(postgres: Postgres) -> list[pa.Array]:
    """Two columns of documents, in PostgreSQL too."""
    return load(postgres, 0)


@pytest.mark.parametrize("sql", COMPARISONS)
def test_comparison(postgres: Postgres, loaded: list[pa.Array], sql: str) -> None:
    bound = bind_expression(sql, [("a", JSONB), ("b", JSONB)])
    values, errors = evaluate(bound, loaded)
    theirs, failures = postgres.evaluate(sql, BOOL)
    assert errors is None
    assert not any(failures)
    assert values.to_pylist() == theirs
    assert len(set(theirs)) > 1, "the documents decide nothing"


def test_arrays_of_documents(postgres: Postgres, loaded: list[pa.Array]) -> None:
    a, b = loaded
    sql = "ARRAY[a, b] < ARRAY[b, '9']"
    assert bind_expression("ARRAY[a]", [("a", JSONB)]).type == array(JSONB)
    values, _ = evaluate(bind_expression(sql, [("a", JSONB), ("b", JSONB)]), [a, b])
    assert values.to_pylist() == postgres.evaluate(sql, BOOL)[0]


@pytest.mark.parametrize("sql", ["greatest(a, b)", "least(b, a, '10')"])
def test_extremes(postgres: Postgres, loaded: list[pa.Array], sql: str) -> None:
    values, _ = evaluate(bind_expression(f"({sql})::text", [("a", JSONB), ("b", JSONB)]), loaded)
    theirs, _ = postgres.evaluate(sql, TEXT)
    again, _ = evaluate(bind_expression("t::jsonb::text", [("t", TEXT)]), [pa.array(theirs)])
    assert values.to_pylist() == again.to_pylist()


@pytest.mark.parametrize("seed", range(cases(1)))
def test_order_by(postgres: Postgres, seed: int) -> None:
    """Equal documents are adjacent in both, so the whole order is compared."""
    (a, _) = load(postgres, seed)
    theirs = [number for (number,) in postgres.connection.execute("SELECT id FROM given ORDER BY a, id")]
    keys = sort_keys(a).to_pylist()
    assert sorted(range(COUNT), key=lambda i: (keys[i], i)) == theirs
    assert len(set(keys)) == len(set(a.to_pylist())) > 300
