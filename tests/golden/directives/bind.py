"""`bind`: a query over the collection `orders` → its plan; `bind transform`: for one that is maintained.

orders (id int8, customer text, price numeric(10,2), created_at timestamptz, payload jsonb, tags text[],
        place row(x int8, y text))
recent: a view of the orders since 2024;   broken: a view that does not bind;   loop: one that reads itself
"""

from tests.golden.runner import directive
from tidegate.expr.model.types import INT8, JSONB, TEXT, TIMESTAMPTZ, array, numeric, record
from tidegate.plan import BoundQuery
from tidegate.sql import prepare
from tidegate.sql.bind import query as bind
from tidegate.sql.bind.catalog import DictCatalog, Relation, ViewRelation
from tidegate.sql.parse.grammar.statements import parse_query

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
CATALOG = DictCatalog(
    {
        "orders": ORDERS,
        "recent": ViewRelation("SELECT * FROM orders WHERE created_at >= '2024-01-01'"),
        "named": ViewRelation("SELECT id, price * 2 FROM recent", ("number", "twice")),
        "broken": ViewRelation("SELECT prise FROM orders"),
        "loop": ViewRelation("SELECT * FROM loop"),
        "top": ViewRelation("SELECT * FROM orders LIMIT 3"),
    }
)


def single(sql: str) -> BoundQuery:
    """A query as a plan over one collection; an error that says why it is none."""
    parsed = parse_query(sql)
    prepared = prepare(parsed, CATALOG, now_ms=0)
    if prepared.single is None:
        raise prepared.obstacle(parsed).error()
    return prepared.single


@directive("bind")
def bind_query(args: str, lines: list[str]) -> str:
    sql = "\n".join(lines)
    bound = bind.bind_transform(sql, CATALOG) if args == "transform" else single(sql)
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
