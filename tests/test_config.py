from __future__ import annotations

import math
import os
import pickle
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dura.config import VERSION, Component, Experiment, GraphSettings, TermSettings, TrainingSettings
from dura.types import BadInput

DEFAULTS = """
version = 1
[graph]
source = ""
columns = []
header = "auto"
separator = ""
skip_bad = false
valid_share = "auto"
test_share = "auto"
split_seed = 0
[model]
name = "complex"
rank = 200
[regularizer]
name = "dura"
weight = 0.02
[objective]
name = "cross-entropy"
[optimizer]
name = "adagrad"
lr = 0.1
[training]
epochs = 100
anneal = 0
batch = 500
batching = "questions"
validate_every = 1
patience = 5
checkpoint_every = 60.0
seed = 0
device = "cpu"
precision = "float32"
threads = 0
"""


def refused(text: str) -> str:
    with pytest.raises(BadInput) as error:
        Experiment.from_toml(text)
    return str(error.value)


def test_defaults_are_the_promised_ones() -> None:
    assert Experiment.from_toml(DEFAULTS) == Experiment() == Experiment.from_toml("")
    assert Experiment().to_dict() == Experiment.from_toml(DEFAULTS).to_dict()
    assert "expected" not in Experiment().to_dict()


# -- round trip ------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(-(2**63), 2**63 - 1)
natural = st.integers(0, 2**63 - 1)
scalars = st.one_of(st.booleans(), whole, numbers, texts)
values = st.one_of(scalars, st.lists(scalars, max_size=3))
keys = texts.filter(lambda key: key != "name")
components = st.builds(Component, texts, st.dictionaries(keys, values, max_size=3))
shares = st.floats(0, 0.49) | st.just("auto")
graphs = st.builds(
    GraphSettings,
    source=texts,
    columns=st.one_of(st.just(()), st.tuples(*[st.one_of(texts, whole)] * 3).filter(lambda c: len(set(c)) == 3)),
    header=st.sampled_from(["auto", "yes", "no"]),
    separator=st.text(st.characters(codec="utf-8"), max_size=1),
    skip_bad=st.booleans(),
    valid_share=shares,
    test_share=shares,
    split_seed=natural,
)
trainings = st.builds(
    TrainingSettings,
    epochs=natural,
    anneal=natural,
    batch=st.integers(1, 2**40),
    batching=st.sampled_from(["questions", "facts"]),
    patience=natural,
    checkpoint_every=st.floats(0, 1e9),
    seed=natural,
    device=texts,
    precision=st.sampled_from(["auto", "float32", "tf32", "bf16"]),
)
free = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2))
experiments = st.builds(
    Experiment,
    graph=graphs,
    model=components,
    regularizer=components,
    loss=components,
    candidates=components,
    terms=st.builds(TermSettings, tails=st.floats(0.1, 5), relations=st.floats(0, 5)),
    optimizer=components,
    training=trainings,
    expected=st.dictionaries(texts, free, max_size=2),
)


@settings(max_examples=60)
@given(experiments)
def test_toml_and_dict_round_trip(experiment: Experiment) -> None:
    assert Experiment.from_toml(experiment.to_toml()) == experiment
    assert Experiment.from_dict(experiment.to_dict()) == experiment
    assert pickle.loads(pickle.dumps(experiment)) == experiment


def test_values_keep_their_types() -> None:
    graph, training = "[graph]\ncolumns = ['a', 1, 'c']\n", "[training]\ncheckpoint_every = 5\n"
    experiment = Experiment.from_toml(f"[model]\nname = 'cp'\nsizes = [1, 2]\nfast = true\n{graph}{training}")
    assert experiment.model.options == {"sizes": (1, 2), "fast": True}
    assert experiment.graph.columns == ("a", 1, "c")
    assert isinstance(experiment.training.checkpoint_every, float)
    assert experiment.to_dict()["graph"]["columns"] == ["a", 1, "c"]


def test_a_component_table_is_all_there_is() -> None:
    assert Experiment.from_toml("[model]\nrank = 3").model == Component("complex", {"rank": 3})
    assert Experiment.from_toml("[model]\nname = 'cp'").model == Component("cp", {})
    assert Experiment.from_toml("[regularizer]\nlambda1 = 1.5").regularizer.options == {"lambda1": 1.5}


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Experiment().training.epochs = 3  # type: ignore[misc]


# -- refusals --------------------------------------------------------------------------------------------


