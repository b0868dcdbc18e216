"""Random queries over a collection of `layout.py`.

Most conditions are such as people write, with constants that the data holds, so that some rows pass and some parts do not; a few
are grown from the whole registry (`laws/grow.py`), where nearly every row fails or is NULL. Those that may fail stand mostly beside
ones that exclude the rows on which they do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tests.laws.boxes import VARIANTS, pool
from tests.laws.grow import Grower
from tests.reads.layout import Column, Made
from tidegate.expr.model import tree
from tidegate.expr.model.printer import show, text_of
from tidegate.expr.model.tree import Expr, Now
from tidegate.expr.model.types import BOOL, Kind, Type

MOST = 9_223_372_036_854_775_807
LIMITS = (0, 1, 2, 7, 100, 20_000, 10**6, MOST)
OFFSETS = (0, 1, 3, 50, 9_000, 10**7, MOST)
NUMBERS = (Kind.INT2, Kind.INT4, Kind.INT8, Kind.FLOAT4, Kind.FLOAT8, Kind.NUMERIC)
TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
KEYS = ("a", "b", "ts", "", "zz")
AGGREGATES = ("count", "min", "max", "sum")


@dataclass(frozen=True)
class Grouping:
    """GROUP BY: the query's first items are keys, the others arguments, by the name of the aggregate (None: `count(*)`)."""

    keys: int
    aggregates: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """A query, and the parts it is made of."""

    items: tuple[str, ...]
    where: str | None = None
    order: tuple[str, ...] = ()
    limit: int | None = None
    offset: int | None = None
    as_of: int | None = None
    distinct: bool = False
    grouping: Grouping | None = None
    inner: str | None = None
    """A filter below, in a subquery."""

    @property
    def sql(self) -> str:
        """The statement."""
        return self._text(self._selected()) + self._tail()

    @property
    def plain(self) -> str:
        """The rows that are grouped or made distinct, without that."""
        return self._text(", ".join(self.items))

    def _selected(self) -> str:
        if self.grouping is None:
            return ("DISTINCT " if self.distinct else "") + ", ".join(self.items)
        keys, args = self.items[: self.grouping.keys], self.items[self.grouping.keys :]
        calls = [
            f"{name}({'*' if name == 'count' and arg == '1' else arg})"
            for name, arg in zip(self.grouping.aggregates, args, strict=True)
        ]
        return ", ".join((*keys, *calls))

    def _text(self, selected: str) -> str:
        source = "t" if self.inner is None else f"(SELECT * FROM t WHERE {self.inner}) AS s"
        return f"SELECT {selected} FROM {source}" + (f" WHERE {self.where}" if self.where else "")

    def _tail(self) -> str:
        text = ""
        if self.grouping is not None and self.grouping.keys:
            text += f" GROUP BY {', '.join(map(str, range(1, self.grouping.keys + 1)))}"
        if self.order:
            text += f" ORDER BY {', '.join(self.order)}"
        text += "" if self.limit is None else f" LIMIT {self.limit}"
        text += "" if self.offset is None else f" OFFSET {self.offset}"
        return text + ("" if self.as_of is None else f" AS OF {self.as_of}")


class _Wild(Grower):
    """Expressions of anything over the columns that there are."""

    def __init__(self, rng: np.random.Generator, columns: list[Column]) -> None:
        super().__init__(rng)
        self.columns = columns

    def leaf(self, type_: Type) -> Expr:
        if type_.kind is Kind.MZ_TIMESTAMP and self.rng.random() < 0.5:
            return Now()
        places = [i for i, column in enumerate(self.columns) if column.type.same_kind(type_)]
        if places and self.rng.random() < 0.8:
            at = int(self.rng.choice(places))
            return tree.Column(at, self.columns[at].type, self.columns[at].name)
        return self.literal(type_)


