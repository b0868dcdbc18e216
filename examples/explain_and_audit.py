"""Why is a query slow, and how do I know that no row is missing?

    python examples/explain_and_audit.py

EXPLAIN shows which parts are read and which bounds could not rule them out. EXPLAIN FILTER PUSHDOWN shows for each condition
whether it can prune parts, and if not, why. Audit reads some of the pruned parts anyway: they must yield no rows.
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

    # ANALYZE runs the query and adds rows, bytes and time of each stage.
    print()
    print(db.sql(f"EXPLAIN ANALYZE {query}").text())

    # Which condition prunes? `md5` keeps no order, so bounds of price tell nothing about it.
    print()
    pushdown = db.sql(
        "EXPLAIN FILTER PUSHDOWN SELECT * FROM orders WHERE id / 2 > 9400 AND md5(price::text) = 'x'"
    )
    for condition, can_prune, pruned, whole, why in pushdown.rows():
        print(
            f"{condition}: can prune {can_prune}, prunes {pruned}, proves {whole} whole; {why or 'nothing in the way'}"
        )

    # Reads every pruned part anyway; none may hold a matching row. The default is one part in a hundred.
    print()
    db.set("audit", 1.0)
    r = db.sql(query)
    print(
        f"{len(r)} rows; read {r.scan.parts_read}, audited {r.scan.parts_audited} of {r.scan.parts_total} parts"
    )

    # Without any of the optimisations the query returns the same rows.
    off = "OPTIONS (stats_filter = off, late_materialization = off, fast_path = off)"
    slow = db.sql(f"{query} {off}")
    print(
        f"all off: {len(slow)} rows; read {slow.scan.parts_read}; the same rows: {sorted(slow.rows()) == sorted(r.rows())}"
    )

    # Counters since the database was opened, in the format of Prometheus.
    print()
    for line in db.metrics().splitlines():
        if line.startswith(("tidegate_parts_total{", "tidegate_audit_failures_total")):
            print(line)
    db.close()
