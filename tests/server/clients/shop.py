"""What every client of `test_pg_clients.py` asks of: `tidegate serve --write` over a table of many types, a long one and a view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tidegate
from tests.server.test_serve import serving

ROWS = 20_000


@contextmanager
def client_shop(lake: Path) -> Iterator[int]:
    """Serves `orders`, `big` and the view `recent` in a process of its own; gives the port."""
    with tidegate.open(lake) as db:
        db.sql(
            "CREATE TABLE orders (id int8, name text DEFAULT 'x', price numeric(10,2), at timestamptz, tags text[], "
            "doc jsonb, u uuid, b bool, f float8, d date, PRIMARY KEY (id) NOT ENFORCED)"
        )
        db.sql(
            "INSERT INTO orders VALUES (1, 'ham', 1.50, '2026-01-02 03:04:05+00', ARRAY['a', 'b'], '{\"k\": 1}', "
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', true, 1.5, '2026-01-02')"
        )
        db.sql("INSERT INTO orders (id, name, price) VALUES (2, 'eggs', 2.25)")
        db.sql("CREATE TABLE big (n int8)")
        db.append("big", {"n": list(range(ROWS))})
        db.sql("CREATE VIEW recent AS SELECT id, name FROM orders")
    with serving(lake, "--write") as (_, port):
        yield port
