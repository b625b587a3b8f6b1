"""Markdown: a page of blocks as text, with its figures in other files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from urllib.parse import quote

from dura.reports.blocks import Block, Bullets, Code, Gallery, Page, Terms, Text, Tiles
from dura.sheets.sheet import Sheet, plain_markdown


def page_markdown(page: Page, footer: str, figures: str) -> str:
    """The whole file; `figures` is the folder of the figures, relative to it.

    >>> print(page_markdown(Page("Runs", "Two of them.", [Bullets(["a < b"])]), "", "."))
    # Runs
    <BLANKLINE>
    Two of them.
    <BLANKLINE>
    - a &lt; b
    <BLANKLINE>
    """
    pieces = [f"# {plain_markdown(page.title)}", plain_markdown(page.lead), *_blocks(page.blocks, 2, figures)]
    return "\n\n".join(filter(None, [*pieces, plain_markdown(footer)])) + "\n"


def _blocks(blocks: Sequence[Block], level: int, figures: str) -> list[str]:
    return list(map(partial(_block, level=level, figures=figures), blocks))


def _block(block: Block, level: int, figures: str) -> str:
    if isinstance(block, Text):
        return ("> " if block.warning else "") + plain_markdown(block.text)
    if isinstance(block, Tiles):
        rows = [{"": label, "value": value, "remark": remark} for label, value, remark in block.items]
        return _sheet(Sheet("", rows), level)
    if isinstance(block, Terms):
        return "\n".join(f"- {plain_markdown(term)}: {plain_markdown(value)}" for term, value in block.items)
    if isinstance(block, Bullets):
        return "\n".join(f"- {plain_markdown(item)}" for item in block.items)
    if isinstance(block, Code):
        return f"{_fence(block.text)}{block.language}\n{block.text.rstrip()}\n{_fence(block.text)}"
    if isinstance(block, Gallery):
        return "\n\n".join(
            f"![{_caption(figure.caption)}]({quote(f'{figures}/{figure.stem}.{figure.kind}')})"
            for figure in block.figures
        )
    if isinstance(block, Sheet):
        return _sheet(block, level)
    title = f"{'#' * level} {plain_markdown(block.title)}"
    return "\n\n".join([title, *_blocks(block.blocks, level + 1, figures)])


def _sheet(sheet: Sheet, level: int) -> str:
    """The sheet's own Markdown, with its title at this level."""
    table = sheet.markdown().split("\n", 2)[2].rstrip("\n")
    return f"{'#' * level} {plain_markdown(sheet.title)}\n\n{table}" if sheet.title else table


def _caption(text: str) -> str:
    """A caption with its brackets escaped, which would end it."""
    return plain_markdown(text).replace("[", "\\[").replace("]", "\\]")


def _fence(text: str) -> str:
    """More backticks than the text has in a row."""
    fence = "```"
    while fence in text:
        fence += "`"
    return fence
