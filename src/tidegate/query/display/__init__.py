r"""Results for people: as text that fits a screen, and as HTML for notebooks.

    print("\n".join(table_text(cells, width=80)))

     id │ note        │ … │ total
    ────┼─────────────┼───┼──────
      1 │ a long no…  │ … │  9.50
    2 columns are not shown: name, street

`Cells` are the texts of some rows; `preview` takes them from a result and reads nothing. Columns that do not fit are left
out of the middle and named below the table: a cell that is blank is an empty text, never a lack of room.
"""

from tidegate.query.display.cells import NULL, PREVIEW, Cells, footer, preview
from tidegate.query.display.html import table_html, text_html
from tidegate.query.display.text import record_text, table_text, table_width, terminal_width

__all__ = [
    "NULL",
    "PREVIEW",
    "Cells",
    "footer",
    "preview",
    "record_text",
    "table_html",
    "table_text",
    "table_width",
    "terminal_width",
    "text_html",
]
