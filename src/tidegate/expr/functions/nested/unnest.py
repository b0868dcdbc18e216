"""unnest: an array whose elements are all elements of an array, those of inner arrays included.

unnest('{{1,2},{3}}')      {1,2,3}, which the table function of that name takes apart
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.expr.functions.cast.nested import make_lists, sizes_of, valid_rows
from tidegate.expr.model.function import ARRAY_A, NEVER, scalar
from tidegate.expr.model.types import Kind, Type, array


def _leaves(arrays: Type) -> Type:
    element = arrays.element
    assert element is not None
    return _leaves(element) if element.kind is Kind.ARRAY else array(element)


@scalar("unnest", (ARRAY_A,), _leaves, hidden=True, errors=NEVER)
def unnest(arrays: pa.Array) -> pa.Array:
    """All elements of an array, those of inner arrays included."""
    valid = valid_rows(arrays)
    while pa.types.is_list(arrays.type.value_type):
        inner, sizes = arrays.flatten(), sizes_of(arrays)
        total = np.concatenate([[0], np.cumsum(sizes_of(inner))])
        ends = np.cumsum(sizes)
        arrays = make_lists(inner.flatten(), total[ends] - total[ends - sizes], valid)
    return arrays
