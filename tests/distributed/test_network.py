"""Two hosts: network namespaces with a real link between them, which is cut for a while, cut for good, and made slow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import dura
from jobs import SLOW, complaints, tables, wait_for_checkpoint
from worlds import free_port

ADDRESSES = ("10.213.77.1", "10.213.77.2")
TIMEOUT = 8


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """Two network namespaces, a and b, joined by a pair of virtual network cards."""

    def __init__(self) -> None:
        self.names = [f"dura-{side}-{os.getpid()}" for side in "ab"]
        self.cards = [f"dura{side}{os.getpid() % 100000}" for side in "ab"]
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", self.cards[0], "type", "veth", "peer", "name", self.cards[1])
        for name, card, address in zip(self.names, self.cards, ADDRESSES, strict=True):
            ip("link", "set", card, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", card)
            ip("-n", name, "link", "set", card, "up")
            ip("-n", name, "link", "set", "lo", "up")

    def close(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def link(self, state: str) -> None:
        ip("-n", self.names[0], "link", "set", self.cards[0], state)

    def slow_down(self, rate: str) -> None:
        limit = ["tbf", "rate", rate, "burst", "32kbit", "latency", "400ms"]
        words = ["tc", "qdisc", "add", "dev", self.cards[1], "root", *limit]
        subprocess.run(["ip", "netns", "exec", self.names[1], *words], check=True, capture_output=True)

    def train(self, run: Path, *words: str) -> list[subprocess.Popen[str]]:
        """One process on each host."""
        port, running = str(free_port()), []
        for rank, (name, card) in enumerate(zip(self.names, self.cards, strict=True)):
            place = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": port}
            place |= {"MASTER_ADDR": ADDRESSES[0], "GLOO_SOCKET_IFNAME": card, "OMP_NUM_THREADS": "1"}
            command = ["ip", "netns", "exec", name, sys.executable, "-m", "dura", "train", *words, "--out", str(run)]
            environment = {**os.environ, **place}
            running.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
        return running


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    try:
        made = Hosts()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine makes no network namespaces: {error.stderr!r}")
    yield made
    made.close()


def finished(running: list[subprocess.Popen[str]], seconds: float) -> list[str]:
    """What each process wrote to standard error, once it has ended."""
    try:
        return [process.communicate(timeout=seconds)[1] for process in running]
    finally:
        for process in running:
            process.kill()


def test_a_link_that_is_cut_for_five_seconds_only_costs_time(hosts: Hosts, tmp_path: Path) -> None:
    runs = [tmp_path / "cut", tmp_path / "whole"]
    for run in runs:
        running = hosts.train(run, *SLOW)
        if run == runs[0]:
            wait_for_checkpoint(run, process=running[0])
            hosts.link("down")
            time.sleep(5)
            hosts.link("up")
        told = finished(running, 120)
        assert all(process.returncode == 0 for process in running), told
    cut, whole = (tables(run) for run in runs)
    assert all(torch.equal(cut[name], whole[name]) for name in whole)


def test_a_link_that_is_cut_for_good_ends_every_process_with_one_sentence(hosts: Hosts, tmp_path: Path) -> None:
    run = tmp_path / "run"
    running = hosts.train(run, *SLOW, "--set", f"world.timeout={TIMEOUT}")
    wait_for_checkpoint(run, process=running[0])
    hosts.link("down")
    began = time.monotonic()
    told = finished(running, 60)
    assert time.monotonic() - began < 3 * TIMEOUT + 10
    for rank, (process, text) in enumerate(zip(running, told, strict=True)):
        assert process.returncode == 1, text
        assert "Traceback" not in text
        lines = complaints(text)
        assert (
            len(lines) == 1 and f"process {rank} of 2 stops" in lines[0] and "the last checkpoint is intact" in lines[0]
        )
    assert dura.open(run).evaluate("valid").mrr > 0


def test_a_slow_host_gives_the_same_numbers(hosts: Hosts, tmp_path: Path) -> None:
    few = [*SLOW, "--epochs", "1", "--batch", "100"]
    for run in (tmp_path / "fast", tmp_path / "slow"):
        if run.name == "slow":
            hosts.slow_down("4mbit")
        running = hosts.train(run, *few)
        told = finished(running, 120)
        assert all(process.returncode == 0 for process in running), told
    fast, slow = tables(tmp_path / "fast"), tables(tmp_path / "slow")
    assert all(torch.equal(fast[name], slow[name]) for name in fast)
