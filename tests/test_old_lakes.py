"""Lakes that older versions wrote open and answer as they did: every folder of `tests/data/lakes`, see `write.py` there.

Rows, names and types of an answer never change. The path may, when a later version answers better: then it is changed in
`answers.json` by hand. Nothing else in a lake's folder is ever touched.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tidegate

LAKES = Path(__file__).parent / "data" / "lakes"
KEPT = {path.parent.name: json.loads(path.read_text("utf-8")) for path in LAKES.glob("*/answers.json")}
CASES = [(version, lake) for version in sorted(KEPT) for lake in KEPT[version]["lakes"]]
SETTINGS: dict[str, dict[str, object]] = {
    "as they are": {},
    "all audited": {"audit": 1.0},
    "nothing clever": {"fast_path": False, "stats_filter": False, "late_materialization": False},
}
"""Settings that change no answer: with `audit`, parts that old statistics leave out are read to see that they were right."""


def _load_writer() -> ModuleType:
    """The module `write.py`, which is a script beside the data and no package."""
    spec = util.spec_from_file_location("tests_data_lakes_write", LAKES / "write.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


writer = _load_writer()


@pytest.fixture(params=CASES, ids="-".join)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[tidegate.Database, dict[str, Any]]]:
    """A copy of an old lake, open at the time of its questions, and what was kept of them."""
    version, lake = request.param
    kept = KEPT[version]
    shutil.copytree(LAKES / version / lake, tmp_path / lake)
    url = f"{tmp_path / lake}{kept['lakes'][lake]}"
    with tidegate.open(url, clock=writer.StoppedClock(kept["now"])) as db:
        yield db, kept


def differences(db: tidegate.Database, kept: dict[str, Any], *ignored: str) -> list[Any]:
    """The statements whose answers are not those that were kept, with both; `ignored` are keys that do not count."""
    pairs = [(before, writer.answer(db, before["sql"])) for before in kept["answers"]]
    return [
        (before, now)
        for before, now in pairs
        if {**before, **dict.fromkeys(ignored)} != {**now, **dict.fromkeys(ignored)}
    ]


@pytest.mark.parametrize("settings", SETTINGS)
def test_old_lake_answers_as_before(old: tuple[tidegate.Database, dict[str, Any]], settings: str) -> None:
    db, kept = old
    for name, value in SETTINGS[settings].items():
        db.set(name, value)
    assert differences(db, kept, *(["path"] if SETTINGS[settings] else [])) == []


def test_old_lake_can_be_written(old: tuple[tidegate.Database, dict[str, Any]]) -> None:
    """A row is appended to each table and deleted again, everything is compacted and swept: the answers stay."""
    db, kept = old
    for (table,) in db.sql("SHOW TABLES").rows():
        names = db.sql(f"SELECT * FROM {table} LIMIT 0").schema.names
        first = names[0]
        before = db.sql(f"SELECT count(*) FROM {table}").rows()[0][0]
        db.sql(f"INSERT INTO {table} ({first}) VALUES (-12345)")
        db.append(table, {name: [None] for name in names} | {first: [-12346]})
        assert db.sql(f"SELECT count(*) FROM {table}").rows() == [(before + 2,)]
        assert db.sql(f"SELECT {first} FROM {table} WHERE {first} < -12345").rows() == [(-12346,)]
        db.sql(f"DELETE FROM {table} WHERE {first} IN (-12345, -12346)")
        db.compact(table, full=True)
    db.sweep()
    assert differences(db, kept, "path") == []


def test_old_lake_goes_on_ingesting(old: tuple[tidegate.Database, dict[str, Any]]) -> None:
    """What a source has read stays read: its position is in the lake."""
    db, kept = old
    db.ingest("orders", once=True, spark=False)
    assert differences(db, kept, "path") == []
    db.sql("CREATE SOURCE later FROM GENERATOR counter (ROWS 5)")
    db.ingest("later", once=True, spark=False)
    assert db.sql("SELECT count(*) FROM later").rows() == [(5,)]


def test_lake_of_this_version(tmp_path: Path) -> None:
    """The writer still works, and what is written today answers as the lake of this version that is kept.

    The paths may be others: since that lake was written, DELETE and UPDATE leave no retractions that are rows, so that more is
    answered without reading.
    """
    assert tidegate.__version__ in KEPT, "a new version: see tests/data/lakes/write.py"
    files = tmp_path / "input"
    text = json.dumps(writer.write(tmp_path, files)["answers"]).replace(str(files), str(writer.INPUT))
    written = {answer["sql"]: answer for answer in json.loads(text)}
    kept = KEPT[tidegate.__version__]["answers"]
    assert set(written) == {answer["sql"] for answer in kept}
    pairs = [(before, written[before["sql"]]) for before in kept]
    assert [(a, b) for a, b in pairs if {**a, "path": None} != {**b, "path": None}] == []
    assert {(a["path"], b["path"]) for a, b in pairs if "path" in a and a["path"] != b["path"]} == {
        ("local", "metadata"),
        ("local", "peek"),  # retractions are deletions by now, and no row must meet them
    }
