"""The command `tidegate init`: writes a configuration file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tidegate.cli.options import Flag
from tidegate.config_file import write_config


def init(
    folder: Path = Path(),
    *,
    lake: Annotated[str, Parameter(("--lake", "-l"), help="The lake that the file names.")] = "lake",
    metadata: Annotated[str, Parameter(show_default=False)] = "",
    force: Flag = False,
) -> None:
    """Write a configuration file, tidegate.toml, with every setting as a comment.

    Commands find it in the current folder or the nearest one above.

    ```
    tidegate init                       ./tidegate.toml, for the lake ./lake
    tidegate init shop                  shop/tidegate.toml, for the lake shop/lake
    tidegate init --lake 's3://bucket/lake?region=eu-west-1' --metadata postgresql://tidegate@db/meta
    ```

    Parameters
    ----------
    folder
        Where to write it; the folder is created.
    metadata
        Where the metadata is, if not beside the lake: log, or a postgresql:// URL.
    force
        Replace a file that is there.
    """
    path = write_config(folder, lake, metadata, force=force)
    sys.stdout.write(f"wrote {path}\nnext: edit it, then tidegate sql, or tidegate doctor --config {path}\n")
