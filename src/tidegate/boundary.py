"""The API boundary: only a `TidegateError` leaves it; other exceptions are logged under an id.

    @public
    class Database: ...                  every public method and property of it, and what its iterators raise

    internal(error)                      an InternalError to raise from `error`: the log has its trace under the same id

| raised inside | leaves as |
|---|---|
| a `TidegateError`; KeyboardInterrupt, SystemExit | the same |
| MemoryError, Arrow's too | `LimitError` |
| anything else | `InternalError`, whose `__cause__` it is |
| by a function of the caller (`callback`), or as the call does not fit the signature | the same: it is the caller's |

The log has the classes of the exception and of its causes, and where each was raised: module, line, function. It has no message of
theirs: `ArrowInvalid: Could not convert 'ann@example.com'` holds a row, `KeyError: 's3cret'` a constant.

Arguments are checked here too: `text(5, "the name")` raises `TypeMismatch: the name must be a text, and is int`.
"""

from __future__ import annotations

import functools
import inspect
import logging
import operator
import os
import secrets
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from tidegate.errors import InternalError, LimitError, TidegateError, TypeMismatch

T = TypeVar("T")
C = TypeVar("C", bound=type)
P = ParamSpec("P")
FRAMES = 60
"""Of a trace: the outermost and the innermost half, if there are more."""
_FULL = os.environ.get("TIDEGATE_TRACEBACK") == "full"
"""Whether errors keep the frames inside of Tidegate, for those who develop it."""
_FILE = "<tidegate>"
_LOG = logging.getLogger("tidegate.internal")
_CALLERS = "_tidegate_raised_by_a_callback"


def internal(error: BaseException) -> TidegateError:
    """What to raise, from `error`, for an exception that nobody foresaw. It is logged."""
    if isinstance(error, TidegateError):
        return error
    if isinstance(error, MemoryError):
        return LimitError("the process is out of memory", hint="ask for less at once, or give it more memory")
    id_ = secrets.token_hex(6)
    _LOG.error(
        "internal error %s: %s",
        id_,
        trace(error),
        extra={"tidegate": {"error": id_, "exception": _name(error)}},
    )
    return InternalError(_name(error), id_)


def passes(error: BaseException) -> bool:
    """Whether an exception leaves as it is."""
    return isinstance(error, TidegateError) or hasattr(error, _CALLERS)


def outward(error: Exception) -> Exception:
    """What an exception becomes at the boundary, its cause in place.

    Not for a frame that the error has come through: a variable there that refers to it makes a cycle, and whatever the frames hold
    (rows, sockets) would stay until Python looks for garbage.
    """
    if passes(error):
        return error
    found = internal(error)
    found.__cause__ = error
    return found


def trace(error: BaseException) -> str:
    """The classes of an exception and its causes with their stack frames, without their messages."""
    lines: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        lines.append(_name(cause) if not lines else f"caused by {_name(cause)}")
        lines += _frames(cause.__traceback__)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join(lines)


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _frames(found: TracebackType | None) -> list[str]:
    lines = []
    while found is not None:
        code, module = found.tb_frame.f_code, found.tb_frame.f_globals.get("__name__", "?")
        lines.append(f"  {module}, line {found.tb_lineno}, in {code.co_qualname}")
        found = found.tb_next
    half = FRAMES // 2
    return (
        lines if len(lines) <= FRAMES else [*lines[:half], f"  … {len(lines) - FRAMES} more", *lines[-half:]]
    )


def callback(function: Callable[P, T]) -> Callable[P, T]:
    """A function of the caller's: what it raises is theirs, and passes the boundary as it is."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            setattr(error, _CALLERS, True)
            raise

    return called


def guarded(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, from which nothing but a `TidegateError` comes; what it iterates over neither."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            # With one frame alone, that of `call`, the arguments do not fit the function's.
            unfit = error.__traceback__ is not None and error.__traceback__.tb_next is None
            if isinstance(error, TidegateError):
                raise without_frames(error)  # noqa: B904  # a message says what it has of its cause
            if unfit or passes(error):
                raise
            raise internal(error) from error
        return _iterated(result) if inspect.isgenerator(result) else result  # type: ignore[return-value]  # an iterator all the same

    # In a traceback it is called like the method, in a file that nobody looks for.
    call.__code__ = call.__code__.replace(  # type: ignore[attr-defined]  # functools.wraps hides that it is a function
        co_filename=_FILE, co_name=function.__name__, co_qualname=function.__qualname__
    )
    return call


def without_frames(error: TidegateError) -> TidegateError:
    """An error without the frames of Tidegate: its message says what is wrong, where, and what to do.

    Not so an `InternalError`, nor with TIDEGATE_TRACEBACK=full in the environment.
    """
    if _FULL or isinstance(error, InternalError):
        return error
    if error.__cause__ is None:
        error.__suppress_context__ = True
    else:
        error.__cause__.__traceback__ = None
    return error.with_traceback(None)


def _iterated(found: Iterator[T]) -> Iterator[T]:
    try:
        yield from found
    except Exception as error:
        if passes(error):
            raise
        raise internal(error) from error


_SPECIAL = ("__enter__", "__exit__", "__len__", "__repr__", "__iter__", "__arrow_c_stream__", "_repr_html_")
"""Methods of the API that Python, notebooks and other libraries call."""


def public(cls: C) -> C:
    """A class of the API: each of its public methods and properties is `guarded`."""
    for name, found in list(vars(cls).items()):
        if name.startswith("_") and name not in _SPECIAL:
            continue
        if isinstance(found, staticmethod):
            setattr(cls, name, staticmethod(guarded(found.__func__)))
        elif isinstance(found, property):
            setattr(cls, name, property(found.fget and guarded(found.fget), doc=found.__doc__))
        elif inspect.isfunction(found):
            setattr(cls, name, guarded(found))
    return cls


def text(argument: Any, what: str) -> str:
    """Checks that an argument is a text."""
    if not isinstance(argument, str):
        raise TypeMismatch(f"{what} must be a text, and is {type(argument).__name__}")
    return argument


def whole_number(argument: Any, what: str, meaning: str = "") -> int:
    """Checks that an argument is a whole number; `meaning` goes into the message."""
    try:
        return operator.index(argument)
    except TypeError:
        raise TypeMismatch(f"{what} must be an integer{meaning}, and is {type(argument).__name__}") from None


def instance(argument: Any, kind: type[T], what: str, public_name: str | None = None) -> T:
    """Checks that an argument is an instance of a class, which may have another public name."""
    if not isinstance(argument, kind):
        name = public_name or kind.__name__
        raise TypeMismatch(f"{what} must be a {name}, and is {type(argument).__name__}")
    return argument


def milliseconds(argument: Any, what: str) -> int | None:
    """Checks that an argument is a time in milliseconds, or None."""
    return None if argument is None else whole_number(argument, what, ", milliseconds since 1970")
