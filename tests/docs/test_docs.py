"""The documents say what the program does: links, commands, code, settings, options, JSON, files and signatures are checked."""

from __future__ import annotations

import fnmatch
import inspect
import json
import re
import shlex
import tomllib
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dura
from commands import problem, program
from dura.__main__ import app
from dura.config import Experiment, GraphSettings, Section, SmoothnessSettings, TermSettings, TrainingSettings
from dura.config.sections import WorldSettings
from dura.models import MODELS
from dura.objectives import CANDIDATES, LOSSES
from dura.registry import Registry, describe
from dura.regularizers import REGULARIZERS
from dura.runs.answering import Answering
from dura.runs.exploring import Exploring
from dura.types import BadInput

Settings = dict[tuple[str, str], dict[str, tuple[str, Any]]]
"""(table, part) -> key -> (type in words, default)."""
Outputs = tuple[Path, dict[str, Any]]

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
OTHERS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/dura-extras/README.md")
PAGES = [*(ROOT / name for name in OTHERS), *sorted((ROOT / "docs").rglob("*.md"))]
REGISTRIES: dict[str, Registry[Any]] = {
    "model": MODELS,
    "regularizer": REGULARIZERS,
    "loss": LOSSES,
    "candidates": CANDIDATES,
}
SECTIONS: dict[str, type[Section]] = {
    "graph": GraphSettings,
    "terms": TermSettings,
    "smoothness": SmoothnessSettings,
    "training": TrainingSettings,
    "world": WorldSettings,
}
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


# -- reading Markdown ---------------------------------------------------------------------------------------------------


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, also those indented under a list item."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", page.read_text("utf-8"), re.M | re.S)
    return [re.sub(rf"^{indent}", "", text, flags=re.M) for indent, text in found]


def prose(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.M | re.S)


def links(page: Path) -> list[str]:
    """The targets of links within the repository."""
    found: list[str] = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", prose(page), re.M)


def anchors(page: Path) -> set[str]:
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


