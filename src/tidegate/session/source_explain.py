"""EXPLAIN CREATE SOURCE: what would be stored, and what is done before; nothing is made.

    Store orders_30d  id int8, item text
    └─ Expire  valid until step_ms(floor_ms(created_at + '30 days'))
       └─ Project  id, item
          └─ Selection  price > 5
             └─ Decode AVRO  id, item, price, created_at

The last line is what the format decodes: of JSON the paths, of others the columns; all else in a record is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.expr.json_path import Index, Wanted
from tidegate.expr.show import show
from tidegate.expr.tree import Call, Expr, Literal
from tidegate.ingest import envelope
from tidegate.ingest.decode.json import Json, paths_of
from tidegate.ingest.definition import Output, Source
from tidegate.plan import explain as text
from tidegate.plan.explain import Step
from tidegate.scan.result import Result
from tidegate.session.lake import Lake
from tidegate.session.source import Shards, planned_source
from tidegate.shard.validity import OPTION, shown
from tidegate.sql import statement
from tidegate.text import identifier


def explain_source(lake: Lake, given: statement.CreateSource) -> Result:
    """What CREATE SOURCE would make."""
    making, source, shards = planned_source(lake, given)
    trees = [] if making.view is None else [f"View {source.name}  {' '.join(making.view.split())}"]
    trees += [text.tree(list(_steps(source, output, shards, given))) for output in source.outputs]
    return Result.done("\n".join(trees))


def _steps(source: Source, output: Output, shards: Shards, given: statement.CreateSource) -> Iterator[Step]:
    """From what is stored back to what is decoded."""
    schema, options = shards[output.shard]
    visible, outputs = shown(schema, options), output.plan.outputs
    included = [one.name for one in source.included]
    raw = [*(name for name, _ in output.format.columns), *included]
    names = None  # what a transform before the envelope calls its columns is in the expressions
    if output.before is None:
        names = [*(name for name, _ in envelope.given(source.envelope, output.format)), *included]
    yield Step(
        f"Store {identifier(output.name)}", (", ".join(f"{identifier(c.name)} {c.type}" for c in visible),)
    )
    if OPTION in options:
        yield Step("Expire", (", ".join(_bounds(*outputs[len(visible) : len(visible) + 2])),))
    yield text.project(outputs[: len(visible)], [column.name for column in visible], names)
    yield from text.selection([one for one in output.plan.conditions if not _present(one)], names)
    if source.envelope != "none":
        yield Step(f"Envelope {source.envelope.upper()}")
    if output.before is not None:
        yield Step("Before", (", ".join(show(one, raw) for one in output.before.outputs),))
        yield from text.selection(output.before.conditions, raw)
    yield Step(f"Decode {_format(output, given)}", (", ".join(_decoded(output)) or "nothing",))


def _bounds(lower: Expr, upper: Expr) -> Iterator[str]:
    for word, bound in (("from", lower), ("until", upper)):
        if not isinstance(bound, Literal):
            yield f"valid {word} {show(bound, names=True)}"


def _present(condition: Expr) -> bool:
    """Whether a condition only says that a bound is not NULL, as temporal plans have them."""
    return (
        isinstance(condition, Call)
        and condition.function.name == "="
        and condition.args[0] == condition.args[1]
    )


def _format(output: Output, given: statement.CreateSource) -> str:
    return (given.format.kind if given.format else f"{given.kind} {output.table or ''}").strip().upper()


def _decoded(output: Output) -> Iterator[str]:
    """What of a record is looked at."""
    plan = output.before or output.plan
    columns = output.format.columns
    if isinstance(output.format, Json):
        yield from (_path(columns[0][0], one) for one in paths_of(plan)[0])
        return
    yield from (identifier(name) for i, (name, _) in enumerate(columns) if i in plan.demand())


def _path(column: str, wanted: Wanted) -> str:
    steps = [str(one.at) if isinstance(one, Index) else f"'{one.name}'" for one in wanted.path]
    arrows = ["->"] * (len(steps) - 1) + (["->>" if wanted.as_text else "->"] if steps else [])
    return " ".join([column, *(f"{arrow} {step}" for arrow, step in zip(arrows, steps, strict=True))])
