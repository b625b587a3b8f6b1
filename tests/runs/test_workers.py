"""Workers: what reaches them and comes back, every way in which they can end, and that none is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import chores
import dura
from dura.runs import workers
from dura.runs.workers import Call, Crew, Ended, Limits
from dura.types import DuraError


def only(crew: Crew) -> Ended:
    """How the one worker ends."""
    while crew.running:
        for ended in crew.wait():
            return ended
    raise AssertionError("no worker")


def run(function: Any, log: Path, **arguments: Any) -> Ended:
    with Crew(Limits()) as crew:
        crew.start("one", Call(function, arguments), log)
        return only(crew)


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def until(there: Any) -> None:
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_values_go_there_and_back_and_prints_go_to_the_log(tmp_path: Path) -> None:
    log, values = (
        tmp_path / "new" / "one.log",
        {"text": "漢 \udcff", "numbers": [1, 0.1, None, True], "more": {"a": -0.0}},
    )
    for _ in range(2):
        ended = run(chores.echo, log, **values)
        assert (ended.failure, ended.killed, ended.interrupted) == ("", False, False)
        assert ended.result["values"] == values
        assert ended.result["pid"] == ended.result["session"] != os.getsid(0)  # Ctrl-C does not reach it
        assert not ended.result["stopped"]
    assert log.read_text(encoding="utf-8").splitlines() == ["on standard output", "on standard error: 漢字"] * 2


def test_threads_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with Crew(Limits(threads=3)) as crew:
        crew.start("one", Call(chores.echo), tmp_path / "log")
        assert only(crew).result["threads"] == ["3", "3"]


def test_everything_that_is_told_is_heard_in_order_before_the_end(tmp_path: Path) -> None:
    heard: list[Any] = []
    with Crew(Limits()) as crew:
        crew.start("one", Call(chores.count, {"upto": 5000}), tmp_path / "log", heard=heard.append)
        assert only(crew).result == 5000
    assert heard == [{"number": number} for number in range(5000)]


@pytest.mark.parametrize(
    ("how", "sentence", "logged"),
    [
        ("bad input", "the rank must be at least 1", ""),
        ("memory", "there was not enough memory", "MemoryError"),
        ("torch", "there was not enough memory", "alloc_cpu"),
        ("file", "facts.tsv cannot be used: No such file or directory", ""),
        ("bug", "an unexpected error, ValueError: one two", "Traceback"),
    ],
)
def test_an_error_comes_back_as_one_sentence(tmp_path: Path, how: str, sentence: str, logged: str) -> None:
    ended = run(chores.fail, tmp_path / "log", how=how)
    assert (ended.result, ended.failure, ended.killed) == (None, sentence, False)
    text = (tmp_path / "log").read_text()
    assert text.splitlines()[-1] == f"dura: {sentence}"
    assert ("Traceback" in text) == bool(logged) and logged in text


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("kill", "killed by signal 9 (memory may have run out)"),
        ("segv", "killed by signal 11 (memory may have run out)"),
        ("exit", "ended with exit code 3, see {log}"),
    ],
)
def test_a_worker_that_dies_is_noticed(tmp_path: Path, how: str, sentence: str) -> None:
    ended = run(chores.end, tmp_path / "log", how=how)
    assert ended.failure == sentence.format(log=tmp_path / "log")
    assert ended.killed == (how != "exit")


def test_a_worker_that_cannot_even_begin_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not (Path(path) / "dura").exists()])
    ended = run(chores.echo, tmp_path / "log")
    assert ended.failure == f"ended with exit code 1, see {tmp_path / 'log'}"
    assert "No module named 'dura'" in (tmp_path / "log").read_text()


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Crew(Limits()) as crew, pytest.raises(DuraError, match="cannot write one.log in the folder .*/file/logs: "):
        crew.start("one", Call(chores.echo), tmp_path / "file" / "logs" / "one.log")
    assert not crew.running


def test_arguments_that_are_not_plain_start_nothing(tmp_path: Path) -> None:
    with Crew(Limits()) as crew, pytest.raises(TypeError):
        crew.start("one", Call(chores.echo, {"path": tmp_path}), tmp_path / "log")
    assert not crew.running and not (tmp_path / "log").exists()


def test_waiting_without_workers_takes_its_time() -> None:
    """Whoever waits for the runs of another process must not keep a core busy."""
    began = time.monotonic()
    assert Crew(Limits()).wait(0.2) == []
    assert time.monotonic() - began >= 0.19


def test_jobs_and_memory_are_limits(tmp_path: Path) -> None:
    with Crew(Limits(jobs=2, memory=100)) as crew:
        assert crew.room(100) and not crew.room(101)
        crew.start("one", Call(chores.never_stop), tmp_path / "one", memory=60)
        assert crew.room(40) and not crew.room(41)
        crew.start("two", Call(chores.never_stop), tmp_path / "two", memory=1)
        assert not crew.room(0)  # no third one at the same time
        assert list(crew.running) == ["one", "two"]
        for process in [worker.process for worker in crew._workers.values()]:
            process.kill()
        while crew.running:
            crew.wait()
        assert crew.room(100)


def test_a_stop_lets_a_step_end(tmp_path: Path) -> None:
    heard: list[int] = []
    with Crew(Limits(jobs=2)) as crew:
        for name in ("one", "two"):
            call = Call(chores.step_until_stopped, {"mark": str(tmp_path / name)})
            crew.start(name, call, tmp_path / "log", heard=heard.append)
        until(lambda: crew.wait(0.01) or len(heard) == 2)
        ended = list(crew.drain())
    assert sorted(e.name for e in ended) == ["one", "two"]
    assert {(e.failure, e.interrupted, e.killed) for e in ended} == {("stopped after step 1", True, False)}
    assert (tmp_path / "one").exists() and (tmp_path / "two").exists()
    assert not any(map(alive, heard))


def test_no_worker_outlives_its_crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that does not stop when it is asked to, and when the work ended with an error."""
    monkeypatch.setattr(workers, "PATIENCE", 0.5)
    heard: list[int] = []

    def work() -> None:
        with Crew(Limits(jobs=2)) as crew:
            crew.start("stubborn", Call(chores.never_stop), tmp_path / "log", heard=heard.append)
            call = Call(chores.step_until_stopped, {"mark": str(tmp_path / "mark")})
            crew.start("willing", call, tmp_path / "log", heard=heard.append)
            until(lambda: crew.wait(0.01) or len(heard) == 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(heard) == 2 and not any(map(alive, heard))
    assert (tmp_path / "mark").exists()


PARENT = """
import sys, time
from pathlib import Path
import chores
from dura.runs import workers
from dura.runs.workers import Call, Crew, Limits

workers.PATIENCE = workers.ORPHAN_PATIENCE = 0.5
calls = {"willing": Call(chores.step_until_stopped, {"mark": "mark"}), "stubborn": Call(chores.never_stop)}
with Crew(Limits(jobs=2)) as crew:
    crew.start("one", calls[sys.argv[1]], Path("log"), heard=lambda pid: print(pid, flush=True))
    while True:
        crew.wait()
"""


@pytest.mark.parametrize("worker", ["willing", "stubborn"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_notice_that_their_parent_is_dead(tmp_path: Path, number: signal.Signals, worker: str) -> None:
    """kill -9 gives the parent no chance to ask; a script without a guard for `__main__` may start workers too."""
    paths = os.pathsep.join(map(str, (Path(dura.__file__).parents[1], Path(chores.__file__).parent)))
    command, pipe = [sys.executable, "-c", PARENT, worker], subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(number)
        parent.wait(60)
    until(lambda: not alive(pid))
    assert (tmp_path / "mark").exists() == (worker == "willing")


def test_a_call_is_named_by_its_module() -> None:
    assert Call(chores.echo).reference == "chores:echo"
