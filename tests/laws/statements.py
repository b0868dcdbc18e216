"""Random statements: expressions grown from the registry over poison values, in every clause, and texts that are nearly SQL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import tidegate
from tests.laws import poison
from tests.laws.grow import COLUMNS, Grower
from tidegate.expr.model.printer import show
from tidegate.expr.model.tree import Expr
from tidegate.expr.model.types import (
    BOOL,
    DATE,
    FLOAT8,
    INT8,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    TIMESTAMPTZ,
    Kind,
    Type,
)
from tidegate.sql.parse import lexer as lex
from tidegate.text import RESERVED

WANTED = (BOOL, INT8, FLOAT8, NUMERIC, TEXT, DATE, TIMESTAMPTZ, INTERVAL, JSONB, *COLUMNS)
ROWS = 40
FORMS = (
    "SELECT {e}",
    "SELECT {e}, - ({e}), ({e})::text",
    "SELECT {e} FROM t",
    "SELECT c0, {e} AS e FROM t WHERE {b} LIMIT 3",
    "SELECT {e} FROM t ORDER BY {e} DESC LIMIT 5 OFFSET 1",
    "SELECT {e}, count(*), sum(c2), avg(c5), min({e}), max({e}) FROM t GROUP BY {e}",
    "SELECT count({e}) FROM t WHERE {b} HAVING count(*) > 1",
    "SELECT CASE WHEN {b} THEN {e} END FROM t",
    "SELECT * FROM t WHERE {b} AS OF {i}",
    "SELECT 1 LIMIT {i}",
    "SELECT c2 FROM t LIMIT ({i}) OFFSET {i}",
    "SELECT DISTINCT {e} FROM t",
    "EXPLAIN SELECT {e} FROM t WHERE {b}",
    "EXPLAIN FILTER PUSHDOWN SELECT c1 FROM t WHERE {b}",
    "INSERT INTO u VALUES ({i}, {s})",
    "INSERT INTO u SELECT {i}, {s}",
    "UPDATE u SET a = {i} WHERE b = {s}",
    "DELETE FROM u WHERE a = {i} OR b > {s}",
    "SELECT {e} IN ({e}, {e}, NULL) FROM t",
    "SELECT {e} BETWEEN {e} AND {e}",
    "SET statement_timeout_ms = {i}; RESET ALL",
    "SHOW TABLES LIKE {s}",
)
"""{e} is an expression of any type, {b} a condition, {i} a whole number, {s} a text."""
ODD = ("''", "'\\x'", "1e400", "0.", "99999999999999999999999999999999999999", "-", "::", "(", ")", "[", "]",
       ",", ".", "*", ";", "->>", "$$", "'", '"', "\u00e9", "\U0001f4a9", "1", "-9223372036854775808", "NULL", '"c2"',
       "'9999-12-31'", "'NaN'", "::interval", "::int2", "::jsonb", "::row(x int4)", "::int4[]")  # fmt: skip


class Constants(Grower):
    """Grows expressions without columns: those that binding evaluates."""

    def leaf(self, type_: Type) -> Expr:
        return self.literal(type_)


class Statements:
    """Writes random statements."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.growers = Grower(self.rng), Constants(self.rng)

    def expression(self, type_: Type | None = None, *, constant: bool = False) -> str:
        """As SQL. Columns c0, c1, … are those of `table`."""
        wanted = type_ or WANTED[int(self.rng.integers(len(WANTED)))]
        grower = self.growers[1 if constant or self.rng.random() < 0.3 else 0]
        text = show(grower.grow(wanted, int(self.rng.integers(1, 5))), whole=True)
        return f"({text})"

    def statement(self) -> str:
        """A statement that follows the grammar."""
        form = FORMS[int(self.rng.integers(len(FORMS)))]
        bare = "FROM t" not in form
        parts = {"e": None, "b": BOOL, "i": INT8, "s": TEXT}
        text = form
        for letter, type_ in parts.items():
            constant = bare or letter in "is"
            while f"{{{letter}}}" in text:
                text = text.replace(f"{{{letter}}}", self.expression(type_, constant=constant), 1)
        return text

    def spoilt(self, text: str) -> str:
        """A text with a few words left out, doubled, moved, or replaced."""
        try:
            words = [text[token.start : token.end] for token in lex.tokenize(text)][:-1]
        except tidegate.TidegateError:
            words = text.split()
        for _ in range(int(self.rng.integers(1, 4))):
            at = int(self.rng.integers(len(words))) if words else 0
            match int(self.rng.integers(5)):
                case 0:
                    del words[at : at + int(self.rng.integers(1, 3))]
                case 1:
                    words[at:at] = words[at : at + 2]
                case 2:
                    words[at:at] = [str(self.rng.choice(ODD))]
                case 3:
                    words[at:at] = [str(self.rng.choice(sorted(RESERVED)))]
                case _ if words:
                    other = int(self.rng.integers(len(words)))
                    words[at], words[other] = words[other], words[at]
        return " ".join(words)


def table(db: tidegate.Database, seed: int) -> None:
    """Makes t, whose columns are those of `grow.COLUMNS` with poison values, and the small u, to write to."""
    rng = np.random.default_rng(seed)
    stored = {i: type_ for i, type_ in enumerate(COLUMNS) if type_.kind is not Kind.MZ_TIMESTAMP}
    columns = ", ".join(f"c{i} {type_}" for i, type_ in stored.items())
    db.sql(f"CREATE TABLE t ({columns}); CREATE TABLE u (a int8, b text)")
    for _ in range(3):
        values = {
            f"c{i}": poison.with_nulls(rng, poison.mixed(type_, rng, ROWS), 0.1)
            for i, type_ in stored.items()
        }
        db.append("t", pa.table(values))
