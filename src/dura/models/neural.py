"""Neural models: layers turn head and relation into a vector that meets every entity in an inner product.

A score has a bias per entity. It is the last number of the entity's row, and the query has a 1 there. So scores of all entities are
one product, and everything that holds for inner products holds here. Relations have separate rows for their reciprocals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from dura.models.model import Model
from dura.tables import Packed, Table
from dura.types import BadInput, Sizes

Defaults = Mapping[str, Mapping[str, Any]]
OVER_ALL: Defaults = {
    "regularizer": {"name": "none"},
    "loss": {"name": "softmax", "smoothing": 0.1},
    "candidates": {"name": "all"},
    "optimizer": {"name": "adam", "lr": 1e-3},
    "training": {"batch": 256, "epochs": 60, "anneal": 20, "validate_every": 5, "patience": 4},
}
"""Settings that suit these models: softmax over all entities with a smoothed truth, with Adam."""


class Network(Model):
    """A model with one row per entity, its bias last, and one row per relation and reciprocal.

    A concrete model adds its layers in its constructor and defines `features`. Head and relation have `rank` numbers each.
    """

    state_is_all = True
    defaults: ClassVar[Defaults] = OVER_ALL
    entity: Table | Packed

    def __init__(self, sizes: Sizes, rank: int) -> None:
        super().__init__(sizes, rank)
        self.entity = Table(torch.zeros(sizes.entities, rank + 1))
        self.relations = Table(torch.empty(2 * sizes.relations, rank))
        with torch.no_grad():
            nn.init.xavier_normal_(self.entity[:, :-1])
            nn.init.xavier_normal_(self.relations)

    @property
    def target_table(self) -> Table | Packed:
        """The entities' rows as they are."""
        return self.entity

    @property
    def entity_tables(self) -> dict[str, Table | Packed]:
        """What an export may pack."""
        return {"entity": self.entity}

    def heads(self, entities: Tensor) -> Tensor:
        """The rows of these entities without their biases."""
        return self.entity.read(entities)[:, :-1]

    def query(self, head: Tensor, relation: Tensor, time: Tensor | None = None) -> Tensor:
        """The features of head and relation, and a 1 that meets the bias."""
        features = self.features(self.heads(head), relation)
        return torch.cat([features, features.new_ones(len(features), 1)], 1)

    def features(self, h: Tensor, relation: Tensor) -> Tensor:
        """The output of the layers [b, rank] from the rows of the heads and the ids of the relations."""
        raise NotImplementedError


class Convolution(Network):
    """Head and relation form a picture, which filters and a linear layer turn into a vector.

    Batch norm, dropout, filters, batch norm, ReLU, dropout of whole filters, linear layer, dropout, batch norm, ReLU. A concrete
    model defines `picture` and `filtered`.
    """

    def __init__(
        self,
        sizes: Sizes,
        rank: int,
        height: int,
        filters: int,
        kernel: int,
        drops: tuple[float, float, float],
    ) -> None:
        super().__init__(sizes, rank)
        for key, number in (("filters", filters), ("kernel", kernel)):
            if number < 1:
                raise BadInput(f"model.{key} is {number}, but it is one or more")
        self.height = height or rank // _width(rank)
        if height < 0 or rank % self.height:
            raise BadInput(f"model.height is {height}, but it must divide the rank {rank}; 0 chooses it")
        self.filters, self.width = filters, rank // self.height
        self.drop_input = dropout("input_dropout", drops[0], nn.Dropout)
        self.drop_features = dropout("feature_dropout", drops[1], nn.Dropout2d)
        self.drop_hidden = dropout("hidden_dropout", drops[2], nn.Dropout)

    def add_layers(self, channels: int, kernel: tuple[int, int], inner: tuple[int, int]) -> None:
        """Make the layers for pictures with these channels, of which the filters leave `inner` rows and columns."""
        self.norm_input, self.norm_features = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels * self.filters)
        self.convolution = nn.Conv2d(1, self.filters, kernel)
        self.linear = nn.Linear(channels * self.filters * inner[0] * inner[1], self.rank)
        self.norm_hidden = nn.BatchNorm1d(self.rank)

    def features(self, h: Tensor, relation: Tensor) -> Tensor:
        """The layers in their order."""
        x = self.drop_input(self.norm_input(self.picture(h, self.relations.read(relation))))
        x = self.drop_features(torch.relu_(self.norm_features(self.filtered(x))))
        x = self.drop_hidden(self.linear(x.flatten(1)))
        return torch.relu_(self.norm_hidden(x))

    def picture(self, h: Tensor, r: Tensor) -> Tensor:
        """Pictures [b, channels, rows, columns] of head and relation."""
        raise NotImplementedError

    def filtered(self, x: Tensor) -> Tensor:
        """What the filters make of the pictures."""
        raise NotImplementedError


