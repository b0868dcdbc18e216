"""Selectivity: the estimated share of each part's rows that passes a condition. Never used to prune.

    guess = Guess(frame, columns, absent, now)
    guess.of(condition)          Odds: shares that are true and false in each part; the rest is NULL
    guess.all(conditions)        the share of rows that pass all of them

Sources, the sharpest first:

1. **Verdicts.** What the interpreter proves of a part is no guess: NONE is 0, ALL is 1, of every part of a condition.
2. **Histograms and distinct counts** (`distribution.py`) for a *subject* that is compared with a constant: a column, or a
column that
   was moved or cast (`created_at + '30 days'`), whose values lie between their bounds as the column's do. Conditions on one
   subject are cut out of one range, not multiplied: `BETWEEN` is the difference of two shares.
3. **Bounds** of any other subject that the interpreter knows, as `(payload ->> 'ts')::numeric`: its values are taken to lie
   evenly.
4. **Constants** where nothing is known, below.

| guess | value | why |
|---|---|---|
| `EQUAL` | 0.01 | `x = 5` where no distinct count is kept: columns that people look things up by have many values |
| `COMPARED` | 1/3 | `a < b`: either order, or equal |
| `MATCHED` | 0.1 | `LIKE '%x%'`, `~`, `@>`: people search for what is rare, but name words that occur |
| `TRUE` | 1/2 | a boolean column: no share is kept of it |
| `OTHER` | 1/3 | any other condition: asked in order to drop most rows |
| `NULLS` | 0.05 | NULL where it may occur and was not counted |

Different subjects are taken to be independent, which errs where columns go together (a city and its country). Errors count as
neither true nor false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import Interpretation, Specs, constant, successor
from tidegate.expr.model import Call, Column, Cost, Expr, Kind, Literal, build, support
from tidegate.expr.primitives import RegexEnding
from tidegate.query.estimate.distribution import Subjects, product
from tidegate.storage.part import SchemaColumn
from tidegate.storage.stats import Frame

COMPARED, MATCHED, TRUE, OTHER = 1 / 3, 0.1, 1 / 2, 1 / 3

_SWAPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_IN = ("in", "any =")
_UNSORTED = (Kind.FLOAT4, Kind.FLOAT8, Kind.INTERVAL, Kind.UUID)
"""Types whose least and greatest Arrow does not tell, or not as we do."""


class Odds(NamedTuple):
    """Shares of the rows of each part, of length n or 1."""

    true: np.ndarray
    false: np.ndarray


@dataclass(frozen=True, eq=False)
class Cut:
    """What a condition keeps of a subject's non-NULL values, laid out in order from 0 to 1."""

    subject: Expr
    begin: np.ndarray | float = 0.0
    end: np.ndarray | float = 1.0
    most: np.ndarray | float = 1.0
    """No more than this, wherever it lies: `x = 5`."""
    factor: np.ndarray | float = 1.0
    """Of what is left, this share: `x LIKE '%a%'`."""

    def both(self, other: Cut) -> Cut:
        """What both leave."""
        return Cut(
            self.subject, np.maximum(self.begin, other.begin), np.minimum(self.end, other.end),
            np.minimum(self.most, other.most), np.multiply(self.factor, other.factor),
        )  # fmt: skip

    @property
    def share(self) -> np.ndarray:
        """How much is left."""
        left: np.ndarray = np.minimum(np.clip(np.subtract(self.end, self.begin), 0, 1), self.most)
        return left * self.factor


class _Described(Sequence[Specs | None]):
    """The Specs of the columns of a frame, each made when it is first asked for."""

    def __init__(
        self, frame: Frame, columns: Sequence[SchemaColumn], absent: Mapping[int, np.ndarray]
    ) -> None:
        self.frame, self.columns, self.absent = frame, columns, absent
        self._made: dict[int, Specs] = {}

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, index: int) -> Specs: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Specs | None]: ...
    def __getitem__(self, index: int | slice) -> Specs | Sequence[Specs | None]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index not in self._made:
            column = self.columns[index]
            (self._made[index],) = self.frame.specs([(column.id, column.type)], self.absent)
        return self._made[index]


