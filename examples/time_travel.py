"""Every past state of a table can be read, within its retention.

    python examples/time_travel.py

A change is a batch of rows that are added and deleted at a time. Nothing is overwritten, so AS OF any time reads what the table
held then; two queries AS OF the same time return the same rows, whenever they run.
"""

import tempfile

import tidegate

with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
    db = tidegate.open(folder)
    # RETENTION limits how long the past is kept; without it, deleted rows stay for 7 days. `db.compact` removes what is older.
    db.sql("CREATE TABLE stock (item text, left_over int8) WITH (RETENTION '1 day')")

    first = db.append("stock", {"item": ["apple", "pear", "plum"], "left_over": [10, 20, 30]})
    print(db.sql("UPDATE stock SET left_over = left_over - 4 WHERE item = 'apple'").text())
    second = db.status().collections["stock"].upper - 1  # the time of the last change
    print(db.sql("DELETE FROM stock WHERE item = 'plum'").text())

    def held(at: int | None = None) -> str:
        """Returns the rows of the table, at a time or now."""
        when = "" if at is None else f" AS OF {at}"
        rows = db.sql(f"SELECT item, left_over FROM stock ORDER BY item{when}").rows()
        return ", ".join(f"{item} {n}" for item, n in rows)

    print(f"first:  {held(first)}")
    print(f"second: {held(second)}")
    print(f"now:    {held()}")

    # What changed between two times: the rows that only one of them has.
    before = set(db.sql("SELECT item, left_over FROM stock", as_of=first).rows())
    after = set(db.sql("SELECT item, left_over FROM stock").rows())
    print(f"gone: {sorted(before - after)}; new: {sorted(after - before)}")

    # Compaction keeps rows that only the past shows in parts of their own, which no other reader opens.
    parts = db.status().collections["stock"].parts
    db.compact("stock", full=True)
    print(f"parts: {parts} before compaction, {db.status().collections['stock'].parts} after")
    print(f"first:  {held(first)}")

    # A time that is no longer, or was never, available is an error that names both times.
    try:
        held(1)
    except tidegate.TimeError as error:
        print(f"AS OF 1: {error.message.replace(str(first), '<the first change>')}")

    # A second append with the same token changes nothing: for jobs that are retried from outside.
    for _ in range(2):
        db.append("stock", {"item": ["fig"], "left_over": [1]}, token="load of 2026-11-16")
    print(f"now:    {held()}")
    db.close()
