"""Finds and reads `tidegate.toml`; an error names the file, the line and the key.

SettingError: /data/tidegate.toml, line 7: audit cannot be 7
hint: share of pruned parts, from 0 to 1, …: such as 0.01
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tidegate.config import Config
from tidegate.errors import BindError, SettingError
from tidegate.settings import changed

FILE_NAME = "tidegate.toml"
CONFIG_VARIABLE = "TIDEGATE_CONFIG"
LAKE_VARIABLE = "TIDEGATE_LAKE"
SETTING_PREFIX = "TIDEGATE_"
"""Before the name of a setting in capitals: TIDEGATE_PART_BYTES."""
DEFAULT_LAKE = "lake"
TOP_KEYS = ("lake", "metadata", "settings")


@dataclass(frozen=True)
class LoadedConfig:
    """What the file, the environment and the command line say together."""

    path: Path | None = None
    """The file; None: there is none."""
    lake: str = DEFAULT_LAKE
    """The folder or URL of the lake, with its metadata."""
    config: Config = field(default_factory=Config)
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each setting that is no default, and `lake`, comes from."""


def find_config(folder: Path) -> Path | None:
    """The configuration file of a folder or the nearest folder above it."""
    start = folder.absolute()
    return next((path for one in (start, *start.parents) if (path := one / FILE_NAME).is_file()), None)


def load_config(
    path: Path | None, environment: Mapping[str, str], given: Mapping[str, str] | None = None
) -> LoadedConfig:
    """Reads a file, if there is one, and applies the environment and what was given on the command line."""
    loaded = LoadedConfig() if path is None else _read(path)
    config, origins, lake = loaded.config, dict(loaded.origins), loaded.lake
    for setting in fields(Config):
        variable = SETTING_PREFIX + setting.name.upper()
        if variable in environment:
            config = _changed(config, setting.name, environment[variable], variable)
            origins[setting.name] = variable
    for name, value in (given or {}).items():
        config = _changed(config, name, value, f"--set {name}")
        origins[name] = "--set"
    if environment.get(LAKE_VARIABLE):
        lake, origins["lake"] = environment[LAKE_VARIABLE], LAKE_VARIABLE
    return LoadedConfig(path, lake, config, origins)


def open_options(
    url: str | os.PathLike[str] | None, config: Config | None, path: str | os.PathLike[str]
) -> tuple[str | os.PathLike[str], Config]:
    """The location and settings of `tidegate.open(url, config=…, config_file=path)`."""
    if config is not None:
        raise SettingError(
            "config and config_file were both given",
            hint="dataclasses.replace changes a Config that was read",
        )
    loaded = load_config(Path(path), os.environ)
    return (loaded.lake if url is None else url), loaded.config


def _read(path: Path) -> LoadedConfig:
    """A file alone."""
    import tomllib  # commands without a file do not wait for it

    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
    except UnicodeDecodeError:
        raise SettingError(f"{path} is not a text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path} is not TOML: {error}", hint='lines such as: lake = "data"') from None
    for key in content:
        if key not in TOP_KEYS:
            raise _unknown(path, text, key)
    settings = content.get("settings", {})
    if not isinstance(settings, dict):
        raise SettingError(f"{_place(path, text, 'settings')}: settings is a table: [settings]")
    config, origins = Config(), {}
    for name, value in settings.items():
        place = _place(path, text, name)
        if not isinstance(value, bool | int | float | str):
            raise SettingError(f"{place}: {name} must be a number, a text, true or false")
        config = _changed(config, name, value, place)
        origins[name] = place
    if "lake" in content or "metadata" in content:
        origins["lake"] = _place(path, text, "lake" if "lake" in content else "metadata")
    return LoadedConfig(path, _lake(path, text, content), config, origins)


def _lake(path: Path, text: str, content: Mapping[str, Any]) -> str:
    """The URL of the lake with its metadata. A folder is relative to that of the file."""
    for key in ("lake", "metadata"):
        if not isinstance(content.get(key, ""), str):
            raise SettingError(f"{_place(path, text, key)}: {key} must be a text")
    lake, metadata = content.get("lake", DEFAULT_LAKE), content.get("metadata", "")
    if "://" not in lake.partition("?")[0]:
        lake = str(path.absolute().parent / lake)
    if not metadata:
        return str(lake)
    if "metadata=" in lake.partition("?")[2]:
        raise SettingError(
            f"{_place(path, text, 'metadata')}: metadata is named twice: the lake's URL has metadata= too"
        )
    return f"{lake}{'&' if '?' in lake else '?'}metadata={metadata}"


def _changed(config: Config, name: str, value: object, place: str) -> Config:
    try:
        return changed(config, name, value)
    except BindError as error:
        raise SettingError(f"{place}: {error.message}", hint=error.hint) from None


def _unknown(path: Path, text: str, key: str) -> SettingError:
    settings = [setting.name for setting in fields(Config)]
    if key in settings:
        hint = f"settings stand below a line [settings]: {key} = …"
    else:
        close = get_close_matches(key, [*TOP_KEYS, *settings], n=2)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(TOP_KEYS)}"
    return SettingError(f"{_place(path, text, key)}: there is no key {key!r}", hint=hint)


def _place(path: Path, text: str, key: str) -> str:
    """The file, and the line of a key; TOML's parser does not keep lines."""
    pattern = re.compile(rf"\s*(\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    lines = (number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line))
    number = next(lines, None)
    return str(path) if number is None else f"{path}, line {number}"
