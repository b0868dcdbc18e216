"""Every script of examples/ runs, and what it prints is what it claims. Servers are real ones: of the tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import servers
from tests.docs.notebook import run_cells, shown
from tests.ingest.broker import Missing, broker
from tests.ingest.postgres_lab import database
from tests.spark.conftest import JAVA

ROOT = Path(__file__).parents[2]


def run(name: str, **more: str) -> str:
    """What an example prints."""
    environment = {**os.environ, **more}
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def test_each_example_has_a_test() -> None:
    here = Path(__file__).read_text("utf-8")
    untested = [one.stem for one in (ROOT / "examples").glob("*.py") if f'"{one.stem}"' not in here]
    assert untested == []
    index = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert [one.name for one in (ROOT / "examples").glob("*.py") if f"({one.name})" not in index] == []


VOLATILE = re.compile(r"as of \d+|[0-9a-f]{16,}|[\d.]+ (?:kB|B|%)")
"""Times, names of parts and sizes, which differ from run to run."""


def test_the_notebook_shows_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 10
    for cell, found in zip(cells, run_cells(notebook), strict=True):
        said = shown(cell)
        assert [VOLATILE.sub("…", text or "") for text in found] == [
            VOLATILE.sub("…", text or "") for text in said
        ]
        assert cell["execution_count"]
    index = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert "(tour.ipynb)" in index


def test_window_30_days() -> None:
    said = run("window_30_days")
    assert "in: 60,000 records of 60 files" in said
    assert "stored: 3,000 rows" in said
    assert "never stored: 54,000 of another kind, 3,000 already past" in said
    assert "today: 3,000 rows, the oldest is 29 days old" in said
    assert "in ten days: 2,000 rows, the oldest is 29 days old" in said
    assert "compact: 2 of 6 parts dropped unread; 4 left" in said
    assert "one more file: 6 records, 5 kept, 1 bad" in said
    assert "the bad one: line 6: invalid input syntax for type json" in said


def test_json_events() -> None:
    said = run("json_events")
    asked = re.findall(r"^    ([\d,]+) rows; (\w+): (\d+) of 24 parts$", said, re.MULTILINE)
    assert asked == [
        ("2,000", "metadata", "0"),
        ("1,000", "metadata", "0"),
        ("6,000", "local", "12"),
        ("3,000", "metadata", "0"),
        ("100", "local", "1"),
        ("0", "metadata", "0"),
    ]
    assert "(payload ->> 'ts')::int8 < 3600000: prunes 23 of 24 parts" in said
    assert "md5(payload ->> 'v') = 'x': md5 has no trend" in said


def test_time_travel() -> None:
    lines = run("time_travel").splitlines()
    assert lines[:5] == [
        "UPDATE 1",
        "DELETE 1",
        "first:  apple 10, pear 20, plum 30",
        "second: apple 6, pear 20, plum 30",
        "now:    apple 6, pear 20",
    ]
    assert lines[5] == "gone: [('apple', 10), ('plum', 30)]; new: [('apple', 6)]"
    assert lines[6] == "parts: 2 before compaction, 2 after"
    assert lines[7] == lines[2], "the past is what it was"
    assert lines[8].startswith("AS OF 1: cannot read at time 1")
    assert lines[9:] == ["now:    apple 6, fig 1, pear 20"]


def test_explain_and_audit() -> None:
    said = run("explain_and_audit")
    assert said.count("parts: 2 of 20 kept") == 2
    assert "id / 2 > 9400 is true or false: id / 2 is 9000 .. 9499" in said
    assert re.search(r"^Answered from local in .* ms: 297 rows$", said, re.MULTILINE)
    assert "id / 2 > 9400: can prune True, prunes 18, proves 1 whole; nothing in the way" in said
    assert "prunes 0, proves 0 whole; the cast from float8 to text has no trend" in said
    assert "297 rows; read 2, audited 18 of 20 parts" in said
    assert "all off: 297 rows; read 20; the same rows: True" in said
    assert "tidegate_audit_failures_total 0.0" in said


@pytest.mark.long
def test_spark_dataframes() -> None:
    settings = f"--conf spark.sql.shuffle.partitions=2 --driver-java-options '{JAVA}' pyspark-shell"
    said = run("spark_dataframes", PYSPARK_SUBMIT_ARGS=settings)
    assert "written: 12,000 rows in 4 parts" in said
    assert re.findall(r": (\d+) rows; orders (\d) of 4 parts", said) == [
        ("1004", "1"),
        ("101", "1"),
        ("1023", "1"),
        ("2472", "1"),
    ]
    assert "1715 orders by sevens" in said
    assert "embedded: [('de', 1000), ('np', 1000), ('us', 1000)]; 2 of 5 parts" in said
    assert "customers: ['at', 'np'], and before ['de', 'np', 'us']" in said


def test_kafka_source() -> None:
    try:
        address = broker().address
    except Missing as missing:
        pytest.skip(f"{missing} is not here")
    lines = run("kafka_source", TIDEGATE_KAFKA=address).splitlines()
    assert lines == [
        "first: 1,000 records, 750 rows kept, 250 closed accounts not stored",
        "then: 52 records, 1 bad",
        "accounts: 748, of them 49 rich",
        "a001: []",
        'bad: invalid input syntax for type numeric: "lots"',
        "batches: 2; nothing new: 0",
    ]


def test_postgres_cdc() -> None:
    with database() as db:
        lines = run("postgres_cdc", TIDEGATE_POSTGRES=db.url).splitlines()
        assert db.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == []
    assert lines == [
        "snapshot: 800 orders above 50, worth 120100.00; as PostgreSQL says: True",
        "changes: 710 orders above 50, worth 106351.25; as PostgreSQL says: True",
        "as of the snapshot: 800 orders",
        "slots left in PostgreSQL: 0",
    ]


def test_object_store() -> None:
    try:
        options = servers.s3()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not here")
    said = run(
        "object_store",
        TIDEGATE_S3="s3://lake/example",
        AWS_ENDPOINT_URL=options["endpoint"],
        AWS_ACCESS_KEY_ID=options["access_key_id"],
        AWS_SECRET_ACCESS_KEY=options["secret_access_key"],
        AWS_REGION=options["region"],
    )
    assert "metadata: log; 20 parts" in said
    read = re.findall(r"^    (\w+): (\d+) of 20 parts, ([\d,]+) of ([\d,]+) bytes$", said, re.MULTILINE)
    assert [one[:2] for one in read] == [("metadata", "0"), ("peek", "1"), ("local", "1")]
    some, whole = (int(one.replace(",", "")) for one in read[1][2:])
    assert 0 < some <= whole / 20 * 1.2
    assert "both are there: 2" in said