class Guess:
    """Odds of conditions over the columns of a frame."""

    def __init__(
        self, frame: Frame, columns: Sequence[SchemaColumn], absent: Mapping[int, np.ndarray], now: int
    ) -> None:
        """`absent`: by the id of a column, the parts whose rows lack it."""
        self.parts = len(frame)
        self.interpretation = Interpretation(_Described(frame, columns, absent), (now, now))
        self.subjects = Subjects(frame, columns, absent, self.interpretation)
        self._odds: dict[Expr, Odds] = {}
        self._cuts: dict[Expr, Cut | None] = {}

    def all(self, conditions: Iterable[Expr]) -> np.ndarray:
        """About which share of the rows of each part passes all conditions."""
        flat = [part for condition in conditions for part in build.conjuncts(condition)]
        return np.broadcast_to(self._and(flat).true, self.parts)

    def of(self, condition: Expr) -> Odds:
        """The odds of one condition."""
        if condition not in self._odds:
            self._odds[condition] = self._proven(condition, self._guess(condition))
        return self._odds[condition]

    # ---------------------------------------------------------------- conditions

    def _guess(self, node: Expr) -> Odds:
        cut = self.cut(node)
        if cut is not None:
            return self._odds_of(cut)
        match node:
            case Literal(value):
                known = value.as_py()
                return Odds(np.full(1, float(known is True)), np.full(1, float(known is False)))
            case Call(function, args) if function.name == "and":
                return self._and(args)
            case Call(function, args) if function.name == "or":
                turned = [self.of(arg) for arg in args]
                return Odds(1 - product(1 - odds.true for odds in turned), product(o.false for o in turned))
            case Call(function, (arg,)) if function.name == "not":
                inner = self.of(arg)
                return Odds(inner.false, inner.true)
            case Call(function, (arg,)) if function.name == "is null":
                null = self._null_odds(arg)
                return Odds(null, 1 - null)
            case Call(function, (arg,)) if function.name in ("is true", "is false"):
                true = self.of(arg)[function.name == "is false"]
                return Odds(true, 1 - true)
            case Call(function, (a, b)) if function.name == "is distinct from":
                same = self._same(a, b)
                return Odds(1 - same, same)
            case Call(function, (a, b)) if function.name in _SWAPPED:
                return self._share(node, self._two_sided(function.name, a, b))
            case Call(function) if function.name in ("like", "ilike") or function.cost >= Cost.HEAVY:
                return self._share(node, MATCHED)
            case Column():
                return self._share(node, TRUE)
            case _:
                return self._share(node, OTHER)

    def _and(self, conditions: Sequence[Expr]) -> Odds:
        """Conditions on one subject share its range and its NULLs; all others are independent."""
        cuts: dict[Expr, list[Expr]] = {}
        sides: list[Odds] = []
        for condition in conditions:
            cut = self.cut(condition)
            if cut is None:
                sides.append(self.of(condition))
            else:
                cuts.setdefault(cut.subject, []).append(condition)
        sides += [self._together(same) for same in cuts.values()]
        true = product(odds.true for odds in sides)
        return Odds(true, 1 - product(1 - odds.false for odds in sides))

    def _together(self, conditions: Sequence[Expr]) -> Odds:
        """Conditions on one subject; no more pass all than pass the sharpest."""
        each = [self.of(condition) for condition in conditions]
        if len(each) == 1:
            return each[0]
        cuts = [cut for cut in map(self.cut, conditions) if cut is not None]
        odds = self._odds_of(reduce(Cut.both, cuts))
        true = reduce(np.minimum, [one.true for one in each], odds.true)
        return Odds(true, np.maximum(odds.false, reduce(np.maximum, [one.false for one in each])))

    def _odds_of(self, cut: Cut) -> Odds:
        valid, share = 1 - self.subjects.nulls(cut.subject), cut.share
        return Odds(valid * share, valid * (1 - share))

    def _share(self, node: Expr, share: float | np.ndarray) -> Odds:
        """A share of the rows for which the arguments are not NULL."""
        valid = 1 - self.subjects.nulls(node)
        return Odds(valid * share, valid * (1 - np.asarray(share)))

    def _proven(self, node: Expr, odds: Odds) -> Odds:
        """The guess, corrected by what the interpreter proves."""
        specs = self.interpretation.of(node)
        assert specs.true is not None
        assert specs.false is not None
        true, false = np.where(specs.true, odds.true, 0.0), np.where(specs.false, odds.false, 0.0)
        sure = ~(specs.null | specs.error)
        return Odds(
            np.where(sure & specs.true & ~specs.false, 1.0, true),
            np.where(sure & specs.false & ~specs.true, 1.0, false),
        )

    def _two_sided(self, name: str, a: Expr, b: Expr) -> float | np.ndarray:
        """A comparison of two expressions, neither of which is constant."""
        if name not in ("=", "<>"):
            return COMPARED
        equal: np.ndarray = np.minimum(self.subjects.even(a), self.subjects.even(b))
        return equal if name == "=" else 1 - equal

    def _same(self, a: Expr, b: Expr) -> np.ndarray:
        """IS NOT DISTINCT FROM: both NULL, or neither and equal."""
        null = self.subjects.nulls(a), self.subjects.nulls(b)
        subject, other = (a, b) if support(a) else (b, a)
        value = None if support(other) else constant(self.interpretation.of(other))
        if value is None or not support(subject):
            equal: np.ndarray = np.minimum(self.subjects.even(a), self.subjects.even(b))
        else:
            equal = self.subjects.equal(subject, value)
        same: np.ndarray = null[0] * null[1] + (1 - null[0]) * (1 - null[1]) * equal
        return same

    def _null_odds(self, arg: Expr) -> np.ndarray:
        if arg.type.kind is Kind.BOOL and isinstance(arg, Call):
            odds = self.of(arg)
            null: np.ndarray = np.clip(1 - odds.true - odds.false, 0, 1)
            return null
        return self.subjects.nulls(arg)

    # ---------------------------------------------------------------- subjects

    def cut(self, node: Expr) -> Cut | None:
        """What a condition leaves of its subject, if it is one that compares a subject with constants."""
        if node not in self._cuts:
            self._cuts[node] = self._cut(node) if isinstance(node, Call) else None
        return self._cuts[node]

    def _cut(self, node: Call) -> Cut | None:
        name, args = node.function.name, node.args
        if name == "not":
            return self._without(args[0])
        if len(args) != 2 or args[0].type.is_nested:
            return None
        if name in _SWAPPED and not support(args[0]):
            name, args = _SWAPPED[name], (args[1], args[0])
        subject, other = args
        if not support(subject) or support(other):
            return None
        if name in _IN and isinstance(other, Literal) and not other.is_null:
            return self._in_list(subject, other.value.values.drop_null().unique())
        value = constant(self.interpretation.of(other))
        if value is None:
            return None
        return self._compared(name, subject, value)

    def _without(self, inner: Expr) -> Cut | None:
        """Negates points and patterns; `simplify.py` has negated ranges already."""
        if isinstance(inner, Call) and inner.function.name == "is null":
            whole = inner.args[0].type.kind is not Kind.BOOL and support(inner)
            return Cut(inner.args[0]) if whole else None
        cut = self.cut(inner)
        return None if cut is None else Cut(cut.subject, factor=1 - cut.share)

    def _compared(self, name: str, subject: Expr, value: pa.Scalar) -> Cut | None:
        match name:
            case "<" | ">=":
                at = self.subjects.below(subject, value)[0]
                return Cut(subject, end=at) if name == "<" else Cut(subject, begin=at)
            case "<=" | ">":
                at = self.subjects.below(subject, value)[1]
                return Cut(subject, end=at) if name == "<=" else Cut(subject, begin=at)
            case "=":
                return Cut(subject, most=self.subjects.equal(subject, value))
            case "<>":
                return Cut(subject, factor=1 - self.subjects.equal(subject, value))
            case "starts_with":
                return self._starting(subject, value.as_py())
            case "like":
                from tidegate.expr.functions import parse_like  # on use: it declares all functions

                like = parse_like(value.as_py())
                if like.error is not None:
                    return None
                if like.ending is RegexEnding.NOTHING:
                    return Cut(subject, most=self.subjects.equal(subject, pa.scalar(like.prefix)))
                found = self._starting(subject, like.prefix)
                return (
                    found if like.ending is RegexEnding.ANYTHING else found.both(Cut(subject, factor=MATCHED))
                )
            case _:
                return None

    def _in_list(self, subject: Expr, values: pa.Array) -> Cut:
        """Some of the values from the least to the greatest of a list."""
        most = self.subjects.in_list(subject, values)
        if len(values) < 2 or subject.type.kind in _UNSORTED:
            return Cut(subject, most=most)
        least, greatest = pc.min_max(values).values()
        return Cut(
            subject, self.subjects.below(subject, least)[0], self.subjects.below(subject, greatest)[1], most
        )

    def _starting(self, subject: Expr, prefix: str) -> Cut:
        """The texts from a prefix up to what follows all that start with it."""
        if not prefix:
            return Cut(subject)
        after = successor(prefix)
        begin = self.subjects.below(subject, pa.scalar(prefix))[0]
        return Cut(
            subject, begin, 1.0 if after is None else self.subjects.below(subject, pa.scalar(after))[0]
        )
