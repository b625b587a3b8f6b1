from __future__ import annotations

import json
import math
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import save, step_of, table
from disks import names
from dura.training.checkpoint import Checkpoints
from dura.types import DuraError

# -- what is saved comes back ----------------------------------------------------------------------------


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    floats, whole = "float64 float32 float16 bfloat16", "int64 int32 int16 int8"
    tensors = {name: torch.randn(7, 3).to(getattr(torch, name)) for name in floats.split()}
    tensors |= {name: torch.arange(-5, 5).to(getattr(torch, name)) for name in whole.split()}
    tensors |= {
        "bytes": torch.get_rng_state(),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "transposed": torch.randn(4, 6).T,
        "parameter": torch.nn.Parameter(torch.randn(5)),
        "odd": torch.tensor([math.nan, math.inf, -0.0, 5e-324]),
        "naïve name.with-dots": torch.ones(1),
    }
    Checkpoints(tmp_path).save(1, tensors, {})
    saved = Checkpoints(tmp_path).newest()
    assert saved is not None and set(saved[0]) == set(tensors)
    for name, tensor in tensors.items():
        back = saved[0][name]
        assert back.dtype == tensor.dtype and back.shape == tensor.shape, name
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        assert torch.equal(back.reshape(-1).view(torch.uint8), raw), name
    with safetensors.safe_open(tmp_path / "step-000000001.safetensors", "pt") as file:  # others can read it too
        assert set(file.keys()) == set(tensors)


keys = st.text().filter(lambda key: key != "$float")  # which is refused, and which Hypothesis reads out of the source
states = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=25)
@given(st.dictionaries(keys, states, max_size=4))
def test_the_state_comes_back_exactly(state: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Checkpoints(Path(folder)).save(3, {}, state)
        saved = Checkpoints(Path(folder)).newest()
        assert saved is not None and repr(saved[1]) == repr(state)  # repr: nan, -0.0 and 1 against 1.0 count


def test_the_json_is_for_every_reader(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(12, table(12), {"best": -math.inf, "loss": [math.nan, 0.1]})
    text = (tmp_path / "step-000000012.json").read_text()
    document = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert list(document) == ["format", "step", "file", "sha256", "bytes", "state", "checksum"]
    assert document["state"] == {"best": {"$float": "-inf"}, "loss": [{"$float": "nan"}, 0.1]}
    assert document["bytes"] == (tmp_path / document["file"]).stat().st_size
    assert (document["format"], document["step"]) == (1, 12)


@pytest.mark.parametrize("state", [{"$float": 1}, {"a": {1: 2}}])
def test_a_state_that_would_not_come_back_is_refused(tmp_path: Path, state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="keys of a checkpoint's state"):
        Checkpoints(tmp_path).save(1, {}, state)
    assert Checkpoints(tmp_path).newest() is None


def test_writing_to_a_loaded_tensor_leaves_the_file_alone(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 5)
    saved = checkpoints.newest()
    assert saved is not None
    saved[0]["table"].add_(1)
    assert step_of(checkpoints.newest()) == 5
    save(checkpoints, 6, 7, 8)  # its file is gone now
    assert saved[0]["table"].tolist() == [6.0] * 50


# -- which ones are kept ---------------------------------------------------------------------------------


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "new")
    assert checkpoints.newest() is None and checkpoints.best() is None
    save(checkpoints, 1, 2, 30)
    assert names(tmp_path / "new") == [
        "step-000000002.json",
        "step-000000002.safetensors",
        "step-000000030.json",
        "step-000000030.safetensors",
    ]
    assert step_of(checkpoints.newest()) == 30
    save(Checkpoints(tmp_path / "new", keep=1), 31)
    assert names(tmp_path / "new") == ["step-000000031.json", "step-000000031.safetensors"]


def test_the_same_step_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for value in range(4):
        checkpoints.save(7, {"x": torch.tensor(value)}, {"value": value})
        saved = checkpoints.newest()
        assert saved is not None and saved[0]["x"].item() == saved[1]["value"] == value
        assert len(names(tmp_path)) == 2


def test_best_is_one_pair_beside_the_others(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 5)
    for step in (5, 6, 6):
        checkpoints.save_best(step, table(step), {"step": step})
        assert step_of(checkpoints.best()) == step
    assert step_of(checkpoints.newest()) == 5
    save(checkpoints, 7, 8)
    assert step_of(checkpoints.best()) == 6
    assert [name for name in names(tmp_path) if "best" in name] == [
        "best-000000006.again.safetensors",
        "best.json",
    ]


def test_going_back_removes_the_steps_that_were_left_behind(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 10, 20)
    (tmp_path / "step-000000020.safetensors").write_bytes(b"")
    assert step_of(checkpoints.newest()) == 10
    save(checkpoints, 15)
    notes: list[str] = []
    assert step_of(checkpoints.newest(notes.append)) == 15 and notes == []
    assert {name[:14] for name in names(tmp_path)} == {"step-000000010", "step-000000015"}


# -- damage ----------------------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def spoil(path: Path) -> None:
    path.write_text(path.read_text().replace('"step": 20', '"step": 21').replace(".safetensors", ".safetensor"))


def list_only(path: Path) -> None:
    path.write_text("[]")


DAMAGE: list[tuple[str, Callable[[Path], None], str]] = [
    (
        "safetensors",
        truncate,
        r"step-000000020 is damaged and is skipped: .*safetensors has \d+ bytes, not \d+",
    ),
    (
        "safetensors",
        flip,
        r"is damaged and is skipped: the content of step-000000020\.safetensors was changed",
    ),
    ("safetensors", empty, r"step-000000020\.safetensors has 0 bytes"),
    ("safetensors", Path.unlink, r"step-000000020\.safetensors is missing"),
    ("json", truncate, r"step-000000020\.json cannot be read|^$"),
    ("json", empty, r"step-000000020\.json cannot be read"),
    ("json", spoil, r"the content of step-000000020\.json was changed"),
    ("json", list_only, r"step-000000020\.json is not a JSON object"),
    (
        "json",
        Path.unlink,
        r"step-000000020 was never finished and is skipped: it has no step-000000020\.json",
    ),
]


@pytest.mark.parametrize(("ending", "damage", "sentence"), DAMAGE)
def test_a_damaged_newest_is_told_and_the_one_before_is_used(
    tmp_path: Path, ending: str, damage: Callable[[Path], None], sentence: str
) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 10, 20)
    path = tmp_path / f"step-000000020.{ending}"
    if damage is truncate and ending == "json":
        path.write_bytes(path.read_bytes()[:-3])  # the last byte is only a line break
    else:
        damage(path)
    notes: list[str] = []
    assert step_of(checkpoints.newest(notes.append)) == 10
    assert len(notes) == 1 and re.search(sentence, notes[0]), notes


