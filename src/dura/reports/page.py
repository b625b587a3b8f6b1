"""Page: runs and tables that studies left as one report, written as HTML and Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dura.records import read_bytes, write_atomic
from dura.reports.blocks import Block, Gallery, Page, Picture, Section
from dura.reports.comparison import comparison
from dura.reports.html import page_html
from dura.reports.markdown import page_markdown
from dura.reports.runs import Run, read_runs
from dura.reports.single import in_short, single
from dura.reports.tables import MOST_BYTES, Sheet
from dura.types import BadInput, __version__

FOOTER = f"Made by dura {__version__} from the records of the runs."
SWEEP = {
    "history": "Valid MRR of each trial, in the order they were begun, and the best so far",
    "slices": "Valid MRR against each setting that was varied",
    "importance": "Share of each setting in the variance of valid MRR",
}
"""The figures that a sweep leaves beside its table, summary.json."""


@dataclass(frozen=True)
class Study:
    """A table that a study, sweep or reproduction left, with the figures beside it."""

    sheet: Sheet
    pictures: Sequence[Picture] = ()


def read_sources(paths: Sequence[Path]) -> tuple[list[Run], list[Study]]:
    """Run folders as runs; JSON files of tables, and folders of them, as studies.

    >>> runs, studies = read_sources([Path("runs/umls"), Path("studies/sparsity")])  # doctest: +SKIP
    """
    runs, tables = list[Path](), list[Path]()
    for path in dict.fromkeys(paths):
        folder = path.is_dir() and not (path / "run.json").exists()
        inside = sorted(path.glob("*.json"), key=lambda file: file.stem) if folder else []
        if path.suffix == ".json" and not path.is_dir():
            tables.append(path)
        elif inside:
            tables += inside
        else:
            runs.append(path)
    return read_runs(runs), [read_study(path) for path in tables]


def read_study(path: Path) -> Study:
    """The table of a JSON file and its figure of the same name, with a sweep's table the figures of the sweep."""
    if not path.is_file():
        raise BadInput(f"there is no file {path}; name the folder of a study, or the .json file in it")
    sheet = Sheet.read(path)
    captions = {path.stem: sheet.title, **(SWEEP if path.stem == "summary" else {})}
    drawn = [_drawn(path.with_name(stem), caption) for stem, caption in captions.items()]
    return Study(sheet, [picture for picture in drawn if picture is not None])


def _drawn(path: Path, caption: str) -> Picture | None:
    """The figure in PATH.svg, or else PATH.png."""
    kinds: tuple[Literal["svg", "png"], ...] = ("svg", "png")
    for kind in kinds:
        file = path.with_name(f"{path.name}.{kind}")
        if file.is_file():
            return Picture(path.name, caption, read_bytes(file.parent, file.name, MOST_BYTES), kind)
    return None


def report(runs: Sequence[Run], studies: Sequence[Study] = ()) -> Page:
    """The page of one run, or of several side by side, with the tables of studies behind them."""
    blocks: list[Block] = []
    if len(runs) == 1:
        title, lead, blocks = runs[0].name, in_short(runs[0]), single(runs[0])
    elif runs:
        title, lead, blocks = f"{len(runs)} runs compared", _shared(runs), comparison(runs)
    elif studies:
        title, lead = "Studies", f"{len(studies)} tables."
    else:
        raise BadInput("a report needs at least one run folder or one table of a study")
    return Page(title, lead, _distinct([*blocks, *map(_section, studies)], set()))


def _distinct(blocks: Sequence[Block], taken: set[str]) -> list[Block]:
    """The same blocks with a file of its own for each picture: a second sparsity.svg becomes sparsity-2.svg."""
    found = list[Block]()
    for block in blocks:
        if isinstance(block, Gallery):
            block = Gallery([_renamed(picture, taken) for picture in block.pictures])
        elif isinstance(block, Section):
            block = replace(block, blocks=_distinct(block.blocks, taken))
        found.append(block)
    return found


def _renamed(picture: Picture, taken: set[str]) -> Picture:
    """The picture under a name that is not `taken`, and is now; some systems hold A.svg and a.svg for one."""
    stem, number = picture.stem, 1
    while (name := f"{stem}.{picture.kind}".casefold()) in taken:
        number += 1
        stem = f"{picture.stem}-{number}"
    taken.add(name)
    return replace(picture, stem=stem)


def _shared(runs: Sequence[Run]) -> str:
    graphs = list(dict.fromkeys(str(run.about.get("graph", {}).get("name")) for run in runs))
    return f"On {', '.join(graphs)}. Settings that are the same in all runs are left out of the table."


def _section(study: Study) -> Section:
    # A row of its own for each figure: some have many panels.
    return Section(study.sheet.title, [replace(study.sheet, title=""), *(Gallery([p]) for p in study.pictures)])


def write_html(page: Page, path: Path) -> Path:
    """Write the page as one HTML file that needs nothing else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, page_html(page, FOOTER).encode())
    return path


def write_figures(page: Page, folder: Path) -> list[Path]:
    """Write every picture of the page as a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for picture in page.pictures():
        paths.append(folder / f"{picture.stem}.{picture.kind}")
        write_atomic(paths[-1], picture.data)
    return paths


def write_markdown(page: Page, path: Path, figures: Path) -> Path:
    """Write the page as Markdown that shows the pictures in the folder `figures` (see `write_figures`)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = os.path.relpath(figures, path.parent)
    write_atomic(path, page_markdown(page, FOOTER, Path(beside).as_posix()).encode())
    return path
