"""Reproduction: run the result tables of the paper here, and show our numbers next to the paper's.

Holds the cells of the tables (`cells`: one preset each), what they cost here (`estimates`), a cell with one seed and its files
(`tasks`), the runs of many tasks with workers (`reproduce`), and what has come out so far (`tally`). A folder can be started
again at any time: what is left to do follows from its files alone.

May touch `runs` and the rooms below it; not sweeps, studies or reports, which show a tally from plain rows.

To add a row to a table: a preset in `dura/presets/<graph>/` whose `[expected]` has `tables` and `system` (see `cells`). The order
of rows is that of the catalog, `MODELS` and `REGULARIZERS`. A new table is a name in `cells.TABLES`.
"""
