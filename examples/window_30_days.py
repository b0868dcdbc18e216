"""The last 30 days, at the cost of the last 30 days.

    python examples/window_30_days.py

Raw events are in JSON files, and more arrive every day. A source reads each file once; its TRANSFORM USING selects fields, casts
them, drops rows that nobody needs, and gives each row an end. Dropped rows are never stored. Rows that have ended disappear for
every reader at that very millisecond, and their files are removed without being read.
"""

import datetime as dt
import json
import tempfile
from pathlib import Path

import tidegate

DAY_MS = 86_400_000
NOW = dt.datetime.now(dt.UTC)
# A clock that can be moved, to see the lake in the future. Without `clock=` it is the machine's clock.
clock = tidegate.ManualClock(int(NOW.timestamp() * 1000))


def write_events(folder: Path) -> int:
    """Writes a file with 1,000 events for each of the last 60 days; one in ten is a payment."""
    folder.mkdir()
    for day in range(60):
        with (folder / f"{day:02}.json").open("w") as lines:
            for i in range(1000):
                at = NOW - dt.timedelta(days=day, hours=2, seconds=i)
                event = {
                    "id": day * 1000 + i,
                    "kind": "pay" if i % 10 == 0 else "view",
                    "created_at": at.isoformat(),
                    "user": {"id": i % 97, "agent": "x" * 80},
                }
                lines.write(json.dumps(event) + "\n")
    return 60


with tempfile.TemporaryDirectory(prefix="tidegate-") as name:
    folder = Path(name)
    files = write_events(folder / "raw")
    raw = sum(file.stat().st_size for file in (folder / "raw").iterdir())

    db = tidegate.open(folder / "lake", clock=clock)
    db.sql(f"""
        CREATE SOURCE pays_30d FROM FILES '{folder}/raw/*.json' FORMAT JSON
        TRANSFORM USING (
            SELECT id, user_id, created_at
            FROM (SELECT (data->>'id')::int8 AS id,
                         (data->'user'->>'id')::int8 AS user_id,
                         data->>'kind' AS kind,
                         (data->>'created_at')::timestamptz AS created_at
                  FROM pays_30d)
            WHERE kind = 'pay'
              AND mz_now() <= created_at + '30 days'
        )
        WITH (BATCH FILES 5)  -- only so that this small lake has several parts
    """)

    # spark=False: in this process. Without it, tasks of a Spark session read the files.
    progress = db.ingest("pays_30d", once=True, spark=False).progress()
    stored = db.status().collections["pays_30d"]
    print(f"in: {progress.records:,} records of {files} files, {raw:,} bytes")
    print(f"stored: {progress.kept:,} rows, {stored.bytes:,} bytes in {stored.parts} parts")
    print(f"never stored: {progress.filtered:,} of another kind, {progress.expired:,} already past")

    count = "SELECT count(*), min(created_at) FROM pays_30d"
    now, oldest = db.sql(count).rows()[0]
    print(f"today: {now:,} rows, the oldest is {(NOW - oldest).days} days old")

    # Ten days pass without any change to the lake.
    clock.advance(10 * DAY_MS)
    later, oldest = db.sql(count).rows()[0]
    age = NOW + dt.timedelta(days=10) - oldest
    print(f"in ten days: {later:,} rows, the oldest is {age.days} days old")

    # Compaction drops parts whose rows have all ended, without reading them: it knows when their last row ends.
    compacted = db.compact("pays_30d")
    left = db.status().collections["pays_30d"]
    print(f"compact: {compacted.expired} of {stored.parts} parts dropped unread; {left.parts} left")

    # A file that arrives later is read by the next run, which reads no other file.
    fresh = [
        {"id": i, "kind": "pay", "created_at": (NOW + dt.timedelta(days=9)).isoformat()} for i in range(5)
    ]
    (folder / "raw" / "new.json").write_text("\n".join(map(json.dumps, fresh)) + "\n{ cut off")
    progress = db.ingest("pays_30d", once=True, spark=False).progress()
    print(f"one more file: {progress.records} records, {progress.kept} kept, {progress.bad} bad")

    # Bad records stop nothing; they are stored with their position and the reason.
    where, why = db.sql("SELECT position->>'line', message FROM pays_30d_errors").rows()[0]
    print(f"the bad one: line {where}: {why}")
    db.close()
