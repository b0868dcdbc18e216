"""A lake in a bucket, without any server.

    AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… AWS_REGION=… TIDEGATE_S3=s3://bucket/example python examples/object_store.py

Parts are objects; metadata is numbered objects beside them, each created once, so that of two concurrent writers one wins and the
other retries. `?metadata=postgresql://…` puts the metadata into PostgreSQL instead. AWS_ENDPOINT_URL names an S3 server other than
Amazon's.
"""

import os
import secrets
import sys

import numpy as np

import tidegate

bucket = os.environ.get("TIDEGATE_S3")
if bucket is None:
    sys.exit("set TIDEGATE_S3 to a bucket: TIDEGATE_S3=s3://bucket/prefix")
url = f"{bucket.rstrip('/')}/{secrets.token_hex(4)}"
if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
    url += f"?endpoint={endpoint}"

with tidegate.open(url) as db:
    db.sql("CREATE TABLE readings (id int8, sensor text, value float8)")
    for batch in range(20):
        ids = np.arange(batch * 10_000, batch * 10_000 + 10_000)
        sensors = np.char.add("s", (ids % 100).astype(str))
        db.append("readings", {"id": ids, "sensor": sensors, "value": np.sin(ids)})
    print(f"metadata: {db.status().metadata}; {db.status().collections['readings'].parts} parts")

# Another process on another machine opens the same lake: they share nothing but the bucket.
with tidegate.open(url) as db:
    for sql in (
        "SELECT count(*), min(id), max(id) FROM readings",  # answered from metadata
        "SELECT * FROM readings LIMIT 10",  # some pages of one part
        "SELECT avg(value) FROM readings WHERE id / 1000 = 123",  # the parts that can match
    ):
        r = db.sql(sql)
        scan = r.scan
        print(
            f"{sql}\n    {r.path}: {scan.parts_read} of {scan.parts_total} parts, {scan.bytes_read:,} of {scan.bytes_total:,} bytes"
        )

    # Two concurrent writers: the second finds that it is behind, and retries.
    with tidegate.open(url) as other:
        db.append("readings", {"id": [-1], "sensor": ["new"], "value": [0.0]})
        other.append("readings", {"id": [-2], "sensor": ["new"], "value": [0.0]})
    new = db.sql("SELECT count(*) FROM readings WHERE sensor = 'new'").rows()[0][0]
    print(f"both are there: {new}")
    db.sql("DROP TABLE readings")
