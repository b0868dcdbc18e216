"""Elements of arrays: values as PostgreSQL 15 gave them."""

import pyarrow as pa
import pytest

from tests.unit.expr.sql_values import value, values
from tidegate.expr.model.types import INT4, array


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("array_remove(ARRAY[1,2,NULL,2], 2)", [1, None]),
        ("array_remove(ARRAY[1,NULL], NULL)", [1]),
        ("array_replace(ARRAY[1,2,5], 5, 3)", [1, 2, 3]),
        ("array_positions(ARRAY['A','B','A'], 'A')", [1, 3]),
        ("array_positions(NULL::text[], 'A')", None),
        ("trim_array(ARRAY[1,2,3], 2)", [1]),
        ("trim_array(ARRAY[1,2,3], 4)", ("error", "number of elements to trim must be between 0 and 3")),
        ("array_ndims(ARRAY[[1,2],[3,4]])", 2),
        ("array_dims(ARRAY[[1,2,3],[4,5,6]])", "[1:2][1:3]"),
        ("array_dims('{}'::int4[])", None),
        ("width_bucket(7, ARRAY[1,5,10])", 2),
        ("width_bucket(7, ARRAY[1,NULL])", ("error", "thresholds array must not contain NULLs")),
        ("num_nulls(1, NULL, 'x', 'NaN'::float8)", 1),
        ("num_nonnulls(1, NULL, 'x')", 2),
    ],
)
def test_values(sql: str, expected: object) -> None:
    assert value(sql) == expected


def test_rows_have_their_own_values() -> None:
    arrays = pa.array([[1, 2, 1], [], None, [None, 7]], pa.list_(pa.int32()))
    wanted = pa.array([1, 1, 1, None], pa.int32())
    columns = [("a", array(INT4)), ("x", INT4)]
    assert values("array_remove(a, x)", columns, [arrays, wanted], 4) == [[2], [], None, [7]]
    assert values("array_replace(a, x, 9)", columns, [arrays, wanted], 4) == [[9, 2, 9], [], None, [9, 7]]
    assert values("array_positions(a, x)", columns, [arrays, wanted], 4) == [[1, 3], [], None, [1]]
