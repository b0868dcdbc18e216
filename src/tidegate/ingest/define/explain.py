"""EXPLAIN CREATE SOURCE: shows what would be stored, and the steps before; creates nothing.

    Store orders_30d  id int8, item text
    └─ Expire  valid until step_ms(floor_ms(created_at + '30 days'))
       └─ Project  id, item
          └─ Selection  price > 5
             └─ Decode AVRO  id, item, price, created_at

The last line shows what the format decodes: paths for JSON, columns for other formats. Everything else in a record is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.context import Context
from tidegate.expr.model import Call, Expr, Literal, show
from tidegate.ingest.define.create import Shards, plan_source
from tidegate.ingest.definition import SourceDefinition, SourceOutput
from tidegate.ingest.envelopes.step import envelope_columns
from tidegate.plan import explain as text
from tidegate.query import Result
from tidegate.sql.parse import statement
from tidegate.storage.shard import shard_options, visible_columns
from tidegate.text import identifier


def explain_source(context: Context, created: statement.CreateSource) -> Result:
    """Executes EXPLAIN CREATE SOURCE."""
    planned = plan_source(context, created)
    source, shards = planned.definition, planned.shards
    trees = [] if planned.view is None else [f"View {source.name}  {' '.join(planned.view.split())}"]
    trees += [text.tree(list(_steps(source, output, shards, created))) for output in source.outputs]
    return Result.explanation("\n".join(trees))


def _steps(
    source: SourceDefinition, output: SourceOutput, shards: Shards, created: statement.CreateSource
) -> Iterator[text.Step]:
    """Yields the steps, from the stored columns back to the decoded ones."""
    schema, options = shards[output.shard]
    visible, outputs = visible_columns(schema, options), output.plan.outputs
    included = [column.name for column in source.included]
    raw = [*(name for name, _ in output.format.columns), *included]
    names = None  # the expressions carry the names of a transform before the envelope
    if output.before is None:
        names = [*(name for name, _ in envelope_columns(source.envelope, output.format)), *included]
    yield text.Step(
        f"Store {identifier(output.name)}", (", ".join(f"{identifier(c.name)} {c.type}" for c in visible),)
    )
    if shard_options.VALIDITY in options:
        yield text.Step("Expire", (", ".join(_bounds(*outputs[len(visible) : len(visible) + 2])),))
    yield text.project(outputs[: len(visible)], [column.name for column in visible], names)
    yield from text.selection([c for c in output.plan.conditions if not _is_not_null(c)], names)
    if source.envelope != "none":
        yield text.Step(f"Envelope {source.envelope.upper()}")
    if output.before is not None:
        yield text.Step("Before", (", ".join(show(expr, raw) for expr in output.before.outputs),))
        yield from text.selection(output.before.conditions, raw)
    reads = output.format.describe_reads(output.before or output.plan)
    yield text.Step(f"Decode {_format(output, created)}", (", ".join(reads) or "nothing",))


def _bounds(lower: Expr, upper: Expr) -> Iterator[str]:
    for word, bound in (("from", lower), ("until", upper)):
        if not isinstance(bound, Literal):
            yield f"valid {word} {show(bound, names=True)}"


def _is_not_null(condition: Expr) -> bool:
    """Whether a condition of a temporal plan only checks that a bound is not NULL."""
    return (
        isinstance(condition, Call)
        and condition.function.name == "="
        and condition.args[0] == condition.args[1]
    )


def _format(output: SourceOutput, created: statement.CreateSource) -> str:
    return (created.format.kind if created.format else f"{created.kind} {output.table or ''}").strip().upper()
