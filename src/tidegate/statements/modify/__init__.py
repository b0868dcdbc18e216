"""DELETE and UPDATE: find rows at a snapshot, delete them and insert new ones in one append.

    UPDATE t SET n = n + 1 WHERE id > 5

    read     at upper - 1: (6, 1) and (7, 4), at positions 3 and 9 of part 12; parts that hold no id above 5 are not read
    append   at one time: positions 3 and 9 of part 12 are deleted, (6, 2) and (7, 5) are inserted

What was there before can still be read AS OF before. A row that the filter or an assignment fails on fails the statement, and then
nothing is changed; a row whose new values are its old ones is counted, and nothing is written for it.

| module | contents |
|---|---|
| `run` | the statement: binding, attempts, the result |
| `general` | MERGE, UPDATE … FROM and the like: a query of any shape finds the rows |
| `source_rows`, `collected` | what a table is joined with is computed first; the rows of the query as changes |
| `explain` | what such a statement does and reads |
| `by_position` | rows are deleted by their positions: the cost is that of finding them |
| `by_value` | rows are retracted by rows with negative diffs: where such retractions are still waiting to meet theirs |
| `commit` | one commit of deleted positions and new rows |
| `change` | the bound statement, and the new rows of an UPDATE |
| `concurrency` | what others change meanwhile |
"""

from tidegate.statements.modify.change import Modification
from tidegate.statements.modify.explain import explain_modification
from tidegate.statements.modify.general import is_general
from tidegate.statements.modify.run import bind_returning, deletes_by_position, modify, pinned_change

__all__ = [
    "Modification",
    "bind_returning",
    "deletes_by_position",
    "explain_modification",
    "is_general",
    "modify",
    "pinned_change",
]
