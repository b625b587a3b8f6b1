"""Run folders of strangers: whatever is in them, they give the same results as before or one sentence. See `hostile`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from disks import linux

KINDS = {"static": 350, "stopped": 150, "dated": 50, "int8": 70, "sparse": 70}
"""The kinds of folders, with the fewest changes to each."""


@linux
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_folders_give_the_same_or_one_sentence(tmp_path: Path, kind: str) -> None:
    """In a process with little memory: a folder that takes much of it, or hangs, is a fault too."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-m", "hostile", str(tmp_path), kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    judged = [json.loads(line) for line in done.stdout.splitlines()]
    assert {name: fault for name, fault, _ in judged if fault} == {}
    assert len(judged) >= KINDS[kind] and sum(bool(sentence) for *_, sentence in judged) > 0.7 * len(judged)
