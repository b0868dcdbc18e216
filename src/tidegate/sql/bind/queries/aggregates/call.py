"""A call of an aggregate whose arguments are bound, and what such calls are written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.errors import BindError, TypeMismatch, UnsupportedError
from tidegate.expr.model import Expr, Kind, Type, build, types
from tidegate.plan import logical
from tidegate.sql.lower.composite_aggregates import Compute
from tidegate.sql.lower.internal_calls import internal, present


@dataclass(frozen=True)
class BoundCall:
    """An aggregate with its arguments, over rows."""

    name: str
    args: tuple[Expr, ...]
    order: tuple[logical.SortKey, ...]
    where: Expr | None
    distinct: bool
    compute: Compute
    direct: tuple[Expr, ...] = ()
    """The arguments before WITHIN GROUP, over groups."""

    def take(self, count: int) -> tuple[Expr, ...]:
        """The arguments, so many of them."""
        if len(self.args) != count:
            words = {0: "no arguments", 1: "one argument", 2: "two arguments"}
            raise BindError(f"{self.name} takes {words[count]}")
        return self.args

    def plain(self) -> BoundCall:
        """The call without DISTINCT, which is refused where it is not computed."""
        if self.distinct:
            raise UnsupportedError(
                f"{self.name}(DISTINCT …) is not supported",
                hint="aggregate over a subquery that selects DISTINCT values",
            )
        return self

    def mismatch(self, type_: Type, takes: str) -> TypeMismatch:
        """The error of an argument of a type that the aggregate does not take."""
        return TypeMismatch(f"{self.name} does not take {type_}", hint=f"it takes {takes}")

    def filtered(self, value: Expr) -> Expr:
        """A value where FILTER holds, else NULL; it is not computed elsewhere."""
        return value if self.where is None else build.case([(self.where, value)])

    def summary(self, kind: str, type_: Type, *args: Expr) -> Expr:
        """An aggregate that ignores NULL, over the rows of FILTER."""
        return self.compute(logical.AggregateExpr(kind, type_, args))

    def count(self, value: Expr) -> Expr:
        """How many values are not NULL."""
        return self.summary("count", types.INT8, value)

    def collect(
        self, value: Expr, *, order: Sequence[logical.SortKey] | None = None, nulls: bool = True
    ) -> Expr:
        """All values as an array, in order; with `nulls` false those that are not NULL."""
        where = self.where
        if not nulls:
            where = build.conjunction([present(value), *([] if where is None else [where])])
        keys = tuple(self.order if order is None else order)
        if self.distinct and not keys:
            keys = (ascending(value),)
        element = self.filtered(value)
        # Engines take values for equal if their bytes are; of sorted lists we drop what is equal ourselves.
        ours = self.distinct and value.type.kind in (Kind.JSONB, Kind.INTERVAL)
        listed = logical.AggregateExpr(
            "array_agg",
            types.array(value.type),
            (element,),
            self.distinct and not ours,
            sort_keys(keys, value, element),
            where,
        )
        return internal("distinct of sorted", self.compute(listed)) if ours else self.compute(listed)


def sort_keys(keys: Sequence[logical.SortKey], value: Expr, element: Expr) -> tuple[logical.SortKey, ...]:
    """The keys to sort by, `element` in place of `value`, as DISTINCT requires."""
    return tuple(replace(key, value=element) if key.value == value else key for key in keys)


def ascending(value: Expr) -> logical.SortKey:
    """Sorted as PostgreSQL sorts by default."""
    return logical.SortKey(value, descending=False, nulls_first=False)
