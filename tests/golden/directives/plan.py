"""`plan`: the MapFilterProject of a query, optimised, and what becomes of it.

    plan                       the plan and the columns it demands
    plan decompose             safe, expiration and final, as TRANSFORM USING runs it
    plan take cheap|exact      what a source takes that does what is cheap, or cannot fail; what it leaves
    plan partition a b         what is done with columns a and b, and what waits for the others

Tables: x (a text, b int4), orders (id int8, item text, price numeric(10,2), created_at timestamptz, ingest_ts
timestamptz, payload jsonb), sales_staff (data bytea).
"""

from tests.golden.runner import directive
from tidegate.expr.model.function import CHEAP
from tidegate.expr.model.subexpressions import may_fail
from tidegate.expr.model.tree import Call, Expr, walk
from tidegate.expr.model.types import BYTEA, INT4, INT8, JSONB, TEXT, TIMESTAMPTZ, Type, numeric
from tidegate.plan import MapFilterProject, check_stable, decompose
from tidegate.plan.divide import partition, take
from tidegate.sql import prepare
from tidegate.sql.bind.catalog import DictCatalog, Relation

TABLES: dict[str, tuple[tuple[str, Type], ...]] = {
    "x": (("a", TEXT), ("b", INT4)),
    "orders": (
        ("id", INT8), ("item", TEXT), ("price", numeric(10, 2)), ("created_at", TIMESTAMPTZ),
        ("ingest_ts", TIMESTAMPTZ), ("payload", JSONB),
    ),
    "sales_staff": (("data", BYTEA),),
}  # fmt: skip


@directive("plan")
def plan(args: str, lines: list[str]) -> str:
    catalog = DictCatalog({name: Relation(name, columns) for name, columns in TABLES.items()})
    bound = prepare("\n".join(lines), catalog).single
    assert bound is not None
    names = [name for name, _ in TABLES[bound.source or "x"]]
    mfp = bound.mfp.optimise()
    match args.split():
        case []:
            return f"{mfp.show()}\ndemand {_columns(names, mfp.demand())}"
        case ["decompose"]:
            check_stable(mfp)
            return _titled(decompose(mfp)._asdict())
        case ["take", kind]:
            return _titled(take(mfp, _cheap if kind == "cheap" else lambda e: not may_fail(e))._asdict())
        case ["partition", *columns]:
            first, before, later, after = partition(mfp, [names.index(column) for column in columns])
            return "\n".join([
                f"read {_columns(names, first)}", *_block("before", before),
                f"read {_columns(names, later)}", *_block("after", after),
            ])  # fmt: skip
        case _:
            raise ValueError(args)


def _cheap(expr: Expr) -> bool:
    return all(node.function.cost is CHEAP for node in walk(expr) if isinstance(node, Call))


def _columns(names: list[str], columns: frozenset[int] | tuple[int, ...]) -> str:
    return ", ".join(names[column] for column in sorted(columns)) or "nothing"


def _titled(plans: dict[str, MapFilterProject]) -> str:
    return "\n".join(line for title, mfp in plans.items() for line in _block(title, mfp))


def _block(title: str, mfp: MapFilterProject) -> list[str]:
    return [f"{title}:", *("  " + line for line in mfp.show().split("\n"))]