class ConvE(Convolution):
    """<features, t> + b_t: the head stands above the relation in a picture that small filters look at.

    Both have `height` rows; 0 chooses it, so that the head's part is nearly square but not wider than high. A filter is no larger
    than the picture. The order of the layers is the published one.
    """

    def __init__(
        self,
        sizes: Sizes,
        rank: int = 200,
        height: int = 0,
        filters: int = 32,
        kernel: int = 3,
        input_dropout: float = 0.2,
        feature_dropout: float = 0.2,
        hidden_dropout: float = 0.3,
    ) -> None:
        super().__init__(sizes, rank, height, filters, kernel, (input_dropout, feature_dropout, hidden_dropout))
        rows, columns = min(kernel, 2 * self.height), min(kernel, self.width)
        self.add_layers(1, (rows, columns), (2 * self.height - rows + 1, self.width - columns + 1))

    def picture(self, h: Tensor, r: Tensor) -> Tensor:
        """The rows of the head, and below them those of the relation."""
        return torch.cat([h, r], 1).view(-1, 1, 2 * self.height, self.width)

    def filtered(self, x: Tensor) -> Tensor:
        """The picture without a border."""
        seen: Tensor = self.convolution(x)
        return seen


class InteractE(Convolution):
    """<features, t> + b_t: the numbers of head and relation alternate in pictures that wrap around at their borders.

    Each of the `permutations` pictures takes the numbers in another order, drawn once from `order_seed`. They alternate like the
    fields of a chequer board. The same filters look at every picture.
    """

    order: Tensor

    def __init__(
        self,
        sizes: Sizes,
        rank: int = 200,
        height: int = 0,
        filters: int = 32,
        kernel: int = 9,
        permutations: Literal[1, 2, 3, 4] = 1,
        order_seed: int = 0,
        input_dropout: float = 0.2,
        feature_dropout: float = 0.2,
        hidden_dropout: float = 0.3,
    ) -> None:
        super().__init__(sizes, rank, height, filters, kernel, (input_dropout, feature_dropout, hidden_dropout))
        if not kernel % 2:
            raise BadInput(f"model.kernel is {kernel}, but it must be odd, so that a filter has a middle")
        if order_seed < 0:
            raise BadInput(f"model.order_seed is {order_seed}, but a seed is zero or more")
        sides = self.height, 2 * self.width
        rows, columns = (min(kernel, side - 1 + side % 2) for side in sides)
        self.register_buffer("order", torch.as_tensor(chequered(permutations, *sides, order_seed)))
        self.add_layers(permutations, (rows, columns), sides)

    def picture(self, h: Tensor, r: Tensor) -> Tensor:
        """All numbers of head and relation, in each order."""
        both = torch.cat([h, r], 1).index_select(1, self.order.flatten())
        return both.view(len(h), len(self.order), self.height, 2 * self.width)

    def filtered(self, x: Tensor) -> Tensor:
        """The filters over each picture by itself: as many pictures as questions times orders, with one channel each."""
        weight = self.convolution.weight
        rows, columns = weight.shape[2] // 2, weight.shape[3] // 2
        wrapped = pad(x.flatten(0, 1)[:, None], (columns, columns, rows, rows), mode="circular")
        return conv2d(wrapped, weight, self.convolution.bias).view(len(x), -1, *x.shape[2:])


def chequered(permutations: int, rows: int, columns: int, seed: int) -> np.ndarray:
    """Which number of head and relation, in this order, stands at each place of each picture [permutations, rows · columns].

    They alternate along a row. Which of them is first changes with every row and every picture.
    """
    rng, rank = np.random.default_rng(seed), rows * columns // 2
    pictures = []
    for number in range(permutations):
        head, relation = rng.permutation(rank), rank + rng.permutation(rank)
        pairs = np.stack([head, relation], 1).reshape(rows, columns // 2, 2)
        swapped = np.arange(rows) % 2 != number % 2
        pairs[swapped] = pairs[swapped][..., ::-1]
        pictures.append(pairs.reshape(-1))
    return np.stack(pictures)


def _width(rank: int) -> int:
    """The largest divisor of the rank that is not above its root: 10 for 200."""
    return next(width for width in range(int(rank**0.5), 0, -1) if rank % width == 0)


def dropout(key: str, share: float, kind: type[nn.Dropout | nn.Dropout2d]) -> nn.Dropout | nn.Dropout2d:
    """A layer of dropout, after its share is checked."""
    if not 0 <= share < 1:
        raise BadInput(f"model.{key} is {share}, but it is a share from 0 to below 1")
    return kind(share)
