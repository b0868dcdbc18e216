"""The program `tidegate`: checks that its libraries are installed, then runs the command line."""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec
from typing import NoReturn

LIBRARIES = ("cyclopts", "rich", "prompt_toolkit")
"""What the extra `cli` installs. The core works without them."""


def run() -> NoReturn:
    """Runs the command line with the arguments of this process, and exits with its code."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"The command line needs {', '.join(missing)}. Install with: pip install 'tidegate[cli]'\n"
        )
        sys.exit(2)
    gc.disable()  # searching the freshly imported modules for garbage would be a tenth of a cold start
    try:
        from tidegate.cli.main import main

        code = main()
    except KeyboardInterrupt:  # while modules are imported, or as a database is closed
        sys.stderr.write("interrupted\n")
        code = 130
    sys.exit(code)
