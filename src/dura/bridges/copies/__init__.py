"""Copies: which weight of a model of dura is which weight of PyKEEN's model, in both directions.

Where the conventions differ:

- Both score higher = better, as the negative of a distance. None of these models needs another sign.
- A model whose reciprocals have rows of their own is a model of PyKEEN with inverse relations: row r of dura is row 2r there, and
  the reciprocal r + |R| is row 2r + 1.
- ComplEx: dura scores Re<h̄∘r∘t>, PyKEEN Re<h∘r∘t̄>: its relation is conjugated. Both store complex numbers as neighbouring reals.
- CP: PyKEEN's rows are [rank, embedding_dim], which are one vector here.
- TransE: PyKEEN normalizes entities after each step of training, dura does not. The score is the same.
- TransH: dura's distance is squared (PyKEEN: `power_norm=True`). dura stores [shift, normal] and normalizes the normal where it is
  used; PyKEEN after each step. PyKEEN's interaction reads its first table as the normal and the second as the shift, while the
  model normalizes the second.
- TransD: squared as well. dura stores [e, e_p] and [r, r_p] in one row each. Both shorten a projected entity to length 1.
- SE: dura's row of a relation holds the matrix of heads, and the row of its reciprocal the matrix of tails.
- RotatE: dura adds up the moduli, Σ|h∘e^{iθ} − t|, as the paper's program does. PyKEEN 1.11.1 takes ‖h∘e^{iθ} − t‖₂ and ignores its
  own setting `p`. So the weights can be copied, but the scores differ. dura stores angles and [real parts, imaginary parts]; PyKEEN
  stores complex numbers as neighbouring parts, for relations too.
- MuRE: dura subtracts the shift, −‖h∘s − (t + r)‖² + b_h + b_t, as the paper does. PyKEEN adds it: its shift is −r.
- ConvE: the bias is the last number of a row of dura's entities and a table of its own in PyKEEN. The layers are the same.
- ConvKB: dura's filters are [3, filters] and its linear layer [filters, rank] without a bias; PyKEEN's linear layer has one, which
  moves all scores alike.
- TuckER: the core is [relation, head, tail] in dura and [head, relation, tail] in PyKEEN.
"""

from __future__ import annotations

from dura.bridges.copies.copy import Copy, doubled, fill, halved, read
from dura.bridges.copies.distances import SE, MuRE, RotatE, TransD, TransE, TransH
from dura.bridges.copies.layers import ConvE, ConvKB, TuckER
from dura.bridges.copies.products import CP, RESCAL, ComplEx, Diagonal

__all__ = ["COPIES", "Copy", "doubled", "fill", "halved", "read"]

COPIES: dict[str, Copy] = {
    "complex": ComplEx(), "rescal": RESCAL(), "cp": CP(), "distmult": Diagonal(), "transe": TransE(), "transh": TransH(),
    "transd": TransD(), "se": SE(), "rotate": RotatE(), "mure": MuRE(), "conve": ConvE(), "convkb": ConvKB(), "tucker": TuckER(),
}  # fmt: skip
"""dura's model -> how it is copied."""
