"""SET, SHOW and RESET of PostgreSQL's settings through `db.sql`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidegate
from tidegate.statements.postgres_settings import duration_text, milliseconds_of


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as opened:
        yield opened


def test_statement_timeout_is_the_knob_of_ours(db: tidegate.Database) -> None:
    assert db.sql("SHOW statement_timeout").rows() == [("0",)]
    db.sql("SET statement_timeout = '90s'")
    assert db.sql("SHOW statement_timeout").rows() == [("90s",)]
    assert db.sql("SHOW statement_timeout_ms").rows() == [("90000",)]
    db.sql("SET SESSION statement_timeout TO 1500")
    assert db.sql("SHOW statement_timeout").rows() == [("1500ms",)]
    db.sql("RESET statement_timeout")
    assert db.sql("SHOW statement_timeout").rows() == [("0",)]


def test_set_local_ends_with_its_statement(db: tidegate.Database) -> None:
    assert "no effect" in db.sql("SET LOCAL statement_timeout = 5").text()
    assert db.sql("SHOW statement_timeout").rows() == [("0",)]


def test_the_zone_is_utc(db: tidegate.Database) -> None:
    for sql in (
        "SET TIME ZONE 'UTC'",
        "SET TimeZone TO utc",
        "SET timezone = DEFAULT",
        "SET TIME ZONE LOCAL",
        "RESET TIME ZONE",
    ):
        assert db.sql(sql).text() == "SET"
    assert db.sql("SHOW TIME ZONE").rows() == db.sql("SHOW timezone").rows() == [("UTC",)]
    with pytest.raises(tidegate.SettingError, match="timezone cannot be 'Europe/Berlin'") as caught:
        db.sql("SET TIME ZONE 'Europe/Berlin'")
    assert "AT TIME ZONE" in (caught.value.hint or "")


def test_there_is_one_schema(db: tidegate.Database) -> None:
    for sql in (
        "SET search_path = public",
        'SET search_path TO "$user", public',
        "SET search_path TO DEFAULT",
    ):
        db.sql(sql)
    assert db.sql("SHOW search_path").rows() == [('"$user", public',)]
    with pytest.raises(tidegate.SettingError, match='there is no schema "other"'):
        db.sql("SET search_path TO public, other")


def test_other_values_of_fixed_settings_are_refused(db: tidegate.Database) -> None:
    db.sql("SET client_encoding = 'UTF8'; SET datestyle TO 'ISO, MDY'")
    with pytest.raises(tidegate.SettingError, match="client_encoding cannot be 'LATIN1'"):
        db.sql("SET client_encoding = 'LATIN1'")
    with pytest.raises(tidegate.SettingError, match="'soon' is not a duration"):
        db.sql("SET statement_timeout = 'soon'")


def test_durations() -> None:
    assert [milliseconds_of(text) for text in ("5", "5ms", "1.5s", "2min", "1h", "1d", 0)] == [
        5, 5, 1500, 120_000, 3_600_000, 86_400_000, 0,
    ]  # fmt: skip
    assert [duration_text(ms) for ms in (0, 5, 1500, 60_000, 90_000, 3_600_000, 86_400_000)] == [
        "0", "5ms", "1500ms", "1min", "90s", "1h", "1d",
    ]  # fmt: skip
