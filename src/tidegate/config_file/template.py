"""Writes a new `tidegate.toml`, in which every setting is a comment with its default and meaning.

    # target size of a part in bytes; compaction merges parts of less than half of it
    # part_bytes = 134217728

It is made from the declarations in `config.py`, so a new setting needs no change here.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import fields
from pathlib import Path

from tidegate.config import Config, SettingScope
from tidegate.config_file.load import DEFAULT_LAKE, FILE_NAME
from tidegate.errors import StoreError

WIDTH = 100
_SCOPES = {
    SettingScope.DATABASE: "",
    SettingScope.SESSION: " A session may change it.",
    SettingScope.LIMIT: " A session may lower it.",
}
_HEAD = """\
# Configuration of Tidegate: where the lake is, and its settings. Lines that begin with # are comments; the values in them are the
# defaults.
#
# The program `tidegate` reads the file of this name in the current folder or the nearest one above, or the one that --config or
# TIDEGATE_CONFIG names. The command line (--lake, --set name=value) counts before the environment (TIDEGATE_LAKE,
# TIDEGATE_<SETTING>), and that before this file. Programs read it by tidegate.open(config_file="tidegate.toml").
#
# No secret belongs here: keys of a bucket and passwords come from the environment (AWS_SECRET_ACCESS_KEY, PGPASSWORD).

# The lake: a folder, relative to this file, or a URL such as s3://bucket/lake?region=eu-west-1
lake = {lake}

# Where its metadata is, if not beside it: "log" (numbered objects), or a PostgreSQL. A lake keeps the metadata it was created with.
{metadata}

[settings]
"""


def config_text(lake: str = DEFAULT_LAKE, metadata: str = "") -> str:
    """The text of a new file."""
    meanings, scopes = Config.meanings(), Config.scopes()
    shown = f"metadata = {_toml(metadata)}" if metadata else '# metadata = "postgresql://tidegate@db/meta"'
    pieces = [_HEAD.format(lake=_toml(lake), metadata=shown)]
    for setting in fields(Config):
        sentence = f"{meanings[setting.name]}.{_SCOPES[scopes[setting.name]]}"
        lines = textwrap.wrap(sentence[0].upper() + sentence[1:], WIDTH)
        pieces += [*(f"# {line}" for line in lines), f"# {setting.name} = {_toml(setting.default)}", ""]
    return "\n".join(pieces)


def write_config(folder: Path, lake: str = DEFAULT_LAKE, metadata: str = "", *, force: bool = False) -> Path:
    """Writes a new file into a folder, which is created; one that is there stays unless `force`."""
    path = folder / FILE_NAME
    if path.exists() and not force:
        raise StoreError(
            f"{path} exists already", hint="--force replaces it; or edit it: `tidegate config` lists settings"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(config_text(lake, metadata), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or type(error).__name__}") from None
    return path


def _toml(value: object) -> str:
    """A value as TOML writes it; a text as JSON does, which TOML reads alike."""
    return json.dumps(value, ensure_ascii=False)
