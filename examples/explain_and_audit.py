"""Why is this query slow; and how do I know that nothing is missing?

    python examples/explain_and_audit.py

EXPLAIN says which parts are read and which bounds could not rule them out. EXPLAIN FILTER PUSHDOWN says of each condition whether
it can leave out parts, and if not, why. Audit reads some of the parts that were left out all the same: they must yield nothing.
"""

import tempfile

import numpy as np

import tidegate

with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
    db = tidegate.open(folder)
    db.sql("CREATE TABLE orders (id int8, price float8, item text)")
    for batch in range(20):
        ids = np.arange(batch * 1000, batch * 1000 + 1000)
        db.append(
            "orders", {"id": ids, "price": ids % 500 / 4.0, "item": [f"item {i % 50}" for i in ids.tolist()]}
        )

    query = "SELECT id, price * 2 AS double FROM orders WHERE id / 2 > 9400 AND price > 100"
    print(db.sql(f"EXPLAIN {query}").text())

    # With ANALYZE it runs: rows in and out of each stage, bytes, time.
    print()
    print(db.sql(f"EXPLAIN ANALYZE {query}").text())

    # Which condition is worth something? `md5` keeps no order, so bounds of price say nothing about it.
    print()
    worth = db.sql(
        "EXPLAIN FILTER PUSHDOWN SELECT * FROM orders WHERE id / 2 > 9400 AND md5(price::text) = 'x'"
    )
    for condition, can_prune, pruned, whole, why in worth.rows():
        print(
            f"{condition}: can prune {can_prune}, prunes {pruned}, proves {whole} whole; {why or 'nothing in the way'}"
        )

    # Every part that is left out is read all the same, and must hold no row that passes. The default is one in a hundred.
    print()
    db.set("audit", 1.0)
    r = db.sql(query)
    print(
        f"{len(r)} rows; read {r.scan.parts_read}, audited {r.scan.parts_audited} of {r.scan.parts_total} parts"
    )

    # The same query with every short cut off gives the same rows.
    off = "OPTIONS (stats_filter = off, late_materialization = off, fast_path = off)"
    slow = db.sql(f"{query} {off}")
    print(
        f"all off: {len(slow)} rows; read {slow.scan.parts_read}; the same rows: {sorted(slow.rows()) == sorted(r.rows())}"
    )

    # What was done since the database was opened, for Prometheus.
    print()
    for line in db.metrics().splitlines():
        if line.startswith(("tidegate_parts_total{", "tidegate_audit_failures_total")):
            print(line)
    db.close()
