"""Spark reads S3 itself, through hadoop-aws, on a cluster that loses workers: parts on S3, metadata in PostgreSQL.

Two databases in buckets of the same name, at two endpoints with different keys, in one session, which has settings of its own for
a bucket of that name. Each is read as what it is, and the keys of neither serve whoever has none.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests import servers
from tests.spark.cluster import ROOT, Cluster, run_step, until
from tests.spark.on_s3a import KILLED, STEPS
from tidegate.spark.read.hadoop_paths import hadoop_settings, is_translatable, scan_uri, uri_of
from tidegate.storage.location import parse_location

JARS = ROOT / ".venv" / "hadoop"
ROWS = 60_000
PATIENCE_S = 600


@pytest.mark.long
def test_two_endpoints_with_one_bucket_name_and_a_worker_lost(tmp_path: Path) -> None:
    if not (JARS / "stamp").exists():
        pytest.skip("hadoop-aws is not here (.ci/hadoop fetches it)")
    try:
        stores, metadata = (servers.s3(), servers.s3("second")), servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not on this machine")
    lakes = [
        f"s3://lake/{tmp_path.name}?{urlencode(store)}&metadata={quote(metadata, safe='')}"
        for store in stores
    ]
    given = {"lakes": lakes, "rows": ROWS, "settings": session_settings(stores[0])}
    with Cluster(tmp_path / "cluster") as cluster:
        found = talk(cluster, given)
        # os.walk passes over folders that a worker deletes meanwhile; rglob fails.
        files = (Path(folder) / name for folder, _, names in os.walk(cluster.folder) for name in names)
        logs = "".join(file.read_text(errors="replace") for file in files if is_log(file))
    check(found)
    for store in stores:
        assert store["secret_access_key"] not in logs + found["read"]["shown"]


def talk(cluster: Cluster, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    driver = cluster.driver("tests.spark.on_s3a", json.dumps(given))
    patience = threading.Timer(PATIENCE_S, driver.kill)
    patience.start()
    with driver:
        try:
            assert driver.stdout is not None
            lines = iter(driver.stdout.readline, "")
            until(lines, "ready", cluster)
            names = [step.__name__ for step in STEPS]
            found = {name: run_step(cluster, driver, lines, name, KILLED.get(name)) for name in names}
            assert driver.wait(120) == 0
            return found
        finally:
            patience.cancel()
            driver.kill()


def session_settings(store: servers.S3) -> dict[str, str]:
    """A session that knows the endpoint of the first for every bucket of that name, and has no credentials."""
    own = {
        "endpoint": store["endpoint"],
        "endpoint.region": store["region"],
        "path.style.access": "true",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    }
    return {
        "spark.jars": ",".join(map(str, sorted(JARS.glob("*.jar")))),
        "spark.sql.files.maxPartitionBytes": "1m",  # a task a part
        **{f"spark.hadoop.fs.s3a.bucket.lake.{key}": value for key, value in own.items()},
    }


def is_log(path: Path) -> bool:
    return path.is_file() and (path.suffix == ".log" or path.name in ("stdout", "stderr"))


def check(found: dict[str, dict[str, Any]]) -> None:
    total = ROWS * (ROWS - 1) // 2
    assert all(0 < parts <= 24 for parts in found["write"]["parts"])
    read = found["read"]
    assert (read["count"], read["sum"], read["joined"]) == (2 * ROWS, 3 * total, ROWS // 2)
    assert read["notes"] == 2 * ROWS * len("note " + 32 * "x")
    turns = found["alternate"]
    assert turns["sums"] == [total, 2 * total, total, 2 * total]
    assert (turns["found"], turns["parts"]) == ([1, 1], [1, 1])
    assert all(file.startswith("s3a://lake/") for file in turns["files"])
    for where in ("driver", "executors"):
        assert "AccessDenied" in found["intrude"][where], (where, found["intrude"][where])


URL = "s3://lake/x?endpoint=http://127.0.0.1:1&access_key_id=a&secret_access_key="


def test_a_scheme_for_each_set_of_settings() -> None:
    one, same, other = (parse_location(URL + secret) for secret in ("b", "b", "c"))
    assert scan_uri(one) == scan_uri(same) != scan_uri(other)
    assert scan_uri(one).startswith("s3a-")
    assert scan_uri(one).endswith("://lake/x")
    assert uri_of(one) == "s3a://lake/x" == scan_uri(parse_location("s3://lake/x"))
    assert hadoop_settings(parse_location("s3://lake/x")) == {}
    assert scan_uri(parse_location("lake")) == uri_of(parse_location("lake"))
    scheme = scan_uri(one).partition(":")[0]
    assert hadoop_settings(one)[f"fs.{scheme}.impl"].endswith("S3AFileSystem")
    assert hadoop_settings(one)["fs.s3a.bucket.lake.secret.key"] == "b"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("aws_endpoint_url=https://h&aws_token=t&access_key_id=a", {"endpoint": "https://h", "session.token": "t"}),
        ("access_key_id=a&secret_access_key=b", {"aws.credentials.provider": "SimpleAWSCredentialsProvider"}),
        ("access_key_id=a&session_token=c", {"aws.credentials.provider": "TemporaryAWSCredentialsProvider"}),
        ("skip_signature=true", {"aws.credentials.provider": "AnonymousAWSCredentialsProvider"}),
        ("virtual_hosted_style_request=false", {"path.style.access": "true"}),
    ],
)  # fmt: skip
def test_options_by_their_other_names(options: str, expected: dict[str, str]) -> None:
    found = hadoop_settings(parse_location(f"s3://lake/x?{options}"))
    for key, value in expected.items():
        assert found[f"fs.s3a.bucket.lake.{key}"].endswith(value)


def test_what_hadoop_has_no_word_for_is_read_by_tasks() -> None:
    assert is_translatable(parse_location(URL + "b&allow_http=true&conditional_put=etag"))
    assert not is_translatable(parse_location("s3://lake/x?role_arn=arn:aws:iam::1:role/r"))
    assert not is_translatable(parse_location("s3://lake/x?sse_customer_key_base64=AAAA"))
    assert not is_translatable(parse_location(URL + "b&virtual_hosted_style_request=true"))
