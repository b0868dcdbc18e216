"""CREATE SOURCE: from a statement to a `SourceDefinition` and its shards in the catalog.

    CREATE SOURCE clicks FROM FILES 'in/*.json' FORMAT JSON TRANSFORM USING (SELECT data->>'user' AS u FROM clicks)

    clicks           a source, with the rows
    clicks_errors    a subsource: records that could not be decoded or transformed


The steps are pure functions; each takes the results of those before:

| step | module |
|---|---|
| WITH (…) | `options.py` |
| connections, the upstream, FORMAT, INCLUDE: a `SourceDraft` | `draft.py`, `format.py`, here |
| FOR TABLES …: the collections | `collections.py` |
| TRANSFORM USING: a plan and the columns of a shard for each collection | `transform.py`, `split.py` |

One entry of the catalog creates all names and shards: a source is never partly created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import BindError, ErrorCode, PlanError, Position, TidegateError
from tidegate.expr.model import types
from tidegate.ingest.define import connection as connections
from tidegate.ingest.define import serialize
from tidegate.ingest.define.collections import CollectionSpec, collection_specs
from tidegate.ingest.define.draft import Included, SourceDraft, check_envelope, named_connections
from tidegate.ingest.define.format import source_format
from tidegate.ingest.define.options import (
    check_values_given,
    options_by_name,
    parse_with_options,
    set_position,
)
from tidegate.ingest.define.split import STORED_SUFFIX, split_transform
from tidegate.ingest.define.transform import (
    ShardShape,
    TransformInput,
    TransformPlan,
    plan_transform,
    shard_shape,
)
from tidegate.ingest.definition import (
    ERRORS_COLUMNS,
    ERRORS_SUFFIX,
    UPSERT_KEY,
    SourceDefinition,
    SourceOutput,
)
from tidegate.ingest.envelopes.debezium import CHANGE_FIELDS, row_columns
from tidegate.ingest.envelopes.inputs import key_type
from tidegate.ingest.envelopes.output import INGESTION_TIMESTAMP
from tidegate.ingest.envelopes.step import envelope_columns
from tidegate.ingest.protocol import Columns, IncludedColumn, RecordFormat, Upstream
from tidegate.ingest.upstreams.registry import UpstreamSpec, UpstreamType, create_upstream, upstream_type
from tidegate.query import Result
from tidegate.sql.parse import statement, syntax
from tidegate.storage.catalog import (
    CatalogItem,
    ConnectionItem,
    SourceItem,
    SubsourceItem,
    ViewItem,
    already_exists,
    new_shard_name,
)
from tidegate.storage.part import Schema
from tidegate.storage.shard import shard_options

Shards = dict[str, tuple[Schema, dict[str, Any]]]
"""The shards of a source that do not exist yet: their schemas and options."""


@dataclass(frozen=True)
class PlannedSource:
    """A source that is ready to be added to the catalog."""

    definition: SourceDefinition
    shards: Shards
    view: str | None
    """WITH (SPLIT): the query over the stored rows, which the source's name refers to."""
    connections: Mapping[str, ConnectionItem]
    """These must be unchanged when the source is added."""


def create_source(context: Context, created: statement.CreateSource) -> Result:
    """Executes CREATE SOURCE."""
    name = created.name.text
    existing = context.catalog.find(name)
    if existing is not None:
        if created.if_not_exists:
            return Result.message(f'"{name}" already exists, and was left as it is')
        error = already_exists(name, existing)
        error.position = position_of(created.sql, created.name)
        raise error
    try:
        planned = plan_source(context, created)
        items = _catalog_items(planned, created.text)
        context.catalog.create(items, planned.shards, dict(planned.connections))
    except TidegateError as error:
        if created.if_not_exists and context.catalog.find(name) is not None:
            return Result.message(
                f'"{name}" already exists, and was left as it is'
            )  # another process was faster
        error.position = error.position or position_of(created.sql, created.name)
        raise
    return Result.message("CREATE SOURCE")


def plan_source(context: Context, created: statement.CreateSource) -> PlannedSource:
    """Plans the source that a statement describes, and its shards; creates nothing."""
    try:
        return _plan_source(draft_source(context, created))
    except TidegateError as error:
        formats = [one.options for one in (created.format, created.key_format) if one is not None]
        options = (*created.options, *created.with_options, *chain(*formats))
        set_position(error, created.sql, options, position_of(created.sql, created.name))
        raise


def draft_source(context: Context, created: statement.CreateSource) -> SourceDraft:
    """Looks up everything for a source: its upstream, formats and included columns."""
    type_ = upstream_type(created.kind, Position(created.sql, *created.kind_at))
    options = parse_with_options(created.with_options, created.sql)
    check_values_given(created.options, type_.options)
    check_values_given(created.with_options, type_.with_options)
    check_envelope(created, type_)
    needed = named_connections(context, created, type_)
    spec = _upstream_spec(created, type_, options.upstream, needed)
    _check_access(context, type_, spec)
    upstream = create_upstream(created.kind, spec)
    format_ = source_format(context, created, needed, upstream, key=False)
    key_format = source_format(context, created, needed, upstream, key=True)
    included = included_columns(created, upstream, key_format)
    upstream = upstream.bind(format_, created.envelope or "none", [column for column, _ in included])
    return SourceDraft(context, created, options, type_, upstream, format_, key_format, included, needed)


