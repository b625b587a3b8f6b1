"""Sheets: printed tables and figures, made from plain values.

Holds `sheet` (Sheet, a printed table: text, Markdown, CSV, JSON), `figures` (one style for every figure, and the usual kinds of
curves and bars) and `settings` (how a setting is called in a sheet and on an axis). May touch records, text, words and types; no
torch, and matplotlib is imported only when a figure is drawn. What a sheet or a figure says is decided in the rooms above:
studies, sweeps, reproduction and reports. To add a kind of plot that several of them need, write a function in `figures` that
draws on matplotlib's axes.
"""