def rows(page: Path) -> Iterator[tuple[str, str, list[str]]]:
    """The rows of all tables: the ## and the ### heading above them, and the cells."""
    above = below = ""
    for line in prose(page).splitlines():
        if line.startswith("## "):
            above, below = line[3:], ""
        elif line.startswith("### "):
            below = line[4:]
        elif line.startswith("|") and not re.fullmatch(r"[|\- ]+", line):
            yield above, below, [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def ticked(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


# -- links, commands, code ----------------------------------------------------------------------------------------------


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(there), f"{page.name} links to {target}"


@pytest.mark.parametrize("notebook", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_links_of_notebooks_lead_somewhere(notebook: Path) -> None:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", target)]
    assert targets
    assert [target for target in targets if not (notebook.parent / target.partition("#")[0]).exists()] == []


def test_every_page_of_the_docs_can_be_reached() -> None:
    linked = {(page.parent / target.partition("#")[0]).resolve() for page in PAGES for target in links(page)}
    assert [page for page in PAGES if page not in linked and page.name != "README.md"] == []


def commands(page: Path) -> list[list[str]]:
    """The arguments of each `dura …` in the page's shell blocks, up to a pipe or the like."""
    found = []
    for line in "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        calls: list[list[str]] = [[]]
        for word in words:
            if re.fullmatch(r"[|&;<>()]+", word):
                calls.append([])
            elif calls[-1] or not re.match(r"[A-Z_]+=", word):  # not the variables before a command
                calls[-1].append(word)
        found += [call[1:] for call in calls if call and call[0] == "dura"]
    return found


@every_page
def test_commands_parse(page: Path) -> None:
    for arguments in commands(page):
        if arguments[:2] != ["study", "frequency"]:  # the example package brings it
            assert problem(arguments) == "", f"dura {shlex.join(arguments)}"


def test_the_parsing_of_commands_can_fail() -> None:
    assert problem(["train", "--graph", "umls", "--rank", "3"]) == ""
    assert problem(["data", "check", "facts.tsv"]) == ""
    for wrong in (["tran"], ["train", "--rang", "3"], ["train", "--rank", "x"], ["data", "chek", "x"], ["evaluate"]):
        assert problem(wrong), wrong
    assert ["data", "check", "facts.tsv"] in commands(ROOT / "README.md")


@every_page
def test_code_blocks_are_sound(page: Path) -> None:
    for block in blocks(page, "python"):
        compile(block, str(page), "exec")
    for block in blocks(page, "json"):
        json.loads(block)
    for block in blocks(page, "toml"):
        if "version" in tomllib.loads(block):
            Experiment.from_toml(block)


# -- settings -----------------------------------------------------------------------------------------------------------


def documented_settings() -> Settings:
    found: Settings = {}
    for table, below, cells in rows(REFERENCE / "settings.md"):
        if cells[0] == "key":
            continue
        name, _, key = ticked(cells[0])[0].partition(".")
        assert name == table
        default = tomllib.loads(f"value = {ticked(cells[2])[0]}")["value"]
        for part in ticked(below) or [""]:
            found.setdefault((table, part), {})[key] = (cells[1], default)
    return found


def real_settings() -> Settings:
    found: Settings = {}
    for table, section in SECTIONS.items():
        hints, plain = typing.get_type_hints(section), Experiment().to_dict()[table]
        found[table, ""] = {f.name: (describe(hints[f.name]), plain[f.name]) for f in fields(section)}
    for table, registry in REGISTRIES.items():
        for part in registry:
            options = {key: (describe(option.type), option.default) for key, option in registry.options(part).items()}
            if options:
                found[table, part] = options
    return found


def test_settings_are_documented_with_types_and_defaults() -> None:
    documented = documented_settings()
    optimizer = documented.pop(("optimizer", ""))
    assert documented == real_settings()
    chosen = Experiment().optimizer
    assert {key: default for key, (_, default) in optimizer.items()} == {"name": chosen.name, **chosen.options}


def test_parts_and_tables_of_the_settings_are_documented() -> None:
    page = REFERENCE / "settings.md"
    parts = {name for heading in headings(page) for name in ticked(heading)}
    assert parts == {name for registry in REGISTRIES.values() for name in registry}
    assert {*Experiment().to_dict(), "expected"} - {"version"} <= set(headings(page))


def test_documented_optimizers_and_their_keys_exist() -> None:
    import torch

    from dura.training.optimizers import optimizer

    page = REFERENCE / "settings.md"
    row = next(cells for _, _, cells in rows(page) if cells[0] == "`optimizer.name`")
    with pytest.raises(BadInput) as error:
        optimizer("?", {}, [])
    assert set(ticked(row[3])) <= set(re.split(r"[, ]+", str(error.value)))
    sentence = re.search(r"for `adagrad` these are (.*?), with", prose(page), re.S)
    assert sentence
    assert set(ticked(sentence[1])) < set(inspect.signature(torch.optim.Adagrad).parameters)


# -- the command line ---------------------------------------------------------------------------------------------------


def real_options(command: Any, name: str = "dura") -> Iterator[tuple[str, str]]:
    """(command, option or argument), for every command that does something."""
    for sub, inner in getattr(command, "commands", {}).items():
        yield from real_options(inner, f"{name} {sub}")
    if not hasattr(command, "commands"):
        for parameter in command.params:
            argument = (parameter.metavar or parameter.name).strip("[]").upper()
            for option in parameter.opts if parameter.param_type_name == "option" else [argument]:
                yield name, option


def test_every_command_and_option_is_documented_and_no_other() -> None:
    page = REFERENCE / "command-line.md"
    documented = {(command, option) for command, _, cells in rows(page) for option in ticked(cells[0])}
    assert {row for row in documented if row[0] != "dura"} == set(real_options(program()))


# -- what commands print and leave --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """A tiny run, and by heading of json.md the documents that the commands print."""
    home = tmp_path_factory.mktemp("docs")
    run, questions = str(home / "run"), home / "questions.tsv"
    questions.write_text("usa\tembassy\t?\n?\tembassy\tusa\n")
    decisions = home / "decisions.csv"
    decisions.write_text("head,relation,tail,decision\nusa,embassy,usa,reject\n")
    (home / "new.tsv").write_text("atlantis\tembassy\tusa\n")
    (home / "dated.tsv").write_text("head\trelation\ttail\ttime\na\tr\tb\t2014\nb\tr\tc\t2015\n")
    dated = str(home / "dated")
    model = ["--model", "tcomplex", "--regularizer", "none", "--rank", "2", "--epochs", "1"]
    CliRunner().invoke(app, ["train", "--graph", str(home / "dated.tsv"), *model, "--out", dated, "--quiet"])
    calls = {
        "dura train": ["train", "--graph", "nations", "--rank", "2", "--epochs", "1", "--out", run, "--quiet"],
        "dura evaluate": ["evaluate", run, "--by", "side"],
        "dura combine": ["combine", run, "--rules", "--out", str(home / "combined"), "--quiet"],
        "dura calibrate": ["calibrate", run, "--quiet"],
        "dura predict": ["predict", run, "--head", "usa", "--relation", "embassy", "-k", "2"],
        "dura predict --when": ["predict", dated, "--head", "a", "--relation", "r", "--tail", "c", "--when"],
        "dura predict --input": ["predict", run, "--input", str(questions), "-k", "2"],
        "dura discover": ["discover", run, "--top", "2", "--quiet"],
        "dura review": ["review", run, str(decisions)],
        "dura audit": ["audit", run, "--folds", "2", "--epochs", "1", "--top", "2", "--quiet"],
        "dura explain": ["explain", run, "--head", "usa", "--relation", "embassy", "--tail", "uk", "-k", "2"],
        "dura score": ["score", run, "--head", "usa", "--relation", "embassy", "--tail", "uk"],
        "dura neighbours": ["neighbours", run, "--entity", "usa", "-k", "2"],
        "dura report": ["report", run, "--out", str(home / "report.html"), "--figures", str(home / "figures")],
        "dura fold-in": ["fold-in", run, str(home / "new.tsv"), "--out", str(home / "grown"), "--quiet"],
        "dura index": ["index", run],
        "dura map": ["map", run, "--method", "pca"],
        "dura export": ["export", run, str(home / "small"), "--sparse", "0.5"],
        "dura export --format": ["export", run, str(home / "vectors"), "--format", "parquet"],
        "dura study sparsity": ["study", "sparsity", run, "--shares", "0,0.5", "--out", str(home / "sparsity")],
        "dura presets": ["presets"],
        "dura data list": ["data", "list"],
        "dura data show": ["data", "show", "umls"],
        "dura data get": ["data", "get", "umls"],
        "dura data check": ["data", "check", "nations"],
        "dura data pack": ["data", "pack", "nations", "--out", str(home / "stored")],
        "dura data import": ["data", "import", "nations", "--out", str(home / "imported")],
        "dura data export": ["data", "export", "nations", str(home / "nations.csv")],
        "dura data synth": ["data", "synth", "--entities", "200", "--facts", "1000", "--out", str(home / "made")],
    }
    runner = CliRunner(env={"DURA_DATA": ""})
    return home / "run", {name: json.loads(runner.invoke(app, [*c, "--json"]).stdout) for name, c in calls.items()}


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """The paths of a document's plain values: a.b for tables, a[] for the items of lists."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from leaves(inner, f"{path}[]")
    else:
        yield path


def matcher(pattern: str) -> Callable[[str], object]:
    """`*` is one key, `**` all that is below, if anything."""
    text = re.escape(pattern).replace(r"\.\*\*", r"([.\[].*)?").replace(r"\*", r"[^.\[]+")
    return re.compile(text).fullmatch


def test_json_is_as_documented(outputs: Outputs) -> None:
    documented: dict[str, dict[str, bool]] = {}
    for command, _, cells in rows(REFERENCE / "json.md"):
        always = not ("sometimes" in cells[2] or "table" in cells[1])
        if cells[0] != "path":
            documented.setdefault(command, {}).update(dict.fromkeys(ticked(cells[0]), always))
    assert set(documented) == set(outputs[1])
    for command, document in outputs[1].items():
        paths = set(leaves(document))
        fits = {pattern: matcher(pattern) for pattern in documented[command]}
        assert [path for path in paths if not any(fit(path) for fit in fits.values())] == [], command
        assert [p for p, always in documented[command].items() if always and not any(map(fits[p], paths))] == [], (
            command
        )


def test_run_folder_is_as_documented(outputs: Outputs) -> None:
    run, page = outputs[0], REFERENCE / "run-folder.md"
    there = [str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()]
    files = {ticked(cells[0])[0]: cells[1] for above, _, cells in rows(page) if not above and cells[0] != "file"}
    assert [name for name in there if not any(fnmatch.fnmatch(name, pattern) for pattern in files)] == []
    assert [pattern for pattern, when in files.items() if not when and not fnmatch.filter(there, pattern)] == []
    kinds = {json.loads(line)["kind"] for line in (run / "records.jsonl").read_text().splitlines()}
    assert kinds <= {ticked(cells[0])[0] for above, _, cells in rows(page) if above == "records.jsonl"}


# -- Python -------------------------------------------------------------------------------------------------------------


def plain_signature(function: Callable[..., Any]) -> str:
    """The parameters with their defaults, without types and self."""
    parameters = inspect.signature(function).parameters.values()
    return str(inspect.Signature([p.replace(annotation=p.empty) for p in parameters if p.name != "self"]))


def test_public_names_are_documented_with_their_signatures() -> None:
    heads = [name for heading in headings(REFERENCE / "python.md") for name in ticked(heading)]
    names = [head.partition("(")[0] for head in heads]
    assert {name.removeprefix("dura.") for name in names if name.startswith("dura.")} == set(dura.__all__)
    own = [name for kind in (dura.Trained, Answering, Exploring) for name in vars(kind) if not name.startswith("_")]
    methods = {f"Trained.{name}" for name in own if name != "reviews_seal"}
    assert {name for name in names if name.startswith("Trained.")} == methods
    for head, name in zip(heads, names, strict=True):
        owner, _, attribute = name.rpartition(".")
        if "(" in head:
            function = getattr(dura if owner == "dura" else dura.Trained, attribute)
            assert head == name + plain_signature(function)
