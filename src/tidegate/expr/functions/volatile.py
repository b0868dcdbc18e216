"""Functions that give another value for each row: random(), gen_random_uuid(), clock_timestamp().

    SELECT id, random() FROM orders ORDER BY random() LIMIT 10

Their kernels take the number of rows alone. A call that is written once is one value per row wherever that value is used, and two
calls are two values: the binder gives each place in a query's text a number of its own, as an argument that nobody sees. They are
never folded to a constant, never evaluated twice for a row, prune nothing, and are refused in what is kept (TRANSFORM USING).
"""

from __future__ import annotations

import os
import time
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.expr.model.function import NEVER, scalar
from tidegate.expr.model.types import FLOAT8, TIMESTAMPTZ, UUID

_declare = partial(scalar, params=(), volatile=True, errors=NEVER, exact=False)


@_declare("random", result=FLOAT8)
def random(rows: int) -> pa.Array:
    """A random number from 0 to below 1, another one for each row."""
    return pa.array(np.random.default_rng().random(rows))


@_declare("gen_random_uuid", result=UUID)
def gen_random_uuid(rows: int) -> pa.Array:
    """A random UUID (version 4), another one for each row."""
    data = np.frombuffer(os.urandom(16 * rows), np.uint8).reshape(rows, 16).copy()
    data[:, 6] = data[:, 6] & 0x0F | 0x40
    data[:, 8] = data[:, 8] & 0x3F | 0x80
    return pa.FixedSizeBinaryArray.from_buffers(UUID.arrow, rows, [None, pa.py_buffer(data.tobytes())])


@_declare("clock_timestamp", result=TIMESTAMPTZ)
def clock_timestamp(rows: int) -> pa.Array:
    """The time at which a row is evaluated, also inside of one statement."""
    return pa.repeat(pa.scalar(time.time_ns() // 1000, TIMESTAMPTZ.arrow), rows)
