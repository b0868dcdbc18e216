"""Arguments that only mean something if they come from a short list: units, patterns, zones, formats,
encodings.

A random text is a unit of `date_trunc` about never, so each such argument has its own pool, with garbage
mixed in. Casts from text have theirs too: the spellings that the target type accepts, and their near misses.
"""

from __future__ import annotations

import pyarrow as pa

from tests.laws.poison import digit_texts
from tidegate.expr.model.types import Kind, Type

UNITS = (
    "microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
    "decade", "century",
    "millennium", "epoch", "dow", "isodow", "doy", "isoyear", "timezone", "YEAR", "days",
)  # fmt: skip
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "+02",
    "-05:30",
    "EST",
    "Nowhere/At_All",
    "",
)
LIKES = (
    "",
    "%",
    "_",
    "a%",
    "a_c%",
    "%b",
    "ab",
    "ab%",
    "a\\%%",
    "a\\",
    "\U0010ffff%",
    "A%",
    "é%",
    "x%y%z",
    "%%",
    "__",
    "1%",
    "2024-%",
    "\\_%",
)
REGEXES = (
    "",
    "a",
    "^a",
    "^ab",
    "a$",
    "a.*b",
    "[0-9]+",
    "^[A-Z]",
    "(a)(b)?",
    "a|b",
    "(",
    "[",
    "a{2}",
    "\\d",
    "^2024-",
    "\\",
    ".",
    "é",
    "^$",
    "*",
)
FLAGS = ("", "g", "i", "gi", "x", "q", "n")
FORMATS = (
    "YYYY-MM-DD",
    "HH24:MI:SS",
    "YYYY",
    "Mon DD",
    "Day",
    "MS US",
    "Q WW IW",
    "DDD",
    "TZ",
    '"at" HH12 AM',
    "",
    "FMMonth FMDD",
    "junk%",
)
NUMBER_FORMATS = (
    "9", "99", "999.99", "9,999.99", "FM999", "FM9990.00", "0000", "S999", "999S", "MI99", "99PL", "99PR", "FM99PR", "99th", "RN",
    "FMrn", "99V9", "9.99EEEE", "9EEEE", "L9G999D99", '"a"99', "FM9.99", "", "99999999999999999999.9999",
)  # fmt: skip
NUMBER_TEXTS = (
    "1", "-12", "12-", "+3", "1,234.5", "<12>", "12th", ".5", "-.5", "abc", "", " 7", "1 2", "--1", "1e5", "99999999999999999999",
)  # fmt: skip
TEMPLATES = (
    "%s", "%I", "%L", "%%", "%", "a%sb", "%1$s %1$s", "%2$s", "%0$s", "|%10s|", "|%-10s|", "%*s", "%x", "%s %s", "é%5sé", "%-3L",
)  # fmt: skip
JSON_PATHS = (
    "$", "$.a", "$.a.b", "$.*", "$[*]", "$[0]", "$[last]", "$.a[*] ? (@ > 1)", "$[*] ? (@ != null)", "$ ? (@.a == 1)", "$.a == 1",
    "exists($.a)", "strict $.a", "strict $[0]", "$[*].type()", "$.size()", "$.a.double()", "$.a + 1", "$.zz", "$.", "", "1",
    '$[*] ? (@ starts with "a")', '$[*] ? (@ like_regex "^a")', "($.a > 1) is unknown", "$x",
)  # fmt: skip
NAMES_IN_SQL = ("a", "A.b", '"A".b', "select", "a b", "", '"a""b"', "a.", "é", " x ", "1a", "a.b.c")
ENCODINGS = ("hex", "base64", "escape", "HEX", "junk", "")
CHARSETS = ("utf8", "UTF8", "UTF-8", "latin1", "LATIN1", "junk")
KEYS = ("a", "b", "ts", "", "1", "zz", "aa")
PATHS = (
    ["a"],
    ["a", "b"],
    ["b", "a"],
    [],
    ["0"],
    ["a", "0"],
    ["-1"],
    ["a", None],
    ["zz", "b"],
    ["a", "b", "a"],
)
COUNTS = (-(2**31), -100, -2, -1, 0, 1, 2, 3, 5, 26, 100, 101, 2**31 - 1)
DIGITS = (-20, -3, -1, 0, 1, 2, 3, 10, 18, 30, 2**31 - 1, -(2**31))
SHIFTS = (-1, 0, 1, 2, 7, 15, 31, 32, 33, 63, 64, 100)
POINTS = (-1, 0, 1, 65, 97, 0x7F, 0x80, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x10FFFF, 0x110000, 2**31 - 1)
STRIDES = ("15 minutes", "1 day", "7 days")
FIELDS_OF_DATES = (-1, 0, 1, 2, 12, 13, 28, 29, 30, 31, 32, 1900, 2000, 2023, 2024, 9999, 10000, 2**31 - 1)
CLOCK = (-1, 0, 1, 23, 24, 59, 60, 61)
EPOCHS = (
    -62135596800.0, -62135596800.000001, -1.5, -1e-6, 0.0, 0.5, 1.0000005, 1e9, 1.7e9, 253402300799.0,
    253402300799.999999,
    253402300800.0, 1e18, float("inf"), -float("inf"),
)  # fmt: skip

