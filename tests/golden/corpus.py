"""The frozen corpus: transforms that were accepted once, the plans they became, and what these give, to the byte.

    transforms/<name>.json     {"sql": "SELECT …", "names": […], "plans": [plan, …], "rows": […], "failures": […]}
    transforms/_transforms.sql the queries
    transforms/_input.json     the columns and rows that all of them read

What is promised (seed 003, planner stabilization): a query that once reduced to a plan always will; and a plan that was stored
always loads, and gives the same rows and failures. So nothing here is ever rewritten. Where planning changes, the new plan is put
behind the old ones, which must go on working:

    python -m tests.golden.corpus              adds queries that have no file, and plans that are new

Where the same text means something else on purpose (`round(x, 1)` has one digit after the point since round knows constants), its
name is in `REVISED`: what it gives now is kept under "revised", beside the old plans and rows, which stay as they were.

`rows` are the values as `expr/model/serialize.py` writes them: floats to their last bit, numerics with their scale, times in
microseconds.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.expr.model.serialize import type_from_json, value_from_json, value_to_json
from tidegate.ingest.define.transform import TransformInput, TransformPlan, plan_transform
from tidegate.ingest.protocol import Columns
from tidegate.plan import serialize as stored
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.run.safe_plan import SafePlan
from tidegate.sql.parse.grammar import statements as grammar

HERE = Path(__file__).parent / "transforms"


def transforms() -> dict[str, str]:
    """The queries, by name."""
    found = re.findall(
        r"^-- (\w+)\n(.*?);$", (HERE / "_transforms.sql").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return {name: " ".join(sql.split("\n")) for name, sql in found}


TRANSFORMS = transforms()
REVISED = frozenset(("casts_of_numbers", "date_parts", "numeric_steps", "numerics"))
"""Texts whose numerics have other digits after the point than when they were first bound; see `expr/functions/numeric/`."""


def inputs() -> tuple[Columns, list[pa.Array]]:
    """What every transform reads."""
    kept = json.loads((HERE / "_input.json").read_text("utf-8"))
    columns = tuple((name, type_from_json(type_)) for name, type_ in kept["columns"])
    arrays = []
    for i, (_, type_) in enumerate(columns):
        arrays.append(
            pa.concat_arrays([pa.repeat(value_from_json(row[i], type_), 1) for row in kept["rows"]])
        )
    return columns, arrays


def bound(sql: str) -> TransformPlan:
    """What CREATE SOURCE makes of a transform today."""
    return plan_transform(grammar.parse_query(sql), TransformInput(("s",), inputs()[0]), exact=False)


def given(plan: MapFilterProject) -> dict[str, Any]:
    """What a plan gives: rows, each with the number of the input row that it came from, and failures."""
    _, arrays = inputs()
    made = SafePlan(plan).evaluate(arrays, len(arrays[0]))
    rows = [
        [
            int(number),
            *(
                value_to_json(column[i], type_)
                for column, type_ in zip(made.columns, plan.types, strict=True)
            ),
        ]
        for i, number in enumerate(made.selection)
    ]
    failures = zip(made.failures.rows.tolist(), made.failures.messages.to_pylist(), strict=True)
    return {"rows": rows, "failures": [list(one) for one in failures]}


def files() -> list[Path]:
    """The corpus."""
    return sorted(path for path in HERE.glob("*.json") if not path.name.startswith("_"))


def current(kept: dict[str, Any]) -> dict[str, Any]:
    """The part of a file that says what the query gives if it is bound today."""
    entry: dict[str, Any] = kept.get("revised", kept)
    return entry


def add() -> None:
    """Adds what is new, and changes nothing that is there."""
    for name, sql in TRANSFORMS.items():
        path = HERE / f"{name}.json"
        done = bound(sql)
        plan = stored.to_json(done.plan)
        if path.exists():
            kept = json.loads(path.read_text("utf-8"))
            if name in REVISED:
                kept.setdefault("revised", {"plans": [], **given(done.plan)})
            entry = current(kept)
            if plan in entry["plans"]:
                continue
            assert given(done.plan) == {key: entry[key] for key in ("rows", "failures")}, (
                f"{name} gives other rows"
            )
            entry["plans"].append(plan)
        else:
            kept = {"sql": sql, "names": list(done.names), "plans": [plan], **given(done.plan)}
        lines = [f'"{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in kept.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    add()
