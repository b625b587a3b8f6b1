"""The site of the documentation: built without a warning, complete, searchable, and without a request to another host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

import dura

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"
pytestmark = pytest.mark.skipif(find_spec("sphinx") is None, reason="needs the extra docs")


class Page(HTMLParser):
    """What a page loads, where it links to, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.assets: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given["id"]} if "id" in given else set()
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link":
            self.assets += [href for href in [given.get("href", "")] if not href.startswith("#")]
        elif tag in ("img", "script", "iframe", "source", "video", "audio", "embed", "object"):
            self.assets += [given[name] for name in ("src", "srcset", "data") if name in given]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "out"
    done = subprocess.run([sys.executable, str(SITE), str(out)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def sources() -> set[str]:
    """Every page that the site should have, without its ending."""
    docs = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md") if SITE not in path.parents]
    named = {str(path.with_suffix("")).replace("README", "index") for path in docs}
    notebooks = {f"notebooks/{path.stem}" for path in (ROOT / "examples").glob("*.ipynb")}
    return named | notebooks | {"project/contributing", "project/changes", "project/dura-extras", "api/dura"}


def test_every_page_is_there_and_in_the_navigation(site: Path, pages: dict[Path, Page]) -> None:
    there = {str(path.relative_to(site).with_suffix("")) for path in pages}
    assert sources() - there == set()
    front = (site / "index.html").read_text("utf-8")
    links = re.findall(r'<li class="toctree-l\d[^>]*><a class="[^"]*" href="([^"#]+)\.html"', front)
    shown = {"index"} | {unquote(link) for link in links}
    assert sources() - shown == set()


def test_links_and_anchors_lead_somewhere(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            there = (path.parent / name.partition("?")[0]).resolve() if name else path
            assert there.exists(), f"{path.name} links to {link}"
            if anchor and there in pages:
                assert anchor in pages[there].anchors, f"{path.name} links to {link}"


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [asset for asset in page.assets if re.match(r"(?!data:)([a-z]+:)?//", asset)] == [], path.name
        missing = [
            a for a in page.assets if not a.startswith("data:") and not (path.parent / a.partition("?")[0]).exists()
        ]
        assert missing == [], path.name
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text("utf-8")) == [], sheet.name


def test_search_finds_pages_commands_and_public_names(site: Path) -> None:
    text = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    found = {index["docnames"][n] for kind in ("terms", "titleterms") for n in _numbers(index[kind].get("sqlite", []))}
    assert "how-to/databases" in found
    assert "dura serve" in index["alltitles"]
    assert {"Trained", "Graph", "fit", "load"} <= {row[-1] for rows in index["objects"].values() for row in rows}


def _numbers(found: int | list[int]) -> list[int]:
    return [found] if isinstance(found, int) else found


def test_the_public_names_have_their_docstrings(site: Path) -> None:
    page = (site / "api" / "dura.html").read_text("utf-8")
    for name in set(dura.__all__) - {"__version__"}:
        assert f'id="dura.{name}"' in page
        sentence = str(getattr(dura, name).__doc__).split("\n")[0].split("`")[0].split("'")[0]
        assert sentence[:40].strip() in page
    assert 'id="dura.Trained.predict"' in page


def test_notebooks_keep_their_output(site: Path) -> None:
    page = (site / "notebooks" / "new-entities-and-neighbours.html").read_text("utf-8")
    assert "cell_output" in page
    assert re.search(r'<img [^>]*src="\.\./_images/[^"]+\.png"', page)


def test_a_folder_with_other_files_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = subprocess.run([sys.executable, str(SITE), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "holds no site" in done.stderr
    assert (tmp_path / "mine.txt").exists()
