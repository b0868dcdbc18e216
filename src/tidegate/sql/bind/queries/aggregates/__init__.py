"""Aggregates of queries of any shape, written with the few that engines compute.

    bind_aggregate(call, binders, compute)      the expression over groups, or over a window

| computed by engines | written with it |
|---|---|
| count, sum, min, max | avg, bool_and, bool_or, every, any_value; sums of intervals; variances of integers and numerics |
| bit_and, bit_or, bit_xor, var_pop, var_samp, covar_pop of floats | stddev, corr, covar_samp, regr_slope and kin |
| string_agg with a constant separator, array_agg | jsonb_agg, jsonb_object_agg, mode, percentile_cont, percentile_disc |

The rest is scalar functions over these (`expr/functions/aggregate/`), so an aggregate has one meaning, whichever engine runs.
"""

from tidegate.sql.bind.queries.aggregates.bind import AggregateBinders, bind_aggregate
from tidegate.sql.bind.queries.aggregates.plain import computed, given_of

__all__ = ["AggregateBinders", "bind_aggregate", "computed", "given_of"]
