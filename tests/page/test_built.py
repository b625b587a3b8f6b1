"""The built page in the package is that of the sources, and needs nothing from elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES, BUILT = ROOT / "page", ROOT / "src" / "dura" / "web" / "page"
OTHERS = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")

pytestmark = pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources of the page are only in the repository")


def test_built_files_match_the_sources() -> None:
    files = [*(path for path in (SOURCES / "src").rglob("*") if path.is_file()), *(SOURCES / name for name in OTHERS)]
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(SOURCES).as_posix(), path) for path in files):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    stored = (BUILT / "sources.sha256").read_text().strip()
    assert digest.hexdigest() == stored, "the sources of the page changed; build it again with: make page"


def test_page_loads_only_what_is_shipped() -> None:
    for path in BUILT.iterdir():
        if path.suffix in (".html", ".css", ".js"):
            text = path.read_text(encoding="utf-8")
            assert set(re.findall(r"https?://[\w./-]+", text)) <= {
                "http://www.w3.org/2000/svg",
                "http://www.w3.org/1999/xhtml",
                "http://www.w3.org/1998/Math/MathML",
            }, path.name
            for used in re.findall(r"/page/([\w.-]+)", text):
                assert (BUILT / used).is_file(), f"{path.name} names {used}"
    assert "<script>" not in (BUILT / "index.html").read_text()  # the policy allows no inline script


def test_lock_file_names_no_host() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]
