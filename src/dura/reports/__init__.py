"""Reports: pages about runs, made from records and plain values.

Holds `runs` (a run folder as plain values), `page` (what `dura report` writes: `single` and `comparison` choose the content, as
`blocks` that `html` and `markdown` write), `drawing` (the figures of a page), `exported` (what an export saved and cost) and
`sweeps` (the sheet and figures of a search). May touch sheets, config, records, registry, words and types; no torch and no live
objects, so that a report can be made wherever a run folder was copied to. To add to a page, write a function from a `Run` to blocks
and call it in `single` or `comparison`; a new kind of block needs a case in `html` and in `markdown`.
"""
