"""A secret that somebody wrote into a statement is kept for whoever connects, and shown to nobody: not by any statement, page of
status, log record or error."""

from __future__ import annotations

import dataclasses
import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tidegate.cli.main import main
from tidegate.logs import LOG, Json, Lines

SECRET = "xyzzy-plugh-42"
MADE = (
    f"CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT 1, DATABASE 'd', USER 'u', PASSWORD '{SECRET}')",
    (
        "CREATE CONNECTION k TO KAFKA (BROKER '127.0.0.1:1', SASL MECHANISMS 'PLAIN', SASL USERNAME 'u', "
        f"SASL PASSWORD '{SECRET}', TIMEOUT MS 1000)"
    ),
    (
        f"CREATE CONNECTION a TO AWS (REGION 'r', ACCESS KEY ID 'i', SECRET ACCESS KEY '{SECRET}', "
        "ENDPOINT 'http://127.0.0.1:1', ALLOW HTTP 'true')"
    ),
    "CREATE SOURCE g FROM GENERATOR orders (ROWS 10)",
)
TRIED = (
    "SHOW CONNECTIONS",
    "SHOW SOURCES",
    "SHOW CREATE CONNECTION pg",
    "SHOW CREATE CONNECTION k",
    "SHOW CREATE CONNECTION a",
    "SELECT * FROM pg",
    "DROP TABLE pg",
    MADE[0],
    "CREATE SOURCE s1 FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES",
    "CREATE SOURCE s2 FROM KAFKA CONNECTION k (TOPIC 't') FORMAT JSON",
    "EXPLAIN CREATE SOURCE s2 FROM KAFKA CONNECTION k (TOPIC 't') FORMAT JSON TRANSFORM USING (SELECT data FROM s2)",
    "CREATE SOURCE s3 FROM FILES 's3://bucket/*.json' (AWS CONNECTION a) FORMAT JSON",
    f"CREATE SOURCE s4 FROM FILES 's3://bucket/*.json' (SECRET ACCESS KEY '{SECRET}', NOPE 1) FORMAT JSON",
    f"CREATE SOURCE s5 FROM FILES 's3://bucket/*.json?secret_access_key={SECRET}&endpoint=http://127.0.0.1:1' FORMAT NONSENSE",
    f"CREATE CONNECTION pg2 TO POSTGRES (HOST 'h', PASSWORD '{SECRET}', NOPE 'x')",
    f"CREATE CONNECTION pg3 TO POSTGRES (HOST 'h' PASSWORD '{SECRET}')",
)


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Every log record, as both forms print it."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.extend((Json().format(record), Lines().format(record)))

    keep, level = Keep(), LOG.level
    LOG.addHandler(keep)
    LOG.setLevel(logging.DEBUG)
    yield found
    LOG.removeHandler(keep)
    LOG.setLevel(level)


def test_no_statement_log_or_error_shows_it(tmp_path: Path, logged: list[str]) -> None:
    told: list[str] = []
    with tidegate.open(tmp_path / "lake") as db:
        told += [db.sql(statement).text() for statement in MADE]
        for statement in TRIED:
            try:
                found = db.sql(statement)
                told += [found.text(), repr(found), str(found.rows())]
            except tidegate.TidegateError as error:
                # The excerpt under the error is the client's own statement; what is said about it is ours.
                told += [error.message, error.hint or "", repr(error.args)]
        told += [repr(db), json.dumps(dataclasses.asdict(db.status()), default=str), db.metrics()]
    assert len(logged) > 2 * len(TRIED)
    assert not [text for text in (*told, *logged) if SECRET in text]


def test_an_excerpt_hides_it(tmp_path: Path) -> None:
    """An error is printed, logged by others and sent to trackers, with the line of SQL that it concerns."""
    with tidegate.open(tmp_path / "lake") as db:
        db.sql(MADE[0])
        for statement in TRIED:
            if SECRET in statement:
                with pytest.raises(tidegate.TidegateError) as caught:
                    db.sql(statement)
                assert SECRET not in str(caught.value), statement
                assert SECRET not in str(pickle.loads(pickle.dumps(caught.value)))


def test_status_and_config_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = str(tmp_path / "lake")
    with tidegate.open(lake) as db:
        for statement in MADE:
            db.sql(statement)
    for command in (["status"], ["status", "--json"], ["config"], ["sql", "SHOW CREATE CONNECTION pg"]):
        assert main([*command, "--lake", lake]) == 0
    assert SECRET not in "".join(capsys.readouterr())
