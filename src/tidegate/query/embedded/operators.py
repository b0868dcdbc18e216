"""What each operator of DuckDB's plan did: rows and time, for EXPLAIN ANALYZE.

Hash join inner  o.customer = c.id      rows 3,120      0.4 ms
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FRAME = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")
"""Operators of EXPLAIN itself."""
_DETAILS = ("Join Type", "Conditions", "Filters", "Groups", "Aggregates", "Order By", "Top")
MAX_DETAIL = 80
"""Characters of what is said about an operator."""


@dataclass(frozen=True)
class OperatorCost:
    """One operator: how deep it stands in the plan, the rows that leave it and the time spent in it."""

    depth: int
    name: str
    detail: str
    rows: int
    seconds: float

    def label(self, names: Sequence[str]) -> str:
        """The operator and what it does, with the names of columns."""

        def named(match: re.Match[str]) -> str:
            number = int(match[1])
            return names[number] if number < len(names) else match[0]

        detail = re.sub(r"\bc(\d+)\b", named, self.detail)
        detail = detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]}…"
        return f"{'  ' * self.depth}{self.name}{f'  {detail}' if detail else ''}"


def operator_costs(profile: str) -> list[OperatorCost]:
    """The operators of a profile in JSON, the last one first."""
    root: Mapping[str, Any] = json.loads(profile)
    operators = root.get("operator", root.get("children", []))
    return [cost for one in operators for cost in _costs(one, 0)]


def _costs(operator: Mapping[str, Any], depth: int) -> list[OperatorCost]:
    kind, below = str(operator.get("type", "")), operator.get("children", [])
    if kind in _FRAME:
        return [cost for one in below for cost in _costs(one, depth)]
    info = operator.get("extra_info", {})
    inputs = below[0].get("extra_info", {}).get("Projections", []) if len(below) == 1 else []
    inputs = [inputs] if isinstance(inputs, str) else inputs  # DuckDB writes a list of one as a text
    details = [_readable(name, _text(info[name]), inputs) for name in _DETAILS if info.get(name)]
    own = OperatorCost(
        depth,
        kind.replace("_", " ").capitalize().strip(),
        " ".join(details),
        int(operator.get("intermediate_rows", 0)),
        float(operator.get("timing", 0.0)),
    )
    return [own, *(cost for one in below for cost in _costs(one, depth + 1))]


def _readable(name: str, detail: str, inputs: Sequence[str]) -> str:
    """A detail with the expressions of the projection below for `#0`, and our words for DuckDB's own."""

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        return inputs[number] if number < len(inputs) else match[0]

    if name == "Order By":  # by columns that leave the query
        return re.sub(r"\bo(\d+)\b", lambda match: f"column {int(match[1]) + 1}", detail)
    if name in ("Groups", "Aggregates"):
        return re.sub(r"#(\d+)", named, detail).replace("count_star()", "count(*)")
    return detail


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
