"""Which texts are about the catalog, and what they must become before DuckDB takes them.

A query belongs to the catalog if it names one of its tables, or has no FROM and asks for something that PostgreSQL alone
knows (`version()`, `'t'::regclass`). A collection of the user's is never taken for a table of the catalog: `pg_class` without
`pg_catalog.` in front is the user's, if they have one.

    is_catalog("SELECT relname FROM pg_catalog.pg_class")       True
    is_catalog("SELECT 'pg_catalog.pg_class' FROM orders")      False: it stands in a string

| PostgreSQL writes | DuckDB is given | as |
|---|---|---|
| `pg_catalog.pg_class`, `information_schema.tables` | `pg_class`, `is_tables` | they are tables of ours there |
| `x OPERATOR(pg_catalog.~) 'a'`, `x !~ 'a'` | `x ~ '(?s).*(?:a).*'` | its ~ wants to match all of a text |
| `COLLATE pg_catalog.default` | nothing | |
| `'t'::regclass`, `x::regclass` | `to_regclass('t')`, `x::varchar` | it has no such type |
| `x::pg_catalog.oid`, `"char"`, `name` | `x::bigint`, `varchar` | likewise |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tidegate.serve.pg.catalog_tables import INFORMATION, TABLES
from tidegate.serve.pg.holes import Piece
from tidegate.serve.pg.sqlstate import Trouble
from tidegate.sql.lex import Token, tokens

FUNCTIONS = frozenset(
    (
        "version", "current_schema", "current_schemas", "current_database", "current_catalog", "current_user",
        "session_user", "user", "pg_backend_pid", "pg_advisory_unlock_all", "current_setting", "set_config", "pg_is_in_recovery",
        "has_schema_privilege", "has_table_privilege", "has_database_privilege", "pg_encoding_to_char",
        "txid_current", "inet_server_addr", "inet_server_port", "to_regclass", "to_regtype", "format_type",
        "pg_postmaster_start_time", "pg_get_viewdef", "obj_description", "pg_table_is_visible", "pg_get_userbyid",
        "pg_get_keywords", "pg_conf_load_time", "pg_my_temp_schema", "quote_ident",
    )
)  # fmt: skip
"""What PostgreSQL knows of itself: asked without FROM, it is the catalog that answers."""
_TYPES = {"regclass", "regtype", "regproc", "regnamespace", "regrole", "oid"}
_BEFORE_TABLE = ("from", "join", "into", "update", "table", "only", "exists", "view", "describe")


def is_catalog(piece: Piece, has: Callable[[str], bool]) -> bool:
    """Whether the catalog answers a statement; `has` knows the user's collections."""
    given = piece.tokens
    if piece.words(1)[0] not in ("select", "with", "values", "(", "table"):
        return False
    from_seen = asks = False
    for i, token in enumerate(given):
        if token.kind not in ("word", "quoted"):
            continue
        if _is_relation(given, i, has):
            return True
        if token.kind == "word":
            from_seen = from_seen or (token.text == "from" and not _is_in_call(given, i))
            asks = asks or _asks(given, i)
    return asks and not from_seen


def _is_relation(given: Sequence[Token], i: int, has: Callable[[str], bool]) -> bool:
    """Whether the word at `i` begins the name of a table of the catalog."""
    before, after = _text(given, i - 1), _text(given, i + 1)
    if after == "." and given[i].text in ("pg_catalog", "information_schema"):
        return _is_table(given, i) or before in ("from", "join")
    if before in ("from", "join") and after == "(" and given[i].text in FUNCTIONS:
        return True
    plain = before in ("from", "join", ",") and after not in ("(", ".")
    return given[i].text in TABLES and plain and not has(given[i].text)


def _asks(given: Sequence[Token], i: int) -> bool:
    """Whether the word at `i` is something that PostgreSQL alone knows."""
    word, before, after = given[i].text, _text(given, i - 1), _text(given, i + 1)
    if before == "." and given[i - 2].text == "pg_catalog":
        before = _text(given, i - 3)
    if before == "::":
        return word in _TYPES
    return before != "." and word in FUNCTIONS and (after == "(" or word in _BARE)


FAR = 200
"""Words behind which nobody looks for the parenthesis of an `extract(… FROM …)`."""
_BARE = ("current_schema", "current_catalog", "current_user", "session_user", "user", "current_role")


