"""Stage: gather the documents of the repository in one folder, which Sphinx turns into the site.

The documents stay as they are, so they also read well where the repository is browsed. This is what changes on the way: `README.md`
becomes `index.md`, pages from outside of `docs/` get a place, links follow, and lists of pages become the navigation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import api

ROOT = Path(__file__).resolve().parents[2]
DOCS, SITE = ROOT / "docs", ROOT / "docs" / "site"
FILES = Path("files")
"""Where files go that pages link to and that are not below docs/."""
OUTSIDE = {
    "README.md": "index.md",  # the front page of the site says the same; its own text is not staged
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "examples/dura-extras/README.md": "project/dura-extras.md",
}
"""Pages from outside of docs/, and their places."""
TITLES = {
    "project/changes.md": "Changes",
    "project/contributing.md": "Contributing",
    "project/dura-extras.md": "Example package",
}
FRONT = (
    ("Learn", ("tutorial", "tutorial-own-facts", "notebooks/index")),
    ("Use", ("how-to/index", "reference/index", "api/index")),
    ("Understand", ("explanation/index", "decisions/index")),
    ("Results", ("results", "speed")),
    ("Project", ("project/contributing", "project/changes", "project/dura-extras")),
)
"""The navigation: a caption, and the pages below it. A page that is itself a list of pages brings them along."""
SECTIONS = ("how-to", "reference", "explanation", "decisions")
"""Folders whose README lists all pages, in the order of the navigation."""
RESULTS = "results"
"""The folder whose pages are listed by the page of the same name next to it."""
FENCE = re.compile(r"^ *(```+).*?^ *\1 *$", re.M | re.S)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
INTRODUCTION = """# API

This part is made from the docstrings. [dura](dura.md) has the public names, which are promises; [Python](../reference/python.md)
describes them at more length. The other pages are for those who [extend](../how-to/extend.md) dura or work on it: one page per
room. A room may use those above it in this list ([floors](../decisions/floors.md)).

| room | holds |
|---|---|
"""


def stage(folder: Path) -> None:
    """Write everything that Sphinx needs into a new folder."""
    places = _places()
    for source, place in places.items():
        if source == ROOT / "README.md":
            continue
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text("utf-8")
        follow = _follower(source, place, places, folder)
        target.write_text(_notebook(text, follow) if source.suffix == ".ipynb" else _page(text, follow), "utf-8")
    for section in SECTIONS:
        _append(folder / section / "index.md", _toctree(listed(DOCS / section / "README.md")))
    _append(folder / f"{RESULTS}.md", _toctree(listed(DOCS / f"{RESULTS}.md", below=f"{RESULTS}/")))
    _append(folder / "index.md", "".join(_toctree(pages, caption=caption) for caption, pages in FRONT))
    _notebooks(folder, [place for place in places.values() if place.startswith("notebooks/")])
    _api(folder / "api")
    shutil.copy(SITE / "conf.py", folder / "conf.py")
    shutil.copytree(SITE / "static", folder / "_static")


def listed(page: Path, below: str = "") -> list[str]:
    """The pages of its own folder, or of one below it, that a page links to, in order, without their ending."""
    found = [target for _, target, _ in LINK.findall(FENCE.sub("", page.read_text("utf-8")))]
    return list(dict.fromkeys(name[:-3] for name in found if re.fullmatch(below + r"[\w-]+\.md", name)))


def _places() -> dict[Path, str]:
    """Every page of the site, and where it is staged."""
    pages = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md")) if SITE not in path.parents}
    places = {path: re.sub(r"README\.md$", "index.md", place) for path, place in pages.items()}
    places |= {ROOT / name: place for name, place in OUTSIDE.items()}
    return places | {path: f"notebooks/{path.name}" for path in sorted((ROOT / "examples").glob("*.ipynb"))}


def _follower(source: Path, place: str, places: dict[Path, str], folder: Path) -> Callable[[str], str]:
    """A function that turns a page's links into links of the site, and brings along the files they lead to."""

    def follow(target: str) -> str:
        if re.match(r"[a-z]+:|#", target):
            return target
        name, mark, anchor = target.partition("#")
        there = (source.parent / name).resolve()
        if there.is_dir() and there / "README.md" in places:
            there /= "README.md"
        new = places.get(there) or _bring(there, folder)
        return os.path.relpath(new, Path(place).parent) + mark + anchor

    return follow


def _bring(file: Path, folder: Path) -> str:
    """Copy a file that is not a page; where it is staged."""
    if not file.is_file():
        raise SystemExit(f"{file.relative_to(ROOT)}: a page links to it, but it is not a file of the site")
    place = file.relative_to(DOCS) if file.is_relative_to(DOCS) else FILES / file.relative_to(ROOT)
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, folder / place)
    return place.as_posix()


def _page(text: str, follow: Callable[[str], str]) -> str:
    """A page with its links changed, but not those in code."""

    def pieces() -> Iterator[str]:
        end = 0
        for fence in FENCE.finditer(text):
            yield LINK.sub(lambda link: link[1] + follow(link[2]) + link[3], text[end : fence.start()])
            yield fence[0]
            end = fence.end()
        yield LINK.sub(lambda link: link[1] + follow(link[2]) + link[3], text[end:])

    return "".join(pieces())


def _notebook(text: str, follow: Callable[[str], str]) -> str:
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _page("".join(cell["source"]), follow)
    return json.dumps(notebook)


def _toctree(pages: list[str] | tuple[str, ...], *, caption: str = "", hidden: bool = True) -> str:
    options = [f":caption: {caption}"] * bool(caption) + [":hidden:"] * hidden
    names = [f"{TITLES[f'{page}.md']} <{page}>" if f"{page}.md" in TITLES else page for page in pages]
    return "\n```{toctree}\n" + "\n".join([*options, "", *names]) + "\n```\n"


def _append(page: Path, text: str) -> None:
    page.write_text(page.read_text("utf-8") + text, "utf-8")


def _notebooks(folder: Path, places: list[str]) -> None:
    names = [Path(place).stem for place in places]
    text = "# Notebooks\n\nThe notebooks of `examples/` in the repository, with the output of their last run.\n"
    (folder / "notebooks" / "index.md").write_text(text + _toctree(names, hidden=False), "utf-8")


def _api(folder: Path) -> None:
    """Pages made of docstrings: the public names, and one page for each room."""
    folder.mkdir()
    (folder / "dura.md").write_text(api.public(), "utf-8")
    rows = ""
    for room in api.ROOMS:
        (folder / f"{room}.md").write_text(api.room(room), "utf-8")
        rows += f"| [{room}]({room}.md) | {api.holds(room)} |\n"
    (folder / "index.md").write_text(INTRODUCTION + rows + _toctree(["dura", *api.ROOMS]), "utf-8")