def _upstream_spec(
    created: statement.CreateSource,
    type_: UpstreamType,
    with_options: Mapping[str, Any],
    needed: Mapping[str, ConnectionItem],
) -> UpstreamSpec:
    options = options_by_name(created.options, created.sql)
    name = created.connection.text if created.connection else options.pop(type_.connection_option or "", None)
    connection = None if name is None else connections.external_connection(str(name), needed[str(name)])
    tables = tuple(".".join(part.text for part in entry.table) for entry in created.tables) or None
    return UpstreamSpec(created.name.text, options, created.target, connection, tables, with_options)


def _check_access(context: Context, type_: UpstreamType, spec: UpstreamSpec) -> None:
    """Raises if this session may not access the upstream."""
    connections.check_option_access(context, {**spec.options, **spec.with_options})
    type_.check_access(spec, context.access)


def _plan_source(draft: SourceDraft) -> PlannedSource:
    outputs: list[SourceOutput] = []
    shards: Shards = {}
    view: str | None = None
    for spec in collection_specs(draft):
        planned = plan_output(draft, spec)
        outputs.append(planned.output)
        shards[planned.output.shard] = planned.shape.schema, planned.shape.options
        view = view or planned.view
    _add_sort_options(draft, outputs, shards)
    errors = new_shard_name()
    schema = Schema.of([(name, type_, True) for name, type_ in ERRORS_COLUMNS])
    # `included` is hidden, since only a replay reads it.
    shards[errors] = schema, {**draft.options.shard, shard_options.HIDDEN: [schema.find("included").id]}
    definition = SourceDefinition(
        draft.name,
        draft.statement.kind,
        draft.upstream,
        tuple(outputs),
        errors,
        tuple(column for column, _ in draft.included),
        draft.envelope,
        draft.key_format,
        draft.options.limit,
        draft.options.max_errors,
    )
    return PlannedSource(definition, shards, view, draft.connections)


def _catalog_items(planned: PlannedSource, sql: str) -> dict[str, CatalogItem]:
    """The catalog items: the source, its bad records, its other collections."""
    source = planned.definition
    own = next((output.shard for output in source.outputs if output.name == source.name), None)
    view = None if planned.view is None else ViewItem(planned.view)
    named: list[tuple[str, CatalogItem]] = [
        (source.name, SourceItem(own, sql, serialize.source_to_json(source), view=view)),
        (source.name + ERRORS_SUFFIX, SubsourceItem(source.errors, source.name)),
    ]
    named += [
        (output.name, SubsourceItem(output.shard, source.name))
        for output in source.outputs
        if output.name != source.name
    ]
    items = dict(named)
    if len(items) < len(named):
        names = [name for name, _ in named]
        twice = next(name for name in names if names.count(name) > 1)
        raise BindError(f'there would be two collections "{twice}"', hint="AS gives one of them another name")
    return items


# ---------------------------------------------------------------- columns


def included_columns(
    created: statement.CreateSource, upstream: Upstream, key_format: RecordFormat | None
) -> Included:
    """Returns the columns of INCLUDE, and their types."""
    included = []
    for clause in created.include:
        column = IncludedColumn(clause.what, _included_name(clause), clause.argument)
        try:
            type_ = types.TIMESTAMPTZ if clause.what == INGESTION_TIMESTAMP else upstream.includes(column)
            if clause.what == "key":
                type_ = key_type(key_format)
            elif upstream.retracts or created.envelope == "debezium":
                # A record retracts the row of another record, byte by byte; UPSERT looks up the stored row.
                raise BindError(
                    f"a record that takes a row away has another {clause.what.upper()} than the one that added it",
                    hint="a row and its retraction must be the same, so this cannot be included here",
                )
        except TidegateError as error:
            error.position = error.position or Position(created.sql, *clause.at)
            raise
        included.append((column, type_))
    return tuple(included)


def _included_name(clause: statement.Include) -> str:
    return clause.alias.text if clause.alias else (clause.argument or clause.what.replace(" ", "_"))


@dataclass(frozen=True)
class PlannedOutput:
    """A collection: how it is filled, its shard, and the view of WITH (SPLIT)."""

    output: SourceOutput
    shape: ShardShape
    view: str | None


