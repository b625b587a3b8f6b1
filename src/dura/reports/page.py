"""Page: runs, and sheets that studies left, as one report, written as HTML and Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dura.records import read_bytes, write_atomic
from dura.reports.blocks import Block, Figure, Gallery, Page, Section
from dura.reports.comparison import comparison
from dura.reports.html import page_html
from dura.reports.markdown import page_markdown
from dura.reports.runs import Run, read_runs
from dura.reports.single import in_short, single
from dura.sheets.sheet import MOST_BYTES, Sheet
from dura.types import BadInput, __version__

FOOTER = f"Made by dura {__version__} from the records of the runs."
SWEEP = {
    "history": "Valid MRR of each trial, in the order in which they began, and the best so far",
    "slices": "Valid MRR against each setting that was varied",
    "importance": "Share of each setting in the variance of valid MRR",
}
"""The figures that a sweep leaves next to its sheet, summary.json."""


@dataclass(frozen=True)
class Exhibit:
    """A sheet that a study, sweep or reproduction left, with its figures."""

    sheet: Sheet
    figures: Sequence[Figure] = ()


def read_sources(paths: Sequence[Path]) -> tuple[list[Run], list[Exhibit]]:
    """Run folders as runs; JSON files of sheets, and folders of them, as exhibits.

    >>> runs, exhibits = read_sources([Path("runs/umls"), Path("studies/sparsity")])  # doctest: +SKIP
    """
    runs, files = list[Path](), list[Path]()
    for path in dict.fromkeys(paths):
        folder = path.is_dir() and not (path / "run.json").exists()
        inside = sorted(path.glob("*.json"), key=lambda file: file.stem) if folder else []
        if path.suffix == ".json" and not path.is_dir():
            files.append(path)
        elif inside:
            files += inside
        else:
            runs.append(path)
    return read_runs(runs), [read_exhibit(path) for path in files]


def read_exhibit(path: Path) -> Exhibit:
    """The sheet of a JSON file with the figure of the same name; with a sweep's sheet, all figures of the sweep."""
    if not path.is_file():
        raise BadInput(f"there is no file {path}; name the folder of a study, or the .json file in it")
    sheet = Sheet.read(path)
    captions = {path.stem: sheet.title, **(SWEEP if path.stem == "summary" else {})}
    drawn = [_drawn(path.with_name(stem), caption) for stem, caption in captions.items()]
    return Exhibit(sheet, [figure for figure in drawn if figure is not None])


def _drawn(path: Path, caption: str) -> Figure | None:
    """The figure in PATH.svg, or else PATH.png."""
    kinds: tuple[Literal["svg", "png"], ...] = ("svg", "png")
    for kind in kinds:
        file = path.with_name(f"{path.name}.{kind}")
        if file.is_file():
            return Figure(path.name, caption, read_bytes(file.parent, file.name, MOST_BYTES), kind)
    return None


def report(runs: Sequence[Run], exhibits: Sequence[Exhibit] = ()) -> Page:
    """The page of one run, or of several side by side, followed by the exhibits."""
    blocks: list[Block] = []
    if len(runs) == 1:
        title, lead, blocks = runs[0].name, in_short(runs[0]), single(runs[0])
    elif runs:
        title, lead, blocks = f"{len(runs)} runs compared", _shared(runs), comparison(runs)
    elif exhibits:
        title, lead = "Studies", f"{len(exhibits)} tables."
    else:
        raise BadInput("a report needs at least one run folder or one table of a study")
    return Page(title, lead, _distinct([*blocks, *map(_section, exhibits)], set()))


def _distinct(blocks: Sequence[Block], taken: set[str]) -> list[Block]:
    """The same blocks with a different file for each figure: a second sparsity.svg becomes sparsity-2.svg."""
    found = list[Block]()
    for block in blocks:
        if isinstance(block, Gallery):
            block = Gallery([_renamed(figure, taken) for figure in block.figures])
        elif isinstance(block, Section):
            block = replace(block, blocks=_distinct(block.blocks, taken))
        found.append(block)
    return found


def _renamed(figure: Figure, taken: set[str]) -> Figure:
    """The figure under a free name, which is then `taken`; on some systems A.svg and a.svg are the same file."""
    stem, number = figure.stem, 1
    while (name := f"{stem}.{figure.kind}".casefold()) in taken:
        number += 1
        stem = f"{figure.stem}-{number}"
    taken.add(name)
    return replace(figure, stem=stem)


def _shared(runs: Sequence[Run]) -> str:
    graphs = list(dict.fromkeys(str(run.about.get("graph", {}).get("name")) for run in runs))
    return f"On {', '.join(graphs)}. Settings that are the same in all runs are left out of the table."


def _section(exhibit: Exhibit) -> Section:
    # One figure per line: some have many panels.
    galleries = [Gallery([figure]) for figure in exhibit.figures]
    return Section(exhibit.sheet.title, [replace(exhibit.sheet, title=""), *galleries])


def write(
    sources: Sequence[Path], *, html: Path | None = None, markdown: Path | None = None, figures: Path | None = None
) -> list[Path]:
    """Make the page of run folders and of tables that studies left, and write it; returns the figures that were written.

    Figures are written as files if `figures` names a folder, and always with `markdown` (by default next to it).

    >>> write([Path("runs/umls"), Path("studies/sparsity")], html=Path("report.html"))  # doctest: +SKIP
    """
    page = report(*read_sources(sources))
    if figures is None and markdown is not None:
        figures = markdown.with_name(f"{markdown.stem}-figures")
    drawn = [] if figures is None else write_figures(page, figures)
    if html is not None:
        write_html(page, html)
    if markdown is not None and figures is not None:
        write_markdown(page, markdown, figures)
    return drawn


def write_html(page: Page, path: Path) -> Path:
    """Write the page as one complete HTML file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, page_html(page, FOOTER).encode())
    return path


def write_figures(page: Page, folder: Path) -> list[Path]:
    """Write every figure of the page as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in page.figures():
        paths.append(folder / f"{figure.stem}.{figure.kind}")
        write_atomic(paths[-1], figure.data)
    return paths


def write_markdown(page: Page, path: Path, figures: Path) -> Path:
    """Write the page as Markdown that shows the figures in the folder `figures` (see `write_figures`)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    relative = os.path.relpath(figures, path.parent)
    write_atomic(path, page_markdown(page, FOOTER, Path(relative).as_posix()).encode())
    return path
