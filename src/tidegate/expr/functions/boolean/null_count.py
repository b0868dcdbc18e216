"""How many arguments are NULL: num_nulls and num_nonnulls.

num_nulls(1, NULL, 'x')      1
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.expr.model.function import ANY, NEVER, scalar
from tidegate.expr.model.outcome import Datum, length, spread, to_bools
from tidegate.expr.model.types import INT4

_counts = partial(scalar, params=(ANY,), result=INT4, variadic=True, lenient=True, errors=NEVER, stable=True)


@_counts("num_nulls")
def num_nulls(*args: Datum) -> pa.Array:
    """How many of the arguments are NULL."""
    n = length(*args)
    nulls = [to_bools(spread(arg, n).is_null()) for arg in args]
    return pa.array(np.sum(nulls, axis=0), pa.int32())


@_counts("num_nonnulls")
def num_nonnulls(*args: Datum) -> pa.Array:
    """How many of the arguments are not NULL."""
    return pa.array(len(args) - num_nulls(*args).to_numpy(), pa.int32())
