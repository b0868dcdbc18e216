"""Texts of dates, times, timestamps and intervals, valid and invalid: a grid of their pieces, and some written by hand."""

from __future__ import annotations

from itertools import product

_AMOUNTS = ("1", "-2", "1.5", "-0.7", "+3", ".5", "0", "2147483648", "0.0000005", "1.", "1e3")
_UNIT_WORDS = (
    "year", "years", "y", "yr", "mon", "months", "week", "d", "days", "hour", "hr", "h", "m", "min", "mins", "sec", "second",
    "s", "ms", "msec", "milliseconds", "us", "microseconds", "decade", "decs", "century", "c", "mil", "millennium", "quarter",
    "fortnight", "dow",
)  # fmt: skip
_PAIRS = (
    ("1.5 second", "42 milliseconds"), ("1 second", "42 milliseconds"), ("1.5 s", "1 us"), ("1 s", "1 us"), ("1 ms", "1 us"),
    ("1 day", "2 days"), ("1 week", "2 days"), ("1 week", "2 weeks"), ("1 year", "2 decades"), ("1 min", "2 mins"),
    ("1 hour", "04:05"), ("2 days", "04:05:06"), ("1-2", "3 days"), ("1-2", "1 mon"), ("1 year", "1-2"), ("3", "4:05:06"),
    ("1-2", "3 4:05:06"), ("-1", "-4:05"), ("1.5 days", "04:05"), ("04:05", "1.5 days"), ("04:05", ".5 day"), ("1", "2"),
    ("1 mon", "-30 days"), ("1.5 mon", "1.25 weeks"), ("0.3 years", "0.7 centuries"),
)  # fmt: skip
_INTERVALS = (
    "", " ", "@", "ago", "1", "-1", "1.5", "1 ago", "1 day ago", "1 year 2 mons ago", "ago 1 day", "1 day ago ago", "@ 1 hour",
    "@ 1 hour ago", "1 day 2", "1-2", "-1-2", "+1-2", "1-12", "1-11", "1-2-3", "1--2", "1-", "1 - 2", "- 1 day", "+ 1 day",
    "1 day -1 hour", "1 day, 2 hours", "1 day; 2 hours", "1day", "1day2hours", "1 d 2 h 3 m 4 s", "4:05", "4:05:06", "4:05:06.7",
    "4:05.5", "-4:05", "+4:05", "4:60", "4:05:60", "4:05:61", "100:00", "4:", ":05", "4:05:", "4:05:06.", "4::05", "3 4:05:06",
    "3 -4:05:06", "-3 4:05:06", "1 2:3:4 5", "1 year 1 year", "1 mon 2 mon", "P1Y2M3DT4H5M6S", "P1Y", "P1M", "P1W", "P1D", "PT1H",
    "PT1M", "PT1S", "PT1.5S", "P1.5D", "P1.5W", "P0.5Y", "P1.5M", "P-1Y2M", "P-1Y-2M", "PT-1H", "-P1D", "p1d", " P1D", "P", "PT",
    "P1", "P1Y1Y", "P1D1Y", "P1S", "PT1D", "P1H", "P0001-02-03T04:05:06", "P0001-02-03", "P1-2", "P1-2-3T4:5", "PT4:5:6",
    "PT04:05",
    "P00010203T040506", "P00010203", "PT040506", "P2001T04", "P1YT", "P+1D", "P1e2D", "P1Y 2M", "P1,5D", "P1D ", "1 day\t2 hours",
    "1  day", "1_day", "1 dayz", "one day", "1 microsecond", "1 microsecondly", "1 MILLISECONDS", "1 Day", "999999999 years",
    "178956970 years", "178956971 years", "-178956970 years", "106751991 days", "2147483647 days", "2147483648 days",
    "2147483647 months", "9223372036854775807 us", "9223372036854775808 us", "2562047788:00:54.775807", "9999999999 hours",
    "epoch", "now", "infinity", "-infinity", "today", "1 day today", "0.1 months", "0.1 years", "-0.1 years", "1.7 weeks",
    "1.999999999 s",
    "0.9999999 s", "1.0000005 s", "1.0000015 s", "2.5 us", "3.5 us", "0.4999999 us", "1.2345678 hours", "0.00001 day",
    "1:2:3.4567891",
    "1 timezone", "1 'day'", "'1 day'", '"1 day"', "(1 day)", "1 day!", "1 \u00e9", "1 day 1.5", "10 5:00", "1.5 5:00", "1.5 1-2",
)  # fmt: skip