_INTEGERS = ("0", "1", "-1", "+7", " 12 ", "32767", "32768", "-32768", "-32769", "2147483647", "2147483648",
    "-2147483648", "1.0", "1e2", "",
             " ", "-", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "0012", "1 2",
             "0x10", "1_0", "--1", "é", "١", "x" * 101)  # fmt: skip
_NUMBERS = (*_INTEGERS, "1.5", "-0.0", "1e-7", "1e400", "-1e400", "5e-324", "1e-400", "NaN", "nan", "-NaN",
    "Infinity", "-inf", "+inf", "infinit", ".5",
            "5.", ".", "1e", "1e+5", "12345678901234567890.123456789", "99999999999999999999",
            "0.000000000000000001",
            "0.0000000000000000005", "3.4028235e38", "3.5e38", "1e38", "1" * 38, "1" * 39,
            "87145.7e+37", "9168140357265358747442408e+15", "0." + "7" * 45, *digit_texts())  # fmt: skip
_DATES = ("2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "10000-01-01", "0000-01-01", "2024-2-3",
    "20240229", "2024-02-29 ", " 2024-02-29",
          "2024/02/29", "02/29/2024", "Jan 5, 2024", "2024-13-01", "2024-00-10", "junk", "", "epoch",
          "infinity", "2024-02-29 12:34:56", "1970-01-01",
          "2024-02-29T12:34:56.789Z", "2024-02-29 12:34:56.1234567", "2024-02-29 23:59:60",
          "2024-02-29 24:00:00", "2024-02-29 25:00:00",
          "2024-02-29 12:34:56+02", "2024-02-29 12:34:56-05:30", "9999-12-31 23:59:59.999999",
          "9999-12-31 23:59:59.9999999", "0001-01-01 00:00:00+01",
          "2024-02-29 12:34", "2024-02-29T12", "2024-02-29 12:34:56 UTC",
          "2024-02-29 12:34:56 Europe/Berlin", "2024-02-29 12:34:56 PM",
          "2023-12-31T23:59:59.999Z", "2024-06-01T00:00:00.000Z")  # fmt: skip
_TIMES = ("00:00:00", "12:34:56", "12:34", "23:59:59.999999", "23:59:59.9999999", "24:00:00", "24:00:01",
    "25:00", "12:60", "1:2:3", "123456", "junk", "",
          " 12:34:56 ", "12:34:56.5", "12", "12:34:56+02", "01:02:03 PM", "23:59:60")  # fmt: skip
_INTERVALS = ("1 day", "30 days", "1 month", "-1 month", "1 year 2 mons 3 days 04:05:06.789", "04:05:06",
    "-04:05", "1:2", "P1Y2M3DT4H5M6S", "PT0.5S", "P1W",
              "1.5 days", "0.5 months", "1.5 years", "1 day ago", "@ 1 minute", "3", "1 2:03", "junk", "",
              " 1 day ", "2 weeks", "1 century",
              "999999999999 years", "1e3 days", "-1 days +02:03", "1 mon -1 day", "100000000 days",
              "300000000 hours", "+1 day", "1d", "1 us", "5 ms")  # fmt: skip
