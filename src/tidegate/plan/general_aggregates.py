"""The aggregates of engines for queries of any shape: their names, and what documentation says.

`sql/bind/queries/aggregates/` binds them. Those of `plan/aggregate.py` run everywhere.
"""

from __future__ import annotations

from tidegate.plan.aggregate import AggregateDoc

_FLOATS = "`float8`"
_DEVIATION = (
    "`float8` of floats; `numeric` (18 digits after the point) of integers and numerics, computed exactly"
)
GENERAL_AGGREGATE_DOCS: tuple[AggregateDoc, ...] = (
    AggregateDoc("`array_agg(x)`", "an array", "all values, NULLs too; NULL of no rows"),
    AggregateDoc("`string_agg(x, separator)`", "`text` or `bytea`", "the values that are not NULL, joined"),
    AggregateDoc(
        "`jsonb_agg(x)`, `json_agg(x)`",
        "`jsonb`",
        "all values as a JSON array, NULL as null; NULL of no rows",
    ),
    AggregateDoc(
        "`jsonb_object_agg(k, v)`, `json_object_agg(k, v)`",
        "`jsonb`",
        "an object; of equal keys the last one wins; a NULL key is an error",
    ),
    AggregateDoc("`any_value(x)`", "the type of x", "a value that is not NULL: always the least"),
    AggregateDoc("`bit_and(x)`, `bit_or(x)`, `bit_xor(x)`", "the type of x", "of integers"),
    AggregateDoc(
        "`var_pop(x)`, `var_samp(x)`, `variance(x)`", _DEVIATION, "the variance; `variance` is `var_samp`"
    ),
    AggregateDoc(
        "`stddev_pop(x)`, `stddev_samp(x)`, `stddev(x)`",
        _DEVIATION,
        "the standard deviation, of a sample likewise",
    ),
    AggregateDoc(
        "`covar_pop(y, x)`, `covar_samp(y, x)`, `corr(y, x)`", _FLOATS, "covariance and correlation"
    ),
    AggregateDoc(
        "`regr_slope(y, x)`, `regr_intercept`, `regr_r2`, `regr_avgx`, `regr_avgy`, `regr_sxx`, `regr_syy`, `regr_sxy`, "
        "`regr_count`",
        "`float8`; `regr_count`: `int8`",
        "linear regression over the pairs without NULL",
    ),
    AggregateDoc(
        "`mode() WITHIN GROUP (ORDER BY x)`", "the type of x", "the most frequent value, the first of several"
    ),
    AggregateDoc(
        "`percentile_cont(f) WITHIN GROUP (ORDER BY x)`",
        "`float8`, or `interval` of intervals; an array for an array of fractions",
        "the value at the fraction f of the sorted values, between two of them if need be",
    ),
    AggregateDoc(
        "`percentile_disc(f) WITHIN GROUP (ORDER BY x)`",
        "the type of x; an array for an array of fractions",
        "the first of the sorted values whose position is at least the fraction f",
    ),
)
"""What the documentation says."""

GENERAL_AGGREGATES = frozenset((
    "any_value", "array_agg", "bit_and", "bit_or", "bit_xor", "corr", "covar_pop", "covar_samp", "json_agg",
    "json_object_agg", "jsonb_agg", "jsonb_object_agg", "mode", "percentile_cont", "percentile_disc", "regr_avgx",
    "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "stddev",
    "stddev_pop", "stddev_samp", "string_agg", "var_pop", "var_samp", "variance",
))  # fmt: skip
"""Their names."""


def general_aggregate_reference() -> str:
    """These aggregates, and window functions, as sections of the reference."""
    rows = [f"| {one.written} | {one.gives} | {one.meaning} |" for one in GENERAL_AGGREGATE_DOCS]
    return "\n".join([*_HEAD, *rows, *_FOOT]) + "\n"


_HEAD = (
    "### Aggregates of the engines",
    "",
    "These run on the embedded engine, or on Spark where much is read, with the same results.",
    "",
    "| aggregate | gives | meaning |",
    "|---|---|---|",
)
_FOOT = (
    "",
    "`f(x ORDER BY y)` sets the order of the values, which matters to lists, texts and JSON. `f(DISTINCT x)` takes each value",
    "once, sorted unless ORDER BY says otherwise, and can be ordered only by its arguments. Variances, covariances and",
    "`bit_xor` do not take DISTINCT. `FILTER (WHERE …)` works for all of them. Variances of floats are computed in one pass, in",
    "the order in which rows arrive: their last digits may differ between engines and layouts of parts, and so may those of",
    "`corr` and `regr_…`. An infinity makes them NaN. A variance of 10^20 or more of integers or numerics is an error",
    "(`x::float8` has room).",
    "",
    "## Window functions",
    "",
    "| function | gives | meaning |",
    "|---|---|---|",
    "| `row_number()`, `rank()`, `dense_rank()` | `int8` | the place of a row; rows that are equal in the order share a rank |",
    "| `percent_rank()`, `cume_dist()` | `float8` | the rank as a share of the partition |",
    "| `ntile(n)` | `int4` | which of n parts of equal size a row is in |",
    "| `lag(x, n, otherwise)`, `lead(…)` | the type of x | x of the row n before or after; n is a constant |",
    "| `first_value(x)`, `last_value(x)`, `nth_value(x, n)` | the type of x | x of a row of the frame |",
    "| every aggregate without WITHIN GROUP | as above | over the rows of the frame; without DISTINCT and ORDER BY |",
    "",
    "`OVER (PARTITION BY … ORDER BY … frame)`, or `OVER w` with `WINDOW w AS (…)`, which another window may extend. A frame is",
    "`ROWS`, `RANGE` or `GROUPS BETWEEN … AND …`, with `EXCLUDE CURRENT ROW`, `GROUP`, `TIES` or `NO OTHERS`. Distances are",
    "constants: in RANGE a number for an order by numbers, an interval for one by dates or times. Without a frame it reaches from",
    "the first row of the partition to the last peer of the current row, or over the whole partition if there is no ORDER BY.",
)
