"""COPY … TO STDOUT and COPY … FROM STDIN, in PostgreSQL's text, CSV and binary formats.

    COPY (SELECT id, name FROM orders) TO STDOUT (FORMAT csv, HEADER)
    COPY orders (id, name) FROM STDIN (FORMAT binary)

| module | |
|---|---|
| `statement.py` | what a COPY names: a table or a query, a direction, options |
| `options.py` | FORMAT, DELIMITER, NULL, HEADER, QUOTE, ESCAPE, FORCE_QUOTE, ENCODING |
| `output.py` | rows on their way out, batch by batch |
| `lines.py`, `binary.py` | data on its way in: text and CSV; binary |
| `load.py` | values of the columns, and one atomic append |
"""