_BOOLS = (
    "t",
    "true",
    "TRUE",
    "tru",
    "f",
    "false",
    "yes",
    "y",
    "no",
    "n",
    "on",
    "of",
    "off",
    "o",
    "1",
    "0",
    "2",
    "",
    " t ",
    "junk",
    "t r",
)
_UUIDS = ("00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
    "a0eebc999c0b4ef8bb6d6bb9bd380a11",
          "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11",
          "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "junk", "",
          " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0-eebc999c0b4ef8bb6d6bb9bd380a11",
          "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")  # fmt: skip
_BYTES = (
    "\\x",
    "\\x00ff",
    "\\xFF",
    "\\x0",
    "\\xzz",
    "\\x00 ff",
    "abc",
    "",
    "\\\\",
    "\\000",
    "\\400",
    "a\\001b",
    "\\",
    "é",
)
_JSON = ("null", "true", " 1 ", "1.50", "-0", "1e5", "1E400", "0.1e-3", "01", "1.", ".5", '"a"', '"\\u0041"',
    '"\\ud83d\\ude00"', '"\\ud83d"', '"\\u0000"',
         '"a', "[1, 2]", "[1,]", '{"a": 1, "a": 2}', '{"b":1,"a":2,"aa":0}', '{"a"}', "{", "", " ", "nul",
         "[" * 30 + "]" * 30, '{"a":{"b":[1,{"c":null}]}}',
         '"\n"', "[1] x", "NaN", '{"":0}', "'a'")  # fmt: skip
_ARRAYS = (
    "{}",
    "{1,2}",
    "{1,NULL}",
    '{"a b",c}',
    "{1",
    "",
    "1,2",
    "{ 1 , 2 }",
    "{{1},{2}}",
    "{null}",
    '{"null"}',
    "{a,}",
    "{-5}",
    "[0:1]={1,2}",
)

CASTS: dict[Kind, tuple[str, ...]] = {
    Kind.BOOL: _BOOLS, Kind.INT2: _INTEGERS, Kind.INT4: _INTEGERS, Kind.INT8: _INTEGERS,
    Kind.FLOAT4: _NUMBERS, Kind.FLOAT8: _NUMBERS,
    Kind.NUMERIC: _NUMBERS, Kind.DATE: _DATES, Kind.TIMESTAMP: _DATES, Kind.TIMESTAMPTZ: _DATES,
    Kind.TIME: (*_TIMES, *_DATES[:4]),
    Kind.INTERVAL: _INTERVALS, Kind.UUID: _UUIDS, Kind.BYTEA: _BYTES, Kind.JSONB: _JSON, Kind.ARRAY: _ARRAYS,
    Kind.MZ_TIMESTAMP: (*_INTEGERS, *_DATES),
}  # fmt: skip
"""What a text that is cast to a kind is drawn from: topic `("cast", kind)` is spelled `("cast:<kind>", 0)`.
"""

_UNIT_FUNCTIONS = ("date_trunc", "date_part", "extract")
_COUNT_FUNCTIONS = {"left": (1,), "right": (1,), "lpad": (1,), "rpad": (1,), "substring": (1, 2),
    "substr": (1, 2), "split_part": (2,),
                    "overlay": (2, 3)}  # fmt: skip