GRAPH_HAS = (
    "graph has source, columns, header, separator, skip_bad, valid_share, test_share, split_seed, split, time_format, "
    "time_unit, time_zone, query, format, most_gb, entities, relations, reviews"
)
TRAINING_HAS = (
    "training has epochs, anneal, batch, batching, validate_every, patience, checkpoint_every, "
    "seed, device, precision, threads"
)
TABLES = "graph, model, regularizer, loss, candidates, terms, optimizer, smoothness, training, world"
REFUSALS = {
    "[trainig]": f"'trainig' is not a part of the settings; the parts are version, {TABLES}, expected;"
    " did you mean 'training'?",
    "[graph]\nsorce = 'x'": f"graph.sorce is not a setting; {GRAPH_HAS}; did you mean 'source'?",
    "training = 3": "training must be a table, [training], not 3",
    "model = 'cp'": "model must be a table, [model], not 'cp'",
    "[training]\nepochs = 1.5": "training.epochs must be a whole number, not the number 1.5",
    "[training]\nepochs = true": "training.epochs must be a whole number, not true",
    "[training]\nepochs = -1": "training.epochs must be at least 0, not -1",
    "[training]\nbatch = 0": "training.batch must be at least 1, not 0",
    "[training]\nvalidate_every = 0": "training.validate_every must be at least 1, not 0",
    "[training]\ncheckpoint_every = nan": "training.checkpoint_every must be a number, not nan, which is not finite",
    "[training]\nseed = -1": "training.seed must be at least 0, not -1",
    "[training]\nprecision = 'fp32'": "training.precision must be 'auto', 'float32', 'tf32' or 'bf16',"
    " not the text 'fp32'; did you mean 'tf32'?",
    "[graph]\nheader = true": "graph.header must be 'auto', 'yes' or 'no', not true",
    "[graph]\nskip_bad = 1": "graph.skip_bad must be true or false, not the whole number 1",
    "[graph]\nvalid_share = 1": "graph.valid_share must be at least 0 and below 1, not 1.0",
    "[graph]\nvalid_share = 0.5\ntest_share = 0.5": "graph.valid_share and graph.test_share must leave facts"
    " to train on: 0.5 + 0.5 is not below 1",
    "[graph]\ncolumns = ['a']": "graph.columns must name three columns (head, relation, tail), with a time four, "
    "with begin and end five, or none, not 1",
    "[graph]\ncolumns = [0, 'a', 0]": "graph.columns names a column twice: 0, a, 0",
    "[graph]\ncolumns = 'a'": "graph.columns must be a list (text or a whole number), not the text 'a'",
    "[graph]\nseparator = '::'": "graph.separator must be one character or empty, not '::'",
    "[model]\nname = 3": "model.name must be text, not the whole number 3",
    "[model.rank]\nx = 1": "model.rank must be a number, text, true, false or a list of these, not a table",
    "[optimizer]\nlr = nan": "optimizer.lr must be a number, not nan, which is not finite",
    "[training]\nseed = 9223372036854775808": "training.seed must be a whole number, not 9223372036854775808, which does not fit in"
    " 64 bits",
    "version = 3": "has version 3, but this dura reads versions up to 2; update dura",
    "version = 2\n[objective]": "[objective] is a part of version 1, but this file says version = 2: write [loss] and "
    "[candidates] instead, or version = 1",
    "version = 1\nobjective = 3": "objective must be a table, [objective], not 3",
    "[objective]\nname = 'hinge'": "the objective 'hinge' is not known; known are cross-entropy, sampled-cross-entropy, "
    "or set loss.name and candidates.name",
    "[terms]\ntails = 0": "all weights in terms are zero, so there is nothing to train; set terms.tails = 1",
    "[terms]\nrelations = -1": "terms.relations must be at least 0 and below 1e+30, not -1.0",
    "version = 0": "version must be at least 1, not 0",
    "version = '1'": "version must be a whole number, not the text '1'",
}


@pytest.mark.parametrize("text", REFUSALS)
def test_refusals_name_the_path_and_what_would_be_right(text: str) -> None:
    assert refused(text) == f"settings: {REFUSALS[text]}"


def test_a_newer_file_with_new_parts_is_refused_for_its_version() -> None:
    assert "update dura" in refused(f"version = {VERSION + 1}\n[newer]\nx = 1")


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_options_hold_no_nan_or_inf(number: float) -> None:
    with pytest.raises(BadInput, match=r"regularizer\.weight must be .* not (nan|inf), which is not finite"):
        Experiment(regularizer=Component("dura", {"weight": number}))


def test_python_values_are_checked_too() -> None:
    with pytest.raises(BadInput, match=r"^training\.epochs must be at least 0, not -3$"):
        TrainingSettings(epochs=-3)
    with pytest.raises(BadInput, match=r"^graph\.source must be text, not the text"):
        GraphSettings(source="caf\udce9")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    with pytest.raises(BadInput, match=r"mine\.toml: cannot be read: No such file"):
        Experiment.from_toml(path)
    path.write_bytes(b"[graph]\nsource = '\xff'")
    with pytest.raises(BadInput, match=r"mine\.toml: is not UTF-8 text \(byte 19\)"):
        Experiment.from_toml(path)
    path.write_text("[graph\n")
    with pytest.raises(BadInput, match=r"mine\.toml: is not valid TOML: .*line 1"):
        Experiment.from_toml(path)
    path.write_text(f"version = {'9' * 5000}")
    with pytest.raises(BadInput, match=r"mine\.toml: is not valid TOML"):
        Experiment.from_toml(path)
    path.write_text("[training]\nepochs = 7\n")
    assert Experiment.from_toml(path).training.epochs == 7


