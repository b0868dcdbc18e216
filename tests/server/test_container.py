"""The Dockerfile without Docker: what it copies builds the package, and what it starts runs and is healthy.

No image is built here. Its files are copied as COPY says, the package is built of them alone, and the entry point, the command and
the health check of the Dockerfile run as they stand there, with other ports.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import tidegate
from tidegate.cli.main import app
from tidegate.storage import parse_location

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
COMPOSE = (ROOT / "deploy" / "compose.yml").read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments; continued lines are one."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def of(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def copied() -> list[str]:
    """What is copied from this folder, and not from another stage."""
    return [name for rest in of("COPY") if not rest.startswith("--from") for name in rest.split()[:-1]]


def environment() -> Mapping[str, str]:
    """The variables that the image sets."""
    (setting,) = of("ENV")
    return dict(re.findall(r"(\w+)=(\S+)", setting))


def test_only_known_instructions() -> None:
    assert {word for word, _ in instructions()} <= {
        "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD",
    }  # fmt: skip


def test_what_is_copied_exists_and_reaches_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert copied()
    for name in copied():
        assert (ROOT / name).exists(), name
        assert f"!{name}" in rules, name
    assert {rule[1:] for rule in rules if rule.startswith("!")} == set(copied())
    assert not any(fnmatch.fnmatch(name, rule) for name in copied() for rule in rules[1:] if rule[0] != "!")


def test_it_does_not_run_as_root_and_keeps_the_lake_in_its_volume() -> None:
    words = [word for word, _ in instructions()]
    (user,), (volume,) = of("USER"), of("VOLUME")
    assert user == "tidegate"
    assert any(line.startswith("useradd") and line.endswith(user) and volume in line for line in of("RUN"))
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert "RUN" not in words[words.index("USER") :]
    assert environment()["TIDEGATE_LAKE"].startswith(volume)


def test_the_python_and_the_extras_are_ours() -> None:
    images = {line.split()[0] for line in of("FROM")}
    (image,) = images
    version = tuple(map(int, re.findall(r"(\d+)\.(\d+)", image)[0]))
    assert version >= (3, 11)
    (extras,) = (found[1] for line in of("RUN") if (found := re.search(r"'\.\[(.*)\]'", line)))
    known = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", known, re.MULTILINE)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built from nothing but what is copied, as a folder to import from."""
    folder = tmp_path_factory.mktemp("container")
    build = folder / "build"
    build.mkdir()
    for name in copied():
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, build / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, build / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
    ]
    subprocess.run([*command, "--wheel-dir", folder, build], check=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    assert (folder / "site" / "tidegate" / "server" / "web" / "static").is_dir()
    (points,) = (folder / "site").glob("*.dist-info/entry_points.txt")
    assert "tidegate = tidegate.cli:run" in points.read_text(encoding="utf-8")
    return folder / "site"


@pytest.mark.slow
def test_the_entry_point_serves_and_is_healthy(installed: Path, tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8)")
    (entry,), (command,) = map(json.loads, of("ENTRYPOINT")), map(json.loads, of("CMD"))
    assert entry == ["tidegate"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ports = {"8080": str(port), "5433": "0"}
    assert set(ports) <= set(command)
    assert " ".join(sorted(ports)) == " ".join(sorted(of("EXPOSE")[0].split()))
    variables = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "TIDEGATE_LAKE": str(tmp_path / "lake"),
        "TIDEGATE_TOKEN": "t0ken",
        "TIDEGATE_PASSWORD": "passw0rd",
    }
    program = [sys.executable, "-m", "tidegate.cli", *(ports.get(word, word) for word in command)]
    with subprocess.Popen(
        program, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if line.startswith("Ctrl-C"):
                break
        check = re.search(r"CMD (\[.*\])$", of("HEALTHCHECK")[0])
        assert check is not None
        python, *words = json.loads(check[1])
        assert python == "python"
        health = [sys.executable, *(word.replace(":8080", f":{port}") for word in words)]
        assert subprocess.run(health, timeout=30, check=False).returncode == 0
        server.send_signal(signal.SIGTERM)  # as docker stop does
        _, logs = server.communicate(timeout=30)
        assert subprocess.run(health, capture_output=True, timeout=30, check=False).returncode != 0
    assert server.returncode == 0
    assert all(json.loads(line)["at"] for line in logs.splitlines())


def test_without_secrets_it_does_not_start(tmp_path: Path) -> None:
    """The command listens on all addresses, so the token and the password must be given."""
    (command,) = map(json.loads, of("CMD"))
    with tidegate.open(tmp_path / "lake"):
        pass
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    ended = subprocess.run(
        [sys.executable, "-m", "tidegate.cli", *command],
        env={**variables, "TIDEGATE_LAKE": str(tmp_path / "lake")}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "there is no token" in ended.stderr


def test_the_compose_example_names_a_lake_and_commands_that_exist() -> None:
    (url,) = re.findall(r'TIDEGATE_LAKE: "([^"]+)"', COMPOSE)
    place = parse_location(url)
    assert (place.kind, place.metadata) == ("objects", "postgres")
    services = set(
        re.findall(r"^  (\w+):$", COMPOSE.partition("services:")[2].partition("\nvolumes:")[0], re.MULTILINE)
    )
    assert services == {"tidegate", "postgres", "s3"}
    assert re.findall(r"://(\w+):8333", url) == ["s3"]
    assert re.findall(r"@(\w+)/meta", url) == ["postgres"]
    (command,) = re.findall(r"command: (\[\"serve.*\])", COMPOSE)
    app.parse_args(json.loads(command), exit_on_error=False, print_error=False)
    for variable in ("TIDEGATE_TOKEN", "TIDEGATE_PASSWORD", "POSTGRES_PASSWORD", "S3_SECRET_KEY"):
        assert f"${{{variable}:?" in COMPOSE  # none has a default that somebody could forget to change
