"""What holds for every study: its shape, how it ends, and the names of runs."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import dura
from dura.sheets.sheet import Sheet
from dura.studies import STUDIES
from dura.studies.study import Found, Study, finish, run_labels
from dura.types import BadInput

every_study = pytest.mark.parametrize("study", [study for _, study in STUDIES.items()], ids=list(STUDIES))


@every_study
def test_every_study_has_the_same_four_parts(study: Study) -> None:
    assert list(inspect.signature(study.sheets).parameters) == ["found"]
    assert list(inspect.signature(study.draw).parameters) == ["found", "path"]
    assert "progress" in inspect.signature(study.compute).parameters
    options = inspect.signature(study.command).parameters
    name = next(name for name, row in STUDIES.items() if row is study)
    assert options["out"].default == Path("studies") / name
    handed = {option.name for option in options.values() if option.kind is option.KEYWORD_ONLY}
    assert {"bar"} <= handed <= {"bar", "train"}
    assert f"dura study {name}" in (study.command.__doc__ or ""), "help without an example"


def test_all_that_was_found_stands_in_the_main_file(tmp_path: Path) -> None:
    found = {"split": "test", "runs": [{"mrr": float("nan")}]}
    sheets = {"one": Sheet("One", [{"MRR": 0.5}], ["a note"]), "one-more": Sheet("More", [{"MRR": 0.25}])}

    def draw(given: Found, path: Path) -> Path:
        assert given is found
        path.write_text("a figure")
        return path

    made = finish(found, sheets, draw, tmp_path / "new" / "out", "it failed")
    endings = ("md", "csv", "json")
    names = [*(f"one.{e}" for e in endings), *(f"one-more.{e}" for e in endings), "one.png", "one.svg"]
    assert [file.name for file in made.files] == names
    assert all(file.is_file() for file in made.files)
    assert made.text.index("One") < made.text.index("a note") < made.text.index("More")
    assert made.failure == "it failed"
    document = json.loads((tmp_path / "new/out/one.json").read_text())
    assert document["split"] == "test"
    assert document["runs"] == [{"mrr": None}]
    assert made.document == {**sheets["one"].document(), **found, "files": list(map(str, made.files))}
    assert Sheet.read(tmp_path / "new/out/one-more.json").rows == sheets["one-more"].rows


def test_labels_tell_runs_apart(umls_runs: Path) -> None:
    assert run_labels([umls_runs / "none", umls_runs / "rescal"]) == ["ComplEx none", "RESCAL DURA-I"]
    assert run_labels([umls_runs / "dura", umls_runs / "again", umls_runs / "none"]) == [
        "dura",
        "again",
        "ComplEx none",
    ]
    same = [umls_runs / "again", umls_runs / "below" / "again", umls_runs / "rescal"]
    assert run_labels(same) == [str(same[0]), str(same[1]), "RESCAL DURA-I"]


def test_labels_say_what_was_done_to_exported_tables(umls_runs: Path, tmp_path: Path) -> None:
    whole = dura.open(umls_runs / "dura")
    sparse = whole.export(tmp_path / "sparse", sparse=0.7)
    small = whole.export(tmp_path / "small", dtype="int8")
    both = whole.export(tmp_path / "both", sparse=0.125, dtype="float16")
    labels = run_labels([umls_runs / "dura", sparse, small, both])
    assert labels == [
        "ComplEx DURA",
        "ComplEx DURA, 70 % zeros",
        "ComplEx DURA, int8",
        "ComplEx DURA, 12.5 % zeros, float16",
    ]
    copies = [dura.open(run).export(tmp_path / f"{run.name}-copy") for run in (umls_runs / "dura", sparse, small, both)]
    assert run_labels(copies) == labels


def test_runs_of_different_graphs_or_one_twice_are_refused(umls_runs: Path) -> None:
    with pytest.raises(BadInput, match=r"none and .*nations are runs of different graphs \(umls and nations"):
        run_labels([umls_runs / "none", umls_runs / "nations"])
    with pytest.raises(BadInput, match="given 2 times"):
        run_labels([umls_runs / "none", umls_runs / "none" / ".." / "none"])
    with pytest.raises(BadInput, match="no run folder"):
        run_labels([umls_runs / "nowhere"])