def _is_in_call(given: Sequence[Token], i: int) -> bool:
    """`extract(year FROM at)`, `trim(x FROM y)`: this FROM is no clause."""
    depth = 0
    for j in range(i - 1, max(i - FAR, -1), -1):
        text = given[j].text if given[j].kind in ("op", "word") else ""
        if text == ")":
            depth += 1
        elif text == "(":
            if depth == 0:
                return j > 0 and given[j - 1].text in ("extract", "trim", "substring", "overlay", "position")
            depth -= 1
        elif text == "select" and depth == 0:
            return False
    return False


def _is_table(given: Sequence[Token], i: int) -> bool:
    """Whether `pg_catalog` at `i` is the schema of a table: it is neither a function, nor a type, nor an operator."""
    name = given[i + 2].text if i + 2 < len(given) else ""
    known = INFORMATION if given[i].text == "information_schema" else TABLES
    return name in known and _text(given, i + 3) != "(" and _text(given, i - 1) != "::"


def _text(given: Sequence[Token], i: int) -> str:
    """What stands at `i`, if it is a word or a sign."""
    return given[i].text if 0 <= i < len(given) and given[i].kind in ("word", "op") else ""


def unqualified(piece: Piece) -> Piece:
    """The statement without the schemas that clients like to write: `public.t`, `pg_catalog.int4`. Places stay as they are."""
    given, text = piece.tokens, piece.text
    out = []
    for i, token in enumerate(given):
        if token.kind not in ("word", "quoted") or _text(given, i + 1) != "." or _text(given, i - 1) == ".":
            continue
        before = _text(given, i - 1)
        is_public = token.text == "public" and (before in _BEFORE_TABLE or _text(given, i + 3) == ".")
        is_own = token.text == "pg_catalog" and (before in ("::", "as") or _text(given, i + 3) == "(")
        if is_public or is_own:
            out.append(i)
    if not out:
        return piece
    kept: list[str] = []
    at = 0
    for i in out:
        kept += (text[at : given[i].start], " " * (given[i + 1].end - given[i].start))
        at = given[i + 1].end
    text = "".join((*kept, text[at:]))
    gone = {j for i in out for j in (i, i + 1)}
    return Piece(text, piece.start, tuple(one for j, one in enumerate(given) if j not in gone))


# ---------------------------------------------------------------- in DuckDB's words

_RENAMED = {
    "version", "current_schema", "current_schemas", "current_database", "current_setting", "set_config", "txid_current",
}  # fmt: skip
_RENAMED_BARE = {"current_schema", "current_catalog", "current_user", "session_user", "user", "current_role"}
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
"""What DuckDB would tell of itself or its machine, or make large of little; no catalog of PostgreSQL has a name like it."""
_NAMED = re.compile(r"^\"?(?:tg_)?(\w+)\"?\(.*\)$", re.DOTALL)


def named(name: str) -> str:
    """What PostgreSQL calls a column: that of `version()` is `version`."""
    found = _NAMED.match(name)
    return found[1] if found else name


def spoken(text: str) -> str:
    """A query in DuckDB's words."""
    given = [one for one in tokens(text) if one.kind != "end"]
    out: list[str] = []
    i = 0
    while i < len(given):
        used, said = _said(text, given, i, out)
        out.append(said)
        i += used
    return " ".join(out)


def _said(text: str, given: Sequence[Token], i: int, out: list[str]) -> tuple[int, str]:
    """How many tokens are read at `i`, and what DuckDB is told for them; `out` is what it was told before."""
    token = given[i]
    after = _text(given, i + 1)
    if token.kind in ("word", "quoted") and _is_refused(token.text.lower(), call=after == "("):
        raise Trouble("42883", f'there is no "{token.text[:60]}" in the catalog')
    if token.kind in ("word", "quoted") and after == ".":
        if token.text == "pg_catalog":
            return 2, ""
        if token.text == "information_schema":
            return 2, "tg_is."
        if token.text == "public" and _text(given, i + 3) == ".":
            return 2, ""
    if token.kind == "string" and _is_list(given, i):
        return 1, _listed(token.text)
    if token.kind == "op" or _text(given, i) in ("operator", "collate", "like", "ilike"):
        return _sign(text, given, i, out)
    if token.kind == "word":
        return _word(text, given, i, out)
    return 1, text[token.start : token.end]


def _sign(text: str, given: Sequence[Token], i: int, out: list[str]) -> tuple[int, str]:
    """An operator, and what is spelled like one."""
    here, after = given[i].text, _text(given, i + 1)
    if here == "operator" and after == "(":
        end = next((j for j in range(i + 2, len(given)) if _text(given, j) == ")"), len(given) - 1)
        sign = given[end - 1].text
        if _matches(sign, given, end + 1):
            return end + 2 - i, _match(sign, given, end + 1)
        return end + 1 - i, sign
    if here == "collate":
        return (4, "") if _text(given, i + 2) == "." else (2, "")
    if _matches(here, given, i + 1):
        return 2, _match(here, given, i + 1)
    if here == "::":
        return _cast(given, i, out)
    if here in ("like", "ilike", "~~", "!~~") and _is_escaped(given, i + 1):
        return 2, f"{here} {text[given[i + 1].start : given[i + 1].end]} ESCAPE '\\'"
    return 1, text[given[i].start : given[i].end]


