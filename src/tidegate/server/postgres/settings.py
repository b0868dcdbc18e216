"""PostgreSQL's own settings, of one connection: those that clients set and ask for when they connect.

    settings.set("application_name", "report")      kept, and told back where clients expect it
    settings.set("client_encoding", "LATIN1")       refused: everything here is UTF-8
    settings.show("TimeZone")                       "UTC"

Most of them change nothing here, and are kept so that SHOW says what SET said. Some have one value that is true (`FIXED`), and
another one is refused rather than forgotten: a client that asked for LATIN1 would misread every text. Times are always in UTC: a
client that wants another zone is told so, and converts.
"""

from __future__ import annotations

import re

from tidegate.serve.pg.sqlstate import Trouble

VERSION = "15.0"
FIXED = {
    "server_version": (VERSION,),
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
    "is_superuser": ("off",),
    "in_hot_standby": ("off",),
}
"""What cannot be another way: the value, and what else means the same."""
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
REPORTED = (
    "server_version", "server_encoding", "client_encoding", "application_name", "is_superuser",
    "session_authorization", "DateStyle", "IntervalStyle", "TimeZone", "integer_datetimes",
    "standard_conforming_strings", "default_transaction_read_only", "in_hot_standby",
)  # fmt: skip
"""What a client is told at the start, and when it changes."""
TIMEOUT = "statement_timeout"
MAX_VALUE = 10_000
_UNITS = {"": 1.0, "us": 0.001, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 36e5, "d": 864e5}
_NAMES = {name.lower(): name for name in (*FIXED, *FREE)} | {
    "time zone": "TimeZone",
    "names": "client_encoding",
}


class Settings:
    """The settings of one connection."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    @staticmethod
    def known(name: str) -> str | None:
        """How a setting is spelled, if it is one of PostgreSQL's that we know; any case will do."""
        return _NAMES.get(name.lower())

    def show(self, name: str) -> str:
        """The value of a setting that is known."""
        return FIXED[name][0] if name in FIXED else self.values.get(name, FREE[name])

    def set(self, name: str, value: str | None) -> str | None:
        """Changes one, None: back to its default; what to tell the client besides, if anything."""
        if value is not None and len(value) > MAX_VALUE:
            raise Trouble("22023", f"the value of {name} is too long")
        if name == "TimeZone" and value is not None and value.lower() not in ("utc", "default", "local", "z"):
            return "times are in UTC here, whatever TimeZone says"
        if name in FIXED:
            if value is not None and _plain(name, value) not in {_plain(name, one) for one in FIXED[name]}:
                if name == "TimeZone":
                    return None
                raise Trouble(
                    "0A000", f"{name} cannot be {value[:60]!r} here", hint=f"it is always {FIXED[name][0]}"
                )
            return None
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value
        return None

    def reported(self) -> dict[str, str]:
        """What clients are told."""
        return {name: self.show(name) for name in REPORTED}

    def all(self) -> dict[str, str]:
        """Every setting, for pg_settings."""
        return {name: self.show(name) for name in (*FIXED, *FREE)}


def _plain(name: str, value: str) -> str:
    """A value as PostgreSQL compares it: of an encoding's name only letters and digits count, so that `'utf-8'` is UTF8."""
    lower = value.lower()
    return re.sub(r"[^a-z0-9]", "", lower) if name == "client_encoding" else lower


def milliseconds(value: str) -> int:
    """A time-out as PostgreSQL spells it: `5000`, `5s`, `1min`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?\s*", value)
    if found is None:
        raise Trouble("22023", f"{value[:60]!r} is no time", hint="such as 5000, 5s or 1min")
    return round(float(found[1]) * _UNITS[found[2] or ""])
