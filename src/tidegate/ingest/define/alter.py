"""ALTER SOURCE: PAUSE, RESUME, REPLAY ERRORS and SET TRANSFORM USING.

    ALTER SOURCE orders_30d SET TRANSFORM USING (SELECT id, item FROM orders_30d WHERE mz_now() <= created_at + '60 days')

A new transform must return the same columns. It applies to records that arrive from then on: positions and stored rows do not
change. A source that retracts is refused, since rows of the old transform would be retracted with the new one.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.context import Context, position_of
from tidegate.errors import BindError, PlanError
from tidegate.ingest.define import serialize
from tidegate.ingest.define.catalog import load_source, load_source_item, set_paused, source_item
from tidegate.ingest.define.collections import CollectionSpec
from tidegate.ingest.define.create import (
    included_columns,
    plan_output,
)
from tidegate.ingest.define.draft import SourceDraft
from tidegate.ingest.define.options import parse_with_options
from tidegate.ingest.define.transform import ShardShape, has_shape
from tidegate.ingest.definition import SourceDefinition, SourceOutput
from tidegate.ingest.upstreams.registry import upstream_type
from tidegate.query import Result
from tidegate.sql.parse import parse_statement, statement, syntax
from tidegate.storage.shard import visible_columns


def alter_source(context: Context, altered: statement.AlterSource) -> Result:
    """Executes ALTER SOURCE."""
    name, position = altered.name.text, position_of(altered.sql, altered.name)
    if altered.if_exists and context.catalog.find(name) is None:
        return Result.message(f'"{name}" does not exist; nothing was changed')
    match altered.action:
        case "pause" | "resume":
            set_paused(context, name, position, on=altered.action == "pause")
        case "replay":
            return _replay(context, load_source(context, name, position))
        case "transform":
            _set_transform(context, altered)
    return Result.message("ALTER SOURCE")


def _replay(context: Context, source: SourceDefinition) -> Result:
    from tidegate.ingest.batch.replay import replay

    result = replay(source, context.shard)
    return Result.message(
        f"REPLAY: {result.succeeded} of {result.tried} bad rows are good now, {result.left} are left"
    )


# ---------------------------------------------------------------- another transform


def _set_transform(context: Context, altered: statement.AlterSource) -> None:
    assert altered.transform is not None
    position = position_of(altered.sql, altered.name)
    item = source_item(context, altered.name.text, position)
    if item.view is not None:
        raise BindError(
            f'"{altered.name.text}" was created WITH (SPLIT)',
            hint="its transform cannot be changed: create another source",
            position=position,
        )
    created = parse_statement(item.sql)
    assert isinstance(created, statement.CreateSource)
    source = load_source_item(context, item)
    if source.retracts:
        raise BindError(
            f'"{source.name}" takes rows away again, and another transform would take away other rows than were added',
            hint="create another source",
            position=position,
        )
    draft = SourceDraft(
        context,
        created,
        parse_with_options(created.with_options, created.sql),
        upstream_type(source.kind),
        source.upstream,
        key_format=source.key_format,
        included=included_columns(created, source.upstream, source.key_format),
    )
    old = _output(source, altered)
    planned = plan_output(draft, _collection_spec(source, old, altered.transform))
    _check_shape(context, old, planned.shape, altered.transform)
    new = replace(planned.output, shard=old.shard)
    outputs = tuple(new if output is old else output for output in source.outputs)
    sql = replace_transform(created, old.name, altered.transform.text)
    definition = serialize.source_to_json(replace(source, outputs=outputs))
    context.catalog.change(source.name, item, replace(item, sql=sql, definition=definition))


def _output(source: SourceDefinition, altered: statement.AlterSource) -> SourceOutput:
    """The collection whose transform changes."""
    names = [output.name for output in source.outputs]
    table = altered.table
    name = names[0] if table is None and len(names) == 1 else table and table.text
    for output in source.outputs:
        if output.name == name:
            return output
    where = altered.name if table is None else table
    raise BindError(
        f'source "{source.name}" has the collections {", ".join(names)}',
        hint="SET TRANSFORM USING (…) FOR one of them",
        position=position_of(altered.sql, where),
    )


def _collection_spec(
    source: SourceDefinition, output: SourceOutput, transform: syntax.Query
) -> CollectionSpec:
    table, name = output.table, output.name
    if table is None:
        names: tuple[str, ...] = (source.name, name)
    else:
        last = table.rpartition(".")[2]
        names = (source.name, last) if name == source.name else (last,)
    return CollectionSpec(name, table, output.format, transform, names)


def _check_shape(context: Context, old: SourceOutput, new: ShardShape, transform: syntax.Query) -> None:
    """Raises if the new transform returns other columns than those of the shard."""
    state = context.shard(old.shard).machine.fetch()
    schema = state.schema
    if has_shape(new, schema, state.options):
        return
    columns = ", ".join(f"{column.name} {column.type}" for column in visible_columns(schema, state.options))
    ends = "rows that expire" if old.hidden else "rows that do not expire"
    raise PlanError(
        f'the columns of "{old.name}" are {columns}, with {ends}, and this transform gives others',
        hint="create another source for other columns",
        position=transform.position(transform.at),
    )


def replace_transform(created: statement.CreateSource, collection: str, query: str) -> str:
    """Returns the text of CREATE SOURCE with another transform for a collection."""
    sql = created.sql
    entries = [entry for entry in created.tables if (entry.alias or entry.table[-1]).text == collection]
    old = entries[0].transform if entries else created.transform
    if old is not None:
        return f"{sql[: old.at.start]}{query}{sql[old.at.end :]}"
    place = len(sql.rstrip().rstrip(";")) if not entries else _end(entries[0])
    return f"{sql[:place]} TRANSFORM USING ({query}){sql[place:]}"


def _end(entry: statement.SubsourceClause) -> int:
    last = entry.alias or entry.table[-1]
    return last.at.end
