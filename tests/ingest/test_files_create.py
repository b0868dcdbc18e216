"""FILES as CREATE SOURCE names them, and servers that do not answer."""

import json
from pathlib import Path

import pytest

from tests.ingest.files_bench import Bench, asked, drain
from tidegate.errors import BindError, SourceError
from tidegate.ingest.connect import Connection, Given
from tidegate.ingest.decode.choose import chosen
from tidegate.ingest.decode.json import Json
from tidegate.ingest.decode.plain import Plain
from tidegate.ingest.files import Files
from tidegate.ingest.source import Included, Limit

TEXT, JSON = Plain(is_text=True), Json()


# ---------------------------------------------------------------- servers that fail


def test_a_server_that_is_down() -> None:
    options = {
        "endpoint": "http://127.0.0.1:1",
        "access key id": "a",
        "secret access key": "b",
        "region": "x",
    }
    source = Files.create(Given("s", options, of="s3://lake/in/*.txt"))
    with pytest.raises(SourceError, match="s3://lake/in") as raised:
        source.latest({}, Limit())
    assert raised.value.again
    assert "\n" not in raised.value.message


def test_a_wrong_password(tmp_path: Path) -> None:
    bench = Bench.at("bucket", tmp_path)
    bench.options["secret_access_key"] = "wrong"
    with pytest.raises(SourceError) as raised:
        bench.files("in/*.txt").latest({}, Limit())
    assert not raised.value.again


def test_a_bucket_by_a_url_and_by_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench.at("bucket", tmp_path)
    bench.put("in/a1.txt", b"1")
    bench.put("in/a22.txt", b"2")
    query = "&".join(f"{name}={value}" for name, value in bench.options.items())
    source = Files.create(Given("s", of=f"{bench.root}/in/a?.txt?{query}")).for_format(TEXT)
    assert source.pattern == f"{bench.root}/in/a?.txt"
    assert drain(source, TEXT)[0].rows == [("1",)]
    monkeypatch.setenv("BENCH_SECRET", bench.options["secret_access_key"])
    given = {name.replace("_", " "): value for name, value in bench.options.items()}
    connection = Connection("a", "aws", {**given, "secret access key": "env:BENCH_SECRET"})
    source = Files.create(Given("s", of=f"{bench.root}/in/a?.txt", connection=connection)).for_format(TEXT)
    assert drain(source, TEXT)[0].rows == [("1",)]
    kept = json.loads(json.dumps(source.to_json()))
    assert (kept["connection"], kept["options"]) == ("a", {})
    assert Files.from_json(kept, connection) == source


# ---------------------------------------------------------------- CREATE SOURCE


def test_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = Files.create(Given("s", of="in/*.json", more={"settle ms": 500}))
    assert (source.pattern, source.settle_ms) == (f"{tmp_path}/in/*.json", 500)
    assert Files.create(Given("s", of=f"file://{tmp_path}/a%20b/*")).pattern == f"{tmp_path}/a b/*"
    (tmp_path / "in").mkdir()
    assert Files.create(Given("s", of="in")).pattern == f"{tmp_path}/in/"
    source = source.for_format(JSON, asked("line"))
    assert (source.lines, source.numbered) == (True, True)
    assert Files.from_json(json.loads(json.dumps(source.to_json())), None) == source


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Given("s", of=""), "FILES needs a pattern"),
        (Given("s", of="http://x/y"), "http:// is not a place"),
        (Given("s", {"region": "x"}, of="in/*"), "FILES has no option REGION"),
        (Given("s", of="in/*", more={"color": 1}), "FILES has no option COLOR"),
        (Given("s", of="s3://b/*", more={"color": 1}), "FILES has no option COLOR"),
        (Given("s", {"color": "x"}, of="s3://b/*"), "color"),
        (Given("s", of="in/*", more={"settle ms": "soon"}), "SETTLE MS is a number"),
    ],
)
def test_refused(given: Given, message: str) -> None:
    with pytest.raises(BindError, match=message):
        Files.create(given)


def test_refused_later(tmp_path: Path) -> None:
    source = Bench("folder", str(tmp_path)).files("*.csv")
    with pytest.raises(BindError, match=r"there is no file .*\*\.csv yet"):
        chosen("csv", {"header": True}, source.first)
    with pytest.raises(BindError, match="files have no OFFSET"):
        source.includes(Included("offset", "o"))
