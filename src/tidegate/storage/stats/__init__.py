"""Statistics of the columns of parts and pages: collecting, trimming, encoding, querying.

    stats = summarise(columns, rows)           what a writer stores with a part, and in its file for each page
    frame = Frame.of_parts([encoded, …])       the statistics of many parts, one Arrow array for each fact
    frame.specs([(id, type), …])               what each column may be in each part: input of `plan.verdicts`

It rests on `tidegate.expr` (types, order, Specs). Missing or unreadable statistics mean *unknown*, never *empty*.

| module | |
|---|---|
| `model` | ColumnStats: the statistics of one column in one part |
| `collect`, `accumulate`, `extremes` | compute them from Arrow arrays |
| `histogram` | equi-depth histograms and distinct counts, for estimates only |
| `json/` | statistics of JSON documents by path and type |
| `shorten`, `trim` | shorten text bounds, and meet the budget of a part |
| `encode` | bytes for the state |
| `counters` | StatsCounters: unreadable and trimmed statistics of one database |
| `part_stats` | all statistics of a part, as its writer stores them |
| `page_values` | which values are on which pages |
| `columns`, `frame`, `to_specs` | facts of many parts as columns, and as Specs |
"""

from tidegate.storage.stats.collect import PAGE_ROWS
from tidegate.storage.stats.columns import CLOSED_BIT, FactPath, fact_name
from tidegate.storage.stats.counters import StatsCounters
from tidegate.storage.stats.frame import Frame
from tidegate.storage.stats.histogram import BUCKETS, Histograms, max_distinct
from tidegate.storage.stats.model import Form, form_of
from tidegate.storage.stats.page_values import PageValues, ValuePages

__all__ = [
    "BUCKETS",
    "CLOSED_BIT",
    "PAGE_ROWS",
    "FactPath",
    "Form",
    "Frame",
    "Histograms",
    "PageValues",
    "StatsCounters",
    "ValuePages",
    "fact_name",
    "form_of",
    "max_distinct",
]
