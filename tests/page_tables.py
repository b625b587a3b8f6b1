"""The tables of a page in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

NUMBER = re.compile(r"\d*\.\d+")


def tables(page: Path) -> Iterator[dict[str, str]]:
    """The rows of all tables of a page, each cell under its title."""
    titles: list[str] = []
    for line in page.read_text("utf-8").splitlines():
        cells_ = [cell.strip() for cell in line.split("|")[1:-1]]
        if not line.startswith("|"):
            titles = []
        elif not titles:
            titles = cells_
        elif not set(line) <= set("|-: "):
            yield dict(zip(titles, cells_, strict=True))


def numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]
