"""The configuration file `tidegate.toml`: where the lake is, and its settings.

    write_config(Path("shop"))                     shop/tidegate.toml, with every setting as a comment: `tidegate init shop`
    find_config(Path.cwd())                        the file of this folder, or of the nearest one above it
    loaded = load_config(path, os.environ, {})     read, with what the environment and the command line change
    tidegate.open(loaded.lake, config=loaded.config)

| what counts | example |
|---|---|
| 1. the command line | `--lake`, `--set part_bytes=1000000` |
| 2. the environment | `TIDEGATE_LAKE`, `TIDEGATE_PART_BYTES` |
| 3. the file | `lake = "data"`, `part_bytes = 1000000` below `[settings]` |
| 4. the defaults | the folder `lake`; `config.py` |

Commands of `tidegate` look for the file; `tidegate.open` reads one only if it is given (`config_file=`). The room uses `config` and
`settings`.
"""

from tidegate.config_file.load import (
    CONFIG_VARIABLE,
    FILE_NAME,
    LAKE_VARIABLE,
    LoadedConfig,
    find_config,
    load_config,
    open_options,
)
from tidegate.config_file.template import config_text, write_config

__all__ = [
    "CONFIG_VARIABLE",
    "FILE_NAME",
    "LAKE_VARIABLE",
    "LoadedConfig",
    "config_text",
    "find_config",
    "load_config",
    "open_options",
    "write_config",
]
