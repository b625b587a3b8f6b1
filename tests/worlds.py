"""Worlds: run a function of this module in several real processes that talk over gloo, and collect what each returns.

`python tests/worlds.py NAME ARGUMENT` is one of the processes; `in_world` starts them as torchrun would.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

TESTS = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def in_world(
    count: int, name: str, argument: Any = None, each: Mapping[int, Mapping[str, str]] | None = None
) -> list[Any]:
    """What the function returns in each of `count` processes. `each` adds variables to the environment of some of them."""
    port, running = free_port(), []
    for rank in range(count):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        extra = (each or {}).get(rank, {})
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            **{key: str(value) for key, value in place.items()},
            **extra,
        }
        command = [sys.executable, str(TESTS / "worlds.py"), name, json.dumps(argument)]
        running.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    try:
        told = [process.communicate(timeout=240) for process in running]
    finally:
        for process in running:
            process.kill()
    for rank, (process, (_, errors)) in enumerate(zip(running, told, strict=True)):
        assert process.returncode == 0, f"process {rank} ended with {process.returncode}: {errors[-3000:]}"
    return [json.loads(output.splitlines()[-1]) for output, _ in told]


def golden() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_curves", TESTS / "golden" / "test_golden.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# -- what runs in each process ----------------------------------------------------------------------------------------


def curves(argument: dict[str, Any]) -> dict[str, Any]:
    """Loss and penalty of ten steps of each of the named golden combinations, in a grid of this many replicas."""
    from dura.runs.run import train

    rows, found = golden(), dict[str, Any]()
    for name in argument["names"]:
        combination, capture = rows.ROWS[name], rows.Capture()
        experiment = combination.experiment().with_value("world.replicas", argument["replicas"])
        try:
            train(experiment, rows.graph(combination.facts), None, listeners=(capture,))
        except rows.BadInput as error:
            found[name] = str(error)
        else:
            found[name] = {"loss": capture.loss, "penalty": capture.penalty}
    return found


def ranks(argument: dict[str, Any]) -> list[list[list[float]]]:
    """The counts of `rank` for models whose rows are cut in these ways, and the scores of the best answers to a question."""

    from dura import world
    from dura.evaluation import rank
    from dura.inference.answers import Question, Wanted
    from dura.inference.predict import predict
    from dura.models import restore
    from dura.tables import Sharded, Spans
    from graphs import graph_for

    world.join()
    found = []
    for model, edges in ((model, edges) for model in argument["models"] for edges in argument["edges"]):
        graph = graph_for(model)
        with world.whole():
            one = _drawn(model, graph.sizes, argument["comparator"])
        spans, place = Spans(tuple(edges)), world.grid().shard
        shared = _drawn(model, graph.sizes, argument["comparator"])
        for name, table in list(shared.named_parameters()):
            if isinstance(table, Sharded):
                rows = one.state()[name][slice(*edges[place : place + 2])]
                shared._parameters[name] = Sharded(rows.clone(), spans, place)
        restore(shared, one.state())
        ranks = rank(shared, graph.asked("test"), graph.known, len(graph.relations), block=argument.get("block"))
        numbers = [ranks.greater.tolist(), ranks.equal.tolist(), ranks.candidates.tolist()]
        when = str(graph.times.names([1])[0]) if graph.times else None
        question = Question(graph.entities.names([3])[0], graph.relations.names([1])[0], None, when)
        (answers,) = predict(shared, graph, [question], Wanted(7))
        (near,) = predict(
            shared, graph, [question], Wanted(7, in_range=True, among=graph.entities.names(range(0, 20, 3)))
        )
        numbers.append([answer.score for answer in answers])
        numbers.append([answer.score for answer in near])
        found.append(numbers)
    return found


def _drawn(model: str, sizes: Any, comparator: str = "dot") -> Any:
    """A model with drawn tables, in which some entities have equal rows."""
    import torch

    from dura.models import MODELS
    from dura.tables import Sharded, Table

    torch.manual_seed(5)
    made = MODELS.build(model, {"rank": 8, "init_scale": 0.5, "comparator": comparator}, sizes)
    for table in made.entity_tables.values():
        if isinstance(table, Table) and not isinstance(table, Sharded):
            with torch.no_grad():
                table[[4, 11, 17]] = table[2].clone()
                table[[9, 18]] = table[1].clone()
    return made


def diverged(argument: dict[str, Any]) -> str:
    """What `rank` says of a model with a row that is not a number, which lives in the last process."""
    import torch

    from dura import DuraError, world
    from dura.evaluation import rank
    from graphs import graph_for

    world.join(replicas=argument["replicas"])
    graph = graph_for("complex")
    model = _drawn("complex", graph.sizes)
    with torch.no_grad():
        if world.grid().rank == 1:
            model.entity.data[-1] = torch.nan
    try:
        rank(model, graph.asked("test"), graph.known, len(graph.relations), block=2)
    except DuraError as error:
        return str(error)
    return "nothing"


def starts(argument: dict[str, Any]) -> list[float]:
    """The first numbers of this process's rows of a table that was just filled."""
    import torch

    from dura import world
    from dura.models import MODELS
    from dura.types import Sizes

    world.join()
    torch.manual_seed(3)
    made = MODELS.build(argument["model"], {"rank": argument["rank"]}, Sizes(argument["entities"], 2, 3))
    found: list[float] = next(iter(made.parameters())).detach().flatten().double().tolist()
    return found


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    with contextlib.redirect_stdout(sys.stderr):
        result = globals()[sys.argv[1]](json.loads(sys.argv[2]))
    sys.stdout.write(json.dumps(result) + "\n")
