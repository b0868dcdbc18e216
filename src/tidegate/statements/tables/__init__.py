"""Statements that define and change tables.

| module | statements |
|---|---|
| `create` | CREATE TABLE, with LIKE |
| `create_as` | CREATE TABLE … AS, SELECT … INTO |
| `alter` | ALTER TABLE: columns, defaults, types, keys |
| `rename` | ALTER TABLE and VIEW … RENAME TO |
| `truncate` | TRUNCATE |
| `comments` | COMMENT ON |

`keys` holds primary keys, `dependants` what else reads a table, `table_definition` what all of them change.
"""

from tidegate.statements.tables.run import define_table

__all__ = ["define_table"]
