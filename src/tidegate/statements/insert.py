"""INSERT: VALUES or the rows of a query, as one batch.

Values are assigned as PostgreSQL assigns them: numbers and times may be narrowed to the column's type. A column that is not named
gets its DEFAULT, else NULL.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tidegate.context import Context, position_of
from tidegate.errors import BindError, ConflictError, EvaluationError, Position, TidegateError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Column, Expr, build
from tidegate.query import CancelToken, Result
from tidegate.sql.bind import assignment_cast, bind_values, literal_places, with_literal_types
from tidegate.sql.parse import statement, syntax
from tidegate.statements.define import DEFAULTS, default
from tidegate.statements.select import select
from tidegate.storage import CONTENTION
from tidegate.storage.part import Schema, SchemaColumn
from tidegate.storage.shard import Shard, visible_columns


def insert(context: Context, given: statement.Insert, watch: CancelToken | None = None) -> Result:
    """INSERT INTO … VALUES, SELECT or DEFAULT VALUES."""
    shard = context.table(given.table.text, position_of(given.sql, given.table))
    for attempt in range(CONTENTION.times):
        rows = _inserted(context, shard, given, watch)
        if rows is not None:
            return Result.message(f"INSERT 0 {rows}")
        CONTENTION.wait(attempt)
    raise ConflictError(
        f'others altered "{given.table.text}" again and again', hint="nothing was changed; try again"
    )


def _inserted(
    context: Context, shard: Shard, given: statement.Insert, watch: CancelToken | None
) -> int | None:
    """How many rows it inserts; None if the columns were altered meanwhile."""
    state = shard.machine.fetch()
    schema = state.schema
    targets = _targets(replace(schema, columns=visible_columns(schema, state.options)), given)
    columns, rows = _rows(context, shard, given, targets, watch)
    if rows:
        by_id = {target.id: column for target, column in zip(targets, columns, strict=True)}
        absent = {c.id: c for c in schema.columns if c.id not in by_id}
        by_id |= {id_: _repeated(default_of(context, shard, c), rows) for id_, c in absent.items()}
        if not append_rows(shard, schema, [by_id[column.id] for column in schema.columns]):
            return None
    return rows


def append_rows(shard: Shard, schema: Schema, columns: list[pa.Array]) -> bool:
    """Appends rows of a version of the schema; False, and none, if the columns were altered since.

    Their names may be those of other columns by then.
    """
    try:
        shard.append(columns, schema=schema)
    except ConflictError:
        if shard.machine.fetch().schema.id == schema.id:
            raise
        return False
    return True


def _targets(schema: Schema, given: statement.Insert) -> list[SchemaColumn]:
    if not given.columns:
        return list(schema.columns)
    found = []
    for ident in given.columns:
        try:
            found.append(schema.find(ident.text))
        except TidegateError as error:
            error.position = position_of(given.sql, ident)
            raise
    return found


def _rows(
    context: Context,
    shard: Shard,
    given: statement.Insert,
    targets: list[SchemaColumn],
    watch: CancelToken | None,
) -> tuple[list[pa.Array], int]:
    """The columns that are given, and how many rows."""
    query = given.query
    if query is None:
        return [_repeated(default_of(context, shard, column), 1) for column in targets], 1
    types = [column.type for column in targets]
    if isinstance(query.body, syntax.Values) and not (query.order_by or query.limit or query.offset):
        if not given.columns and len(query.body.rows[0]) < len(targets):
            targets[:] = targets[: len(query.body.rows[0])]  # as in PostgreSQL, the last ones may be left out
            types = types[: len(targets)]
        defaults = [default_of(context, shard, column) for column in targets]
        return bind_values(query.body, given.sql, types, defaults, context.clock.now()), len(query.body.rows)
    # A string or NULL in the select list is read as the column that it fills.
    goals = {i: types[i].without_lengths for i in literal_places(query) if i < len(types)}
    result = select(context, replace(query, body=with_literal_types(query.body, goals)), None, watch)
    if len(result.types) > len(targets) or (given.columns and len(result.types) < len(targets)):
        raise BindError(
            f"{len(targets)} columns are to be filled, and the query gives {len(result.types)}",
            position=Position(given.sql, *query.at),
        )
    targets[:] = targets[: len(result.types)]
    table = result.arrow().combine_chunks()
    return [_assigned(result, i, table, column) for i, column in enumerate(targets)], table.num_rows


def _assigned(result: Result, place: int, table: pa.Table, column: SchemaColumn) -> pa.Array:
    """A column of the query as values of the column that it fills."""
    chunks = table.column(place).chunks
    given = pa.concat_arrays(chunks) if chunks else pa.array([], result.types[place].arrow)
    try:
        outcome = evaluate(assignment_cast(Column(0, result.types[place]), column.type), [given], len(given))
    except TidegateError as error:
        error.message = f'column "{column.name}": {error.message}'
        raise
    if outcome.errors is not None:
        failed = outcome.errors.is_valid().to_pylist().index(True)
        row = {result.names[place]: given[failed].as_py()}
        raise EvaluationError(outcome.errors[failed].as_py(), row=row)
    return outcome.values


def default_of(context: Context, shard: Shard, column: SchemaColumn) -> Expr:
    """What stands for a value that is not given."""
    text = shard.machine.cached_state().options.get(DEFAULTS, {}).get(str(column.id))
    if text is None:
        return build.null(column.type)
    return default(context, text, column.type)


def _repeated(expr: Expr, rows: int) -> pa.Array:
    outcome = evaluate(expr, [], rows)
    if outcome.errors is not None and outcome.errors.null_count < len(outcome.errors):
        raise EvaluationError(outcome.errors.drop_null()[0].as_py())
    return outcome.values
