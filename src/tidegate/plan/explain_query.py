"""The logical tree of a query as people read it: the text of EXPLAIN for queries of any shape.

    Finish  order by sum desc limit 3
    └─ Aggregate  sum(price) AS sum group by name
       └─ Join inner  customer = customers.id
          ├─ Scan orders  as of 1234
          │    parts: 3 of 12 kept; bytes: 1.2 MB of 40 MB
          └─ Scan customers  as of 1234

Columns have names: those of their collections, with the collection's name where two scans have a column of the same name, and
computed ones the text that computes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidegate.expr.model import Column, Expr, show
from tidegate.plan import logical
from tidegate.plan.explain import Step, conjoined, finish, key, step_lines
from tidegate.text import SqlText, identifier, plural

MAX_NAME = 60
"""Characters of a computed column's text; a longer one is cut."""


@dataclass(frozen=True)
class StepNode:
    """A step, and those that it reads."""

    step: Step
    inputs: tuple[StepNode, ...] = ()


def chain(steps: Sequence[Step]) -> StepNode:
    """Steps of which each reads the next one."""
    node = StepNode(steps[-1])
    for step in reversed(steps[:-1]):
        node = StepNode(step, (node,))
    return node


def plan_document(node: StepNode) -> dict[str, object]:
    """A step and those below it, as PostgreSQL's `EXPLAIN (FORMAT JSON)` nests them."""
    step = node.step
    found = {
        "Node Type": step.name,
        "Details": list(step.items),
        "Rows": step.rows,
        "Notes": list(step.notes),
    }
    below = [plan_document(inner) for inner in node.inputs]
    return {name: value for name, value in {**found, "Plans": below}.items() if value}


def branching_tree(node: StepNode) -> list[str]:
    """The lines of a step and of all steps below it."""
    below = "│    " if node.inputs else "     "
    lines = step_lines(node.step, "", below)
    for i, inner in enumerate(node.inputs):
        last = i == len(node.inputs) - 1
        first, *rest = branching_tree(inner)
        lines.append(("└─ " if last else "├─ ") + first)
        lines += [("   " if last else "│  ") + line for line in rest]
    return lines


def query_steps(
    query: logical.LogicalQuery, scan_step: Callable[[logical.Scan], Step]
) -> tuple[StepNode, list[str]]:
    """The steps of a query, and the names of all its columns; `scan_step` describes a scan."""
    explainer = _QueryExplainer(query, scan_step)
    return explainer.node(query.rel), explainer.names


class _QueryExplainer:
    """Names the columns of one query, and describes its nodes."""

    def __init__(self, query: logical.LogicalQuery, scan_step: Callable[[logical.Scan], Step]) -> None:
        self.scan_step = scan_step
        nodes = logical.walk(query.rel)
        self.common = {node.number: node.name for node in nodes if isinstance(node, logical.Common)}
        self.names: list[str] = [f"column_{i}" for i in range(query.count)]
        scans = query.scans()
        used = Counter(column.name for scan in scans for column in scan.columns)
        for scan in scans:
            for column in scan.address:
                self._name(column, f"{identifier(scan.source)}.{column.name}")
            for column in scan.columns:
                table = f"{identifier(scan.source)}." if used[column.name] > 1 else ""
                self._name(column, f"{table}{identifier(column.name)}")

    def _name(self, column: Column, text: str) -> None:
        if column.index < len(self.names):
            self.names[column.index] = SqlText(text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…")

    def _shown(self, exprs: Iterable[Expr]) -> list[str]:
        return [show(expr, self.names) for expr in exprs]

    def node(self, rel: logical.Rel) -> StepNode:
        """A node and those below it; what is below is described first, as it names columns."""
        inputs = tuple(self.node(below) for below in logical.inputs(rel))
        match rel:
            case logical.Scan():
                for column, value in rel.computed:
                    self._name(column, show(value, self.names))
                return StepNode(self.scan_step(rel))
            case logical.Map():
                for column, value in rel.computed:
                    self._name(column, show(value, self.names))
                shown = ", ".join(self.names[column.index] for column, _ in rel.computed)
                return StepNode(Step("Map", (shown,)), inputs)
            case logical.TableFunctionApply():
                for column, value in rel.computed:
                    self._name(column, show(value, self.names))
                shown = ", ".join(self.names[column.index] for column, _ in rel.computed)
                return StepNode(Step(f"Table function{' outer' if rel.outer else ''}", (shown,)), inputs)
            case logical.SubqueryApply():
                for column, subquery in rel.computed:
                    self._name(column, f"({subquery.kind} subquery)")
                return StepNode(Step("Subquery", (", ".join(s.kind for _, s in rel.computed),)), inputs)
            case logical.Group() | logical.Window():
                return StepNode(self._computed(rel), inputs)
            case _:
                return StepNode(self._step(rel), inputs)

    def _step(self, rel: logical.Rel) -> Step:
        match rel:
            case logical.Filter():
                return Step("Selection", (conjoined(rel.conditions, self.names),))
            case logical.Join():
                on = conjoined(rel.on, self.names)
                kind = f"{rel.kind} lateral" if rel.lateral else rel.kind
                return Step(f"Join {kind}", (on,) if on else ())
            case logical.Common():
                return Step("With", (identifier(rel.name),))
            case logical.CommonRows():
                for column, source in rel.computed:
                    self._name(column, self.names[source.index])
                return Step("Rows of", (identifier(self.common[rel.number]),))
            case logical.Recursive():
                for column, left in zip(rel.columns, rel.left_columns, strict=True):
                    self._name(column, self.names[left.index])
                return Step(f"Recursive union{' all' if rel.every else ''}")
            case logical.WorkingTable():
                return Step("Working table", ("the rows of the last step",))
            case logical.RowNumbers():
                return Step("Numbers", (plural(rel.count, "row"),))
            case logical.SetOp():
                for column, left in zip(rel.columns, rel.left_columns, strict=True):
                    self._name(column, self.names[left.index])
                return Step(f"{rel.name.capitalize()}{' all' if rel.every else ''}")
            case logical.Distinct():
                return Step("Distinct", (", ".join(self._shown(rel.columns)),))
            case logical.Sort():
                keys = [
                    key(show(one.value, self.names), descending=one.descending, nulls_first=one.nulls_first)
                    for one in rel.order
                ]
                return next(iter(finish(keys, rel.limit, rel.offset)), Step("Finish"))
            case logical.ConstantRows():
                return Step("Values", (plural(len(rel.rows), "row"),))
            case logical.SingleRow():
                return Step("Row", ("one, without columns",))
            case _:
                return Step(type(rel).__name__)

    def _computed(self, rel: logical.Group | logical.Window) -> Step:
        """GROUP BY, or window functions."""
        for column, call, *_ in rel.computed:
            self._name(column, self._call(call))
        calls = ", ".join(self.names[column.index] for column, *_ in rel.computed)
        if isinstance(rel, logical.Window):
            return Step("Window", (calls,))
        for column, value in rel.keys:
            self._name(column, show(value, self.names))
        keys = ", ".join(self.names[column.index] for column, _ in rel.keys)
        by = f"group by {keys}" if keys else ""
        return Step("Aggregate", (" ".join(text for text in (calls, by) if text),))

    def _call(self, call: logical.AggregateExpr) -> str:
        inside: Sequence[str] = self._shown(call.args) or (["*"] if call.kind == "count" else [])
        return f"{call.kind}({'distinct ' if call.distinct else ''}{', '.join(inside)})"
