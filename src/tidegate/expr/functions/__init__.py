"""Every scalar function, each declared once, by subject. Importing this package fills the registry."""

from importlib import import_module

SUBJECTS = (
    "boolean",
    "compare",
    "planning",
    "conditional",
    "membership",
    "number",
    "maths",
    "numeric",
    "numeric_maths",
    "cast_number",
    "read_number",
    "write_number",
    "text",
    "text_join",
    "text_edit",
    "pattern",
    "regexp",
    "bytes",
    "cast_text",
    "interval",
    "time",
    "calendar",
    "make_time",
    "extract",
    "zone",
    "format_time",
    "parse_time",
    "cast_time",
    "temporal",
    "json",
    "json_contain",
    "json_edit",
    "json_build",
    "cast_json",
    "nested",
    "array_text",
    "record",
    "cast_nested",
)

for _subject in SUBJECTS:
    import_module(f"{__name__}.{_subject}")