def interval_texts() -> list[str]:
    """Some 700 texts of intervals, about half of them valid."""
    grid = [f"{amount} {word}" for amount, word in product(_AMOUNTS, _UNIT_WORDS)]
    pairs = [text for a, b in _PAIRS for text in (f"{a} {b}", f"{b} {a}", f"{a} {b} ago")]
    return [*_INTERVALS, *pairs, *grid]


_DATES = (
    "1999-01-08", "January 8, 1999", "Jan 8 1999", "8 Jan 1999", "8-Jan-1999", "Jan-08-1999", "08-Jan-99", "99-Jan-08",
    "1999-Jan-08",
    "1/8/1999", "1/18/1999", "18/1/1999", "01/02/03", "19990108", "990108", "1999.008", "99008", "J2451187", "j 2451187",
    "JD2451187",
    "January 8, 99 BC", "1999-1-8", "1999/1/8", "1999.1.8", "8.1.1999", "Fri Jan 8 1999", "Friday, January 8, 1999",
    "8 January 1999",
    "Jan 8", "1999-01", "1999", "Jan 1999", "99-1-8", "1999-13-08", "1999-02-29", "2000-02-29", "1999-00-08", "1999-01-00",
    "1999-01-32", "0001-01-01", "0000-01-01", "10000-01-01", "y1999m01d08", "1999-W01-1", "Jan 08 1999 AD", "1999 Jan 8",
    "1999 8 Jan",
    "Janu 8 1999", "sept 8 1999", "Sept. 8, 1999", "epoch", "infinity", "-infinity", "today", "now", "yesterday", "tomorrow",
    "allballs",
    "", " ", "x", "1999-01-08 1999-01-08", "1999-01-08x", "1999_01_08", "08/Jan/1999", "1999-008", "January", "2451187", "12",
    "199901", "1999010", "1999-01-08 BC", "Jan 32 1999", "2/30/1999", "31 Apr 2000", "1999-01-8", "01-08-1999",
    "1999-01-08 AD BC",
    "(1999-01-08)", "'1999-01-08'", "1999-01-08,", "1999 - 01 - 08", "January8,1999", "8Jan1999", "1999Jan8", "tues 1999-01-08",
    "12-25-69", "12-25-70", "1-1-0", "0-1-1", "1-1-1", "100-1-1", "1999-01-08+08", "5 Jan 24", "5 24 Jan", "at 1999-01-08",
    "on Jan 8 1999",
)  # fmt: skip
_CLOCKS = (
    "04:05:06.789", "04:05:06", "04:05", "040506", "040506.789", "0405", "04:05 AM", "04:05 PM", "4:05 pm", "4:05pm",
    "12:05 AM", "12:05 PM",
    "13:05 PM", "00:00 AM", "4 PM", "4PM", "04:05:06.789-8", "04:05:06-08:00", "04:05-08:00", "040506-08", "040506+0730",
    "040506+07:30:00", "04:05:06 PST", "04:05:06 America/New_York", "04:05:06Z", "04:05:06 Z", "04:05 zulu", "04:05:06 +16",
    "04:05:06 -15:59",
    "24:00:00", "24:00:01", "23:59:60", "23:59:61", "25:00", "04:60", "04:05:06.1234567", "04:05:06.9999999", "t04:05:06",
    "T040506",
    "t04:05", "4:5:6", "04:05:", "04::06", "04:05:06.", "4.5:06", "allballs", "now", "04:05 EST", "04:05 PDT", "04:05:06 UTC",
    "04:05 utc+2",
    "04:05 UTC-3", "04:05 GMT", "04:05 +5:30", "04:05 -0", "04:05:06,789", "04:05 noon", "h04 mm05 s06", "04h05m", "1:2",
)  # fmt: skip


