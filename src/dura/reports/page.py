"""Page: runs and tables that studies left as one report, written as HTML and Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dura.records import write_atomic
from dura.reports.blocks import Block, Gallery, Page, Picture, Section
from dura.reports.comparison import comparison
from dura.reports.html import page_html
from dura.reports.markdown import page_markdown
from dura.reports.runs import Run, read_runs
from dura.reports.single import in_short, single
from dura.reports.tables import Sheet
from dura.types import BadInput, __version__

FOOTER = f"Made by dura {__version__} from the records of the runs."


@dataclass(frozen=True)
class Study:
    """A table that a study, sweep or reproduction left, with the figures of the same name beside it."""

    sheet: Sheet
    pictures: Sequence[Picture] = ()


def read_sources(paths: Sequence[Path]) -> tuple[list[Run], list[Study]]:
    """Run folders as runs; JSON files of tables, and folders of them, as studies.

    >>> runs, studies = read_sources([Path("runs/umls"), Path("studies/sparsity.json")])  # doctest: +SKIP
    """
    runs, tables = list[Path](), list[Path]()
    for path in dict.fromkeys(paths):
        inside = sorted(path.glob("*.json")) if path.is_dir() and not (path / "run.json").exists() else []
        if path.suffix == ".json" and path.is_file():
            tables.append(path)
        elif inside:
            tables += inside
        else:
            runs.append(path)
    return read_runs(runs), [read_study(path) for path in tables]


def read_study(path: Path) -> Study:
    """The table of a JSON file and its figure: STEM.svg, or else STEM.png."""
    sheet = Sheet.read(path)
    for kind in ("svg", "png"):
        drawn = path.with_suffix(f".{kind}")
        if drawn.is_file():
            return Study(sheet, [Picture(path.stem, sheet.title, drawn.read_bytes(), kind)])
    return Study(sheet)


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
    return Page(title, lead, [*blocks, *map(_section, studies)])


def _shared(runs: Sequence[Run]) -> str:
    graphs = list(dict.fromkeys(str(run.about.get("graph", {}).get("name")) for run in runs))
    return f"On {', '.join(graphs)}. Settings that are the same in all runs are left out of the table."


def _section(study: Study) -> Section:
    blocks: list[Block] = [replace(study.sheet, title="")]
    if study.pictures:
        blocks.append(Gallery(study.pictures))
    return Section(study.sheet.title, blocks)


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
