"""Distances to targets that the relation of the query projects.

The projected targets of a relation are never computed: a squared distance is a sum of a few inner products of the two rows. So
`pairs` is a formula in these products, autograd turns it into products too, and nothing has the size queries × targets × width.
"""

from __future__ import annotations

from torch import Tensor

from dura.models.comparators.base import Comparator, inner, root


class Hyperplane(Comparator):
    """−‖u − (t − <w, t>·w)‖² for the query [u, w]: the target falls onto the plane with the normal w.

    A model gives a w with norm 1. Then this is the distance within the plane, plus what u has along w. With `squared = False` it
    is the distance itself.
    """

    def __init__(self, squared: bool = True) -> None:
        self.squared = squared

    def numbers(self, query: Tensor, targets: Tensor) -> int:
        """Two products and what is made of them."""
        return 6

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """‖u‖² + ‖t‖² − 2<u, t> + 2<w, t><u, w> − (2 − ‖w‖²)<w, t>²."""
        u, w = query.chunk(2, -1)
        along = inner(w, targets)
        across = inner(u, targets) - along * inner(u, w)
        norms = u.square().sum(-1) + targets.square().sum(-1)
        distance = norms - 2 * across - (2 - w.square().sum(-1)) * along.square()
        return -distance if self.squared else -root(distance)

    def bound(self, query: float, targets: float) -> float:
        """‖t − <w, t>·w‖ is at most (1 + ‖w‖²)·‖t‖."""
        return (query + (1 + query**2) * targets) ** 2 + (0 if self.squared else 1)


class Pushed(Comparator):
    """−‖q − c(t + a·p)‖² for the query [q, p] and the target [t, a]: the query pushes each target along p, by its own number a.

    c shortens a vector that is longer than 1 to the length 1. With `squared = False` the score is −‖…‖.
    """

    def __init__(self, squared: bool = True) -> None:
        self.squared = squared

    def numbers(self, query: Tensor, targets: Tensor) -> int:
        """Two products and what is made of them."""
        return 10

    def pairs(self, query: Tensor, targets: Tensor) -> Tensor:
        """‖q‖² − 2c<q, t'> + c²‖t'‖² with t' = t + a·p, whose products follow from <q, t> and <p, t>."""
        q, p = query.chunk(2, -1)
        t, a = targets[..., :-1], targets[..., -1]
        length = t.square().sum(-1) + a * (2 * inner(p, t) + a * p.square().sum(-1))
        shorter = length.clamp(min=1).rsqrt()
        product = inner(q, t) + a * inner(q, p)
        distance = q.square().sum(-1) - 2 * shorter * product + shorter.square() * length
        return -distance if self.squared else -root(distance)

    def bound(self, query: float, targets: float) -> float:
        """A pushed target has at most the norm 1. Its square before that, which must not overflow, is at most ‖t‖²(1 + ‖p‖)²."""
        return (query + 1) ** 2 + (targets * (1 + query)) ** 2 + 1
