"""`bind`: a query over the collection `orders` → its plan; `bind transform`: for one that is maintained.

orders (id int8, customer text, price numeric(10,2), created_at timestamptz, payload jsonb, tags text[],
        place row(x int8, y text))
recent: a view of the orders since 2024;   broken: a view that does not bind;   loop: one that reads itself
"""

from tests.golden.runner import directive
from tidegate.expr.types import INT8, JSONB, TEXT, TIMESTAMPTZ, array, numeric, record
from tidegate.sql import bind
from tidegate.sql.catalog import Names, Relation, View

ORDERS = Relation(
    "orders",
    (
        ("id", INT8),
        ("customer", TEXT),
        ("price", numeric(10, 2)),
        ("created_at", TIMESTAMPTZ),
        ("payload", JSONB),
        ("tags", array(TEXT)),
        ("place", record(("x", INT8), ("y", TEXT))),
    ),
)
CATALOG = Names(
    {
        "orders": ORDERS,
        "recent": View("SELECT * FROM orders WHERE created_at >= '2024-01-01'"),
        "named": View("SELECT id, price * 2 FROM recent", ("number", "twice")),
        "broken": View("SELECT prise FROM orders"),
        "loop": View("SELECT * FROM loop"),
        "top": View("SELECT * FROM orders LIMIT 3"),
    }
)


@directive("bind")
def bind_query(args: str, lines: list[str]) -> str:
    sql = "\n".join(lines)
    bound = bind.transform(sql, CATALOG) if args == "transform" else bind.query(sql, CATALOG, now_ms=0)
    shown = [f"from {bound.source}" if bound.source else "from one row"]
    shown.append(", ".join(f"{name} {type_}" for name, type_ in zip(bound.names, bound.types, strict=True)))
    shown += bound.mfp.show().split("\n")
    if bound.aggregation is not None:
        shown += bound.aggregation.show().split("\n")
    for key in bound.order_by:
        direction = "descending" if key.descending else "ascending"
        shown.append(f"Order output {key.column} {direction}, nulls {'first' if key.nulls_first else 'last'}")
    if bound.limit is not None or bound.offset:
        shown.append(f"Limit {bound.limit} offset {bound.offset}")
    return "\n".join(shown)
