"""The static models of the paper. "Rank d" of ComplEx means d complex numbers.

The formulas are those of `comparator = "dot"`. With "distance" a model is its dual, −‖h·R̄ − t‖².
"""

from __future__ import annotations

from dura.models.bilinear import Meeting, SemanticMatching
from dura.models.families import ComplexDiagonal, Dense, Diagonal
from dura.types import Sizes


class CP(SemanticMatching):
    """Σ u∘r∘v: heads and tails have separate tables."""

    family, shared = Diagonal(), False

    def __init__(self, sizes: Sizes, rank: int = 200, init_scale: float = 1e-3, comparator: Meeting = "dot") -> None:
        super().__init__(sizes, rank, init_scale, comparator)


class DistMult(SemanticMatching):
    """Σ e∘r∘e: CP with one table."""

    family = Diagonal()

    def __init__(self, sizes: Sizes, rank: int = 200, init_scale: float = 1e-3, comparator: Meeting = "dot") -> None:
        super().__init__(sizes, rank, init_scale, comparator)


class ComplEx(SemanticMatching):
    """Re<ē∘r∘e> over complex numbers."""

    family = ComplexDiagonal()

    def __init__(self, sizes: Sizes, rank: int = 200, init_scale: float = 1e-3, comparator: Meeting = "dot") -> None:
        super().__init__(sizes, rank, init_scale, comparator)


class RESCAL(SemanticMatching):
    """h·R·tᵀ with a full matrix per relation. `init_scale = 0` means Xavier's uniform start."""

    family = Dense()

    def __init__(self, sizes: Sizes, rank: int = 200, init_scale: float = 0.0, comparator: Meeting = "dot") -> None:
        super().__init__(sizes, rank, init_scale, comparator)
