"""The doctor at real servers: metadata in PostgreSQL, parts in S3, a wrong key, servers that are not there."""

from __future__ import annotations

import secrets
from pathlib import Path
from urllib.parse import urlencode

import pytest

import tidegate
from tests import servers
from tests.unit.doctor.lakes import bad, only
from tidegate.doctor import Severity, diagnose_location

pytestmark = pytest.mark.usefixtures("commits_make_files")


def s3_url(lake: str, **options: str) -> str:
    """The URL of a lake in the S3 server of the tests."""
    try:
        return f"s3://lake/{lake}?{urlencode({**servers.s3(), **options})}"
    except servers.Missing as missing:
        pytest.skip(str(missing))


def postgres_url() -> str:
    try:
        return servers.postgres()
    except servers.Missing as missing:
        pytest.skip(str(missing))


@pytest.mark.slow
def test_a_lake_in_s3_with_metadata_beside_it_is_healthy_and_left_as_it_was() -> None:
    url = s3_url(f"doctor-{secrets.token_hex(4)}")
    with tidegate.open(url) as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1)")
        before = [info.name for info in db.context.root.blob.list()]
        diagnosis = db.doctor(deep=True)
        assert bad(diagnosis) == []
        assert [info.name for info in db.context.root.blob.list()] == before
        part = next(name for name in before if name.startswith("part/"))
        db.context.root.blob.delete(part)
    finding = only(diagnose_location(url))
    assert part in finding.message


@pytest.mark.slow
def test_an_s3_with_a_wrong_key_and_one_that_is_not_there() -> None:
    lake = f"doctor-{secrets.token_hex(4)}"
    with tidegate.open(s3_url(lake)) as db:
        db.sql("CREATE TABLE t (id int8)")
    finding = only(diagnosis := diagnose_location(s3_url(lake, secret_access_key="wr0ng-s3cret")))
    assert (finding.check, finding.severity) == ("open", Severity.PROBLEM)
    assert "keys of the store" in finding.action
    assert "wr0ng" not in diagnosis.text()


@pytest.mark.postgres
def test_metadata_in_postgres(tmp_path: Path) -> None:
    url = f"{tmp_path / 'lake'}?metadata={postgres_url()}"
    with tidegate.open(url) as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1)")
        keys = db.context.root.consensus.keys()
        diagnosis = db.doctor(deep=True)
        assert bad(diagnosis) == []
        assert db.context.root.consensus.keys() == keys
        assert any(f.subject == "PostgreSQL" and "agrees" in f.message for f in diagnosis.findings)
    late = tidegate.ManualClock(at=0)
    found = {
        f.subject for f in bad(diagnose_location(url, clock=late, read_only=True)) if f.check == "clocks"
    }
    assert found == {"PostgreSQL"}
