"""Plans as JSON, as the catalog stores transforms; expressions as in `expr/model/serialize.py`.

    SELECT id FROM orders WHERE price > 5         over id int8, price int8

    {"inputs": ["int8", "int8"], "nodes": [{"column": 1, …}, {"value": 5, …}, {"call": ">(int8, int8)", …}],
     "map": [], "filter": [2], "project": [0]}

`from_json(to_json(plan)) == plan`; a plan whose functions have changed meanwhile is a PlanError that names the function.
"""

from __future__ import annotations

from typing import Any

from tidegate.expr.model import serialize
from tidegate.expr.model import serialize as stored
from tidegate.plan.mfp import MapFilterProject


def to_json(plan: MapFilterProject) -> dict[str, Any]:
    """A plan as JSON."""
    nodes, places = stored.to_json([*plan.expressions, *plan.predicates])
    maps = len(plan.expressions)
    return {
        "inputs": [serialize.type_to_json(type_) for type_ in plan.inputs],
        "nodes": nodes,
        "map": places[:maps],
        "filter": places[maps:],
        "project": list(plan.projection),
    }


def from_json(given: dict[str, Any]) -> MapFilterProject:
    """A plan from JSON."""
    nodes = stored.from_json(given["nodes"])
    return MapFilterProject(
        tuple(serialize.type_from_json(type_) for type_ in given["inputs"]),
        tuple(nodes[place] for place in given["map"]),
        tuple(nodes[place] for place in given["filter"]),
        tuple(given["project"]),
    )
