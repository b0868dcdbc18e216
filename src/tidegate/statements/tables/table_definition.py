"""What a table is defined by: its schema, and options of its shard.

| in SQL | in the shard |
|---|---|
| `CLUSTER BY (at)` | option `cluster_by`: column ids |
| `KEEP STATISTICS (payload.ts)` | option `keep_statistics`: `[[2, "ts"]]` |
| `DEFAULT now()` | option `defaults`: the expression's text, by column id |
| `PRIMARY KEY (id) NOT ENFORCED` | option `primary_key`: `{"name": "t_pkey", "columns": [0]}` |
| `COMMENT ON …` | option `comments`: by column id; that of the table has the id '' |
| `WITH (RETENTION = '30 days')` | option `retention_ms`: how long past times can be asked for; without it, for ever |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.context import position_of
from tidegate.errors import BindError, Position, TidegateError
from tidegate.sql.bind import interval_milliseconds
from tidegate.sql.parse import syntax, table_statement
from tidegate.storage.part import Schema
from tidegate.storage.shard import shard_options

COMMENTS = "comments"
TABLE_COMMENT = ""


@dataclass(frozen=True)
class TableDefinition:
    """The schema and options of a table. A value: changes give another."""

    schema: Schema
    options: Mapping[str, Any] = field(default_factory=dict)

    def with_entry(self, option: str, id_: int | str, value: str | None) -> TableDefinition:
        """With another value for a column in an option that is a mapping by column id; None removes it."""
        entries = {**self.options.get(option, {}), str(id_): value}
        left = {key: text for key, text in entries.items() if text is not None}
        return self.with_option(option, left or None)

    def with_option(self, option: str, value: Any) -> TableDefinition:
        """With another value of an option; None removes it."""
        options = {key: known for key, known in self.options.items() if key != option}
        return replace(self, options=options if value is None else {**options, option: value})


def clause_options(given: table_statement.TableOptions, schema: Schema, sql: str) -> dict[str, Any]:
    """The options of CLUSTER BY, KEEP STATISTICS and WITH."""
    found: dict[str, Any] = {
        shard_options.CLUSTER_BY: [_column(schema, ident, sql) for ident in given.cluster_by],
        shard_options.KEEP_STATISTICS: [
            [_column(schema, path[0], sql), *(step.text for step in path[1:])]
            for path in given.keep_statistics
        ],
    }
    return {key: value for key, value in found.items() if value} | _with(given, sql)


def _column(schema: Schema, ident: syntax.Ident, sql: str) -> int:
    try:
        return schema.find(ident.text).id
    except TidegateError as error:
        error.position = position_of(sql, ident)
        raise


def _with(given: table_statement.TableOptions, sql: str) -> dict[str, Any]:
    """The options in WITH."""
    found: dict[str, Any] = {}
    for option in given.options:
        if option.name not in ("retention", "retain history", "retain history for"):
            raise BindError(
                f'there is no option "{option.name}" for a table',
                hint="there is RETENTION = '30 days'",
                position=Position(sql, *option.at),
            )
        found[shard_options.RETENTION_MS] = interval_milliseconds(option, sql)
    return found
