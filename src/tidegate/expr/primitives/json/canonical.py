r"""Text to jsonb: the canonical spelling of JSON, for whole columns at once.

jsonb is kept as text in which equal values have equal bytes (`exact_json.py` defines it: sorted keys, plain
exact numbers, no spaces). Most documents get there without a Python loop:

| what is asked | by | CPU time for 315 bytes |
|---|---|---|
| is it JSON? | DuckDB's parser, which does not recurse | 0.4 µs |
| is anything in it odd? | one regular expression | 0.6 µs |
| if a real is long: does it come back? | `_survives` | 2.1 µs |
| has it the same keys as others in the batch? | `layout.py`: those are put in order together | 3.5 to 5 µs |
| the rest | `exact_json.py`, one at a time | 34 to 51 µs |

(Least to median of five runs on a busy machine; in all 5 to 6 µs, and 8 to 14 with a long real.)

The rest is: what is no JSON (to word the error), lists that hold maps, documents whose shape few others
share, and odd ones. DuckDB reads reals as doubles and takes a few things that are not JSON. So a document is
odd that may hold

* a number with an exponent, or a real that does not come back the same: `1.2345678901234567891` would lose
  digits, while `0.2550690257394217`, the spelling of a double, and integers of any length do not;
* a negative zero, `[1,]`, `NaN`, `Infinity`;
* an escaped control character: DuckDB writes `\u001F`, we and PostgreSQL `\u001f`, and `\u0000` is an
  error.

>>> import pyarrow as pa
>>> canonical(pa.array(['{"b": 1.50, "a": [1, 2]}', '1e3', '[1'])).values.to_pylist()
['{"a":[1,2],"b":1.5}', '1000', None]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.config import MAX_NESTING
from tidegate.expr import exact_json
from tidegate.expr.cancel import checked
from tidegate.expr.duck import duck
from tidegate.expr.exact_json import BadJson
from tidegate.expr.layout import arrange
from tidegate.expr.outcome import Outcome, failing, with_errors
from tidegate.expr.specs import to_bools

FEW = 200
"""So many documents, or fewer, are read one by one: a call of DuckDB costs 2 to 6 ms before it sees a row."""

_START = r"(?:^|[:,\[\s])-?"
_DIGITS_16 = "|".join(rf"[0-9]{{{n}}}\.[0-9]{{{16 - n}}}" for n in range(1, 16))
LONG_REAL = rf"{_START}(?:{_DIGITS_16}|0\.00000)"
"""Reals that may not survive being read as a double: 16 digits around the point, or very small."""
HUGE_REAL = rf"{_START}[0-9]{{16}}[0-9]*\."
"""Reals that do not. DuckDB hands those beyond 1e308 through as they are, even if they end with `.50`."""
_ODD = (
    rf"{HUGE_REAL}|{_START}(?:[0-9]+(?:\.[0-9]+)?[eE]|[nN][aA][nN]|[iI][nN][fF])"
    r"|-0(?:\.0+)?(?:[,\]}\s]|$)|,\s*[\]}]|\\u00[01]"
)


def canonical(texts: pa.Array) -> Outcome:
    """Each text as canonical JSON, or the error of what is not JSON."""
    if len(texts) - texts.null_count <= FEW:
        return _one_by_one(texts)
    valid = to_bools(duck("json_valid(j)", pa.bool_(), j=texts)) & ~maybe_too_deep(texts)
    easy = valid & ~_odd(texts, valid)
    rows = np.flatnonzero(easy)
    arranged, done = arrange(texts.take(pa.array(rows)))
    rest = np.flatnonzero(~easy & to_bools(texts.is_valid()))
    rest = np.sort(np.concatenate([rest, rows[~done]]))
    slow = _one_by_one(texts.take(pa.array(rest)))
    values = scatter(len(texts), (rows[done], arranged), (rest, slow.values))
    errors = None if slow.errors is None else scatter(len(texts), (rest, slow.errors))
    return with_errors(values, errors)


def _odd(texts: pa.Array, valid: np.ndarray) -> np.ndarray:
    """Where DuckDB's reading of a valid document may not be ours."""
    odd = to_bools(pc.match_substring_regex(texts, f"{_ODD}|{LONG_REAL}"))
    rows = np.flatnonzero(odd & valid)
    if len(rows):
        some = texts.take(pa.array(rows))
        odd[rows] = to_bools(pc.match_substring_regex(some, _ODD)) | ~_survives(some)
    return odd


def _survives(texts: pa.Array) -> np.ndarray:
    """Where a document comes back from DuckDB with the same numbers, as the spelling of most doubles does.

    All but white space must be the same, so nothing was rounded. Inside strings white space is dropped on
    both sides.
    """
    mine = "j"
    for code in (32, 10, 13, 9):
        mine = f"replace({mine}, chr({code}), '')"
    return to_bools(duck(f"{mine} = replace(json(j)::VARCHAR, ' ', '')", pa.bool_(), j=texts))


def maybe_too_deep(texts: pa.Array) -> np.ndarray:
    """Where brackets alone do not show that the nesting is within the limit; false where null.

    A document that is too deep has more brackets than the limit allows levels, and each is closed, so it is
    long: only long documents are counted.
    """
    result = np.zeros(len(texts), bool)
    long = np.flatnonzero(to_bools(pc.greater(pc.binary_length(texts), 2 * MAX_NESTING)))
    if len(long):
        some = texts.take(pa.array(long))
        brackets = pc.add(pc.count_substring(some, "["), pc.count_substring(some, "{"))
        result[long] = to_bools(pc.greater(brackets, MAX_NESTING))
    return result


def within_depth(documents: pa.Array) -> Outcome:
    """Documents put together from others, with an error for those that are now nested too deeply."""
    rows = np.flatnonzero(maybe_too_deep(documents))
    deep = np.zeros(len(documents), bool)
    for row in rows:
        deep[row] = exact_json.depth_above(documents[int(row)].as_py(), MAX_NESTING)
    return with_errors(documents, failing(deep, exact_json.TOO_DEEP))


def quoted(texts: pa.Array) -> pa.Array:
    """Each string as a JSON string, null where null."""
    if len(texts) <= FEW:
        return pa.array(
            [None if text is None else exact_json.quote(text) for text in texts.to_pylist()], pa.string()
        )
    plain = duck("to_json(t)::VARCHAR", pa.string(), t=texts)
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
    """The loop: exact for every document, and slow."""
    values: list[str | None] = []
    errors: list[str | None] = []
    for text in checked(texts.to_pylist()):
        value = error = None
        if text is not None:
            try:
                value = exact_json.canonical_text(text)
            except BadJson as bad:
                error = str(bad)
        values.append(value)
        errors.append(error)
    messages = pa.array(errors, pa.string())
    return Outcome(pa.array(values, pa.string()), failing(messages.is_valid(), messages))
