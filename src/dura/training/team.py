"""Team: what the processes of a job do together in a step. With one process nothing happens here.

The rows that a process reads are brought before it computes. Afterwards the gradients go to the process that holds the row, and
the gradients of tables that every process has are summed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dura import world
from dura.models import Model
from dura.objectives.deal import Deal
from dura.tables import Sharded, Table
from dura.tables.mapped import taken
from dura.training.checkpoint import Spread

SMALL_TABLE = 2**18
"""Tables with fewer numbers are summed as a whole. Of larger ones, only the rows that a step reached are summed."""


def fetch(model: Model, deal: Deal, tails: bool) -> None:
    """Bring the rows of the heads of this step, and of the answers if `tails` says that they are read."""
    if world.count("shards") == 1:
        return
    group, parts = deal.group, deal.parts
    head, answers = (torch.as_tensor(ids).to(model.device, torch.long) for ids in (group.head, group.answers))
    offsets = group.offsets
    facts = [
        slice(int(offsets[part.start]), int(offsets[part.stop]) if tails else int(offsets[part.start]))
        for part in parts
    ]
    model.fetch([head[part] for part in parts], [answers[part] for part in facts])


def share_gradients(model: Model, numbers: list[float]) -> list[float]:
    """Sum the gradients of all processes, so that each one takes the step that a single process would take.

    Some `numbers` are summed on the same occasion, which saves a message.
    """
    if world.count("all") == 1:
        return numbers
    small: list[Tensor] = []
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        if isinstance(parameter, Sharded):
            parameter.settle()
            _sum_rows(parameter, "replicas")
        elif isinstance(parameter, Table) and parameter.numel() > SMALL_TABLE:
            _sum_rows(parameter, "all")
        else:
            small.append(_whole_gradient(parameter))
    told = torch.tensor(numbers, dtype=model.dtype, device=model.device)
    flat = world.total(torch.cat([told, *(gradient.flatten() for gradient in small)]), "all")
    summed, *others = flat.split([len(told), *(gradient.numel() for gradient in small)])
    for gradient, whole in zip(small, others, strict=True):
        gradient.copy_(whole.view_as(gradient))
    return summed.tolist()  # type: ignore[no-any-return]


def align(model: Model, optimizer: torch.optim.Optimizer) -> None:
    """Give every process the numbers of the first one that has the same rows. Processors of different kinds round differently."""
    if world.count("all") == 1:
        return
    for parameter in model.parameters():
        over: world.Over = "replicas" if isinstance(parameter, Sharded) else "all"
        for tensor in (parameter.data, *optimizer.state[parameter].values()):
            if isinstance(tensor, Tensor):
                world.from_first(tensor, over)
    for buffer in model.buffers():
        world.from_first(buffer, "all")


def _whole_gradient(parameter: torch.nn.Parameter) -> Tensor:
    """The gradient of all rows, to be written to in place."""
    if isinstance(parameter, Table):
        parameter.mark()
        return parameter.gradient()
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _sum_rows(table: Table, over: world.Over) -> None:
    """Sum the gradient of a table over processes, for the rows that any of them has reached."""
    if world.count(over) == 1:
        return
    rows = table.used()
    reached = torch.tensor([len(table) if rows is None else len(rows)], device=table.device)
    lengths = world.gather(reached, [1] * world.count(over), over).tolist()
    if 2 * max(lengths) > len(table) or rows is None:  # some process has reached most rows
        world.total(_whole_gradient(table), over)
        return
    rows = world.gather(rows.to(table.device), lengths, over).unique()
    table.set_gradient(rows, world.total(table.gradient_of(rows), over))


def of_all(model: Model, tensors: Mapping[str, Tensor]) -> dict[str, Tensor | Spread]:
    """The tensors of a file, which holds the rows of all processes: "model.TABLE", "optimizer.TABLE.SLOT" or just "TABLE"."""
    found: dict[str, Tensor | Spread] = {}
    for name, tensor in tensors.items():
        table = _sharded(model, name)
        own = table is not None and tensor.shape[:1] == table.shape[:1]
        found[name] = Spread(tensor, table.spans.sizes) if table is not None and own else tensor
    return found


def of_this(model: Model, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """This process's part of the tensors of a file, in memory: the file may be deleted later."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        table = _sharded(model, name)
        spread = table is not None and tensor.shape[:1] == (table.spans.rows,)
        found[name] = taken(tensor, table.span if table is not None and spread else None)
    return found


def _sharded(model: Model, name: str) -> Sharded | None:
    """The table that a tensor of a file belongs to, if its rows are spread."""
    kind, _, rest = name.partition(".")
    table = rest.rpartition(".")[0] if kind == "optimizer" else rest if kind == "model" else name
    found = dict(model.named_parameters()).get(model.renamed.get(table, table))
    return found if isinstance(found, Sharded) else None
