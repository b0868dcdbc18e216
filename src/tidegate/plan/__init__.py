"""Plans: what is done with rows, independent of where the rows are stored.

A `MapFilterProject` is any row-by-row transformation (map, filter, project). `logical` is the tree of a whole query: scans, each
with its own MapFilterProject, and joins, aggregates, windows, set operations, sorts and subqueries above them. This room rests on
`tidegate.expr` alone: it knows neither files nor statistics, only expressions and what they may be (`Specs`).

>>> from tidegate.expr.model.build import call, literal
>>> from tidegate.expr.model.tree import Column
>>> from tidegate.expr.model.types import INT8
>>> plan = MapFilterProject.identity((INT8, INT8)).filter(call(">", Column(1, INT8), literal(5, INT8))).project([0])
>>> print(plan)
Filter #1 > 5
Project (#0)
>>> sorted(plan.demand())
[0, 1]

| module | |
|---|---|
| `mfp` | MapFilterProject: one map, one filter, one projection |
| `divide` | splits a plan between a source and what runs above it |
| `temporal` | filters on `mz_now()` become bounds of a row's validity |
| `verdicts` | which containers (parts, pages) pass a filter whole, in part or not at all |
| `conditions` | which columns and conditions are read first: the stages of late materialisation |
| `aggregate` | GROUP BY, aggregates and DISTINCT between two plans |
| `bound_query` | a query that one collection answers: a plan, an aggregation, order and limits; and what makes it more |
| `general_aggregates` | the aggregates that run on an engine alone |
| `logical` | the tree of any query |
| `window_frame` | which rows a window function sees |
| `join_keys` | which columns a join, IN or EXISTS compares |
| `sql/` | the tree as SQL of an engine: Spark or DuckDB |
| `explain`, `explain_query` | the text of EXPLAIN: of one collection, of any query |
| `serialize` | plans as JSON, for the catalog |
| `run/` | evaluates a plan over batches of rows |
"""

from tidegate.plan import aggregate, explain, logical, serialize, window_frame
from tidegate.plan.aggregate import (
    AGGREGATE_NAMES,
    Aggregate,
    Aggregation,
)
from tidegate.plan.bound_query import BoundQuery, OrderKey
from tidegate.plan.conditions import StagePlan, choose_stages
from tidegate.plan.divide import may_pass, partition
from tidegate.plan.general_aggregates import GENERAL_AGGREGATES
from tidegate.plan.join_keys import equi_join_keys, whole_condition_subqueries
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.temporal import check_stable, decompose
from tidegate.plan.verdicts import Verdicts, compute_verdicts, deciding_columns

__all__ = [
    "AGGREGATE_NAMES",
    "GENERAL_AGGREGATES",
    "Aggregate",
    "Aggregation",
    "BoundQuery",
    "MapFilterProject",
    "OrderKey",
    "StagePlan",
    "Verdicts",
    "aggregate",
    "check_stable",
    "choose_stages",
    "compute_verdicts",
    "deciding_columns",
    "decompose",
    "equi_join_keys",
    "explain",
    "explain_query",
    "logical",
    "may_pass",
    "partition",
    "serialize",
    "whole_condition_subqueries",
    "window_frame",
]
