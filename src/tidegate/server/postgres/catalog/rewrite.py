r"""Decides which queries are about the catalog, and translates them to DuckDB's dialect.

A query is about the catalog if it names one of its tables, or has no FROM and calls a function that only PostgreSQL has
(`version()`, `'t'::regclass`). A user's collection is never mistaken for a table of the catalog: `pg_class` without
`pg_catalog.` is the user's, if there is one.

    is_catalog("SELECT relname FROM pg_catalog.pg_class")       True
    is_catalog("SELECT 'pg_catalog.pg_class' FROM orders")      False: the name is in a string

| PostgreSQL | DuckDB | because |
|---|---|---|
| `pg_catalog.pg_class`, `information_schema.tables` | `pg_class`, `tg_is.tables` | these are the names of the tables there |
| `x OPERATOR(pg_catalog.~) 'a'`, `x !~ 'a'` | `x ~ '(?s).*(?:a).*'` | its `~` must match the whole text |
| `COLLATE pg_catalog.default` | nothing | it has no such collation |
| `'t'::regclass`, `x::regclass` | `to_regclass('t')`, `regclass_name(x)` | it has no such type |
| `x::pg_catalog.oid`, `"char"`, `name` | `x::bigint`, `varchar` | likewise |
| `LIKE 'pg\_%'` | `LIKE 'pg\_%' ESCAPE '\'` | its LIKE has no default escape character |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tidegate.server.postgres.catalog.tables import INFORMATION, TABLES
from tidegate.server.postgres.parameters import StatementText
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.sql.parse import Token, tokenize

SESSION_FUNCTIONS = frozenset(
    (
        "version", "current_schema", "current_schemas", "current_database", "current_catalog", "current_user",
        "session_user", "user", "pg_backend_pid", "pg_advisory_unlock_all", "current_setting", "set_config", "pg_is_in_recovery",
        "has_schema_privilege", "has_table_privilege", "has_database_privilege", "pg_encoding_to_char",
        "txid_current", "inet_server_addr", "inet_server_port", "to_regclass", "to_regtype", "format_type",
        "pg_postmaster_start_time", "pg_get_viewdef", "obj_description", "pg_table_is_visible", "pg_get_userbyid",
        "pg_get_keywords", "pg_conf_load_time", "pg_my_temp_schema", "quote_ident",
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
            has_from = has_from or (token.text == "from" and not _is_in_call(tokens, i))
            calls_server = calls_server or _is_session_function(tokens, i)
    return calls_server and not has_from


def _is_relation(tokens: Sequence[Token], i: int, has: Callable[[str], bool]) -> bool:
    """Whether the word at `i` begins the name of a table of the catalog."""
    before, after = _text(tokens, i - 1), _text(tokens, i + 1)
    if after == "." and tokens[i].text in ("pg_catalog", "information_schema"):
        return _is_table(tokens, i) or before in ("from", "join")
    if before in ("from", "join") and after == "(" and tokens[i].text in SESSION_FUNCTIONS:
        return True
    unqualified = before in ("from", "join", ",") and after not in ("(", ".")
    return tokens[i].text in TABLES and unqualified and not has(tokens[i].text)


def _is_session_function(tokens: Sequence[Token], i: int) -> bool:
    """Whether the word at `i` is a function or a type that only PostgreSQL has."""
    word, before, after = tokens[i].text, _text(tokens, i - 1), _text(tokens, i + 1)
    if before == "." and tokens[i - 2].text == "pg_catalog":
        before = _text(tokens, i - 3)
    if before == "::":
        return word in _TYPES
    if word in _OURS:
        return False
    return before != "." and word in SESSION_FUNCTIONS and (after == "(" or word in _BARE_FUNCTIONS)


MAX_CALL_TOKENS = 200
"""How far back `_is_in_call` looks for the parenthesis of an `extract(… FROM …)`."""
_BARE_FUNCTIONS = frozenset(
    ("current_schema", "current_catalog", "current_user", "session_user", "user", "current_role")
)
"""Functions that are called without parentheses."""


def _is_in_call(tokens: Sequence[Token], i: int) -> bool:
    """Whether the FROM at `i` is inside a call: `extract(year FROM at)`, `trim(x FROM y)`."""
    depth = 0
    for j in range(i - 1, max(i - MAX_CALL_TOKENS, -1), -1):
        match _text(tokens, j):
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
    return name in tables and _text(tokens, i + 3) != "(" and _text(tokens, i - 1) != "::"


def _text(tokens: Sequence[Token], i: int) -> str:
    """Returns the text of the token at `i` if it is a word or an operator, else an empty text."""
    return tokens[i].text if 0 <= i < len(tokens) and tokens[i].kind in ("word", "op") else ""


def strip_schemas(piece: StatementText) -> StatementText:
    """Blanks out schemas that clients write: `public.t`, `pg_catalog.int4`. Positions stay the same."""
    piece = _unquoted_types(piece)
    tokens, text = piece.tokens, piece.text
    schemas = []
    for i, token in enumerate(tokens):
        if token.kind not in ("word", "quoted") or _text(tokens, i + 1) != "." or _text(tokens, i - 1) == ".":
            continue
        before = _text(tokens, i - 1)
        of_table = token.text == "public" and (before in _BEFORE_TABLE or _text(tokens, i + 3) == ".")
        of_type = token.text == "pg_catalog" and (before in ("::", "as") or _text(tokens, i + 3) == "(")
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
        start = i - 2 if _text(tokens, i - 1) == "." and _text(tokens, i - 2) == "pg_catalog" else i
        if token.kind == "quoted" and _text(tokens, start - 1) == "::" and token.text.isidentifier():
            name = f" {token.text} "
            if len(name) == token.end - token.start and name.islower():
                text = text[: token.start] + name + text[token.end :]
                tokens[i] = Token("word", token.text, token.start + 1, token.end - 1)
    return piece if text is piece.text else StatementText(text, piece.start, tuple(tokens))


# ---------------------------------------------------------------- DuckDB's dialect

_RENAMED = {
    "version", "current_schema", "current_schemas", "current_database", "current_setting", "set_config", "txid_current",
}  # fmt: skip
"""Functions that DuckDB has too, with other results: ours are called `tg_version()`, …"""
_OTHER_NAMES = {
    "json_build_object": "json_object",
    "regproc": "varchar",
    "regnamespace": "varchar",
    "regrole": "varchar",
}
_OTHER_TYPES = {
    "oid": "bigint", "name": "varchar", "char": "varchar", "regtype": "varchar", "regclass": "varchar", "bpchar": "varchar",
    "regproc": "varchar", "regnamespace": "varchar", "regrole": "varchar", "xid": "bigint", "jsonb": "varchar",
    "int2vector": "varchar", "oidvector": "varchar", "aclitem": "varchar", "cstring": "varchar", "inet": "varchar",
}  # fmt: skip
_REFUSED = ("duckdb_", "pragma_", "sqlite_")
_REFUSED_CALLS = ("read_", "sniff_", "parquet_", "query", "glob", "getenv", "which_secret", "repeat")
"""Beginnings of DuckDB's functions about itself, the machine or files, or that make large values; PostgreSQL's catalog has none."""
_MATCHES = ("~", "!~", "~*", "!~*")
_LIKES = ("like", "ilike", "~~", "!~~")
_CALL = re.compile(r"^\"?(?:tg_)?(\w+)\"?\(.*\)$", re.DOTALL)
_ELEMENT = re.compile(r'("(?:[^"\\]|\\.)*")|([^,{}"]+)', re.DOTALL)


def output_name(name: str) -> str:
    """Returns PostgreSQL's name of an output column: that of `version()` is `version`."""
    call = _CALL.match(name)
    return call[1] if call else name


