"""The page of sources, with what they did in the last hour.

`history.py` samples them while the server runs, `chart.py` draws, `page.py` builds the page.
"""
