"""Joining: start torch's process group and find the place in the grid."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from datetime import timedelta
from typing import Any

from dura.types import BadInput
from dura.world.place import SECONDS, Grid, here, leads, rank, reaching, size, variable


def join(shards: int = 0, replicas: int = 1, device: str = "cpu", seconds: float = SECONDS) -> Grid:
    """Join the other processes of the job. Without torchrun this does nothing. A second call has no effect.

    `shards` = 0 means as many as the processes allow. `seconds` is how long a process waits for another one.
    """
    count = size()
    if count == 1 or here.grid.groups is not None:
        return here.grid
    shards = shards or count // replicas
    if shards * replicas != count:
        error = BadInput(
            f"world.shards · world.replicas is {shards} · {replicas} = {shards * replicas}, but torchrun started {count} "
            f"process{'es' * (count > 1)}; change --nproc-per-node, or the settings"
        )
        error.shared = True
        raise error
    groups = _start(shards, replicas, device, seconds)
    here.grid = Grid(shards, replicas, rank(), groups)
    return here.grid


def _start(shards: int, replicas: int, device: str, seconds: float) -> dict[str, Any]:
    """Start torch's process group and make the groups of the grid."""
    import atexit

    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    wait = timedelta(seconds=seconds)
    cuda = device.startswith("cuda")
    with reaching():
        store = _store(wait)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo", store=store, rank=rank(), world_size=size(), timeout=wait
        )
        mesh = init_device_mesh("cuda" if cuda else "cpu", (replicas, shards), mesh_dim_names=("replicas", "shards"))
        # A mesh names its dimensions: the group "shards" runs along a row of the grid.
        groups = {"shards": mesh.get_group("shards"), "replicas": mesh.get_group("replicas"), "all": dist.group.WORLD}
    atexit.register(leave)
    return groups


def leave() -> None:
    """Leave the job. The process is alone again."""
    if here.grid.groups is None:
        return
    import gc

    import torch.distributed as dist

    here.grid = Grid()
    with contextlib.suppress(RuntimeError, ValueError):
        dist.destroy_process_group()
    # A group ends its threads when its last reference goes. The frames of an error may hold one in a cycle; threads that live on
    # while the interpreter ends would abort the process.
    gc.collect()


def _store(wait: timedelta) -> Any:
    """The store by which the processes of this start of the job find each other."""
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    address, port = os.environ.get("MASTER_ADDR", ""), variable("MASTER_PORT", 0, least=0)
    if not address or not port:
        raise BadInput(
            "WORLD_SIZE is set, but MASTER_ADDR or MASTER_PORT is not; start the processes with torchrun, or unset WORLD_SIZE"
        )
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    first = leads() and not by_agent
    store = TCPStore(address, port, None, first, timeout=wait, wait_for_workers=False, multi_tenant=True)
    meeting = _call(store, wait) if leads() else _answer(store)
    return PrefixStore(f"dura/{meeting}", store)


def _call(store: Any, wait: timedelta) -> str:
    """Bring the others together, as the first process. Returns the name of the meeting.

    If torchrun starts processes again, the store may still hold what earlier processes wrote, and the count of restarts differs
    from host to host. So each process says hello with a new name of its own, and only this name is invited.
    """
    meeting, invited, end = secrets.token_hex(8), dict[int, str](), time.monotonic() + wait.total_seconds()
    missing = set(range(1, size()))
    while missing:
        for other in sorted(missing):
            hello = store.get(f"dura/hello/{other}").decode() if store.check([f"dura/hello/{other}"]) else ""
            if hello and hello != invited.get(other):
                invited[other] = hello
                store.set(f"dura/invitation/{hello}", f"{meeting} {size()}")
            if store.check([f"dura/{meeting}/came/{other}"]):
                missing.discard(other)
                _check_size(other, int(store.get(f"dura/{meeting}/came/{other}")))
        if time.monotonic() > end:
            raise RuntimeError(f"timed out: the processes {sorted(missing)} did not come")
        time.sleep(0.02)
    return meeting


def _answer(store: Any) -> str:
    """Say hello, wait for an invitation, and come. Returns the name of the meeting."""
    name = secrets.token_hex(8)
    store.set(f"dura/hello/{rank()}", name)
    meeting, told = store.get(f"dura/invitation/{name}").decode().split()
    store.set(f"dura/{meeting}/came/{rank()}", str(size()))
    _check_size(0, int(told))
    return str(meeting)


def _check_size(other: int, told: int) -> None:
    """Refuse to begin if another process was told another number of processes."""
    if told == size():
        return
    pair = sorted([(rank(), size()), (other, told)])
    said = " and ".join(f"process {number} was told {value}" for number, value in pair)
    time.sleep(2 * leads())  # the store ends with this process, and others are about to read it
    raise BadInput(
        f"the processes disagree about their number: {said} (WORLD_SIZE); start all of them with the same --nnodes "
        "and --nproc-per-node"
    )
