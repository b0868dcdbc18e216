"""The configuration file: what is written, found, read and refused, and what counts before it."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest

import tidegate
from tidegate.cli.main import main
from tidegate.config import Config
from tidegate.config_file import config_text, find_config, load_config, write_config


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one, and no variables."""
    for name in ("TIDEGATE_LAKE", "TIDEGATE_CONFIG", "TIDEGATE_AUDIT", "TIDEGATE_PART_BYTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "tidegate.toml"
    path.write_text(text, encoding="utf-8")
    return path


# ---------------------------------------------------------------- the file that is written


def test_every_setting_stands_in_it_with_its_default(folder: Path) -> None:
    text = config_text()
    assert tomllib.loads(text) == {"lake": "lake", "settings": {}}
    settings = {setting.name: setting.default for setting in fields(Config)}
    head, _, tail = text.partition("[settings]")
    used = re.sub(r"^# (\w+ = )", r"\1", tail, flags=re.MULTILINE)
    assert tomllib.loads(used) == settings
    for meaning in Config.meanings().values():
        words = re.sub(r"\s*\n# ", " ", tail).lower()
        assert meaning.lower() in words
    path = write(folder, f"{head}[settings]\n{used}")
    assert load_config(path, {}).config == Config()
    assert max(map(len, text.splitlines())) <= 132


def test_init_writes_it_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "shop", "--metadata", "log"]) == 0
    assert load_config(folder / "shop" / "tidegate.toml", {}).lake == f"{folder}/shop/lake?metadata=log"
    assert main(["init", "shop"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["init", "shop", "--lake", "s3://b/l?region=x", "--force"]) == 0
    assert load_config(folder / "shop" / "tidegate.toml", {}).lake == "s3://b/l?region=x"
    with pytest.raises(tidegate.StoreError, match="cannot be written"):
        write_config(folder / "shop" / "tidegate.toml")  # a file is no folder


# ---------------------------------------------------------------- where it is found


def test_the_nearest_one_above_counts(folder: Path) -> None:
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    assert find_config(inner) is None
    outer = write(folder, "")
    assert find_config(inner) == outer
    nearer = write(folder / "a", "")
    assert find_config(inner) == nearer


def test_commands_take_its_lake_from_anywhere_below(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, 'lake = "data"')
    (folder / "a").mkdir()
    monkeypatch.chdir(folder / "a")
    assert main(["sql", "CREATE TABLE t (id int8)"]) == 0
    assert (folder / "data" / "root").exists()
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["root"] == str(folder / "data")
    assert main(["doctor", "--read-only"]) == 0
    assert f"doctor of {folder / 'data'}" in capsys.readouterr().out


def test_the_option_and_the_variable_name_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "[settings]\naudit = 0.1")
    other = folder / "other.toml"
    other.write_text("[settings]\naudit = 0.2")
    third = folder / "third"
    write_config(third)

    def audit(*arguments: str) -> tuple[float, str]:
        assert main([*arguments, "config", "--json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return next((line["value"], line["from"]) for line in lines if line["name"] == "audit")

    assert audit() == (0.1, f"{folder}/tidegate.toml, line 2")
    monkeypatch.setenv("TIDEGATE_CONFIG", str(other))
    assert audit() == (0.2, f"{other}, line 2")
    assert audit("--config", str(third)) == (0.01, "default")
    assert audit(f"--config={other}", "--set", "audit=0.4") == (0.4, "--set")
    monkeypatch.setenv("TIDEGATE_AUDIT", "0.3")
    assert audit() == (0.3, "TIDEGATE_AUDIT")
    assert audit("--set", "audit=0.4") == (0.4, "--set")
    assert main(["--config", str(folder / "none.toml"), "config"]) == 1
    assert "which --config names" in capsys.readouterr().err


# ---------------------------------------------------------------- what counts


def test_the_command_line_before_the_environment_before_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def created() -> set[str]:
        return {path.name for path in folder.iterdir() if (path / "root").exists()}

    create = "CREATE TABLE IF NOT EXISTS t (id int8)"
    assert main(["sql", create]) == 0
    assert created() == {"lake"}
    write(folder, 'lake = "of_file"')
    assert main(["sql", create]) == 0
    assert created() == {"lake", "of_file"}
    monkeypatch.setenv("TIDEGATE_LAKE", "of_environment")
    assert main(["sql", create]) == 0
    assert created() == {"lake", "of_file", "of_environment"}
    assert main(["sql", create, "--lake", "of_command"]) == 0
    assert created() == {"lake", "of_file", "of_environment", "of_command"}


def test_settings_reach_the_statements(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, "[settings]\nmax_result_bytes = 7000\nstats_filter = false")
    assert main(["sql", "SHOW max_result_bytes; SHOW stats_filter", "--json"]) == 0
    shown = capsys.readouterr().out
    assert "7000" in shown
    assert "off" in shown
    assert main(["sql", "SHOW max_result_bytes", "--json", "--set", "max_result_bytes=8000"]) == 0
    assert "8000" in capsys.readouterr().out


def test_options_after_two_dashes_are_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--json", "--", "--config\nSELECT 1 AS one"]) == 0
    assert json.loads(capsys.readouterr().out) == {"one": 1}


def test_python_reads_a_file_only_if_it_is_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder, 'lake = "data"\n[settings]\naudit = 0.5')
    with tidegate.open(folder / "plain") as db:
        assert db.context.config == Config()
    with tidegate.open(config_file=path) as db:
        assert db.context.config == replace(Config(), audit=0.5)
        assert db.status().root == str(folder / "data")
    monkeypatch.setenv("TIDEGATE_AUDIT", "0.25")
    with tidegate.open(folder / "other", config_file=path) as db:
        assert db.context.config.audit == 0.25
        assert db.status().root == str(folder / "other")
    with pytest.raises(tidegate.SettingError, match="both given"):
        tidegate.open("x", config=Config(), config_file=path)
    with pytest.raises(tidegate.TypeMismatch, match="needs a location"):
        tidegate.open()
    with pytest.raises(tidegate.SettingError, match="cannot be read"):
        tidegate.open(config_file=folder / "none.toml")


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("lake = 'a'\n\n[settings]\naudit = 7\n", 4, "audit cannot be 7"),
        ("[settings]\n# audit = 1\n  'audit' = 'much'", 3, "audit cannot be 'much'"),
        ("[settings]\naudti = 0.1", 2, 'there is no setting "audti"'),
        ("[settings]\naudit = [1]", 2, "audit must be a number, a text, true or false"),
        ("[settings]\n[settings.audit]\nx = 1", 0, "audit must be a number, a text, true or false"),
        ("\naudit = 0.1", 2, "there is no key 'audit'"),
        ("laek = 'x'", 1, "there is no key 'laek'"),
        ("settings = 5", 1, "settings is a table"),
        ("lake = 5", 1, "lake must be a text"),
        ("lake = 's3://b/l?metadata=log'\nmetadata = 'log'", 2, "metadata is named twice"),
        ("metadata = true", 1, "metadata must be a text"),
    ],
)
def test_errors_name_the_file_the_line_and_the_key(folder: Path, text: str, line: int, message: str) -> None:
    path = write(folder, text)
    with pytest.raises(tidegate.SettingError) as failed:
        load_config(path, {})
    place = f"{path}, line {line}" if line else str(path)
    assert failed.value.message.startswith(f"{place}: {message}")


