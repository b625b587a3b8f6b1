"""HTML: a page of blocks as one complete file: styles and figures inside, no scripts, no network."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import partial
from html import escape

from dura.reports.blocks import Block, Bullets, Code, Figure, Gallery, Page, Terms, Text, Tiles
from dura.sheets.sheet import Sheet

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""What a browser may load for the page: nothing from other places, and no script."""
_MIME = {"svg": "image/svg+xml", "png": "image/png"}
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #5a6570; --line: #d9dee3; --paper: #ffffff; --tint: #f4f6f8;
  --accent: #0060a0; --warn: #8a4b00; --warn-tint: #fff4e0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa6b2; --line: #39424b; --paper: #14181c;
  --tint: #1e242a; --accent: #6db8f0; --warn: #ffc772; --warn-tint: #33270f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.25rem 0 .75rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { margin: .5rem 0; max-width: 48rem; }
.lead, footer, .note { color: var(--soft); }
.note { font-size: .9rem; }
.warning { background: var(--warn-tint); color: var(--warn); border-left: 4px solid var(--warn); padding: .5rem .75rem; }
code, pre { font: .9em/1.45 ui-monospace, "Cascadia Mono", Consolas, "DejaVu Sans Mono", monospace; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: .75rem 1rem; overflow-x: auto; }
.tiles { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); margin: 1.25rem 0; }
.tile { background: var(--tint); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tile small { color: var(--soft); display: block; line-height: 1.35; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.5rem; margin: .75rem 0; }
dt { color: var(--soft); }
dd { margin: 0; min-width: 0; }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--paper); padding-left: 0; }
td.long { white-space: normal; min-width: 14rem; max-width: 28rem; }
.number { text-align: right; }
.gallery { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); margin: 1rem 0; }
figure { margin: 0; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: 8px; padding: .5rem; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .3rem; }
details { margin: .75rem 0; }
summary { cursor: pointer; color: var(--accent); font-weight: 600; }
footer { margin-top: 3rem; font-size: .9rem; border-top: 1px solid var(--line); padding-top: .75rem; }
@media (max-width: 40rem) { body { padding: 1.25rem .9rem 3rem; } dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; } }
@media print { :root { --ink: #000; --soft: #444; --line: #bbb; --paper: #fff; --tint: #fff; --accent: #000; --warn: #000;
  --warn-tint: #fff; } body { max-width: none; padding: 0; font-size: 10pt; } figure, .tile, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; } pre { white-space: pre-wrap; } .scroll { overflow: visible; }
  table { font-size: 8pt; } th, td { white-space: normal; padding: .2rem .4rem; } .gallery { grid-template-columns: 1fr 1fr; }
  .gallery:has(> :only-child) { grid-template-columns: 1fr; }
  details::details-content { content-visibility: visible; block-size: auto; } }
"""
LONG = 60
"""Text with more letters than this may wrap."""


def page_html(page: Page, footer: str) -> str:
    """The whole file.

    >>> page_html(Page("a < b", "", []), "").split("<h1>")[1].split("<footer>")[0]
    'a &lt; b</h1>\\n<p class="lead"></p>\\n\\n'
    """
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(page.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(page.title)}</h1>\n<p class="lead">{_inline(page.lead)}</p>\n'
        f"{_blocks(page.blocks, 2)}\n<footer>{_inline(footer)}</footer>\n</body>\n</html>\n"
    )


def _blocks(blocks: Sequence[Block], level: int) -> str:
    return "\n".join(map(partial(_block, level=level), blocks))


def _block(block: Block, level: int) -> str:
    if isinstance(block, Text):
        kind = ' class="warning"' if block.warning else ""
        return f"<p{kind}>{_inline(block.text)}</p>"
    if isinstance(block, Tiles):
        return f'<div class="tiles">{"".join(map(_tile, block.items))}</div>'
    if isinstance(block, Terms):
        return f"<dl>{''.join(f'<dt>{escape(term)}</dt><dd>{_inline(value)}</dd>' for term, value in block.items)}</dl>"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Code):
        return f"<pre>{escape(block.text)}</pre>"
    if isinstance(block, Gallery):
        return f'<div class="gallery">{"".join(map(_figure, block.figures))}</div>'
    if isinstance(block, Sheet):
        return _sheet(block)
    inside, title = _blocks(block.blocks, level + 1), escape(block.title)
    if block.folded:
        return f"<details>\n<summary>{title}</summary>\n{inside}\n</details>"
    return f"<section>\n<h{level}>{title}</h{level}>\n{inside}\n</section>"


def _tile(item: tuple[str, str, str]) -> str:
    label, value, remark = map(escape, item)
    return f'<div class="tile"><small>{label}</small><b>{value}</b><small>{remark}</small></div>'


def _figure(figure: Figure) -> str:
    source = f"data:{_MIME[figure.kind]};base64,{base64.b64encode(figure.data).decode()}"
    caption = escape(figure.caption)
    return f'<figure><img src="{source}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'


def _sheet(sheet: Sheet) -> str:
    """A sheet as a table, which scrolls in a narrow window."""
    sides = {column: ' class="number"' if sheet.right(column) else "" for column in sheet.columns}
    head = "".join(f"<th{side}>{escape(column)}</th>" for column, side in sides.items())
    rows = []
    for row in sheet.rows:
        texts = {column: sheet.text(row, column) for column in sheet.columns}
        wide = {column: ' class="long"' if len(text) > LONG else sides[column] for column, text in texts.items()}
        rows.append("".join(f"<td{wide[column]}>{escape(text)}</td>" for column, text in texts.items()))
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    title = f"<h3>{escape(sheet.title)}</h3>\n" if sheet.title else ""
    notes = "".join(f'<p class="note">{_inline(note)}</p>' for note in sheet.notes)
    return f'{title}<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>{notes}'


def _inline(text: str) -> str:
    """Escaped, with `code` between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