def _word(text: str, given: Sequence[Token], i: int, out: list[str]) -> tuple[int, str]:
    """A word that means something to PostgreSQL alone, or is called otherwise in DuckDB."""
    here, after = given[i].text, _text(given, i + 1)
    if here == "as" and _text(given, i - 2) == "(" and given[i - 1].kind == "string" and after == "regclass":
        out[-3:] = ["to_regclass", "(", out[-1]]
        return 2, ""
    if here == "as" and after in _OTHER_TYPES and _text(given, i + 2) == ")":
        return 2, f"AS {_OTHER_TYPES[after]}"
    if _text(given, i - 1) != "." or given[i - 2].text == "pg_catalog":
        if here in _RENAMED and after == "(":
            return 1, f"tg_{here}"
        if here in _RENAMED_BARE and after != "(" and _text(given, i - 1) != "as":
            return 1, f"tg_{here}()"
        if here in _OTHER_NAMES and after == "(":
            return 1, _OTHER_NAMES[here]
    return 1, text[given[i].start : given[i].end]


def _is_list(given: Sequence[Token], i: int) -> bool:
    """`= ANY ('{a,b}')`, `'{a,b}'::text[]`, `CAST('{a,b}' AS text[])`: a string that is an array."""
    if not (given[i].text.startswith("{") and given[i].text.endswith("}")):
        return False
    is_any = _text(given, i - 1) == "(" and _text(given, i - 2) in ("any", "all", "some")
    cast = _text(given, i + 1) in ("::", "as") and "[" in [_text(given, j) for j in range(i + 2, i + 6)]
    return is_any or cast


def _listed(text: str) -> str:
    """An array's text as a list of DuckDB's."""
    found = []
    for quoted, plain in _ELEMENT.findall(text[1:-1]):
        value = re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL) if quoted else plain
        found.append("NULL" if plain.upper() == "NULL" else "'" + value.replace("'", "''") + "'")
    return f"[{', '.join(found)}]"


_ELEMENT = re.compile(r'("(?:[^"\\]|\\.)*")|([^,{}"]+)', re.DOTALL)


def _is_escaped(given: Sequence[Token], i: int) -> bool:
    r"""`LIKE 'pg\_%'`: in PostgreSQL a backslash escapes by itself, in DuckDB only if it is told to."""
    return (
        i < len(given)
        and given[i].kind == "string"
        and "\\" in given[i].text
        and _text(given, i + 1) != "escape"
    )


def _is_refused(name: str, *, call: bool) -> bool:
    return name.startswith(_REFUSED) or (call and name.startswith(_REFUSED_CALLS))


def _matches(sign: str, given: Sequence[Token], i: int) -> bool:
    return sign in ("~", "!~", "~*", "!~*") and i < len(given) and given[i].kind == "string"


def _match(sign: str, given: Sequence[Token], i: int) -> str:
    """`~ 'a'` in a text that holds an a: DuckDB wants the whole text to match."""
    pattern = ("(?si)" if sign.endswith("*") else "(?s)") + f".*(?:{given[i].text}).*"
    written = pattern.replace("'", "''")
    return f"{'!' if sign.startswith('!') else ''}~ '{written}'"


def _cast(given: Sequence[Token], i: int, out: list[str]) -> tuple[int, str]:
    """`:: type`, of types that DuckDB does not have; a name of a relation becomes its number, and a number its name."""
    at = i + 3 if i + 2 < len(given) and given[i + 1].text == "pg_catalog" else i + 1
    name = given[at].text if at < len(given) else ""
    used = at + 1 - i
    if name in ("regclass", "regtype", "regproc"):
        if given[i - 1].kind == "string":
            out[-1] = f"to_{name}({out[-1]})"
            return used, ""
        if name == "regproc":
            return used, ""
        start = len(out) - 1
        while start >= 2 and out[start - 1] == ".":
            start -= 2
        if given[i - 1].kind in ("word", "quoted"):
            out[start:] = [f"{name}_name({''.join(out[start:])})"]
            return used, ""
    return used, f":: {_OTHER_TYPES.get(name, name)}" if name else "::"
