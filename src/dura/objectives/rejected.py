"""Rejected: facts that people rejected are held down in training, whatever the loss and the candidates are.

Each step asks both questions of some rejected facts, and compares the rejected answer with random entities: it should score lower
than they do. The loss is softplus(score of the rejected answer - score of the other entity). So a rejected fact falls to where a
random one would be, and is not pushed any further.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dura.data.questions import reciprocal
from dura.models import Model
from dura.types import IntArray

ASKED = 64
"""At most this many questions of rejected facts are asked in a step."""
OTHERS = 8
"""How many random entities a rejected answer is compared with."""


class Rejected:
    """Rejected facts [n, 3], or [n, 4] with a time, from both sides. Each counts `weight` times as much as a fact of a batch."""

    def __init__(self, facts: IntArray, relations: int, weight: float = 1.0) -> None:
        self.asked = torch.from_numpy(np.concatenate([facts, reciprocal(facts, relations)]).astype(np.int64))
        self.weight = weight

    def __call__(self, model: Model, seed: int, facts: int) -> Tensor:
        """The loss of a step whose batch has this many facts. It carries its gradient. All that is drawn follows from the seed."""
        draw = torch.Generator().manual_seed(seed)
        asked = self.asked[torch.randperm(len(self.asked), generator=draw)[:ASKED]]
        others = torch.randint(model.sizes.entities, (len(asked), OTHERS), generator=draw)
        answers = torch.cat([asked[:, 2:3], others], dim=1)
        each = asked.repeat_interleave(answers.shape[1], dim=0).to(model.device)
        training = model.training
        model.eval()  # as it will answer: without dropout, and with the mean and variance that batch norm has seen
        try:
            time = each[:, 3] if each.shape[1] > 3 else None
            scores = model.score(each[:, 0], each[:, 1], answers.flatten().to(model.device), time).view(answers.shape)
        finally:
            model.train(training)
        loss = nn.functional.softplus(scores[:, :1] - scores[:, 1:]).mean(1).sum()
        return loss * (self.weight / max(1, facts))
