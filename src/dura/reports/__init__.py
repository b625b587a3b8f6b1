"""Reports: tables, figures and pages, made from records and plain values.

Holds `tables` (Sheet: text, Markdown, CSV, JSON), `plots` (one style for every figure), `runs` (a run folder as plain values) and
`page` (the report of runs: `single` and `comparison` say what stands in it, as `blocks` that `html` and `markdown` write out).
May touch config, records, registry and types; no torch and no live objects, so that a report can be made anywhere a run folder was
copied to. To add a report, write a function from records or rows to a Sheet, a figure or blocks.
"""
