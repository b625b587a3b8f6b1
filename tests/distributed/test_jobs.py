"""Jobs: torchrun starts several processes of the real command line, which are stopped, killed, resumed and set at odds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jobs import COMMON, QUIET, SLOW, complaints, done, job, kinds, tables, wait_for_checkpoint, workers
from worlds import free_port


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that nobody disturbs."""
    run = tmp_path_factory.mktemp("jobs") / "whole"
    output, errors = done(job(2, "train", *SLOW, "--out", str(run)))
    assert output.count("valid MRR") == 1  # one process prints
    assert "facts/s" in errors
    return run


def same(run: Path, whole: Path) -> bool:
    ours, theirs = tables(run), tables(whole)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_killed_worker_is_replaced_and_the_numbers_are_those_of_an_undisturbed_run(
    tmp_path: Path, whole: Path
) -> None:
    run = tmp_path / "run"
    process = job(2, "train", *SLOW, "--out", str(run), restarts=3)
    wait_for_checkpoint(run, process=process)
    for number in (1, 0):
        step = wait_for_checkpoint(run, process=process)
        os.kill(workers(process)[number], signal.SIGKILL)
        wait_for_checkpoint(run, step, process)
    done(process)
    assert kinds(run).count("resume") == 2
    assert same(run, whole)


def test_sigterm_saves_one_checkpoint_and_another_number_of_processes_goes_on(tmp_path: Path, whole: Path) -> None:
    run = tmp_path / "run"
    process = job(2, "train", *SLOW, "--out", str(run))
    wait_for_checkpoint(run, process=process)
    process.send_signal(signal.SIGTERM)
    _, errors = done(process, 1)
    assert errors.count("continue with: torchrun --nproc-per-node 2 -m dura train --resume") == 1
    assert "Traceback" not in errors.partition("Sending process")[0]
    stopped = max(int(path.stem[5:]) for path in (run / "checkpoints").glob("step-*.json"))
    steps = json.loads((run / "checkpoints" / f"step-{stopped:09d}.json").read_text())["state"]["progress"]["steps"]
    assert steps == stopped
    one = tmp_path / "one"
    subprocess.run(["cp", "-r", run, one], check=True)
    done(job(2, "train", "--resume", str(run)))
    assert same(run, whole)  # bit-equal with as many processes
    done(job(3, "train", "--resume", str(one)))
    for name, tensor in tables(one).items():
        torch.testing.assert_close(tensor, tables(whole)[name], rtol=2e-3, atol=2e-4)


def test_evaluation_and_answers_are_those_of_one_process(whole: Path) -> None:
    commands = (
        ["evaluate", str(whole), "--json"],
        ["predict", str(whole), "--head", "virus", "--relation", "causes", "--json"],
    )
    for words in commands:
        several, _ = done(job(2, *words))
        alone = subprocess.run(
            [sys.executable, "-m", "dura", *words], capture_output=True, text=True, check=True
        ).stdout
        found, expected = json.loads(several), json.loads(alone)
        if "answers" in expected:
            assert [a["entity"] for a in found["answers"]] == [a["entity"] for a in expected["answers"]]
        else:
            assert found["mrr"] == pytest.approx(expected["mrr"], abs=1e-4)


def at_odds(tmp_path: Path, *words: list[str], size: tuple[str, str] = ("2", "2")) -> list[str]:
    """What two processes say that were started with different words; none of them may begin to train."""
    port, running = str(free_port()), []
    for rank, own in enumerate(words):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": size[rank], "MASTER_PORT": port}
        environment = {**os.environ, **QUIET, **place, "MASTER_ADDR": "127.0.0.1"}
        command = [sys.executable, "-m", "dura", "train", *own, "--out", str(tmp_path / "run")]
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    told = [process.communicate(timeout=120)[1] for process in running]
    assert all(process.returncode == 2 for process in running), told
    assert not (tmp_path / "run").exists()
    return [line for text in told for line in complaints(text)]


def test_processes_that_disagree_are_refused_before_the_first_step(tmp_path: Path) -> None:
    (said,) = at_odds(tmp_path, COMMON, [*COMMON, "--lr", "0.2"])
    assert "disagree about the setting optimizer.lr: process 0 has 0.1 and process 1 has 0.2" in said
    facts = "".join(f"a{i}\tr\tb{i % 7}\n" for i in range(40))
    for rank, text in enumerate((facts, facts.replace("a3\t", "a4\t"))):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "facts.tsv").write_text(text)
    graph = [["--graph", str(tmp_path / str(rank) / "facts.tsv"), "--epochs", "1"] for rank in range(2)]
    (said,) = [line for line in at_odds(tmp_path, *graph) if "process" in line]
    assert "the processes disagree about the data: process 0 has" in said and "training facts with the digest" in said
    (said,) = at_odds(tmp_path, COMMON, ["--graph", str(tmp_path / "nothing.tsv")])
    assert "process 1:" in said and "nothing.tsv" in said
    said = "".join(at_odds(tmp_path, COMMON, COMMON, size=("2", "3")))
    assert "the processes disagree about their number: process 0 was told 2 and process 1 was told 3" in said


def test_the_torchruns_of_two_hosts_start_again_together(tmp_path: Path, whole: Path) -> None:
    """torchrun counts restarts per host: the other host sees only that a member has left and come back."""
    run, endpoint = tmp_path / "run", f"127.0.0.1:{free_port()}"
    meeting = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "pair"]
    command = [sys.executable, "-m", "torch.distributed.run", *meeting, "--nproc-per-node", "1", "--max-restarts", "3"]
    command += ["-m", "dura", "train", *SLOW, "--out", str(run)]
    pair = [
        subprocess.Popen(
            command, env={**os.environ, **QUIET}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    wait_for_checkpoint(run, process=pair[0])
    os.kill(workers(pair[1])[0], signal.SIGKILL)
    for process in pair:
        done(process)
    assert kinds(run).count("resume") == 1
    assert same(run, whole)


def test_a_restart_never_continues_the_run_of_another_job(tmp_path: Path, whole: Path) -> None:
    _, errors = done(job(2, "train", *COMMON, "--epochs", "1", "--out", str(whole), restarts=1), 1)
    assert errors.count("already holds a run") == 2  # the first start and the second
    assert kinds(whole).count("resume") == 0


def test_what_several_processes_cannot_train_is_refused(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("a\tr\tb\n")
    few = ["--graph", str(tmp_path / "facts.tsv"), "--set", "graph.valid_share=0", "--set", "graph.test_share=0"]
    _, errors = done(job(3, "train", *few, "--out", str(tmp_path / "run")), 1)
    assert errors.count("the graph has 2 entities, which cannot be spread over 3 processes: start fewer") == 1
