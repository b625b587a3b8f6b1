from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dura.data.catalog import (
    BUNDLED,
    DOWNLOAD,
    HERE,
    cache_folder,
    entries,
    find,
    list_graphs,
    look_up,
    show,
    verify,
)
from dura.data.loading import load
from dura.types import SPLITS, BadInput, Sizes

PUBLISHED = {
    "umls": (135, 46, 5216, 652, 661),
    "nations": (14, 55, 1592, 199, 201),
    "kinships": (104, 25, 8544, 1068, 1074),
    "wn18rr": (40943, 11, 86835, 3034, 3134),
    "fb15k-237": (14541, 237, 272115, 17535, 20466),
    "yago3-10": (123182, 37, 1079040, 5000, 5000),
    "icews14": (7128, 230, 72826, 8941, 8963),
    "icews05-15": (10488, 251, 368962, 46275, 46092),
    "yago15k": (15403, 51, 110441, 13815, 13800),
}
TIMES = {"icews14": 365, "icews05-15": 4017, "yago15k": 170}
SHARED = Path(os.environ.get("DURA_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No graphs but the bundled ones, and an empty cache."""
    monkeypatch.delenv("DURA_DATA", raising=False)
    monkeypatch.setenv("DURA_CACHE", str(tmp_path / "cache"))


def put(folder: Path, fact: str = "a\tr\tb\n", parts: tuple[str, ...] = SPLITS) -> Path:
    folder.mkdir(parents=True)
    for part in parts:
        (folder / f"{part}.txt").write_text(fact)
    return folder


def test_the_catalog_holds_the_published_counts() -> None:
    found = {
        name: (entry.entities, entry.relations, *(entry.files[split].facts for split in SPLITS))
        for name, entry in entries().items()
    }
    assert found == PUBLISHED


def test_every_file_has_a_checksum_and_an_address_unless_bundled() -> None:
    for name, entry in entries().items():
        for published in entry.files.values():
            algorithm, _, digest = published.digest.partition(":")
            assert (algorithm, len(digest)) == (("md5", 32) if name == "yago3-10" else ("sha256", 64))
            assert entry.bundled != published.address.startswith("https://")
        assert entry.licence
        assert entry.source.startswith("https://")
        assert bool(entry.times) == bool(entry.layout) == (name in TIMES)
        assert entry.timestamps == TIMES.get(name, 0)


@pytest.mark.parametrize("name", ["umls", "nations", "kinships"])
def test_bundled_graphs_are_whole(name: str) -> None:
    listing = look_up(name)
    assert listing.where == BUNDLED
    verify(listing)
    graph = load(name)
    assert (len(graph.entities), len(graph.relations), *map(len, (graph.train, graph.valid, graph.test))) == PUBLISHED[
        name
    ]
    assert len(graph.unseen) == 0


def test_bundled_files_are_compressed_without_a_date_and_have_their_licence() -> None:
    files = sorted((HERE / "bundled").glob("*/*"))
    assert len(files) == 9
    assert all(file.read_bytes()[4:8] == bytes(4) for file in files)
    notice = (HERE / "bundled" / "NOTICE").read_text(encoding="utf-8")
    assert "pykeen 1.11.1" in notice
    assert "Permission is hereby granted" in notice


def test_names_ignore_case() -> None:
    assert look_up("UMLS").name == "umls"
    assert look_up("FB15k-237").name == "fb15k-237"


def test_listing_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    put(first / "mine")
    put(first / "WN18RR")
    put(second / "other", parts=("train",))
    put(second / "no-train", parts=("test",))
    put(second / ".hidden")
    put(tmp_path / "cache" / "fb15k-237")
    put(tmp_path / "cache" / "uncatalogued")
    monkeypatch.setenv("DURA_DATA", os.pathsep.join(map(str, (first, second, tmp_path / "none"))))
    where = {listing.name: listing.where for listing in list_graphs()}
    assert list(where) == [*PUBLISHED, "mine", "other"]
    assert where["mine"] == str(first / "mine")
    assert where["wn18rr"] == str(first / "WN18RR")
    assert where["fb15k-237"] == str(tmp_path / "cache" / "fb15k-237")
    assert where["umls"] == BUNDLED
    assert where["yago3-10"] == DOWNLOAD


def test_dura_data_comes_before_cache_and_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "data" / "umls")
    monkeypatch.setenv("DURA_DATA", str(tmp_path / "data"))
    assert look_up("umls").path == folder


def test_wrong_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "data" / "umls")
    put(tmp_path / "data" / "yago3-10")
    put(tmp_path / "data" / "nations", parts=("train", "valid"))
    monkeypatch.setenv("DURA_DATA", str(tmp_path / "data"))
    with pytest.raises(BadInput, match=r"umls/train\.txt is not the published train file of umls: its sha256 is .*…"):
        load("umls")
    with pytest.raises(BadInput, match=r"is not the published train file of yago3-10: its md5 is"):
        load("yago3-10")
    with pytest.raises(BadInput, match="not the published|lacks its test file"):
        load("nations")
    assert "not the published" in show("umls")["problem"]
    assert len(load(tmp_path / "data" / "umls", valid_share=0).train) == 1  # as a path it is read as it is


