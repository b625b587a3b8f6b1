"""Blocks: what a page is made of, before it is HTML or Markdown. All texts are plain; whoever writes them out escapes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dura.reports.tables import Sheet


@dataclass(frozen=True)
class Text:
    """A paragraph; what stands between backticks is code. A `warning` stands out."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Tiles:
    """Figures to be seen first: (label, value, remark)."""

    items: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Terms:
    """Short answers: (term, value)."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Text as it stands in a file."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Picture:
    """A drawn figure: a name for its file, what it shows in words, and its bytes."""

    stem: str
    caption: str
    data: bytes
    kind: Literal["svg", "png"] = "svg"


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side where there is room."""

    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Section:
    """Blocks under a title; a `folded` one is opened by the reader."""

    title: str
    blocks: Sequence[Block]
    folded: bool = False


Block = Text | Tiles | Terms | Points | Code | Gallery | Sheet | Section


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    lead: str
    blocks: Sequence[Block]

    def pictures(self) -> Iterator[Picture]:
        """All pictures in their order."""
        yield from _pictures(self.blocks)


def _pictures(blocks: Sequence[Block]) -> Iterator[Picture]:
    for block in blocks:
        if isinstance(block, Gallery):
            yield from block.pictures
        elif isinstance(block, Section):
            yield from _pictures(block.blocks)
