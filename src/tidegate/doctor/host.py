"""Checks of this machine: free room, limits on open files, permissions of files."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tidegate.doctor.examination import Examination
from tidegate.doctor.finding import Finding, Severity
from tidegate.text import format_bytes, plural

LITTLE_BYTES, TINY_BYTES = 2 << 30, 100 << 20
"""Free bytes below which there is a warning, and below which writing fails soon."""
LITTLE_INODES = 10_000
FEW_FILES = 1_024
"""A server holds a file for each client, and a query one for each part that it reads at once."""
MAX_FILES = 20_000
"""Files whose permissions are looked at."""


def check_disk(examination: Examination) -> list[Finding]:
    """Looks at the free room of the lake's folder, and of the folder that large queries spill to."""
    place = examination.root.place
    folders = {"the lake": place.root} if place.kind == "files" else {}
    folders["temporary files"] = tempfile.gettempdir()
    findings = []
    for subject, folder in folders.items():
        usage, inodes = shutil.disk_usage(folder), os.statvfs(folder)
        findings.append(
            disk_finding(subject, folder, usage.free, inodes.f_favail if inodes.f_files else None)
        )
    return findings


def disk_finding(subject: str, folder: str, free: int, inodes: int | None) -> Finding:
    """The finding for free bytes, and free inodes if the file system counts them."""
    message = f"{format_bytes(free)} free in {folder}"
    action = "make room: tidegate compact, then tidegate sweep; or a larger disk"
    if free < TINY_BYTES or inodes == 0:
        return Finding(Severity.PROBLEM, "machine", subject, f"{message}: writing fails soon", action)
    if free < LITTLE_BYTES:
        return Finding(Severity.WARNING, "machine", subject, message, action)
    if inodes is not None and inodes < LITTLE_INODES:
        return Finding(Severity.WARNING, "machine", subject, f"{message}, but only {plural(inodes, 'inode')}", action)  # fmt: skip
    return Finding(Severity.OK, "machine", subject, message)


def check_open_files() -> list[Finding]:
    """Looks at the limit on open files of this process."""
    return [open_files_finding(*resource.getrlimit(resource.RLIMIT_NOFILE))]


def open_files_finding(soft: int, hard: int) -> Finding:
    """The finding for a soft and a hard limit."""
    if soft == resource.RLIM_INFINITY or soft >= FEW_FILES:
        amount = "no limit" if soft == resource.RLIM_INFINITY else f"{soft:,} open files are allowed"
        return Finding(Severity.OK, "machine", "open files", amount)
    message = f"only {soft:,} open files are allowed: a server with many clients runs out of them"
    action = f"ulimit -n {hard if 0 < hard < 65_536 else 65_536}; for a service, LimitNOFILE="
    return Finding(Severity.WARNING, "machine", "open files", message, action)


def check_permissions(examination: Examination) -> list[Finding]:
    """Looks for files of the lake that this user cannot read, and that everybody can write."""
    place = examination.root.place
    if place.kind != "files":
        return []
    root, unreadable, writable, count = Path(place.root), [], [], 0
    for path in islice(_files(root), MAX_FILES):
        count += 1
        mode = path.lstat().st_mode
        if not os.access(path, os.R_OK):
            unreadable.append(path)
        elif mode & stat.S_IWOTH and not stat.S_ISLNK(mode):
            writable.append(path)
    findings = []
    if unreadable:
        message = f"{plural(len(unreadable), 'file')} cannot be read by this user, such as {unreadable[0].relative_to(root)}"
        action = f"chown or chmod, as the owner: chmod -R u+rX,g+rX {root}"
        findings.append(Finding(Severity.PROBLEM, "machine", "permissions", message, action))
    if writable:
        message = f"{plural(len(writable), 'file')} can be changed by every user, such as {writable[0].relative_to(root)}"
        findings.append(Finding(Severity.WARNING, "machine", "permissions", message, f"chmod -R o-w {root}"))
    fine = f"{plural(count, 'file')} can be read" + (
        " (only so many were looked at)" if count == MAX_FILES else ""
    )
    return findings or [Finding(Severity.OK, "machine", "permissions", fine)]


def _files(root: Path) -> Iterator[Path]:
    """The root folder, and every file and folder below it that can be listed."""
    yield root
    for folder, folders, names in os.walk(root):
        yield from (Path(folder, name) for name in (*folders, *names))
