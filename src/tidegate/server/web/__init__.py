"""The web pages of `tidegate serve`: collections, maps of their parts, queries, sources, health.

    app = application(gateway, token=None)      an ASGI application

| module | |
|---|---|
| `app.py` | the routes, and the login form |
| `guard.py` | checks every request: host, origin, token, size; adds security headers |
| `collections.py`, `ingest.py`, `health.py` | the pages |
| `query/` | the query box: explain while typing, run, cancel, download |
| `part_map/` | the map of parts as SVG |
| `layout.py`, `markup.py`, `forms.py`, `rates.py` | HTML as values, common pieces, fields of forms, records per second |
"""
