r"""Decides which queries are about the catalog, and drops the schemas that clients write.

A query is about the catalog if it names one of its tables, or has no FROM and calls a function that only PostgreSQL has
(`version()`, `'t'::regclass`). A user's collection is never mistaken for a table of the catalog: `pg_class` without
`pg_catalog.` is the user's, if there is one.

    is_catalog("SELECT relname FROM pg_catalog.pg_class")       True
    is_catalog("SELECT 'pg_catalog.pg_class' FROM orders")      False: the name is in a string
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.sql.parse import StatementText, Token
from tidegate.statements.postgres_catalog.tables import INFORMATION, TABLES

SESSION_FUNCTIONS = frozenset(
    (
        "version", "current_schema", "current_schemas", "current_database", "current_catalog", "current_user",
        "session_user", "user", "pg_backend_pid", "pg_advisory_unlock_all", "current_setting", "set_config", "pg_is_in_recovery",
        "has_schema_privilege", "has_table_privilege", "has_database_privilege", "pg_encoding_to_char",
        "txid_current", "inet_server_addr", "inet_server_port", "to_regclass", "to_regtype", "format_type",
        "pg_postmaster_start_time", "pg_get_viewdef", "obj_description", "pg_table_is_visible", "pg_get_userbyid",
        "pg_get_keywords", "pg_conf_load_time", "pg_my_temp_schema", "quote_ident", "pg_table_size", "pg_relation_size",
        "pg_total_relation_size", "pg_indexes_size", "pg_database_size", "pg_size_pretty", "pg_get_functiondef",
        "pg_get_function_result", "pg_get_function_arguments", "has_column_privilege", "has_function_privilege",
        "shobj_description", "col_description", "pg_get_constraintdef", "pg_get_indexdef", "pg_get_serial_sequence",
    )
)  # fmt: skip
"""Functions about the server or session: a query without FROM that calls one is for the catalog, unless it is one of `_OURS`."""
_OURS = frozenset(
    (
        "version",
        "current_schema",
        "current_database",
        "current_catalog",
        "current_user",
        "session_user",
        "user",
        "quote_ident",
    )
)
"""Functions that our own SQL has too, with the same values, and with all other functions beside them."""
_TYPES = {"regclass", "regtype", "regproc", "regnamespace", "regrole", "oid"}
_BEFORE_TABLE = ("from", "join", "into", "update", "table", "only", "exists", "view", "describe")


def is_catalog(piece: StatementText, has: Callable[[str], bool]) -> bool:
    """Whether the catalog answers a statement; `has` says whether the user has a collection of a name."""
    tokens = piece.tokens
    if piece.words(1)[0] not in ("select", "with", "values", "(", "table"):
        return False
    has_from = calls_server = False
    for i, token in enumerate(tokens):
        if token.kind not in ("word", "quoted"):
            continue
        if _is_relation(tokens, i, has):
            return True
        if token.kind == "word":
            # FROM (VALUES …), which psql sends for \gdesc, reads no collection.
            reads = token.text == "from" and text_at(tokens, i + 1) != "("
            has_from = has_from or (reads and not _is_in_call(tokens, i))
            calls_server = calls_server or _is_session_function(tokens, i)
    return calls_server and not has_from


def _is_relation(tokens: Sequence[Token], i: int, has: Callable[[str], bool]) -> bool:
    """Whether the word at `i` begins the name of a table of the catalog."""
    before, after = text_at(tokens, i - 1), text_at(tokens, i + 1)
    if after == "." and tokens[i].text in ("pg_catalog", "information_schema"):
        return _is_table(tokens, i) or before in ("from", "join")
    if before in ("from", "join") and after == "(" and tokens[i].text in SESSION_FUNCTIONS:
        return True
    unqualified = before in ("from", "join", ",") and after not in ("(", ".")
    return tokens[i].text in TABLES and unqualified and not has(tokens[i].text)


def _is_session_function(tokens: Sequence[Token], i: int) -> bool:
    """Whether the word at `i` is a function or a type that only PostgreSQL has."""
    word, before, after = tokens[i].text, text_at(tokens, i - 1), text_at(tokens, i + 1)
    if before == "." and tokens[i - 2].text == "pg_catalog":
        before = text_at(tokens, i - 3)
    if before == "::":
        return word in _TYPES
    if word in _OURS:
        return False
    return before != "." and word in SESSION_FUNCTIONS and (after == "(" or word in BARE_FUNCTIONS)


MAX_CALL_TOKENS = 200
"""How far back `_is_in_call` looks for the parenthesis of an `extract(… FROM …)`."""
BARE_FUNCTIONS = frozenset(
    ("current_schema", "current_catalog", "current_user", "session_user", "user", "current_role")
)
"""Functions that are called without parentheses."""


def _is_in_call(tokens: Sequence[Token], i: int) -> bool:
    """Whether the FROM at `i` is inside a call: `extract(year FROM at)`, `trim(x FROM y)`."""
    depth = 0
    for j in range(i - 1, max(i - MAX_CALL_TOKENS, -1), -1):
        match text_at(tokens, j):
            case ")":
                depth += 1
            case "(" if depth == 0:
                calls = ("extract", "trim", "substring", "overlay", "position")
                return j > 0 and tokens[j - 1].text in calls
            case "(":
                depth -= 1
            case "select" if depth == 0:
                return False
    return False


def _is_table(tokens: Sequence[Token], i: int) -> bool:
    """Whether `pg_catalog` at `i` qualifies a table, not a function, a type or an operator."""
    name = tokens[i + 2].text if i + 2 < len(tokens) else ""
    tables = INFORMATION if tokens[i].text == "information_schema" else TABLES
    return name in tables and text_at(tokens, i + 3) != "(" and text_at(tokens, i - 1) != "::"


def text_at(tokens: Sequence[Token], i: int) -> str:
    """Returns the text of the token at `i` if it is a word or an operator, else an empty text."""
    return tokens[i].text if 0 <= i < len(tokens) and tokens[i].kind in ("word", "op") else ""


def strip_schemas(piece: StatementText) -> StatementText:
    """Blanks out schemas that clients write: `public.t`, `pg_catalog.int4`. Positions stay the same."""
    piece = _unquoted_types(piece)
    tokens, text = piece.tokens, piece.text
    schemas = []
    for i, token in enumerate(tokens):
        if (
            token.kind not in ("word", "quoted")
            or text_at(tokens, i + 1) != "."
            or text_at(tokens, i - 1) == "."
        ):
            continue
        before = text_at(tokens, i - 1)
        of_table = token.text == "public" and (before in _BEFORE_TABLE or text_at(tokens, i + 3) == ".")
        of_type = token.text == "pg_catalog" and (before in ("::", "as") or text_at(tokens, i + 3) == "(")
        if of_table or of_type:
            schemas.append(i)
    if not schemas:
        return piece
    parts: list[str] = []
    at = 0
    for i in schemas:
        parts += (text[at : tokens[i].start], " " * (tokens[i + 1].end - tokens[i].start))
        at = tokens[i + 1].end
    blanked = {j for i in schemas for j in (i, i + 1)}
    rest = tuple(token for j, token in enumerate(tokens) if j not in blanked)
    return StatementText("".join((*parts, text[at:])), piece.start, rest)


def _unquoted_types(piece: StatementText) -> StatementText:
    """Blanks out the quotes of types that clients write: `x::"int8"`, `x::pg_catalog."int8"`."""
    tokens = list(piece.tokens)
    text = piece.text
    for i, token in enumerate(tokens):
        start = i - 2 if text_at(tokens, i - 1) == "." and text_at(tokens, i - 2) == "pg_catalog" else i
        if token.kind == "quoted" and text_at(tokens, start - 1) == "::" and token.text.isidentifier():
            name = f" {token.text} "
            if len(name) == token.end - token.start and name.islower():
                text = text[: token.start] + name + text[token.end :]
                tokens[i] = Token("word", token.text, token.start + 1, token.end - 1)
    return piece if text is piece.text else StatementText(text, piece.start, tuple(tokens))
