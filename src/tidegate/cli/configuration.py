"""The configuration file of commands: finding it, `--config` and `--set`, and the lake that it names.

    with configured(["--config", "x.toml", "status"]) as rest:      rest is ["status"]
        app(rest)                                                   --lake is the file's, if neither it nor TIDEGATE_LAKE is given

Both options, and `--lake`, may stand before or after
the command. `app.config` asks for the lake (`file_lake`), `open_lake` for the settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from cyclopts import App, ArgumentCollection, Token

from tidegate.config_file import (
    CONFIG_VARIABLE,
    FILE_NAME,
    LAKE_VARIABLE,
    LoadedConfig,
    find_config,
    load_config,
)
from tidegate.errors import SettingError

_ACTIVE: ContextVar[LoadedConfig | None] = ContextVar("tidegate_configuration", default=None)
WITHOUT_FILE = ("init", "demo")
"""Commands that do not take the lake of a file."""
LAKE = ("--lake", "-l")
HELP = ("--help", "-h", "--version")
"""What is answered whatever a file says."""


@contextmanager
def configured(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Reads the configuration for the commands inside; gives the arguments without its options."""
    rest, options = _extract(lake_behind(arguments))
    given: dict[str, str] = {}
    for text in options["--set"]:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingError(f"--set {text} has no value", hint="--set part_bytes=1000000")
        given[name.strip()] = value.strip()
    if any(command in rest[:1] for command in WITHOUT_FILE) or any(word in rest for word in HELP):
        yield rest
        return
    token = _ACTIVE.set(load_config(_path(options["--config"]), os.environ, given))
    try:
        yield rest
    finally:
        _ACTIVE.reset(token)


def lake_behind(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--lake` behind the command, where commands take it."""
    at, found = 0, list[str]()
    while at < len(arguments) and (arguments[at] in LAKE or arguments[at].startswith("--lake=")):
        step = 2 if arguments[at] in LAKE else 1
        found += arguments[at : at + step]
        at += step
    return [*arguments[at : at + 1], *found, *arguments[at + 1 :]]


def active_config() -> LoadedConfig:
    """The configuration of the running command; the defaults outside of one."""
    return _ACTIVE.get() or LoadedConfig()


def file_lake(_: App, __: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Gives `--lake` its value from the file, if neither the command line nor the environment does."""
    loaded = active_config()
    if "lake" not in loaded.origins or loaded.origins["lake"] == LAKE_VARIABLE:
        return
    for argument in arguments:
        if argument.name == "--lake" and not argument.tokens:
            argument.append(Token(keyword="--lake", value=loaded.lake, source=str(loaded.path)))


def _path(named: Sequence[str]) -> Path | None:
    """The file that `--config` or TIDEGATE_CONFIG names, or the nearest one."""
    name = named[-1] if named else os.environ.get(CONFIG_VARIABLE, "")
    if not name:
        return find_config(Path.cwd())
    path = Path(name)
    path = path / FILE_NAME if path.is_dir() else path
    if not path.is_file():
        by = "--config" if named else CONFIG_VARIABLE
        raise SettingError(f"there is no file {path}, which {by} names", hint="tidegate init writes one")
    return path


def _extract(arguments: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Splits the arguments into others and options of this module; after `--` there are no options."""
    rest: list[str] = []
    options: dict[str, list[str]] = {"--config": [], "--set": []}
    left = list(arguments)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            return [*rest, word, *left], options
        if name not in options:
            rest.append(word)
        elif equals:
            options[name].append(value)
        elif left:
            options[name].append(left.pop(0))
        else:
            raise SettingError(f"{name} needs a value")
    return rest, options