def date_texts() -> list[str]:
    """Texts of dates alone."""
    return list(_DATES)


def clock_texts() -> list[str]:
    """Texts of times of day, and some with a date."""
    dated = [f"{date} {clock}" for date in ("1999-01-08", "Jan 8 1999", "1999-06-08") for clock in _CLOCKS]
    return [*_CLOCKS, *dated, *_DATES]


def timestamp_texts() -> list[str]:
    """Some 1,500 texts of timestamps: dates with clocks before and behind them."""
    some_dates = (
        "1999-01-08",
        "Jan 8 1999",
        "19990108",
        "J2451187",
        "8-Jan-1999",
        "1999-06-08",
        "Fri Jan 8 1999",
        "1/8/1999",
    )
    some_clocks = (
        "04:05:06.789",
        "04:05",
        "040506",
        "4:05 pm",
        "04:05:06-08:00",
        "04:05 America/New_York",
        "24:00:00",
    )
    return [
        *_DATES,
        *(f"{date} {clock}" for date in some_dates for clock in _CLOCKS),
        *(f"{date}T{clock}" for date in some_dates for clock in _CLOCKS if clock[0].isdigit()),
        *(f"{clock} {date}" for date in _DATES for clock in some_clocks),
        *(f"{date} {clock}" for date in _DATES for clock in some_clocks),
        "Thu Jan 08 04:05:06 1999", "Fri Jan 08 04:05:06.789 1999 PST", "Fri Jan 08 04:05:06 PST 1999",
        "1999-01-08 04:05:06 -8:00",
        "19990108T040506", "19990108 040506", "19990108T040506.789Z", "19990108T0405", "1999-01-08T04:05:06.789+01",
        "1999-01-08t04:05z",
        "20240310 023000 America/New_York", "2024-03-10 02:30 America/New_York", "2024-11-03 01:30 America/New_York",
        "2024-11-03 01:30 EST", "2024-11-03 01:30 EDT", "1999-01-08 04:05:06 AM", "1999-01-08 16:05 PM", "1999-01-08 0:05 PM",
        "2024-12-31 23:59:59.9999999", "2024-12-31 23:59:60", "9999-12-31 23:59:59.9999999", "1999-01-08 04:05:06 BC",
        "epoch 04:05", "1999-01-08 allballs", "today 04:05", "1999-01-08 now", "1999-01-08 04:05 04:06", "1999-01-08 -8",
        "1999-01-08 +8", "1999-01-08 PST", "1999-01-08 America/New_York", "J2451187 04:05", "J2451187.5", "2451187.5",
        "1999.008 04:05",
    ]  # fmt: skip


QUALIFIERS = (
    "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "YEAR TO MONTH", "DAY TO HOUR", "DAY TO MINUTE", "DAY TO SECOND",
    "HOUR TO MINUTE", "HOUR TO SECOND", "MINUTE TO SECOND",
)  # fmt: skip
QUALIFIED = (
    "1", "-1", "1.5", "-1.7", "1-2", "1 2", "3 4:05:06.789", "4:05", "4:05:06", "4:05.5", "1 year 2 mons 3 days 04:05:06.7891",
    "-1 year -2 mons -3 days -04:05:06.7891", "P1Y2M3DT4H5M6S", "40 days", "13 months", "100 hours", "1 week", "5.6789 s", "",
    "x",
    "10 5", "1 day 5",
)  # fmt: skip
"""Texts that are read with each qualifier behind them."""
