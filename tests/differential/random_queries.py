"""Random queries over the tables of `relational.py`, which our database and PostgreSQL must answer alike.

    random_query(Random(7))       "SELECT a1.i0 AS i0, rank() OVER (…) AS i1, … FROM (SELECT … LIMIT 5) AS a1 LEFT JOIN …"

Every query has the columns i0 and i1, numbers, and t0, a text. So each can stand wherever another one can: as a table of FROM, as a
side of a UNION, in IN, below a window or a LIMIT, up to two levels deep. The rows of none depend on the order in which rows
are read: windows use ranks and sums over peers, and what is limited is sorted by all of its columns. Nothing in it can fail.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

DEPTHS = (0, 1, 1, 1, 2)
"""Levels of subqueries in FROM."""

VIEWS = {
    "parents": (
        "SELECT p.id AS i0, count(c.id) AS i1, max(c.label) AS t0 "
        "FROM nodes p LEFT JOIN nodes c ON c.parent = p.id GROUP BY p.id"
    ),
    "ranked": "SELECT node AS i0, amount AS i1, kind AS t0, rank() OVER (PARTITION BY node ORDER BY amount, id) AS n FROM events",
    "loud": "SELECT DISTINCT ON (node) node AS i0, amount AS i1, kind AS t0 FROM events ORDER BY node, amount DESC NULLS LAST, id",
}
"""Views of both databases."""

_TABLES = (
    ("nodes", ("id", "parent"), ("label",)),
    ("edges", ("src", "dst", "cost"), ()),
    ("events", ("node", "amount", "node"), ("kind",)),
    ("parents", ("i0", "i1"), ("t0",)),
    ("ranked", ("i0", "i1", "n"), ("t0",)),
    ("loud", ("i0", "i1"), ("t0",)),
)
_AGGREGATES = (
    "count(*)",
    "count({n})",
    "sum({n})",
    "min({n})",
    "max({n})",
    "count(DISTINCT {n})",
    "sum({n}) FILTER (WHERE {c})",
)
_WINDOWS = ("rank()", "dense_rank()", "sum({n})", "count(*)", "max({n})", "min({n})")


@dataclass(frozen=True)
class _Source:
    """A table of FROM: its text and what can be asked of it."""

    text: str
    numbers: tuple[str, ...]
    words: tuple[str, ...]


def random_query(r: random.Random) -> str:
    """A query that both understand."""
    return _Query(r).query(r.choice(DEPTHS))


def _letter(number: str) -> str:
    return f"CASE {number} % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END"


class _Query:
    """Writes one query; each table of it has a name of its own."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.count = 0

    def query(self, depth: int) -> str:
        """A query with the columns i0, i1 and t0."""
        shapes = {
            self._plain: 4, self._distinct: 2, self._grouped: 2, self._windowed: 3, self._chosen: 1, self._limited: 2,
            self._combined: 2, self._common: 1,
        }  # fmt: skip
        (shape,) = self.r.choices(list(shapes), list(shapes.values()))
        return shape(depth)

    # -------------------------------------------------------------- shapes

    def _plain(self, depth: int) -> str:
        sources, text = self._from(depth)
        value = self.r.choice(["{n}", "{n}", "{case}", "{asked}", "coalesce({n}, 0)", "num_nulls({n}, {w})"])
        return self._select(
            "", self._number(sources), self._fill(value, sources, depth), self._word(sources), text
        )

    def _distinct(self, depth: int) -> str:
        sources, text = self._from(depth)
        made = self._select(
            "DISTINCT ", self._number(sources), self._number(sources), self._word(sources), text
        )
        return (
            f"SELECT {self._some_columns()} FROM ({made}) AS {self._name()}"
            if self.r.random() < 0.5
            else made
        )

    def _chosen(self, depth: int) -> str:
        """DISTINCT ON."""
        sources, text = self._from(depth)
        made = self._select("", self._number(sources), self._number(sources), self._word(sources), text)
        name, keys = self._name(), self.r.choice(["i0", "t0", "i0, t0", "i1"])
        order = ", ".join(dict.fromkeys([*keys.split(", "), "i1", "i0", "t0"]))
        return f"SELECT DISTINCT ON ({keys}) i0, i1, t0 FROM ({made}) AS {name} ORDER BY {order}"

    def _grouped(self, depth: int) -> str:
        sources, text = self._from(depth)
        number, word = self._number(sources), self._word(sources)
        value = self._fill(self.r.choice(_AGGREGATES), sources, depth)
        sets = self.r.choice(
            ["{n}, {w}", "{n}, {w}", "{n}, {w}", "ROLLUP ({n}, {w})", "CUBE ({n}, {w})"]
        ).format(n=number, w=word)
        if self.r.random() < 0.2:
            return self._select("", value, "count(*)", f"max({word})", text)
        keys = [_Source("", (number,), (word,))]
        having = self.r.choice(
            ["", "count(*) > 1", f"max({number}) > 4", self._simple(keys), self._simple(keys)]
        )
        return (
            f"{self._select('', number, value, word, text)} GROUP BY {sets}{having and f' HAVING {having}'}"
        )

    def _windowed(self, depth: int) -> str:
        sources, text = self._from(depth)
        number, word = self._number(sources), self._word(sources)
        partition = self.r.choice(
            ["", f"PARTITION BY {word} ", f"PARTITION BY {number} ", f"PARTITION BY {number}, {word} "]
        )
        order = self.r.choice([f"ORDER BY {self._number(sources)}", f"ORDER BY {number} DESC, {word}"])
        value = self._fill(self.r.choice(_WINDOWS), sources, depth) + f" OVER ({partition}{order})"
        made = self._select("", number, value, word, text)
        if self.r.random() < 0.3:
            return made
        name = self._name()  # a condition above the window
        above = self._condition([_Source("", (f"{name}.i0", f"{name}.i1"), (f"{name}.t0",))], 0)
        return f"SELECT i0, i1, t0 FROM ({made}) AS {name} WHERE {above}"

    def _limited(self, depth: int) -> str:
        order = ", ".join(
            f"{c}{self.r.choice(['', ' DESC', ' NULLS FIRST'])}" for c in self.r.sample(["i0", "i1", "t0"], 3)
        )
        limit = f" LIMIT {self.r.randrange(1, 7)}" + self.r.choice(["", "", " OFFSET 2"])
        name = self._name()
        made = f"SELECT i0, i1, t0 FROM ({self.query(max(depth - 1, 0))}) AS {name} ORDER BY {order}{limit}"
        if self.r.random() < 0.25:
            return made
        name = self._name()  # a condition above the limit
        above = self._condition([_Source("", (f"{name}.i0", f"{name}.i1"), (f"{name}.t0",))], 0)
        return f"SELECT i0, i1, t0 FROM ({made}) AS {name} WHERE {above}"

    def _combined(self, depth: int) -> str:
        word = self.r.choice(
            ["UNION", "UNION ALL", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]
        )
        name = self._name()
        made = f"({self.query(max(depth - 1, 0))}) {word} ({self.query(max(depth - 1, 0))})"
        above = self._condition([_Source("", (f"{name}.i0", f"{name}.i1"), (f"{name}.t0",))], 0)
        where = f" WHERE {above}" if self.r.random() < 0.5 else ""
        return f"SELECT {self._some_columns()} FROM ({made}) AS {name}{where}"

    def _common(self, depth: int) -> str:
        """A common table that is read twice."""
        name, a, b = self._name(), self._name(), self._name()
        sides = [_Source("", (f"{x}.i0", f"{x}.i1"), (f"{x}.t0",)) for x in (a, b)]
        kind = self.r.choice(["JOIN", "LEFT JOIN"])
        text = f" FROM {name} AS {a} {kind} {name} AS {b} ON {a}.i0 = {b}.i1{self._where(sides, 0)}"
        return f"WITH {name} AS ({self.query(max(depth - 1, 0))}) {self._select('', f'{a}.i0', f'{b}.i1', f'{b}.t0', text)}"

    def _some_columns(self) -> str:
        """The columns of a subquery, or some of them."""
        return self.r.choice(["i0, i1, t0", "i0, 0 AS i1, t0", "i0, i1, 'a' AS t0", "0 AS i0, i1, 'b' AS t0"])

    @staticmethod
    def _select(distinct: str, number: str, other: str, word: str, text: str) -> str:
        return f"SELECT {distinct}{number} AS i0, {other} AS i1, {word} AS t0{text}"

    # -------------------------------------------------------------- FROM

    def _name(self) -> str:
        self.count += 1
        return f"a{self.count}"

    def _from(self, depth: int) -> tuple[list[_Source], str]:
        """One to three tables, joined, and the text from FROM to WHERE."""
        sources = [self._source(depth)]
        text = f" FROM {sources[0].text}"
        for _ in range(self.r.choice([0, 1, 1, 1, 2]) if depth else self.r.choice([0, 1, 1])):
            text += self._joined(sources, depth)
        return sources, text + self._where(sources, depth)

    def _joined(self, sources: list[_Source], depth: int) -> str:
        """Another table; joined by a condition, or LATERAL."""
        if self.r.random() < 0.15:
            name, outer = self._name(), self._number(sources)
            inner = f"SELECT count(*) AS i0, {self._number(sources)} AS i1, max(z.kind) AS t0 FROM events z WHERE z.node = {outer}"
            if self.r.random() < 0.5:
                other, word = self._number(sources), self._word(sources)
                inner = f"SELECT z.dst AS i0, {other} AS i1, {word} AS t0 FROM edges z WHERE z.src = {outer}"
            sources.append(
                _Source(f"LATERAL ({inner}) AS {name}", (f"{name}.i0", f"{name}.i1"), (f"{name}.t0",))
            )
            kind, on = self.r.choice(
                [("CROSS JOIN", ""), ("LEFT JOIN", f" ON {name}.i0 > 1"), ("LEFT JOIN", " ON true")]
            )
            return f" {kind} {sources[-1].text}{on}"
        made = self._source(depth)
        kind = self.r.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = f"{self._number(sources)} = {self._number([made])}"
        both = [*sources, made]
        if kind != "FULL JOIN" and self.r.random() < 0.5:
            some = self.r.choice([sources, [made], both])
            on += f" AND {self._simple(some)}"
        if kind == "JOIN" and self.r.random() < 0.1:
            on += f" AND EXISTS (SELECT 1 FROM edges z WHERE z.src = {self._number([made])} AND z.cost > 3)"
        sources.append(made)
        return f" {kind} {made.text} ON {on}"

    def _source(self, depth: int) -> _Source:
        name, chance = self._name(), self.r.random()
        if depth and chance < 0.3:
            return _Source(
                f"({self.query(max(depth - 1, 0))}) AS {name}", (f"{name}.i0", f"{name}.i1"), (f"{name}.t0",)
            )
        if chance < 0.52:
            return _Source(f"generate_series(1, 6) AS {name} (x)", (f"{name}.x",), (_letter(f"{name}.x"),))
        if chance < 0.6:
            return _Source(
                f"(VALUES (1, 'a'), (4, NULL), (NULL, 'c'), (9, 'b')) AS {name} (x, t)",
                (f"{name}.x",),
                (f"{name}.t",),
            )
        table, numbers, words = self.r.choice(_TABLES[:3] if chance < 0.85 else _TABLES[3:])
        texts = tuple(f"{name}.{word}" for word in words) or (_letter(f"{name}.{numbers[-1]}"),)
        return _Source(f"{table} AS {name}", tuple(f"{name}.{number}" for number in numbers), texts)

    # -------------------------------------------------------------- conditions and values

    def _number(self, sources: Sequence[_Source]) -> str:
        return self.r.choice(self.r.choice(sources).numbers)

    def _word(self, sources: Sequence[_Source]) -> str:
        return self.r.choice(self.r.choice(sources).words)

    def _where(self, sources: Sequence[_Source], depth: int) -> str:
        found = [self._condition(sources, depth) for _ in range(self.r.choice([0, 0, 0, 1, 1, 2]))]
        return f" WHERE {' AND '.join(found)}" if found else ""

    def _fill(self, text: str, sources: Sequence[_Source], depth: int) -> str:
        """A text with numbers and the like in place of its names in braces."""
        del depth
        made = {
            "n": self._number(sources),
            "case": f"CASE WHEN {self._simple(sources)} THEN {self._number(sources)} ELSE 3 END",
            "asked": f"(SELECT max(z.cost) FROM edges z WHERE z.src = {self._number(sources)})",
            "c": self._simple(sources),
            "w": self._word(sources),
        }
        return text.format(**made)

    def _simple(self, sources: Sequence[_Source]) -> str:
        """A condition without a subquery."""
        number, other, at = self._number(sources), self._number(sources), self.r.randrange(8)
        word, text = self._word(sources), self._word(sources)
        return self.r.choice(
            [
                f"{number} > {at // 2}", f"{number} <> {at}", f"{number} <= {other}", f"{word} = 'a'",
                f"{word} IS NULL", f"{number} IS NULL", f"{word} <> 'c'", f"{number} < {at + 3}",
                f"num_nulls({number}, {other}, {word}) < 2", f"quote_nullable({word}) <> 'NULL'",
                f"{number} IS NOT NULL", f"{number} IN (1, 3, {at}, NULL)", f"{number} NOT IN (2, {at})",
                f"{number} BETWEEN 2 AND {at + 4}", f"({number} < 5 OR {word} = 'b')",
                f"NOT ({number} > {at} AND {word} = 'a')", f"coalesce({number}, {at}) > 3",
                f"CASE WHEN {word} = 'a' THEN {number} ELSE {other} END > 2", f"{number} IS DISTINCT FROM {other}",
                f"({number} > 1 AND {word} = 'a' OR {other} < {at} AND {text} = 'b')",
            ]
        )  # fmt: skip

    def _condition(self, sources: Sequence[_Source], depth: int) -> str:
        if self.r.random() < 0.5:
            return self._simple(sources)
        number, word = self._number(sources), self._word(sources)
        name = self._name()
        deeper = f"SELECT 1 FROM nodes y WHERE y.id = z.dst AND y.label = {word}"
        nested = f"SELECT 1 FROM edges z WHERE z.src = {number} AND EXISTS ({deeper})"
        made = f"SELECT {name}.i0 FROM ({self.query(0)}) AS {name}" if depth else "SELECT parent FROM nodes"
        return self.r.choice(
            [
                f"EXISTS (SELECT 1 FROM edges z WHERE z.src = {number} AND z.cost > 2)",
                f"NOT EXISTS (SELECT 1 FROM events z WHERE z.node = {number} AND z.kind = {word})",
                f"EXISTS ({nested})",
                f"{number} IN ({made})",
                f"{number} NOT IN ({made})",
                f"{number} NOT IN (SELECT dst FROM edges WHERE dst IS NOT NULL)",
                f"{number} > (SELECT avg(cost) FROM edges z WHERE z.dst >= {number})",
                f"({number}, {word}) IN (SELECT id, label FROM nodes)",
                f"{number} = (SELECT min(z.amount) FROM events z WHERE z.kind = {word})",
            ]
        )  # fmt: skip