def test_crlf_files_have_the_published_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = look_up("nations").path
    assert source is not None
    folder = tmp_path / "data" / "nations"
    folder.mkdir(parents=True)
    for part in SPLITS:
        data = gzip.decompress((source / f"{part}.txt.gz").read_bytes())
        (folder / f"{part}.tsv").write_bytes(data.replace(b"\n", b"\r\n"))
    expected = load("nations").digest
    monkeypatch.setenv("DURA_DATA", str(tmp_path / "data"))
    assert load("nations").digest == expected


def test_counts_guard_a_graph_of_known_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    put(tmp_path / "data" / "yago3-10")
    monkeypatch.setenv("DURA_DATA", str(tmp_path / "data"))
    digest = "md5:" + hashlib.md5(b"a\tr\tb\n").hexdigest()
    entry = entries()["yago3-10"]
    files = {split: replace(published, digest=digest) for split, published in entry.files.items()}
    monkeypatch.setitem(entries(), "yago3-10", replace(entry, files=files))
    with pytest.raises(BadInput, match=r"facts are \(2, 1, 1, 1, 1\) instead of \(123182, 37, 1079040, 5000, 5000\)"):
        load("yago3-10")


def test_unknown_names_get_suggestions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("nothing") is None
    with pytest.raises(BadInput, match=r"'wn18r' is neither .*; did you mean wn18rr\? \(known graphs: umls, nations"):
        look_up("wn18r")
    monkeypatch.setenv("DURA_DATA", "/does/not/exist")
    with pytest.raises(BadInput, match="DURA_DATA names /does/not/exist, which is not a folder"):
        load("unheard-of")


def test_show_is_ready_for_json() -> None:
    shown = show("wn18rr")
    assert json.loads(json.dumps(shown)) == shown
    assert (shown["where"], shown["path"], shown["problem"]) == (DOWNLOAD, None, None)
    assert shown["files"]["train"]["facts"] == 86835
    assert show("umls")["problem"] is None


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("DURA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/dura")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "dura"


@pytest.mark.skipif(not (SHARED / "wn18rr").is_dir(), reason="the real graphs are not here")
@pytest.mark.parametrize("name", ["wn18rr", "fb15k-237", "icews14", "yago15k"])
def test_real_graphs_have_the_published_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURA_DATA", str(SHARED))
    assert show(name)["problem"] is None
    if not entries()[name].times:
        assert len(load(name).labels) == PUBLISHED[name][0]


@pytest.mark.skipif(not (SHARED / "yago15k").is_dir(), reason="the real graphs are not here")
@pytest.mark.parametrize("name", ["icews14", "icews05-15"])
def test_real_graphs_of_days(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURA_DATA", str(SHARED))
    graph = load(name)
    assert graph.times is not None
    assert graph.sizes == Sizes(*PUBLISHED[name][:2], TIMES[name])
    assert (graph.times.kind, graph.times.no_time) == ("date", False)
    assert graph.times.span == {"icews14": ("2014-01-01", "2014-12-31")}.get(name, ("2005-01-01", "2015-12-31"))
    assert (np.diff(graph.times.positions) == 1).all()  # no day is missing
    assert graph.train.dtype == np.int32
    assert (graph.train.shape[1], graph.questions.facts) == (4, 2 * PUBLISHED[name][2])


@pytest.mark.skipif(not (SHARED / "yago15k").is_dir(), reason="the real graphs are not here")
def test_real_graph_of_since_and_until(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURA_DATA", str(SHARED))
    graph = load("yago15k")
    assert graph.times is not None
    assert graph.sizes == Sizes(15403, 51, 170)
    assert (graph.times.kind, graph.times.no_time, graph.times.span) == ("number", True, ("600", "2017"))
    named = [graph.relations.name(r).rsplit("_", 1) for r in graph.train[:, 1].tolist()]
    assert len({name for name, _ in named}) == 32
    timeless = graph.train[:, 3] == 169
    counts = Counter(zip((suffix for _, suffix in named), timeless.tolist(), strict=True))
    assert counts[("notime", True)] == 81_058
    assert (counts[("since", True)], counts[("until", True)]) == (1, 1)  # the two lines without a date
    assert counts[("since", False)] + counts[("until", False)] == 29_381
    ledesma = graph.entities.id("<Cristian_Daniel_Ledesma>")
    italy = graph.entities.id("<Italy_national_football_team>")
    since = [ledesma, graph.relations.id("<playsFor>_since"), italy, graph.times.id("2010-##-##")]
    assert since in graph.train.tolist()
    assert load("yago15k", columns="0,1,2").sizes == Sizes(15403, 32)
