"""What statements may reach outside of the lake: everything for whoever opened it, little for who asks through a server.

    ANYWHERE                                          a program, the command line: what its user may read
    Reach(("/data/in", "s3://events/raw/"))           a server's clients: these folders and buckets, and what lies below them
    NOWHERE                                           a server that was told of none

    reach.file("/data/in/2026/*.json")                 fine
    reach.file("/data/in/../../etc/passwd")            BindError: the path is looked at as the machine would take it
    reach.option("password", "file:/etc/shadow")      BindError: a reference is followed with the server's rights

It is asked when a statement names something: what the catalog holds was let in by whoever wrote it there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import unquote

from tidegate.errors import BindError

_MAGIC = "*?["
_PATHS = ("ssl certificate authority", "ssl certificate", "ssl key")
"""Options that are the path of a file, or what would stand in it."""


@dataclass(frozen=True)
class Reach:
    """Where files may be. None: anywhere, and references to secrets are followed."""

    files: tuple[str, ...] | None = None

    def file(self, pattern: str) -> None:
        """Raises if a path, pattern or URL may name a file that is outside."""
        if self.files is None or any(_below(pattern, allowed) for allowed in self.files):
            return
        shown = ", ".join(self.files) or "none"
        raise BindError(
            "this server does not read files there",
            hint=f"files that it reads: {shown}; `tidegate serve --files DIR` allows more",
        )

    def option(self, name: str, value: object) -> None:
        """Raises if an option of a connection or source makes the server read its own files or variables, or run anything.

        SETTINGS go to librdkafka, among whose settings are a plug-in to load and a command to run.
        """
        if self.files is None or not isinstance(value, str | list | tuple):
            return
        if isinstance(value, list | tuple):
            for one in value:
                self.option(name, one)
        refers = isinstance(value, str) and value.partition(":")[0] in ("env", "file")
        is_path = name in _PATHS and isinstance(value, str) and not value.lstrip().startswith("-----BEGIN")
        if refers or is_path or name == "settings":
            raise BindError(
                f"{name.upper()} would use a file, variable or program of the server, which its clients cannot",
                hint="create the connection on the machine itself: tidegate sql",
            )


ANYWHERE = Reach()
NOWHERE = Reach(())


def _below(pattern: str, allowed: str) -> bool:
    """Whether all that a pattern can name lies below a folder or a URL."""
    scheme, is_url, _ = pattern.partition("://")
    if is_url and scheme != "file":
        below = allowed.rstrip("/") + "/"
        return pattern.startswith(below) and ".." not in pattern.split("/")
    if "://" in allowed:
        return False
    path = unquote(pattern.removeprefix("file://")) if is_url else pattern
    at = next((i for i, letter in enumerate(path) if letter in _MAGIC), len(path))
    if ".." in path[at:].split("/"):
        return False
    fixed = path if at == len(path) else path[:at].rpartition("/")[0] or "/"
    real, root = os.path.realpath(fixed), os.path.realpath(allowed)
    return os.path.commonpath((real, root)) == root
