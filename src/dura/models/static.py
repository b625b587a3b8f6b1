"""The static models of the paper. "Rank d" of ComplEx means d complex numbers."""

from __future__ import annotations

from dura.models.bilinear import SemanticMatching
from dura.models.families import ComplexDiagonal, Dense, Diagonal
from dura.types import Sizes


class CP(SemanticMatching):
    """Σ u∘r∘v: heads and tails have separate tables."""

    family, shared = Diagonal(), False

    def __init__(self, sizes: Sizes, rank: int = 200, init_scale: float = 1e-3) -> None:
        super().__init__(sizes, rank, init_scale)


class DistMult(SemanticMatching):
    """Σ e∘r∘e: CP with one table."""

    family = Diagonal()

    def __init__(self, sizes: Sizes, rank: int = 200, init_scale: float = 1e-3) -> None:
        super().__init__(sizes, rank, init_scale)


class ComplEx(SemanticMatching):
    """Re<ē∘r∘e> over complex numbers."""

    family = ComplexDiagonal()

    def __init__(self, sizes: Sizes, rank: int = 200, init_scale: float = 1e-3) -> None:
        super().__init__(sizes, rank, init_scale)


class RESCAL(SemanticMatching):
    """h·R·tᵀ with a full matrix per relation. `init_scale = 0` means Xavier's uniform start."""

    family = Dense()

    def __init__(self, sizes: Sizes, rank: int = 200, init_scale: float = 0.0) -> None:
        super().__init__(sizes, rank, init_scale)