def test_hints(folder: Path) -> None:
    for text, hint in (
        ("laek = 'x'", "did you mean lake?"),
        ("part_bytes = 5", "settings stand below a line [settings]: part_bytes = …"),
        ("[settings]\naudti = 1", "did you mean audit?"),
    ):
        with pytest.raises(tidegate.SettingError) as failed:
            load_config(write(folder, text), {})
        assert failed.value.hint == hint


def test_what_is_no_toml(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, "lake = \n")
    assert main(["status", "--help"]) == 0
    assert main(["status"]) == 1
    shown = capsys.readouterr().err
    assert "is not TOML" in shown
    assert "line 1" in shown
    (folder / "tidegate.toml").write_bytes(b"\xff")
    assert main(["status"]) == 1
    assert "UTF-8" in capsys.readouterr().err


def test_values_of_the_environment_and_the_command_line_are_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEGATE_AUDIT", "x")
    assert main(["config"]) == 1
    assert "TIDEGATE_AUDIT: audit cannot be 'x'" in capsys.readouterr().err
    monkeypatch.delenv("TIDEGATE_AUDIT")
    for arguments, message in (
        (["--set", "nonsense=1"], '--set nonsense: there is no setting "nonsense"'),
        (["--set", "audit"], "--set audit has no value"),
        (["--set"], "--set needs a value"),
    ):
        assert main(["config", *arguments]) == 1
        assert message in capsys.readouterr().err
