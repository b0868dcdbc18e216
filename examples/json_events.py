"""Filters on paths inside JSON prune parts.

    python examples/json_events.py

Statistics are collected for each path of a jsonb column, separately for each JSON type at that path: a path with numbers in most
rows and text in some still has bounds for its numbers. Nothing is declared in advance.
"""

import json
import tempfile

import tidegate

HOUR_MS = 3_600_000

with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
    db = tidegate.open(folder)
    db.sql("CREATE TABLE events (id int8, payload jsonb)")

    # One batch per hour. `ts` is in milliseconds; `v` is a number, but a text in one row of a hundred.
    for hour in range(24):
        ids = range(hour * 1000, hour * 1000 + 1000)
        payloads = [
            {
                "ts": hour * HOUR_MS + i % 1000 * 3600,
                "user": {"id": i % 7, "country": "np" if hour < 12 else "de"},
                "v": "n/a" if i % 100 == 0 else hour * 10 + i % 10,
            }
            for i in ids
        ]
        db.append("events", {"id": list(ids), "payload": [json.dumps(payload) for payload in payloads]})

    def run(sql: str) -> None:
        """Prints the answer, the path that found it, and how many parts were read."""
        r = db.sql(sql)
        print(
            f"{sql}\n    {r.rows()[0][0]:,} rows; {r.path}: {r.scan.parts_read} of {r.scan.parts_total} parts"
        )

    count = "SELECT count(*) FROM events WHERE"
    run(f"{count} (payload->>'ts')::int8 >= {22 * HOUR_MS}")  # a number
    run(f"{count} (payload->>'ts')::int8 / {HOUR_MS} = 5")  # arithmetic on it
    run(f"{count} payload->'user'->>'country' = 'np' AND id % 2 = 0")  # a text, one level down
    run(f"{count} to_timestamp((payload->>'ts')::float8 / 1000) < '1970-01-01 03:00+00'")  # as a time
    run(f"""{count} payload @> '{{"v": 235}}'""")  # of mixed types: the bounds of the numbers
    run(f"{count} payload->>'v' = 'unknown'")  # and the bounds of the texts

    # What the first condition prunes, and why the second prunes nothing.
    print()
    for condition, can_prune, pruned, _whole, why in db.sql(
        f"EXPLAIN FILTER PUSHDOWN SELECT id FROM events WHERE (payload->>'ts')::int8 < {HOUR_MS}"
        " AND md5(payload->>'v') = 'x'"
    ).rows():
        print(f"{condition}: {f'prunes {pruned} of 24 parts' if can_prune else why}")
    db.close()
