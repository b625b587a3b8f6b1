"""Blocks: the parts of a page, before it is HTML or Markdown. All texts are plain; `html` and `markdown` escape them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dura.sheets.sheet import Sheet


@dataclass(frozen=True)
class Text:
    """A paragraph; text between backticks is code. A `warning` stands out."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Tiles:
    """Results to be seen first: (label, value, remark)."""

    items: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Terms:
    """A list of (term, value)."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """The text of a file."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure: the stem of its file, what it shows in words, and its bytes."""

    stem: str
    caption: str
    data: bytes
    kind: Literal["svg", "png"] = "svg"


@dataclass(frozen=True)
class Gallery:
    """Figures, side by side if there is room."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Section:
    """Blocks under a title; the reader opens a `folded` one."""

    title: str
    blocks: Sequence[Block]
    folded: bool = False


Block = Text | Tiles | Terms | Bullets | Code | Gallery | Sheet | Section


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    lead: str
    blocks: Sequence[Block]

    def figures(self) -> Iterator[Figure]:
        """All figures in their order."""
        yield from _figures(self.blocks)


def _figures(blocks: Sequence[Block]) -> Iterator[Figure]:
    for block in blocks:
        if isinstance(block, Gallery):
            yield from block.figures
        elif isinstance(block, Section):
            yield from _figures(block.blocks)
