"""Every scalar function, each declared once, by subject. Importing this package fills the registry."""

from importlib import import_module

for _subject in ("boolean", "compare", "conditional", "number", "text", "pattern", "time", "calendar", "json", "nested", "cast"):
    try:
        import_module(f"{__name__}.{_subject}")
    except ModuleNotFoundError as missing:
        if missing.name != f"{__name__}.{_subject}":
            raise
