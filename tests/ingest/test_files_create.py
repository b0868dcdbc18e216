"""FILES as CREATE SOURCE names them, and servers that do not answer."""

import json
from pathlib import Path

import pytest

from tests.ingest.files_bench import Bench, asked, drain
from tidegate.errors import BindError, SourceError
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.formats.plain import PlainFormat
from tidegate.ingest.formats.registry import create_format
from tidegate.ingest.protocol import BatchLimit, IncludedColumn
from tidegate.ingest.upstreams.files.upstream import FilesUpstream
from tidegate.ingest.upstreams.registry import UpstreamSpec, create_upstream

TEXT, JSON = PlainFormat(is_text=True), JsonFormat()


# ---------------------------------------------------------------- servers that fail


def test_a_server_that_is_down() -> None:
    options = {
        "endpoint": "http://127.0.0.1:1",
        "access key id": "a",
        "secret access key": "b",
        "region": "x",
    }
    source = create_upstream("files", UpstreamSpec("s", options, target="s3://lake/in/*.txt"))
    with pytest.raises(SourceError, match="s3://lake/in") as raised:
        source.latest({}, BatchLimit())
    assert raised.value.again
    assert "\n" not in raised.value.message


def test_a_wrong_password(tmp_path: Path) -> None:
    bench = Bench.at("bucket", tmp_path)
    bench.options["secret_access_key"] = "wrong"
    with pytest.raises(SourceError) as raised:
        bench.files("in/*.txt").latest({}, BatchLimit())
    assert not raised.value.again


def test_a_bucket_by_a_url_and_by_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench.at("bucket", tmp_path)
    bench.put("in/a1.txt", b"1")
    bench.put("in/a22.txt", b"2")
    query = "&".join(f"{name}={value}" for name, value in bench.options.items())
    source = create_upstream("files", UpstreamSpec("s", target=f"{bench.root}/in/a?.txt?{query}")).bind(
        TEXT, "none", ()
    )
    assert source.pattern == f"{bench.root}/in/a?.txt"
    assert drain(source, TEXT)[0].rows == [("1",)]
    monkeypatch.setenv("BENCH_SECRET", bench.options["secret_access_key"])
    given = {name.replace("_", " "): value for name, value in bench.options.items()}
    connection = ExternalConnection("a", "aws", {**given, "secret access key": "env:BENCH_SECRET"})
    source = create_upstream(
        "files", UpstreamSpec("s", target=f"{bench.root}/in/a?.txt", connection=connection)
    ).bind(TEXT, "none", ())
    assert drain(source, TEXT)[0].rows == [("1",)]
    kept = json.loads(json.dumps(source.to_json()))
    assert (kept["connection"], kept["options"]) == ("a", {})
    assert FilesUpstream.from_json(kept, connection) == source


# ---------------------------------------------------------------- CREATE SOURCE


def test_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = create_upstream("files", UpstreamSpec("s", target="in/*.json", with_options={"settle ms": 500}))
    assert (source.pattern, source.settle_ms) == (f"{tmp_path}/in/*.json", 500)
    assert (
        create_upstream("files", UpstreamSpec("s", target=f"file://{tmp_path}/a%20b/*")).pattern
        == f"{tmp_path}/a b/*"
    )
    (tmp_path / "in").mkdir()
    assert create_upstream("files", UpstreamSpec("s", target="in")).pattern == f"{tmp_path}/in/"
    source = source.bind(JSON, "none", asked("line"))
    assert (source.lines, source.numbered) == (True, True)
    assert FilesUpstream.from_json(json.loads(json.dumps(source.to_json())), None) == source


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (UpstreamSpec("s", target=""), "FILES needs a pattern"),
        (UpstreamSpec("s", target="http://x/y"), "files cannot be read from http://"),
        (UpstreamSpec("s", {"region": "x"}, target="in/*"), "FROM FILES has no option REGION"),
        (UpstreamSpec("s", target="in/*", with_options={"color": 1}), "FROM FILES has no option COLOR"),
        (UpstreamSpec("s", target="s3://b/*", with_options={"color": 1}), "FROM FILES has no option COLOR"),
        (UpstreamSpec("s", {"color": "x"}, target="s3://b/*"), "color"),
        (
            UpstreamSpec("s", target="in/*", with_options={"settle ms": "soon"}),
            "SETTLE MS is a whole number of milliseconds",
        ),
    ],
)
def test_refused(given: UpstreamSpec, message: str) -> None:
    with pytest.raises(BindError, match=message):
        create_upstream("files", given)


def test_refused_later(tmp_path: Path) -> None:
    source = Bench("folder", str(tmp_path)).files("*.csv")
    with pytest.raises(BindError, match=r"there is no file .*\*\.csv yet"):
        create_format("csv", {"header": True}, source.open_sample)
    with pytest.raises(BindError, match="files have no OFFSET"):
        source.includes(IncludedColumn("offset", "o"))
