"""What is computed once, as SQL: an entry of WITH, and what reads it.

WITH tg_common_0 AS MATERIALIZED (SELECT c1, c4 FROM (…) AS q0) SELECT … (SELECT c1 AS c7 FROM tg_common_0) AS q1 …
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import UnsupportedError
from tidegate.plan import logical

if TYPE_CHECKING:
    from tidegate.plan.sql.writer import SqlWriter


def common_sql(writer: SqlWriter, rel: logical.Common) -> str:
    """Returns an entry of WITH, whose table is called by its number."""
    shown = ", ".join(map(writer.name, rel.columns)) or "1 AS one"
    query = f"SELECT {shown} FROM {writer.aliased(writer.text(rel.definition))}"
    return writer.dialect.common_table(f"tg_common_{rel.number}", query)


def common_rows_sql(writer: SqlWriter, rel: logical.CommonRows) -> str:
    """Returns the rows, with the column numbers of the reader."""
    shown = ", ".join(f"{writer.name(source)} AS {writer.name(column)}" for column, source in rel.computed)
    return f"SELECT {shown or '1 AS one'} FROM tg_common_{rel.number}"


def check_step(writer: SqlWriter, step: logical.Rel) -> None:
    """Refuses a step of a recursion that would compute volatile rows again."""
    if writer.dialect.common_rows_in_steps:
        return
    nodes = logical.walk(writer.query.rel)
    volatile = {rel.number for rel in nodes if isinstance(rel, logical.Common) and rel.is_volatile}
    if any(isinstance(rel, logical.CommonRows) and rel.number in volatile for rel in logical.walk(step)):
        raise UnsupportedError(
            f"WITH RECURSIVE over a common table with a volatile function is not supported in {writer.dialect.name}",
            hint="SET engine = embedded",
        )
