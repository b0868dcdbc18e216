"""The web pages of `tidegate serve`: collections, maps of their parts, queries, sources, health.

    app = application(gateway, token=None)      an ASGI application

| module | |
|---|---|
| `app.py` | the routes, and the login form |
| `guard.py` | checks every request: host, origin, token, size; adds security headers |
| `collections.py`, `views.py`, `maintenance.py`, `settings.py`, `health.py`, `glossary.py` | the pages |
| `sources/` | the page of sources, and the samples of their lag that the server takes |
| `query/` | the query box: explain while typing, run, cancel, download |
| `part_map/` | the map of parts as SVG |
| `layout.py`, `markup.py`, `forms.py` | HTML as values, common pieces, fields of forms |
| `terms.py`, `glossary.md` | words of the field with their explanations, which are those of docs/glossary.md |
"""
