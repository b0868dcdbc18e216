"""`echo`: gives its input back, for the runner's own test; `echo fail` fails with it."""

from tests.golden.runner import directive
from tidegate import BindError


@directive("echo")
def echo(args: str, lines: list[str]) -> str:
    if args == "fail":
        raise BindError(" ".join(lines))
    return "\n".join(([args] if args else []) + lines)