def to_duckdb(sql: str) -> str:
    """Translates a query of the catalog to DuckDB's dialect."""
    return _Translator(sql).translate()


class _Translator:
    """Reads tokens from left to right; the first rule that applies at a token writes its translation.

    A rule returns how many tokens it has read, 0 if it does not apply.
    """

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.tokens = [token for token in tokenize(sql) if token.kind != "end"]
        self.at = 0
        self.out: list[str] = []

    def translate(self) -> str:
        rules = (
            self._refuse, self._schema, self._reg_literal, self._array_literal, self._operator, self._collation,
            self._regular_expression, self._cast, self._like, self._cast_as, self._function,
        )  # fmt: skip
        while self.at < len(self.tokens):
            used = next((used for rule in rules if (used := rule())), 0) or self._write(1, self._source(0))
            self.at += used
        return " ".join(self.out)

    def _write(self, used: int, text: str = "") -> int:
        """Writes a translation, and returns how many tokens it stands for."""
        self.out.append(text)
        return used

    def _peek(self, offset: int = 0) -> str:
        """Returns the text of a word or operator relative to the current token, else an empty text."""
        return _text(self.tokens, self.at + offset)

    def _kind(self, offset: int = 0) -> str:
        i = self.at + offset
        return self.tokens[i].kind if 0 <= i < len(self.tokens) else ""

    def _value(self, offset: int = 0) -> str:
        """Returns the text of any token, of a string its contents; empty beyond the ends."""
        i = self.at + offset
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def _source(self, offset: int) -> str:
        """Returns a token as the client wrote it."""
        token = self.tokens[self.at + offset]
        return self.sql[token.start : token.end]

    def _type_after(self, offset: int) -> tuple[str, int]:
        """Returns the type name at an offset, without `pg_catalog.`, and the offset behind it."""
        offset += 2 if self._value(offset) == "pg_catalog" and self._kind(offset + 1) else 0
        return self._value(offset), offset + 1

    # ------------------------------------------------------------ rules

    def _refuse(self) -> int:
        name = self._value().lower()
        if self._kind() in ("word", "quoted"):
            is_call = self._peek(1) == "("
            if name.startswith(_REFUSED) or (is_call and name.startswith(_REFUSED_CALLS)):
                raise PostgresError("42883", f'"{self._value()[:60]}" does not exist in the catalog')
        return 0

    def _schema(self) -> int:
        """`pg_catalog.pg_class`, `information_schema.tables`, `public.t.c`."""
        if self._kind() not in ("word", "quoted") or self._peek(1) != ".":
            return 0
        match self._value():
            case "pg_catalog":
                return self._write(2)
            case "information_schema":
                return self._write(2, "tg_is.")
            case "public" if self._peek(3) == ".":
                return self._write(2)
        return 0

    def _reg_literal(self) -> int:
        """`'t'::regclass` and `CAST('t' AS regclass)`: the OID of a name."""
        if self._kind() == "string" and self._peek(1) == "::":
            name, end = self._type_after(2)
            if name in ("regclass", "regtype", "regproc"):
                return self._write(end, f"to_{name}({self._source(0)})")
        is_cast = self._peek() == "cast" and self._peek(1) == "(" and self._kind(2) == "string"
        if is_cast and self._peek(3) == "as" and self._peek(4) == "regclass":
            return self._write(5, f"to_regclass ( {self._source(2)}")
        return 0

    def _array_literal(self) -> int:
        """`= ANY ('{a,b}')`, `'{a,b}'::text[]`, `CAST('{a,b}' AS text[])`: a string that is an array."""
        text = self._value()
        if self._kind() != "string" or not (text.startswith("{") and text.endswith("}")):
            return 0
        is_any = self._peek(-1) == "(" and self._peek(-2) in ("any", "all", "some")
        is_cast = self._peek(1) in ("::", "as") and "[" in [self._peek(i) for i in range(2, 6)]
        return self._write(1, _duckdb_list(text)) if is_any or is_cast else 0

    def _operator(self) -> int:
        """`OPERATOR(pg_catalog.~)`."""
        if self._peek() != "operator" or self._peek(1) != "(":
            return 0
        beyond = len(self.tokens) - self.at
        end = next((i for i in range(2, beyond) if self._peek(i) == ")"), beyond - 1)
        operator = self._value(end - 1)
        if operator in _MATCHES and self._kind(end + 1) == "string":
            return self._write(end + 2, _match(operator, self._value(end + 1)))
        return self._write(end + 1, operator)

    def _collation(self) -> int:
        if self._peek() != "collate":
            return 0
        return self._write(4 if self._peek(2) == "." else 2)

    def _regular_expression(self) -> int:
        if self._peek() in _MATCHES and self._kind(1) == "string":
            return self._write(2, _match(self._peek(), self._value(1)))
        return 0

    def _cast(self) -> int:
        """`x::oid`; an OID cast to regclass or regtype becomes its name."""
        if self._peek() != "::":
            return 0
        name, used = self._type_after(1)
        if name == "regproc":
            return self._write(used)
        if name in ("regclass", "regtype") and self._kind(-1) in ("word", "quoted"):
            start = self._last_name()
            self.out[start:] = [f"{name}_name({''.join(self.out[start:])})"]
            return self._write(used)
        return self._write(used, f":: {_OTHER_TYPES.get(name, name)}" if name else "::")

    def _last_name(self) -> int:
        """Returns where the qualified name that was written last begins in `out`."""
        start = len(self.out) - 1
        while start >= 2 and self.out[start - 1] == ".":
            start -= 2
        return start

    def _like(self) -> int:
        r"""`LIKE 'pg\_%'`: in PostgreSQL a backslash escapes by default."""
        is_pattern = self._kind(1) == "string" and "\\" in self._value(1) and self._peek(2) != "escape"
        if self._peek() in _LIKES and is_pattern:
            return self._write(2, f"{self._peek()} {self._source(1)} ESCAPE '\\'")
        return 0

    def _cast_as(self) -> int:
        """`CAST(x AS oid)`."""
        type_ = self._peek(1)
        if self._peek() == "as" and type_ in _OTHER_TYPES and self._peek(2) == ")":
            return self._write(2, f"AS {_OTHER_TYPES[type_]}")
        return 0

    def _function(self) -> int:
        """Functions with another name or another result in DuckDB."""
        if self._kind() != "word" or (self._peek(-1) == "." and self._value(-2) != "pg_catalog"):
            return 0
        name, is_call = self._peek(), self._peek(1) == "("
        if name in _RENAMED and is_call:
            return self._write(1, f"tg_{name}")
        if name in _BARE_FUNCTIONS and not is_call and self._peek(-1) != "as":
            return self._write(1, f"tg_{name}()")
        if name in _OTHER_NAMES and is_call:
            return self._write(1, _OTHER_NAMES[name])
        return 0


def _duckdb_list(text: str) -> str:
    """Converts the text of an array to a list: `{a,b}` to `['a', 'b']`."""
    elements = []
    for quoted, plain in _ELEMENT.findall(text[1:-1]):
        value = re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL) if quoted else plain
        elements.append("NULL" if plain.upper() == "NULL" else "'" + value.replace("'", "''") + "'")
    return f"[{', '.join(elements)}]"


def _match(operator: str, pattern: str) -> str:
    """Translates `~ 'a'`, which finds an a anywhere in a text: DuckDB's must match the whole text."""
    whole = ("(?si)" if operator.endswith("*") else "(?s)") + f".*(?:{pattern}).*"
    return f"{'!' if operator.startswith('!') else ''}~ '{whole.replace(chr(39), chr(39) * 2)}'"