TABLE: dict[tuple[str, int], tuple[object, ...]] = {
    **{(name, 0): UNITS for name in _UNIT_FUNCTIONS},
    **{(name, at): COUNTS for name, places in _COUNT_FUNCTIONS.items() for at in places},
    **{(name, 1): LIKES for name in ("like", "ilike", "not like", "not ilike", "~~", "~~*", "!~~", "!~~*")},
    **{(name, 2): ("\\", "", "x", "é", "ab", "%") for name in ("like", "ilike", "not like", "not ilike",
    "~~", "~~*", "!~~", "!~~*")},
    **{(name, 1): REGEXES for name in ("~", "~*", "!~", "!~*", "regexp_replace", "regexp_match",
    "regexp_like")},
    ("repeat", 1): (-(2**31), -1, 0, 1, 2, 5, 100, 1000),
    ("regexp_replace", 2): ("", "X", "\\1", "\\&", "\\", "[\\0]"),
    ("regexp_replace", 3): FLAGS, ("regexp_match", 2): FLAGS,
    ("at time zone", 1): ZONES, ("timezone", 0): ZONES, ("date_trunc", 2): ZONES,
    ("to_char", 1): FORMATS, ("to_char:number", 1): NUMBER_FORMATS,
    ("to_number", 0): NUMBER_TEXTS, ("to_number", 1): NUMBER_FORMATS,
    ("format", 0): TEMPLATES, **{(name, 0): NAMES_IN_SQL for name in ("quote_ident", "parse_ident")},
    **{(name, 1): JSON_PATHS for name in ("@?", "@@", "jsonb_path_exists", "jsonb_path_match", "jsonb_path_query_array",
    "jsonb_path_query_first")},
    **{(name, 1): PATHS for name in ("jsonb_set", "jsonb_insert", "jsonb_set_lax", "#-")},
    ("jsonb_set_lax", 4): ("use_json_null", "delete_key", "return_target", "raise_exception", "junk"),
    ("regexp_split_to_array", 1): REGEXES, ("regexp_substr", 1): REGEXES, ("regexp_split_to_array", 2): FLAGS,
    ("similar_to_escape", 0): (*LIKES, "(a|b)%", "[a-c]_", "a+", "#%"),
    ("similar_to_escape", 1): ("#", "", "\\", "ab"),
    ("trim_array", 1): (-1, 0, 1, 2, 3, 100), ("factorial", 0): (-1, 0, 1, 5, 20, 33),
    ("unistr", 0): ("d\\0061", "\\+000061", "\\", "a"),
    ("get_bit", 1): COUNTS, ("set_bit", 1): (*range(-1, 20),), ("set_byte", 1): (*range(-1, 5),), ("set_bit", 2): (-1, 0, 1, 2),
    ("width_bucket", 3): (-1, 0, 1, 5, 100, 2**31 - 1), ("overlay", 4): COUNTS,
    ("to_date", 1): FORMATS, ("to_timestamp", 1): FORMATS, ("to_date", 0): _DATES,
    ("encode", 1): ENCODINGS, ("decode", 1): ENCODINGS, ("convert_from", 1): CHARSETS, ("convert_to",
    1): CHARSETS,
    ("decode", 0): ("", "00ff", "0", "zz", "AAEC", "AAE=", "====", "\\000", "a\\", "00 FF", "abc", "é"),
    ("split_part", 1): ("", ",", ".", "X", "bc", "a"), ("chr", 0): POINTS,
    ("->", 1): KEYS, ("->>", 1): KEYS, ("?", 1): KEYS, ("#>", 1): PATHS, ("#>>", 1): PATHS, ("-", 1): KEYS,
    ("<<", 1): SHIFTS, (">>", 1): SHIFTS, ("round", 1): DIGITS, ("trunc", 1): DIGITS,
    ("make_date", 0): FIELDS_OF_DATES, ("make_date", 1): FIELDS_OF_DATES, ("make_date", 2): FIELDS_OF_DATES,
    ("make_timestamp", 0): FIELDS_OF_DATES, ("make_timestamp", 1): FIELDS_OF_DATES, ("make_timestamp",
    2): FIELDS_OF_DATES,
    ("make_timestamp", 3): CLOCK, ("make_timestamp", 4): CLOCK, ("make_timestamp", 5): (-1.0, 0.0, 0.5, 59.0,
    59.9999999, 60.0, 61.0),
    ("to_timestamp", 0): EPOCHS, ("try_parse_monotonic_iso8601_timestamp", 0): _DATES,
}  # fmt: skip
TABLE |= {(f"cast:{kind.value}", 0): texts for kind, texts in CASTS.items()}


def constants(topic: tuple[str, int] | None, type_: Type) -> pa.Array | None:
    """The values that mean something as that argument, if they are values of the type."""
    found = None if topic is None else TABLE.get(topic)
    if found is None:
        return None
    fitting = [v for v in found if _fits(v, type_)]
    return pa.array(fitting, type_.arrow) if fitting else None


def _fits(value: object, type_: Type) -> bool:
    if isinstance(value, str):
        return type_.kind is Kind.TEXT
    if type_.is_integer and isinstance(value, int):
        return -(2 ** (type_.arrow.bit_width - 1)) <= value < 2 ** (type_.arrow.bit_width - 1)
    if isinstance(value, list):
        return type_.element is not None and type_.element.kind is Kind.TEXT
    return type_.is_float and isinstance(value, float)