class Asker:
    """Makes questions about one collection."""

    def __init__(self, made: Made, rng: np.random.Generator) -> None:
        self.rng, self.made = rng, made
        self.columns = made.model.columns
        self.data = {column: made.model.values(column) for column in self.columns}
        self.wild = _Wild(rng, self.columns)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def one(self, choices: tuple[str, ...] | list[str]) -> str:
        return choices[int(self.rng.integers(len(choices)))]

    def ask(self) -> Question:
        """A question."""
        items = tuple(self.item() for _ in range(int(self.rng.choice([1, 2, 3, 6]))))
        asked = Question(("*",) if self.chance(0.15) else items)
        if self.chance(0.85):
            asked = replace(asked, where=self.condition(int(self.rng.choice([0, 1, 1, 2]))))
        if self.chance(0.1):
            asked = replace(asked, inner=self.condition(1))
        if self.chance(0.35 if self.made.size == "small" else 0.15):
            asked = replace(asked, as_of=int(self.rng.choice(self.made.times)))
        kind = self.rng.random()
        if kind < 0.2:
            return replace(asked, items=self.grouped(), grouping=self._grouping)
        if kind < 0.25:
            names = tuple(self.column().name for _ in range(2))
            return replace(asked, items=names, distinct=True)
        return self._cut(asked)

    def _cut(self, asked: Question) -> Question:
        if self.chance(0.4):
            keys = [self._key() for _ in range(int(self.rng.choice([1, 1, 2, 3])))]
            asked = replace(asked, order=tuple(keys))
        if self.chance(0.45):
            asked = replace(asked, limit=int(self.rng.choice(LIMITS)))
        if self.chance(0.2):
            asked = replace(asked, offset=int(self.rng.choice(OFFSETS)))
        return asked

    def _key(self) -> str:
        what = self.column().name if self.chance(0.85) else self.item()
        return f"{what}{self.one(('', ' ASC', ' DESC'))}{self.one(('', '', ' NULLS FIRST', ' NULLS LAST'))}"

    def grouped(self) -> tuple[str, ...]:
        keys = [self.column().name for _ in range(int(self.rng.choice([0, 0, 1, 2])))]
        names, args = [], []
        for _ in range(int(self.rng.choice([1, 2, 3]))):
            name = self.one(AGGREGATES)
            numbers = [c.name for c in self.columns if c.type.kind in (Kind.INT2, Kind.INT4, Kind.INT8)]
            args.append(self.one(numbers) if name == "sum" else self.column().name)
            if name == "count" and self.chance(0.6):
                args[-1] = "1"
            names.append(name)
        self._grouping = Grouping(len(keys), tuple(names))
        return (*keys, *args)

    def column(self) -> Column:
        if self.chance(0.2):
            return self.columns[int(self.rng.integers(2))]
        return self.columns[int(self.rng.integers(len(self.columns)))]

    def item(self) -> str:
        """What a SELECT shows: a column, something computed, or a constant."""
        column = self.column()
        name, kind = column.name, column.type.kind
        if self.chance(0.5):
            return name
        forms = [f"coalesce({name}, {self.constant(column)})", f"{name} IS NULL", "1", "'x'", "mz_now()"]
        forms += [f"CASE WHEN {self.condition(0)} THEN {name} END"]
        if kind in NUMBERS:
            forms += [f"{name} + 1", f"- {name}", f"{name} * {name}", f"{name}::text", f"10 / {name}"]
        if kind is Kind.TEXT:
            forms += [f"upper({name})", f"length({name})", f"{name} || '!'", f"{name}::int4"]
        if kind is Kind.JSONB:
            forms += [
                f"{name}->>{self.key()}",
                f"{name}->{self.key()}",
                f"({name}->>{self.key()})::numeric",
            ]
        if kind in TIMES:
            forms += [
                f"{name} + interval '1 month'",
                f"date_trunc('year', {name})",
                f"extract(day FROM {name})",
            ]
        if kind is Kind.RECORD:
            forms += [f"({name}).{column.type.fields[0][0]}"]
        if kind is Kind.ARRAY:
            forms += [f"({name})[1]", f"array_length({name}, 1)"]
        return self.one(forms)

    def condition(self, depth: int) -> str:
        """A filter."""
        turn = self.rng.random()
        if depth > 0 and turn < 0.6:
            parts = [self.condition(depth - 1) for _ in range(2 + int(self.chance(0.2)))]
            return "(" + self.one((" AND ", " AND ", " AND ", " OR ")).join(parts) + ")"
        if depth > 0 and turn < 0.68:
            return f"NOT {self.condition(depth - 1)}"
        if turn < 0.75:
            return "(" + show(self.wild.grow(BOOL, int(self.rng.integers(1, 4))), whole=True) + ")"
        return "(" + self.about(self.column()) + ")"

    def about(self, column: Column) -> str:
        """A condition on a column (or two), such as people write."""
        name, kind = column.name, column.type.kind
        if self.chance(0.08):
            return f"{name} IS {self.one(('', 'NOT '))}NULL"
        if self.chance(0.1):
            other = [c.name for c in self.columns if c.type == column.type and c is not column]
            if other:
                return f"{name} {self.operator()} {self.one(other)}"
        forms: dict[Kind, Callable[[Column], str]] = {
            **dict.fromkeys(NUMBERS, self._number),
            **dict.fromkeys(TIMES, self._time),
            Kind.TEXT: self._text,
            Kind.JSONB: self._json,
            Kind.BOOL: lambda c: self.one(
                (c.name, f"NOT {c.name}", f"{c.name} IS TRUE", f"{c.name} = false")
            ),
            Kind.ARRAY: self._array,
            Kind.RECORD: lambda c: self._compared(f"({c.name}).{c.type.fields[0][0]}", c.type.fields[0][1]),
            Kind.MZ_TIMESTAMP: lambda c: f"mz_now() {self.operator()} {c.name}",
        }
        if kind in forms and self.chance(0.7):
            return forms[kind](column)
        return self._plainly(column)

    def _plainly(self, column: Column) -> str:
        name = column.name
        a, b = self.constant(column), self.constant(column)
        return self.one([
            f"{name} {self.operator()} {a}",
            f"{name} {self.operator()} {a}",
            f"{name} = {a}",
            f"{name} BETWEEN {a} AND {b}",
            f"{name} IN ({a}, {b})",
            f"{name} NOT IN ({a}, NULL)",
            f"{name} IS NOT DISTINCT FROM {a}",
            f"coalesce({name}, {a}) {self.operator()} {b}",
            f"CASE WHEN {name} IS NULL THEN true ELSE {name} {self.operator()} {a} END",
        ])  # fmt: skip

    def _number(self, column: Column) -> str:
        name, a = column.name, self.constant(column)
        if name == "id" and self.chance(0.5):
            return f"{name} >= {a} AND {name} < {a} + {self.one(('1', '30', '2000', '12000'))}"
        return self.one([
            f"{name} + 1 {self.operator()} {a}",
            f"{name} * 2 > {name}",
            f"abs({name}) > 5",
            f"{name} > 0 AND 10 / {name} {self.operator()} 2",
            f"10 / {name} > 1",
            f"{name} - {a} < 100",
            f"{name}::text LIKE '1%'",
            f"{name}::int4 {self.operator()} 3",
        ])  # fmt: skip

    def _text(self, column: Column) -> str:
        name, a = column.name, self.constant(column)
        return self.one([
            f"{name} LIKE '{self.one(('a', '1', 'x', '20', ''))}%'",
            f"{name} LIKE '%{self.one(('a', '1', ' '))}%'",
            f"length({name}) {self.operator()} 3",
            f"lower({name}) = {a}",
            f"{name} || 'x' {self.operator()} {a}",
            f"substr({name}, 1, 2) = '20'",
            f"{name} ~ '^[0-9]+$' AND length({name}) < 5 AND {name}::int4 > 3",
            f"{name}::int4 > 3",
        ])  # fmt: skip

    def _time(self, column: Column) -> str:
        name, a = column.name, self.constant(column)
        days = int(self.rng.choice([0, 1, 30, 400]))
        return self.one([
            f"mz_now() <= {name} + interval '{days} days'",
            f"mz_now() >= {name} - interval '{days} days'",
            f"mz_now() > {name}",
            f"{name} + interval '1 month' {self.operator()} {a}",
            f"date_trunc('month', {name}) = date_trunc('month', {a})",
            f"extract(year FROM {name}) = 2024",
            f"{name}::date {self.operator()} '2024-02-29'",
            f"extract(year FROM {name}) < 9000 AND {name} + interval '1 year' > {a}",
        ])  # fmt: skip

    def _json(self, column: Column) -> str:
        at = f"{column.name}->>{self.key()}"
        inside = f"{column.name}->{self.key()}"
        return self.one([
            f"{at} = '1'",
            f"{at} {self.operator()} 'x'",
            f"({at})::numeric > 1",
            f"jsonb_typeof({inside}) = 'number' AND ({inside})::numeric {self.operator()} 2",
            f"{column.name} @> '{{\"a\": 1}}'",
            f"{column.name} ? {self.key()}",
            f"{inside}->>'b' IS NOT NULL",
            f"coalesce({at}, 'none') = 'none'",
            f"{inside} {self.operator()} '5'::jsonb",
        ])  # fmt: skip

    def _array(self, column: Column) -> str:
        element = column.type.element
        assert element is not None
        return self.one([
            self._compared(f"({column.name})[1]", element),
            f"array_length({column.name}, 1) {self.operator()} 2",
            f"{column.name}[1] IS NULL",
        ])  # fmt: skip

    def _compared(self, what: str, type_: Type) -> str:
        return f"{what} {self.operator()} {self._literal(type_)}"

    def operator(self) -> str:
        return self.one(("<", "<=", ">", ">=", "=", "<>"))

    def key(self) -> str:
        return f"'{self.one(KEYS)}'"

    def constant(self, column: Column) -> str:
        """A value that the column holds, mostly."""
        held = self.data[column]
        if len(held) and self.chance(0.85):
            value = held[int(self.rng.integers(len(held)))]
            if value.is_valid:
                return _written(value, column.type)
        return self._literal(column.type)

    def _literal(self, type_: Type) -> str:
        values = pool(type_, int(self.rng.integers(VARIANTS))).values
        return _written(values[int(self.rng.integers(len(values)))], type_)


def _written(value: pa.Scalar, type_: Type) -> str:
    if type_.kind is Kind.RECORD:
        inside = [_written(value[name], t) for name, t in type_.fields]
        return f"ROW({', '.join(inside)})::{type_}"
    if not value.is_valid:
        return f"NULL::{type_}"
    return "'" + text_of(value, type_).replace("'", "''") + f"'::{type_}"
