"""Jobs: start several processes of the command line as torchrun does, and watch their run folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import safetensors.torch
import torch

from dura import records
from worlds import free_port

COMMON = ["--graph", "umls", "--model", "complex", "--rank", "8", "--seed", "1", "--set", "training.threads=1"]
SLOW = [
    *COMMON,
    "--batch",
    "8",
    "--epochs",
    "3",
    "--set",
    "training.checkpoint_every=0.2",
    "--set",
    "training.patience=0",
]
"""A few hundred steps, with checkpoints on the way."""
QUIET = {"OMP_NUM_THREADS": "1", "TORCHELASTIC_ERROR_FILE": os.devnull}


def job(processes: int, *words: str, restarts: int = 0) -> subprocess.Popen[str]:
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--max-restarts", str(restarts)]
    command = [sys.executable, *torchrun, "--master-port", str(free_port()), "-m", "dura", *words]
    return subprocess.Popen(
        command, env={**os.environ, **QUIET}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def done(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    output, errors = process.communicate(timeout=240)
    assert (process.returncode == 0) == (code == 0), errors[-3000:]
    return output, errors


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The processes that torchrun has started, by their number."""
    found: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process.pid:
                variables = (folder / "environ").read_text().split("\0")
                ranks = [text.removeprefix("RANK=") for text in variables if text.startswith("RANK=")]
                found |= {int(rank): int(folder.name) for rank in ranks}
        except (OSError, ValueError):
            continue
    return [found[rank] for rank in sorted(found)]


def wait_for_checkpoint(run: Path, after: int = 0, process: subprocess.Popen[str] | None = None) -> int:
    """The step of the first checkpoint after this step."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        steps = [int(path.stem[5:]) for path in (run / "checkpoints").glob("step-*.json")]
        if steps and max(steps) > after:
            return max(steps)
        assert process is None or process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.02)
    raise AssertionError("no checkpoint came")


def tables(run: Path) -> dict[str, torch.Tensor]:
    """The tensors of the newest checkpoint."""
    newest = max((run / "checkpoints").glob("step-*.safetensors"))
    return safetensors.torch.load_file(newest)


def kinds(run: Path) -> list[str]:
    return [record["kind"] for record in records.RunFolder.open(run).records()]


def complaints(text: str) -> list[str]:
    """The sentences of a process, without the one that says which settings were chosen."""
    return [
        line for line in text.splitlines() if line.startswith("dura:") and not line.startswith("dura: settings for")
    ]
