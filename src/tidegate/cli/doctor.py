"""The command `tidegate doctor`: examines a lake and this machine."""

from __future__ import annotations

import json as jsons
import sys

from tidegate.cli.configuration import active_config
from tidegate.cli.options import Flag, Json, Lake, enable_garbage_collection


def doctor(*, lake: Lake = "lake", deep: Flag = False, read_only: Flag = False, json: Json = False) -> int:
    """Examine a lake and this machine, and say what is wrong and what to do.

    Checks stores, clocks, files, leases, sizes, sources, free room and versions.
    The exit code is 1 if anything is a problem. Nothing of the lake is changed.

    ```
    tidegate doctor
    tidegate doctor --deep                       also verify the checksum of every part
    tidegate doctor --read-only                  without probes: nothing is written
    tidegate doctor --json | jq '.findings[] | select(.severity == "problem")'
    tidegate doctor --lake 's3://bucket/lake?metadata=postgresql://tidegate@db/meta'
    ```

    Parameters
    ----------
    deep
        Read every part, and compare it with its checksum.
    read_only
        Write no probe objects; what this leaves unchecked is listed.
    """
    from tidegate.doctor import diagnose_location
    from tidegate.progress import ProgressBars

    bars = ProgressBars(transient=True)

    def draw(what: str, count: int, total: int) -> None:
        share = count / total if total else None
        bars.draw("doctor", share, f"{what}: {count:,} of {total:,}", done=what == "doctor")

    enable_garbage_collection()
    config = active_config().config
    diagnosis = diagnose_location(lake, config=config, deep=deep, read_only=read_only, report=draw)
    text = jsons.dumps(diagnosis.data(), ensure_ascii=False) if json else diagnosis.text()
    sys.stdout.write(text + "\n")
    return 0 if diagnosis.healthy else 1
