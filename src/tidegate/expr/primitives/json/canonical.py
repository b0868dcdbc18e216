r"""Converts text to canonical JSON for whole columns.

jsonb is stored as text in which equal values have equal bytes (`exact.py` defines it: sorted keys, plain exact numbers, no spaces).
Most documents are converted without a Python loop:

| question | answered by | CPU time for 315 bytes |
|---|---|---|
| is it JSON? | DuckDB's parser, which does not recurse | 0.4 µs |
| is anything in it unusual? | one regular expression | 0.6 µs |
| if a real is long: does it round-trip? | `_roundtrips` | 2.1 µs |
| has it the same keys as others in the batch? | `key_sort.py`, which sorts the keys of those together | 3.5 to 5 µs |
| the remaining documents | `exact.py`, one at a time | 34 to 51 µs |

(Minimum to median of five runs on a busy machine; 5 to 6 µs in total, and 8 to 14 with a long real.)

The remaining documents are: invalid JSON (for the error message), lists that hold maps, documents of a rare shape, and unusual
ones. DuckDB reads reals as doubles and accepts a few texts that are not JSON. So a document is unusual if it may contain

* a number with an exponent, or a real that does not round-trip: `1.2345678901234567891` would lose digits, while
  `0.2550690257394217`, the text of a double, and integers of any length do not;
* a negative zero, `[1,]`, `NaN`, `Infinity`;
* an escaped control character: DuckDB writes `\u001F`, PostgreSQL and we `\u001f`, and `\u0000` is an error.

>>> import pyarrow as pa
>>> to_canonical(pa.array(['{"b": 1.50, "a": [1, 2]}', '1e3', '[1'])).values.to_pylist()
['{"a":[1,2],"b":1.5}', '1000', None]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.config import MAX_NESTING
from tidegate.expr.model.outcome import Outcome, failing, to_bools, with_errors
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import InvalidJson
from tidegate.expr.primitives.json.key_sort import sort_keys

MAX_ROWS_ONE_BY_ONE = 200
"""Batches of at most so many documents are read one by one: a DuckDB call costs 2 to 6 ms before its first row."""

_START = r"(?:^|[:,\[\s])-?"
_DIGITS_16 = "|".join(rf"[0-9]{{{n}}}\.[0-9]{{{16 - n}}}" for n in range(1, 16))
LONG_REAL = rf"{_START}(?:{_DIGITS_16}|0\.00000)"
"""Reals that may lose digits as a double: 16 digits around the point, or very small."""
HUGE_REAL = rf"{_START}[0-9]{{16}}[0-9]*\."
"""Reals that do lose digits. DuckDB passes those beyond 1e308 through unchanged, even if they end with `.50`."""
_UNUSUAL = (
    rf"{HUGE_REAL}|{_START}(?:[0-9]+(?:\.[0-9]+)?[eE]|[nN][aA][nN]|[iI][nN][fF])"
    r"|-0(?:\.0+)?(?:[,\]}\s]|$)|,\s*[\]}]|\\u00[01]"
)


def to_canonical(texts: pa.Array) -> Outcome:
    """Each text as canonical JSON, or an error where it is not JSON."""
    if len(texts) - texts.null_count <= MAX_ROWS_ONE_BY_ONE:
        return _one_by_one(texts)
    valid = to_bools(duckdb_eval("json_valid(j)", pa.bool_(), j=texts)) & ~maybe_too_deep(texts)
    easy = valid & ~_is_unusual(texts, valid)
    rows = np.flatnonzero(easy)
    sorted_texts, fitting = sort_keys(texts.take(pa.array(rows)))
    rest = np.flatnonzero(~easy & to_bools(texts.is_valid()))
    rest = np.sort(np.concatenate([rest, rows[~fitting]]))
    slow = _one_by_one(texts.take(pa.array(rest)))
    values = scatter(len(texts), (rows[fitting], sorted_texts), (rest, slow.values))
    errors = None if slow.errors is None else scatter(len(texts), (rest, slow.errors))
    return with_errors(values, errors)


def _is_unusual(texts: pa.Array, valid: np.ndarray) -> np.ndarray:
    """Where DuckDB may read a valid document differently than `exact.py`."""
    unusual = to_bools(pc.match_substring_regex(texts, f"{_UNUSUAL}|{LONG_REAL}"))
    rows = np.flatnonzero(unusual & valid)
    if len(rows):
        suspects = texts.take(pa.array(rows))
        unusual[rows] = to_bools(pc.match_substring_regex(suspects, _UNUSUAL)) | ~_roundtrips(suspects)
    return unusual


def _roundtrips(texts: pa.Array) -> np.ndarray:
    """Where DuckDB returns a document with the same numbers, as it does for the text of most doubles.

    Everything but white space must be equal, so nothing was rounded. White space inside strings is ignored on both sides.
    """
    mine = "j"
    for code in (32, 10, 13, 9):
        mine = f"replace({mine}, chr({code}), '')"
    return to_bools(duckdb_eval(f"{mine} = replace(json(j)::VARCHAR, ' ', '')", pa.bool_(), j=texts))


def maybe_too_deep(texts: pa.Array) -> np.ndarray:
    """Where the number of brackets allows nesting beyond the limit; false where null.

    A document that is too deep has more brackets than the limit allows levels, and each is closed, so it is long: brackets are
    counted in long documents only.
    """
    result = np.zeros(len(texts), bool)
    long = np.flatnonzero(to_bools(pc.greater(pc.binary_length(texts), 2 * MAX_NESTING)))
    if len(long):
        long_texts = texts.take(pa.array(long))
        brackets = pc.add(pc.count_substring(long_texts, "["), pc.count_substring(long_texts, "{"))
        result[long] = to_bools(pc.greater(brackets, MAX_NESTING))
    return result


def within_depth(documents: pa.Array) -> Outcome:
    """Documents composed of others, with an error where they are nested too deeply."""
    rows = np.flatnonzero(maybe_too_deep(documents))
    deep = np.zeros(len(documents), bool)
    for row in rows:
        deep[row] = exact_json.depth_above(documents[int(row)].as_py(), MAX_NESTING)
    return with_errors(documents, failing(deep, exact_json.TOO_DEEP))


def quote_strings(texts: pa.Array) -> pa.Array:
    """Each string as a JSON string, null where null."""
    if len(texts) <= MAX_ROWS_ONE_BY_ONE:
        return pa.array(
            [None if text is None else exact_json.quote(text) for text in texts.to_pylist()], pa.string()
        )
    plain = duckdb_eval("to_json(t)::VARCHAR", pa.string(), t=texts)
    plain = pc.if_else(texts.is_valid(), plain, pa.scalar(None, pa.string()))
    control = np.flatnonzero(to_bools(pc.match_substring_regex(plain, r"\\u00")))
    if not len(control):
        return plain
    again = pa.array([exact_json.quote(t) for t in texts.take(pa.array(control)).to_pylist()], pa.string())
    return replace_rows(plain, control, again)


def scatter(n: int, *parts: tuple[np.ndarray, pa.Array]) -> pa.Array:
    """An array of `n` strings that has the values of each part at its rows, and null elsewhere."""
    source = np.full(n, -1)
    start = 0
    for rows, values in parts:
        source[rows] = np.arange(start, start + len(values))
        start += len(values)
    pool = pa.concat_arrays([values for _, values in parts])
    return pool.take(pa.array(source, mask=source < 0))


def replace_rows(values: pa.Array, rows: np.ndarray, new: pa.Array) -> pa.Array:
    """`values` with those of `rows` replaced."""
    source = np.arange(len(values))
    source[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, new]).take(pa.array(source))


def _one_by_one(texts: pa.Array) -> Outcome:
    """Each text as canonical JSON by a Python loop: exact for every document, and slow."""
    values: list[str | None] = []
    errors: list[str | None] = []
    for text in checked(texts.to_pylist()):
        value = error = None
        if text is not None:
            try:
                value = exact_json.canonical_text(text)
            except InvalidJson as bad:
                error = str(bad)
        values.append(value)
        errors.append(error)
    messages = pa.array(errors, pa.string())
    return Outcome(pa.array(values, pa.string()), failing(messages.is_valid(), messages))
