"""Check that the same weights give the same scores in PyKEEN.

    python benchmarks/same_scores.py            # every model of the table that this version of dura has
    python benchmarks/same_scores.py transe     # some of them

`dura.bridges.copies` copies the state of dura's model into PyKEEN's and says where the conventions differ. Then both score all
tails of all questions, and all heads too.

RotatE: PyKEEN 1.11.1 takes ‖h∘e^{iθ} − t‖₂, and dura adds up the moduli. Here dura's model meets its targets by `L2`, which is the
same number; the laws test `Modulus`.
"""

from __future__ import annotations

import sys

import torch

from dura.bridges.copies import COPIES, doubled, fill
from dura.models import MODELS, Model
from dura.models.comparators import L2
from dura.types import Sizes
from rival import part, version

__all__ = ["COPIES", "NEAR", "difference"]

ENTITIES, RELATIONS, RANK = 23, 5, 12
NEAR = 1e-5
"""How much scores may differ, absolutely and as a share."""


def drawn(name: str) -> Model:
    """dura's model with random numbers in all tables, layers and running means."""
    torch.manual_seed(0)
    model = MODELS.build(name, {"rank": RANK}, Sizes(ENTITIES, RELATIONS)).eval()
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5) if key.endswith("running_var") else tensor.normal_(std=0.5)
    return model


@torch.no_grad()
def difference(name: str) -> float:
    """The largest difference of any score, as a share of the larger of 1 and the score."""
    ours, copy = drawn(name), COPIES[name]
    ids = torch.tensor([[0, relation, 1] for relation in range(RELATIONS)])
    facts = part("triples").CoreTriplesFactory.create(ids, ENTITIES, RELATIONS, create_inverse_triples=copy.reciprocal)
    theirs = getattr(part("models"), copy.theirs)(triples_factory=facts, random_seed=0, **copy.options(ours)).to("cpu")
    entities, relations = copy.tables(ours.state())
    fill(theirs, entities, [doubled(rows) for rows in relations] if copy.reciprocal else relations)
    copy.layers(ours, theirs)
    if name == "rotate":
        ours.comparator = L2()
    asked = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(RELATIONS))
    # (?, r, t) is asked as (t, r⁻¹, ?)
    pairs = [
        (ours.score_all(asked[:, 0], asked[:, 1]), theirs.predict_t(asked)),
        (ours.score_all(asked[:, 0], asked[:, 1] + RELATIONS), theirs.predict_h(asked.flip(1))),
    ]
    return max(float(((a - b).abs() / b.abs().clamp(min=1)).max()) for a, b in pairs)


def main() -> None:
    """Print one line per model; the exit code is 1 if scores differ."""
    if version() is None:
        sys.exit("PyKEEN is not installed: pip install pykeen==1.11.1")
    wanted, worst = sys.argv[1:] or list(COPIES), 0.0
    for name in wanted:
        if name not in MODELS.names():
            print(f"{name:8} is not a model of this version of dura")
            continue
        worst = max(worst, found := difference(name))
        print(f"{name:8} largest difference {found:.1e}{'' if found <= NEAR else '  TOO LARGE'}")
    sys.exit(int(worst > NEAR))


if __name__ == "__main__":
    main()
