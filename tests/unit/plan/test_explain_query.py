"""What EXPLAIN says of the nodes of a tree."""

from __future__ import annotations

from tests.unit.sql.test_general import split
from tidegate.plan import explain_query
from tidegate.plan.explain import Step


def test_what_is_computed_once_stands_above_its_readers() -> None:
    query = split("SELECT a.n FROM v a JOIN v b ON a.count = b.count WHERE a.n > 'x'")
    steps, _ = explain_query.query_steps(query, lambda scan: Step("Scan", (scan.source,)))
    assert [line.rstrip() for line in explain_query.branching_tree(steps)] == [
        "With  v",
        "├─ Aggregate  count(*) group by name",
        "│  └─ Join inner  c = c.id",
        "│     ├─ Scan  o",
        "│     └─ Scan  c",
        "└─ Join inner  count(*) = count(*)",
        "   ├─ Selection  name > 'x'",
        "   │  └─ Rows of  v",
        "   └─ Rows of  v",
    ]
