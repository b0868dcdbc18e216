r"""Translates a query of the catalog from PostgreSQL's dialect to DuckDB's.

    to_duckdb("SELECT 't'::regclass")      "SELECT to_regclass('t')"

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

from tidegate.errors import BindError, ErrorCode, UnsupportedError
from tidegate.sql.parse import tokenize
from tidegate.statements.postgres_catalog.rewrite import BARE_FUNCTIONS, text_at
from tidegate.statements.postgres_catalog.tables import POSTGRES_OIDS

_RENAMED = {
    "version", "current_schema", "current_schemas", "current_database", "current_setting", "set_config", "txid_current",
    "format",
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
_SET_FUNCTIONS = {"generate_series": True, "unnest": True, "string_to_array": False}
"""Functions in FROM, and whether they return a set."""
_AFTER_FROM = (
    "where",
    "join",
    "left",
    "right",
    "inner",
    "cross",
    "full",
    "group",
    "order",
    "limit",
    "on",
    "union",
)
_REG_TYPES = ("regclass", "regtype", "regproc", "regprocedure")
_IO_COLUMNS = ("typinput", "typoutput", "typreceive", "typsend")
"""Columns of pg_type that hold OIDs of functions, and are shown as their names."""
_MATCHES = ("~", "!~", "~*", "!~*")
_LIKES = ("like", "ilike", "~~", "!~~")
_CALL = re.compile(r"^\"?(?:tg_)?(\w+)\"?\(.*\)$", re.DOTALL)
_OUTPUT_NAMES = {
    "count_star": "count",
    "to_regclass": "regclass",
    "regclass_name": "regclass",
    "regtype_name": "regtype",
}
_ELEMENT = re.compile(r'("(?:[^"\\]|\\.)*")|([^,{}"]+)', re.DOTALL)


def output_name(name: str) -> str:
    """Returns PostgreSQL's name of an output column: that of `version()` is `version`."""
    call = _CALL.match(name)
    return _OUTPUT_NAMES.get(call[1], call[1]) if call else name


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
            self._regular_expression, self._source_function, self._cast, self._like, self._cast_as, self._function,
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
        return text_at(self.tokens, self.at + offset)

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
                raise BindError(
                    f'"{self._value()[:60]}" does not exist in the catalog',
                    code=ErrorCode.UNDEFINED_FUNCTION,
                )
            if name == "pg_get_functiondef" and "from" not in (token.text for token in self.tokens):
                hint = r"\df+ NAME describes a function, and docs/sql.md all of them"
                raise UnsupportedError("functions are built in, and have no source text", hint=hint)
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
            if name in _REG_TYPES:
                return self._write(end, self._oid_of(name, 0))
        is_cast = self._peek() == "cast" and self._peek(1) == "(" and self._kind(2) == "string"
        if is_cast and self._peek(3) == "as" and self._peek(5) == ")" and self._peek(6) == "::":
            name, end = self._type_after(7)  # a parameter: CAST('t' AS text)::regclass
            if name in _REG_TYPES:
                return self._write(end, self._oid_of(name, 2))
        if is_cast and [self._peek(i) for i in (3, 4, 5)] == ["as", "regclass", ")"]:
            return self._write(6, self._oid_of("regclass", 2))
        cast_twice = [
            self._peek(i) for i in (0, 1, 2, 3, 5, 7, 8, 9, 10)
        ]  # a parameter: CAST(CAST('t' AS text) AS regclass)
        if cast_twice == [*["cast", "("] * 2, "as", ")", "as", "regclass", ")"] and self._kind(4) == "string":
            return self._write(11, self._oid_of("regclass", 4))
        return 0

    def _oid_of(self, type_: str, ahead: int) -> str:
        """The OID of a name in quotes: a number for tables of the catalog, as DuckDB joins by no subquery."""
        number = POSTGRES_OIDS.get(self._value(ahead).removeprefix("pg_catalog."))
        if type_ == "regclass" and number is not None:
            return f"{number}::bigint"
        return f"to_{type_}({self._source(ahead)})"

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

    def _source_function(self) -> int:
        """`FROM generate_series(1, 3) AS i`: the alias is a column, too; other functions become subqueries."""
        name = self._peek()
        if name not in _SET_FUNCTIONS or self._peek(1) != "(" or not self._is_in_from():
            return 0
        depth, end = 0, 1
        while end < len(self.tokens) - self.at:
            depth += {"(": 1, ")": -1}.get(self._peek(end), 0)
            if depth == 0:
                break
            end += 1
        used = end + (2 if self._peek(end + 1) == "as" else 1)
        alias = self._peek(used)
        if (
            depth
            or end < 3
            or not alias.isidentifier()
            or alias in _AFTER_FROM
            or self._peek(used + 1) == "("
        ):
            return 0
        start, stop = self.tokens[self.at + 2].start, self.tokens[self.at + end - 1].end
        call = f"{name} ( {to_duckdb(self.sql[start:stop])} )"
        text = (
            f"{call} AS {alias}({alias})"
            if _SET_FUNCTIONS[name]
            else f"(SELECT {call} AS {alias}) AS {alias}"
        )
        return self._write(used + 1, text)

    def _is_in_from(self) -> bool:
        """Whether the current token is in a FROM clause, by the words before it outside of parentheses."""
        depth = 0
        for i in range(self.at - 1, -1, -1):
            match text_at(self.tokens, i):
                case ")":
                    depth += 1
                case "(" if depth == 0:
                    return False
                case "(":
                    depth -= 1
                case "from" | "join" if depth == 0:
                    return True
                case "select" | "where" | "by" | "having" | "on" if depth == 0:
                    return False
        return False

    def _cast(self) -> int:
        """`x::oid`; an OID cast to regclass or regtype becomes its name."""
        if self._peek() != "::":
            return 0
        name, used = self._type_after(1)
        if name == "regproc":
            return self._write(used)
        if name in ("text", "varchar") and self._peek(-1) in _IO_COLUMNS:
            start = self._last_name()
            self.out[start:] = [f"regproc_name({''.join(self.out[start:])})"]
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
        if name in BARE_FUNCTIONS and not is_call and self._peek(-1) != "as":
            return self._write(1, f"tg_{name}()")
        if name in _IO_COLUMNS and self._is_output():
            return self._write(1, f"regproc_name({name}) AS {name}")
        if name in _OTHER_NAMES and is_call:
            return self._write(1, _OTHER_NAMES[name])
        return 0

    def _is_output(self) -> bool:
        """Whether the current word is a column of the select list by itself, of the whole query."""
        if self._peek(-1) not in ("select", ",") or self._peek(1) not in (",", "from"):
            return False
        before = [text_at(self.tokens, i) for i in range(self.at)]
        return before[:1] == ["select"] and "from" not in before and before.count("(") == before.count(")")


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
