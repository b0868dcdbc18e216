"""SQL text to syntax trees. Every node and every error has its position in the text.

    "SELECT id FROM t"  →  lexer.py: tokens  →  grammar/: one function a rule  →  statement.SelectStatement(syntax.Query(…))

| module | holds |
|---|---|
| `lexer.py` | `tokenize`, `split_statements` |
| `statement_text.py` | `StatementText`: one statement of a text with its tokens |
| `token_cursor.py` | the cursor over tokens that grammar rules read from |
| `syntax.py` | nodes of queries and expressions: `syntax.Query`, `syntax.Name`, … |
| `from_clause.py` | nodes of FROM: `from_clause.TableRef`, `from_clause.JoinClause`, … |
| `statement.py` | one dataclass a statement: `statement.Insert`, … |
| `table_statement.py` | those of tables and of prepared statements: `table_statement.CreateTable`, … |
| `grammar/` | the rules: expressions, calls, types, queries, statements, tables, sources |

>>> [type(node).__name__ for node in parse_statements("CREATE TABLE t (id int8); SELECT 1")]
['CreateTable', 'SelectStatement']
"""

from tidegate.sql.parse import from_clause, statement, syntax, table_statement
from tidegate.sql.parse.grammar.statements import (
    parse_expression,
    parse_query,
    parse_statement,
    parse_statements,
)
from tidegate.sql.parse.lexer import Token, split_statements, tokenize
from tidegate.sql.parse.parameters import Parameters, TypedText
from tidegate.sql.parse.statement_text import StatementText, statement_texts

__all__ = [
    "Parameters",
    "StatementText",
    "Token",
    "TypedText",
    "from_clause",
    "parse_expression",
    "parse_query",
    "parse_statement",
    "parse_statements",
    "split_statements",
    "statement",
    "statement_texts",
    "syntax",
    "table_statement",
    "tokenize",
]
