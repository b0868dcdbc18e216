"""PostgreSQL's settings of one connection: those that clients set and read when they connect.

    settings.set("application_name", "report")      stored, and reported to the client
    settings.set("client_encoding", "LATIN1")       refused: all text is UTF-8
    settings.show("TimeZone")                       "UTC"

Most of them have no effect, and are stored so that SHOW returns what SET stored. Some have one possible value (`FIXED`), and
another is refused rather than ignored: a client that asked for LATIN1 would misread every text. Times are always in UTC: a client
that sets another zone gets a warning, and converts times itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tidegate.errors import SettingError
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.sql.bind import POSTGRES_VERSION
from tidegate.sql.parse import Token
from tidegate.statements import milliseconds_of

FIXED = {
    "server_version": (POSTGRES_VERSION,),
    "server_version_num": ("150000",),
    "server_encoding": ("UTF8",),
    "client_encoding": ("UTF8", "unicode", "sqlascii"),
    "integer_datetimes": ("on",),
    "standard_conforming_strings": ("on", "true", "1", "yes"),
    "DateStyle": ("ISO, MDY", "iso", "iso,mdy", "iso, dmy", "iso,dmy", "iso, ymd", "iso,ymd"),
    "IntervalStyle": ("postgres",),
    "bytea_output": ("hex",),
    "TimeZone": ("UTC",),
    "max_identifier_length": ("63",),
    "max_index_keys": ("32",),
    "max_function_args": ("100",),
    "block_size": ("8192",),
    "is_superuser": ("off",),
    "in_hot_standby": ("off",),
}
"""Settings with one possible value: the value, and other spellings of it."""
FREE = {
    "application_name": "",
    "session_authorization": "",
    "default_transaction_read_only": "off",
    "transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
    "transaction_isolation": "read committed",
    "transaction_deferrable": "off",
    "default_transaction_deferrable": "off",
    "search_path": '"$user", public',
    "extra_float_digits": "1",
    "client_min_messages": "notice",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "row_security": "off",
    "synchronous_commit": "on",
    "escape_string_warning": "on",
    "backslash_quote": "safe_encoding",
    "lc_collate": "C.UTF-8",
    "lc_ctype": "C.UTF-8",
    "lc_messages": "C.UTF-8",
    "lc_monetary": "C.UTF-8",
    "lc_numeric": "C.UTF-8",
    "lc_time": "C.UTF-8",
    "default_tablespace": "",
    "default_table_access_method": "heap",
    "xmloption": "content",
    "jit": "off",
    "work_mem": "4MB",
    "max_parallel_workers_per_gather": "0",
    "enable_seqscan": "on",
    "geqo": "off",
    "quote_all_identifiers": "off",
}
REPORTED_SETTINGS = (
    "server_version", "server_encoding", "client_encoding", "application_name", "is_superuser",
    "session_authorization", "DateStyle", "IntervalStyle", "TimeZone", "integer_datetimes",
    "standard_conforming_strings", "default_transaction_read_only", "in_hot_standby",
)  # fmt: skip
"""Settings that the server reports at the start, and when they change."""
TIMEOUT = "statement_timeout"
MAX_VALUE_LENGTH = 10_000
_NAMES = {name.lower(): name for name in (*FIXED, *FREE)} | {
    "time zone": "TimeZone",
    "names": "client_encoding",
}


class PostgresSettings:
    """The settings of one connection."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    @staticmethod
    def canonical_name(name: str) -> str | None:
        """Returns the spelling of a setting in any case; None: it is not one of these."""
        return _NAMES.get(name.lower())

    def show(self, name: str) -> str:
        """Returns the value of a setting, by its canonical name."""
        return FIXED[name][0] if name in FIXED else self.values.get(name, FREE[name])

    def set(self, name: str, value: str | None) -> str | None:
        """Changes a setting, None: to its default; returns a warning for the client, if any."""
        if value is not None and len(value) > MAX_VALUE_LENGTH:
            raise PostgresError("22023", f"the value of {name} is too long")
        if name == "TimeZone" and value is not None and value.lower() not in ("utc", "default", "local", "z"):
            return "times are always in UTC; TimeZone has no effect"
        if name in FIXED:
            if value is not None and _normalized(name, value) not in {
                _normalized(name, spelling) for spelling in FIXED[name]
            }:
                if name == "TimeZone":
                    return None
                raise PostgresError(
                    "0A000", f"{name} cannot be {value[:60]!r}", hint=f"it is always {FIXED[name][0]}"
                )
            return None
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value
        return None

    def reported(self) -> dict[str, str]:
        """Returns the settings reported to clients, with their values."""
        return {name: self.show(name) for name in REPORTED_SETTINGS}

    def with_defaults(self) -> dict[str, tuple[str, str]]:
        """Returns every setting with its value and its default, for pg_settings."""
        defaults = PostgresSettings().all()
        return {name: (value, defaults[name]) for name, value in self.all().items()}

    def all(self) -> dict[str, str]:
        """Returns every setting with its value, for pg_settings."""
        return {name: self.show(name) for name in (*FIXED, *FREE)}


def _normalized(name: str, value: str) -> str:
    """Normalizes a value for comparison; in encodings only letters and digits count (`utf-8`)."""
    lower = value.lower()
    return re.sub(r"[^a-z0-9]", "", lower) if name == "client_encoding" else lower


def parse_timeout_ms(value: str) -> int:
    """Parses a timeout as PostgreSQL writes it: `5000`, `5s`, `1min`."""
    try:
        return milliseconds_of(value)
    except SettingError as error:
        raise PostgresError("22023", error.message, hint=error.hint) from None


def set_config_calls(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yields name and value of each `set_config('name', 'value', …)`; none where one of them is NULL."""
    for i, token in enumerate(tokens):
        if token.kind == "word" and token.text == "set_config" and tokens[i + 1].text == "(":
            arguments = _arguments(tokens[i + 2 :])
            name, value = (_constant(argument) for argument in (*arguments, [], [])[:2])
            if name is not None and value is not None:
                yield name, value


def _arguments(tokens: Sequence[Token]) -> list[list[Token]]:
    """The arguments of a call, from its first token."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        sign = token.text if token.kind == "op" else ""
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth < 0:
            break
        if sign == "," and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments


def _constant(tokens: Sequence[Token]) -> str | None:
    """The text of a constant, perhaps with a cast, as values of parameters have; None: it is NULL."""
    match [token.text for token in tokens if token.kind in ("string", "number")]:
        case [text]:
            return text
        case [] if any(token.kind == "word" and token.text == "null" for token in tokens):
            return None
        case _:
            raise PostgresError("0A000", "set_config takes constants only", hint="write SET name = value")
