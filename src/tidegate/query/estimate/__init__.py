"""Estimates of rows and selectivities from statistics, for the choice of stages and for EXPLAIN.

| module | |
|---|---|
| `rows` | estimates for a plan over a snapshot, and the stages chosen by them |
| `selectivity` | which share of the rows a condition passes |
| `distribution` | how the values of a column are distributed, from histograms and bounds |
"""

from tidegate.query.estimate.rows import Estimates, stage_plan

__all__ = ["Estimates", "stage_plan"]