def plan_output(draft: SourceDraft, spec: CollectionSpec) -> PlannedOutput:
    """Plans how a collection is filled, and its shard."""
    behind = tuple((column.name, type_) for column, type_ in draft.included)
    before: TransformPlan | None = None
    if draft.statement.before is not None:
        raw = TransformInput(spec.source_names, _distinct(draft, (*spec.format.columns, *behind)))
        before = _plan_before(draft.statement.before, raw, exact=draft.retracts)
        if draft.envelope == "debezium":
            before = order_change_fields(before)
        columns = before.columns if draft.envelope != "debezium" else changed_row_columns(before.columns)
    else:
        columns = (*envelope_columns(draft.envelope, spec.format), *behind)
    name, plan, view = _plan_transform(
        draft, spec, TransformInput(spec.source_names, _distinct(draft, columns))
    )
    try:
        shape = shard_shape(plan, keyed=draft.envelope == "upsert")
    except BindError as error:
        if spec.transform is not None:
            error.position = spec.transform.position(spec.transform.at)
        raise
    options = {**shape.options, **draft.options.shard}
    if draft.envelope == "upsert":
        # Sorted by the key, unless CLUSTER BY overrides it, so that pruning finds the old row of a key.
        options[shard_options.CLUSTER_BY] = [options[UPSERT_KEY]]
    first = None if before is None else before.plan
    output = SourceOutput(name, new_shard_name(), spec.format, plan.plan, spec.table, first, shape.hidden)
    return PlannedOutput(output, replace(shape, options=options), view)


def _plan_transform(
    draft: SourceDraft, spec: CollectionSpec, source: TransformInput
) -> tuple[str, TransformPlan, str | None]:
    """Returns the name and plan of a collection, and for WITH (SPLIT) the view over the stored rows."""
    query = spec.transform
    try:
        return spec.name, plan_transform(query, source, exact=draft.retracts), None
    except PlanError as error:
        alone = spec.name == draft.name
        if query is None or not draft.options.split or not alone:
            if alone and error.code is ErrorCode.NOT_ROW_BY_ROW:
                error.hint = "WITH (SPLIT) stores rows, and makes of the rest a view over them"
            raise
    now = draft.context.clock.now()
    parts = split_transform(query, source, CatalogSnapshot(draft.context), now, exact=draft.retracts)
    return spec.name + STORED_SUFFIX, parts.stored, parts.view


def _plan_before(query: syntax.Query, raw: TransformInput, *, exact: bool) -> TransformPlan:
    plan = plan_transform(query, raw, exact=exact)
    if plan.temporal:
        raise BindError(
            "mz_now() is not allowed in TRANSFORM BEFORE ENVELOPE",
            hint="use it in TRANSFORM USING, behind the envelope",
            position=query.position(query.at),
        )
    return plan


def order_change_fields(before: TransformPlan) -> TransformPlan:
    """Moves before, after and op to the front of a plan before ENVELOPE DEBEZIUM.

    A plan that gives a jsonb document in its first column stays as it is.
    """
    if before.plan.types[0] == types.JSONB:
        return before
    front = [before.names.index(name) for name in CHANGE_FIELDS if name in before.names]
    if len(front) < len(CHANGE_FIELDS):
        raise BindError(
            "ENVELOPE DEBEZIUM reads a jsonb document in the first column, or the columns before, after and op"
        )
    order = [*front, *(i for i in range(len(before.names)) if i not in front)]
    return TransformPlan(tuple(before.names[i] for i in order), before.plan.project(order))


def changed_row_columns(columns: Columns) -> Columns:
    """The columns of a row, from those of a Debezium change."""
    if columns[0][1] == types.JSONB:
        return columns
    return (*row_columns(columns[: len(CHANGE_FIELDS)]), *columns[len(CHANGE_FIELDS) :])


def _distinct(draft: SourceDraft, columns: Columns) -> Columns:
    """Returns the columns; raises if an included one has the name of another."""
    names = [name for name, _ in columns]
    for clause in draft.statement.include:
        name = _included_name(clause)
        if names.count(name) > 1:
            raise BindError(
                f'there are two columns "{name}"',
                hint=f"INCLUDE {clause.what.upper()} AS …",
                position=draft.position(clause.at),
            )
    return columns


def _add_sort_options(draft: SourceDraft, outputs: list[SourceOutput], shards: Shards) -> None:
    """Applies CLUSTER BY and KEEP STATISTICS to every collection with these columns; one must have them."""
    created, names = draft.statement, set[str]()
    for output in outputs:
        schema, options = shards[output.shard]
        ids = {column.name: column.id for column in schema.columns[: len(schema.columns) - output.hidden]}
        by = [ids[ident.text] for ident in created.cluster_by if ident.text in ids]
        keep = [
            [ids[path[0].text], *(step.text for step in path[1:])]
            for path in created.keep_statistics
            if path[0].text in ids
        ]
        options.update(
            {
                key: value
                for key, value in ((shard_options.CLUSTER_BY, by), (shard_options.KEEP_STATISTICS, keep))
                if value
            }
        )
        names |= ids.keys()
    for ident in (*created.cluster_by, *(path[0] for path in created.keep_statistics)):
        if ident.text not in names:
            raise BindError(
                f'column "{ident.text}" does not exist',
                code=ErrorCode.UNDEFINED_COLUMN,
                hint=f"there are: {', '.join(sorted(names))}",
                position=position_of(created.sql, ident),
            )
