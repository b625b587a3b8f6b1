"""Several processes on this machine: pace compared with one process, memory, and bytes per step compared with the formula.

    python benchmarks/scaling.py --graph fb15k-237 --out scaling.json
    python benchmarks/scaling.py --graph FOLDER --rank 50 --rows sampled --processes 1 2

Each row trains the same batches with 1, 2, … processes of one thread each, in turns, and shows the median time of a step. Bytes are
those that the loopback interface counts, headers included, in a network namespace of their own (this needs root). The formula is
the one of docs/explanation/scaling.md, with the rows that the steps really asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

SAMPLED = {"candidates.name": "sample", "candidates.samples": 1024, "candidates.draw": "frequency"}
ROWS: dict[str, dict[str, Any]] = {
    "complex, all entities": {"model.name": "complex"},
    "complex, sampled": {"model.name": "complex", **SAMPLED},
    "cp, all entities": {"model.name": "cp"},
    "rescal, all entities": {"model.name": "rescal"},
}
WARM = 3


def worker(argument: str) -> None:
    """One process: join the others, take steps, and print what was measured."""
    import torch

    from dura import world
    from dura.config import Experiment
    from dura.data.loading import load
    from dura.runs.build import build, complete, questions_of
    from dura.tables.table import flushing
    from dura.training.trainer import Plan, Trainer

    job = json.loads(argument)
    torch.set_num_threads(1)
    graph = load(job["graph"])
    dated = graph.times is not None
    base = Experiment.of_dated_facts() if dated else Experiment()
    experiment = complete(base.with_values({"training.seed": 1, **job["settings"]}))
    w = experiment.world
    world.join(w.shards, w.replicas)
    parts = build(experiment, graph.sizes)
    questions = questions_of(experiment, graph)
    plan = Plan(batch=job["batch"], seed=1)
    trainer = Trainer(parts.model, parts.objective, parts.regularizer, parts.optimizer, questions, plan)
    part = world.grid().replica, world.grid().replicas
    batches = questions.batches(job["batch"], 1, 0, part=part)
    seconds, facts, expected, bytes_ = [], 0, 0, 0
    with flushing():
        for number, batch in zip(range(job["steps"] + WARM), batches, strict=False):
            if number == WARM:
                world.texts("")
                bytes_ = _counted()
            if number >= WARM:
                expected += formula(parts.model, batch, experiment)
                facts += batch.facts
            began = time.perf_counter()
            trainer.step(batch)
            if number >= WARM:
                seconds.append(time.perf_counter() - began)
    bytes_ = _counted() - bytes_
    told = [json.loads(text) for text in world.texts(json.dumps([expected, _peak()]))]
    if world.leads():
        found = {
            "step": median(seconds),
            "facts_per_second": facts / sum(seconds),
            "bytes": bytes_ / len(seconds),
            "formula": sum(part for part, _ in told) / len(seconds),
            "peak": [peak for _, peak in told],
        }
        print(json.dumps(found), flush=True)


def formula(model: Any, batch: Any, experiment: Any) -> int:
    """How many bytes this process sends in a step, as docs/explanation/scaling.md reckons it."""
    import torch

    from dura import world
    from dura.objectives.deal import Deal
    from dura.tables import Sharded, Table
    from dura.training.team import SMALL_TABLE

    deal, grid = Deal.of(batch), world.grid()
    shards, all_ = grid.shards, grid.shards * grid.replicas
    number, rows = 4, 0
    sent = 0.0
    around, both = (shards - 1) / shards, 2 * (all_ - 1) / all_
    b, w = len(deal.group), model.target_table.shape[1]
    if shards > 1:
        for table, ids in _asked(model, deal):
            edges = torch.tensor(table.span)
            for place, wanted in enumerate(ids):
                if place != grid.shard:
                    rows += int(torch.searchsorted(wanted, edges).diff())
        theirs = sum(
            len(wanted[grid.shard]) - sum(_inside(wanted[grid.shard], table)) for table, wanted in _asked(model, deal)
        )
        sent += (rows + theirs) * w * number  # rows of others go out, gradients of rows that came go back
        sent += 2 * around * b * w * number  # queries, and their gradients
        sampled = experiment.candidates.name == "sample"
        sent += 2 * around * (3 if sampled else 2) * b * number  # mass, weight and, if sampled, the maximum
    used = len(torch.unique(torch.as_tensor(batch.relation)))
    for name, table in model.named_parameters():
        if isinstance(table, Sharded) or not isinstance(table, Table):
            continue
        reached = used if name != "times" else len(table)
        whole = table.numel() <= SMALL_TABLE
        sent += both * number * (table.numel() if whole else reached * table[0].numel())
    return round(sent + both * 4 * number)


def _asked(model: Any, deal: Any) -> list[tuple[Any, list[Any]]]:
    """The ids that each shard asks each table for."""
    import torch

    group, parts = deal.group, deal.parts
    heads = [torch.as_tensor(group.head[part]).long() for part in parts]
    facts = [slice(int(group.offsets[part.start]), int(group.offsets[part.stop])) for part in parts]
    tails = [torch.as_tensor(group.answers[part]).long() for part in facts]
    if model.shared:
        return [(model.entity, [torch.cat(pair).unique() for pair in zip(heads, tails, strict=True)])]
    return [(model.entity, [ids.unique() for ids in heads]), (model.tail, [ids.unique() for ids in tails])]


def _inside(ids: Any, table: Any) -> list[bool]:
    first, last = table.span
    return [first <= row < last for row in ids.tolist()]


def _counted() -> int:
    """The bytes that the loopback interface has sent so far."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[8])
    return 0


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(processes: int, job: dict[str, Any]) -> dict[str, Any]:
    """What a job of this many processes measures."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    running = []
    for rank in range(processes):
        place = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": processes,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            **{key: str(value) for key, value in place.items()},
        }
        command = [sys.executable, __file__, "--worker", json.dumps(job)]
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    output = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("a process has failed")
    found: dict[str, Any] = json.loads(output[0].splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="fb15k-237")
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", default="", help="only the rows whose name has this text")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker")
    args = parser.parse_args()
    if args.worker:
        worker(args.worker)
        return
    if os.geteuid() == 0 and shutil.which("unshare") and shutil.which("ip") and "DURA_OWN_NET" not in os.environ:
        os.environ["DURA_OWN_NET"] = "1"
        words = " ".join(f"'{word}'" for word in (sys.executable, __file__, *sys.argv[1:]))
        raise SystemExit(subprocess.run(["unshare", "--net", "sh", "-c", f"ip link set lo up && {words}"]).returncode)
    rows = [_row(name, settings, args) for name, settings in ROWS.items() if args.rows in name]
    if args.out:
        about = {key: value for key, value in vars(args).items() if key not in ("out", "worker")}
        args.out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


def _row(name: str, settings: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    rank = args.rank if settings["model.name"] != "rescal" else args.rank // 2
    job = {"graph": args.graph, "batch": args.batch, "steps": args.steps, "settings": {**settings, "model.rank": rank}}
    turns: dict[int, list[dict[str, Any]]] = {count: [] for count in args.processes}
    for _ in range(args.rounds):
        for count in args.processes:
            grid = {"world.replicas": args.replicas} if count > 1 else {}
            turns[count].append(measured(count, {**job, "settings": {**job["settings"], **grid}}))
    one = median(turn["step"] for turn in turns[args.processes[0]])
    row: dict[str, Any] = {"row": name, "rank": rank, "processes": {}}
    for count, found in turns.items():
        step, last = median(turn["step"] for turn in found), found[-1]
        own = {
            "milliseconds": round(1000 * step, 2),
            "facts_per_second": round(median(turn["facts_per_second"] for turn in found)),
            "faster": round(one / step, 2),
            "efficiency": round(args.processes[0] * one / (count * step), 2),
            "megabytes_per_step": round(last["bytes"] / 1e6, 3),
            "formula": round(last["formula"] / 1e6, 3),
            "peak_megabytes": [round(peak / 1e6) for peak in last["peak"]],
        }
        row["processes"][count] = own
        print(f"{name} (rank {rank}), {count} processes: {own}", flush=True)
    return row


if __name__ == "__main__":
    main()