# -- one value at a time ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("training.epochs", "20", 20),
        ("training.checkpoint_every", "5", 5.0),
        ("training.device", "cuda:1", "cuda:1"),
        ("graph.source", "2024", "2024"),
        ("graph.source", "2024-01-01", "2024-01-01"),
        ("graph.source", '"a b"', "a b"),
        ("graph.separator", ",", ","),
        ("graph.separator", '"\\t"', "\t"),
        ("graph.separator", "", ""),
        ("graph.skip_bad", "true", True),
        ("graph.columns", "['h', 1, 't']", ("h", 1, "t")),
        ("graph.valid_share", ".05", 0.05),
    ],
)
def test_with_value_reads_toml_or_plain_text(path: str, text: str, expected: object) -> None:
    table, key = path.split(".")
    value = getattr(getattr(Experiment().with_value(path, text), table), key)
    assert value == expected and type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.05", 0.05),
        (".05", 0.05),
        ("5.", 5.0),
        ("-.5e-2", -0.005),
        ("1e-2", 0.01),
        ("7", 7),
        ("true", True),
        ("mean", "mean"),
        ('"7"', "7"),
        ("1\nx = 2", "1\nx = 2"),
        ("2024-01-01", "2024-01-01"),
        ("[1, 2]", (1, 2)),
    ],
)
def test_with_value_sets_options_of_components(text: str, expected: object) -> None:
    changed = Experiment().with_value("regularizer.weight", text)
    value = changed.regularizer.options["weight"]
    assert value == expected and type(value) is type(expected)
    assert replace(changed, regularizer=Experiment().regularizer) == Experiment()


def test_with_value_takes_python_values() -> None:
    assert Experiment().with_value("model.rank", 50).model == Component("complex", {"rank": 50})
    assert Experiment().with_value("training.checkpoint_every", 5).training.checkpoint_every == 5.0
    with pytest.raises(BadInput, match=r"training\.batch must be a whole number or 'auto', not the number 0\.5"):
        Experiment().with_value("training.batch", 0.5)


UNKNOWN = {
    "lr": f"they begin with {TABLES}; did you mean 'optimizer.lr'?",
    "training.lr": f"{TRAINING_HAS}; did you mean 'optimizer.lr'?",
    "training.epoch": f"{TRAINING_HAS}; did you mean 'training.epochs'?",
    "regulariser.weight": f"they begin with {TABLES}; did you mean 'regularizer.weight'?",
    "model.": "model has name, rank; did you mean 'model.rank'?",
    "model.a.b": "model has name, rank; did you mean 'model.rank'?",
    "version": f"they begin with {TABLES}",
    "expected.mrr": f"they begin with {TABLES}",
}


@pytest.mark.parametrize("path", UNKNOWN)
def test_with_value_of_an_unknown_path(path: str) -> None:
    with pytest.raises(BadInput) as error:
        Experiment().with_value(path, "1")
    assert str(error.value) == f"{path!r} is not a setting; {UNKNOWN[path]}"


def test_a_whole_part_cannot_be_set() -> None:
    with pytest.raises(BadInput) as error:
        Experiment().with_value("model", "cp")
    assert str(error.value) == "'model' has several settings (name, rank): set one of them, such as model.name=complex"
    with pytest.raises(BadInput, match=r"^'training' has several settings \(epochs, .*, such as training.epochs=100$"):
        Experiment().with_value("training", "5")


def test_a_sample_of_version_1_needs_its_objective() -> None:
    with pytest.raises(
        BadInput, match="^objective.samples needs objective.name = 'sampled-cross-entropy'; since version 2"
    ):
        Experiment().with_value("objective.samples", 5)
    both = Experiment().with_values({"objective.samples": 5, "objective.name": "sampled-cross-entropy"})
    assert both.candidates == Component("sample", {"samples": 5})


@pytest.mark.parametrize("data", [[], None, "model", 3])
def test_what_is_no_table_is_refused(data: Any) -> None:
    with pytest.raises(BadInput, match=r"^settings: must be tables by name, such as .*, not "):
        Experiment.from_dict(data)


def test_with_component_drops_the_old_options() -> None:
    experiment = Experiment().with_component("regularizer", "n3")
    assert experiment.regularizer == Component("n3", {})
    assert experiment.model == Experiment().model
    assert Experiment().with_component("regularizer", "dura") == Experiment()
    assert Experiment().with_value("model.name", "cp").model == Component("cp", {})
    with pytest.raises(
        BadInput, match=r"'training' is not a part with a name; the parts with a name are model, regularizer,"
    ):
        Experiment().with_component("training", "x")


def test_a_pipe_is_not_read_as_settings(tmp_path: Path) -> None:
    path = tmp_path / "pipe.toml"
    os.mkfifo(path)
    with pytest.raises(BadInput, match=r"pipe\.toml: cannot be read: it is not a regular file"):
        Experiment.from_toml(path)


def test_both_forms_of_the_objective_together_are_refused() -> None:
    sentence = "objective and loss are both set, but objective is the older form of loss and candidates: keep one"
    assert sentence in refused("[objective]\nname = 'cross-entropy'\n[loss]\nname = 'binary'")
    assert "terms.relations must be at least 0 and below 1e+30" in refused("[terms]\nrelations = 1e300")