@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_any_flipped_bit_is_noticed_or_harmless(tmp_path: Path, ending: str) -> None:
    checkpoints, rng = Checkpoints(tmp_path), random.Random(0)
    save(checkpoints, 10, 20)
    path = tmp_path / f"step-000000020.{ending}"
    whole, noticed = path.read_bytes(), 0
    for _ in range(150):
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        notes: list[str] = []
        step = step_of(checkpoints.newest(notes.append))
        assert (step, len(notes)) in [(10, 1), (20, 0)]
        noticed += step == 10
    # In the JSON a blank may become another blank, which changes nothing.
    assert noticed == 150 if ending == "safetensors" else noticed > 140


def test_all_damaged_is_an_error(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 10, 20)
    for path in tmp_path.glob("*.safetensors"):
        truncate(path)
    with pytest.raises(DuraError, match=r"no checkpoint in .* can be used \(step-000000020: .*; step-000000010: .*\)"):
        checkpoints.newest()


def test_killed_in_the_first_checkpoint_is_no_damage(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 10)
    (tmp_path / "step-000000010.json").unlink()
    notes: list[str] = []
    assert checkpoints.newest(notes.append) is None and len(notes) == 1
    save(checkpoints, 4)
    assert names(tmp_path) == ["step-000000004.json", "step-000000004.safetensors"]


def test_a_damaged_best_is_an_error(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save_best(3, table(3), {"step": 3})
    flip(tmp_path / "best-000000003.safetensors")
    with pytest.raises(DuraError, match=r"the best checkpoint in .* is damaged: the content of best-000000003"):
        checkpoints.best()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [({"format": 2}, "has format 2, but this dura reads formats up to 1; update dura"),
     ({"file": "../x.safetensors"}, "'../x.safetensors' is not the name of a .safetensors file")],
)  # fmt: skip
def test_foreign_json_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    from dura.training.checkpoint import _checksum

    save(Checkpoints(tmp_path), 1)
    path = tmp_path / "step-000000001.json"
    document = json.loads(path.read_text()) | change
    del document["checksum"]
    path.write_text(json.dumps(document | {"checksum": _checksum(document)}))
    with pytest.raises(DuraError, match=sentence):
        Checkpoints(tmp_path).newest()
