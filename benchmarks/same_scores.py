"""Check that the same weights give the same scores in PyKEEN.

    python benchmarks/same_scores.py            # every model of the table that this version of dura has
    python benchmarks/same_scores.py transe     # some of them

Each row of `COPIES` is a function that copies the state of dura's model into PyKEEN's. Then both score all tails of all questions,
and all heads too if a relation and its reciprocal share their rows. Models whose reciprocals have rows of their own are given
to PyKEEN as a graph with twice as many relations, so its own numbers for inverse relations (2r and 2r + 1) do not matter.

Where the conventions differ:

- Both score higher = better, as the negative of a distance. None of these models needs another sign.
- TransE: PyKEEN normalizes entities after each step of training, dura does not. The score is the same: −‖h + r − t‖₁.
- TransH: dura's distance is squared (PyKEEN: `power_norm=True`). dura stores [shift, normal] and normalizes the normal where it is
  used; PyKEEN after each step. PyKEEN's interaction reads its first table as the normal and the second as the shift, while the
  model normalizes the second.
- TransD: squared as well. dura stores [e, e_p] and [r, r_p] in one row each. Both shorten a projected entity to length 1.
- SE: dura's row of a relation holds the matrix of heads, and the row of its reciprocal the matrix of tails.
- RotatE: dura adds up the moduli, Σ|h∘e^{iθ} − t|, as the paper's program does. PyKEEN 1.11.1 takes ‖h∘e^{iθ} − t‖₂ and ignores its
  own setting `p`. Here dura's model meets its targets by `L2`, which is the same number; the laws test `Modulus`. dura stores
  angles and [real parts, imaginary parts]; PyKEEN stores complex numbers as neighbouring parts, for relations too.
- MuRE: dura subtracts the shift, −‖h∘s − (t + r)‖² + b_h + b_t, as the paper does. PyKEEN adds it: its shift is −r.
- ConvE: the bias is the last number of a row of dura's entities and a table of its own in PyKEEN. The layers are the same.
- ConvKB: dura's filters are [3, filters] and its linear layer [filters, rank] without a bias; PyKEEN's linear layer has one.
- TuckER: the core is [relation, head, tail] in dura and [head, relation, tail] in PyKEEN.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dura.models import MODELS, Model
from dura.models.comparators import L2
from dura.types import Sizes
from rival import part, version

ENTITIES, RELATIONS, RANK = 23, 5, 12
NEAR = 1e-5
"""How much scores may differ, absolutely and as a share."""


def made(name: str, relations: int, **options: Any) -> Any:
    """PyKEEN's model of this name for a graph with this many relations."""
    ids = torch.tensor([[0, relation, 1] for relation in range(relations)])
    facts = part("triples").CoreTriplesFactory.create(ids, ENTITIES, relations)
    return getattr(part("models"), name)(triples_factory=facts, random_seed=0, **options).to("cpu").eval()


@torch.no_grad()
def fill(model: Any, entities: list[Tensor], relations: list[Tensor]) -> Any:
    """PyKEEN's model with these tables. Complex numbers become neighbouring reals."""
    for tables, own in ((entities, model.entity_representations), (relations, model.relation_representations)):
        for table, representation in zip(tables, own, strict=True):
            weight = representation._embeddings.weight
            reals = torch.view_as_real(table) if table.is_complex() else table
            weight.copy_(reals.reshape(weight.shape))
    return model


def transe(ours: Any) -> Any:
    """−‖h + r − t‖₁."""
    state = ours.state()
    model = made("TransE", RELATIONS, embedding_dim=RANK, scoring_fct_norm=1)
    return fill(model, [state["entity"]], [state["shifts"]])


def transh(ours: Any) -> Any:
    """−‖h⊥ + d − t⊥‖²."""
    state = ours.state()
    shift, normal = state["relations"].chunk(2, 1)
    model = made("TransH", RELATIONS, embedding_dim=RANK, scoring_fct_norm=2, power_norm=True)
    return fill(model, [state["entity"]], [nn.functional.normalize(normal, dim=1), shift])


def transd(ours: Any) -> Any:
    """−‖h' + r − t'‖²."""
    state = ours.state()
    norm = {"p": 2, "power_norm": True}
    model = made("TransD", RELATIONS, embedding_dim=RANK, relation_dim=RANK, interaction_kwargs=norm)
    return fill(model, list(state["entity"].chunk(2, 1)), list(state["relations"].chunk(2, 1)))


def se(ours: Any) -> Any:
    """−‖A·h − B·t‖₁."""
    state = ours.state()
    model = made("SE", RELATIONS, embedding_dim=RANK, scoring_fct_norm=1)
    return fill(model, [state["entity"]], list(state["relations"].chunk(2)))


def rotate(ours: Any) -> Any:
    """−‖h∘e^{iθ} − t‖₂."""
    state = ours.state()
    ours.comparator, angles = L2(), state["angles"]
    model = made("RotatE", RELATIONS, embedding_dim=RANK)
    return fill(model, [torch.complex(*state["entity"].chunk(2, 1))], [torch.polar(torch.ones_like(angles), angles)])


def mure(ours: Any) -> Any:
    """−‖h∘s − (t + r)‖² + b_h + b_t."""
    state = ours.state()
    scale, shift = state["relations"].chunk(2, 1)
    entity = state["entity"]
    model = made("MuRE", 2 * RELATIONS, embedding_dim=RANK, p=2, power_norm=True)
    return fill(model, [entity[:, :-1], state["head_bias"], entity[:, -1]], [-shift, scale])


def conve(ours: Any) -> Any:
    """<features of a picture, t> + b_t."""
    state = ours.state()
    filters = ours.convolution.weight.shape
    shape = {"embedding_dim": RANK, "embedding_height": ours.height, "embedding_width": ours.width}
    shape |= {"output_channels": filters[0], "kernel_height": filters[2], "kernel_width": filters[3]}
    model = made("ConvE", 2 * RELATIONS, **shape)
    layers = [
        m for m in model.interaction.modules() if isinstance(m, nn.Conv2d | nn.Linear | nn.modules.batchnorm._BatchNorm)
    ]
    mine = [ours.norm_input, ours.convolution, ours.norm_features, ours.linear, ours.norm_hidden]
    for theirs, layer in zip(layers, mine, strict=True):
        theirs.load_state_dict(layer.state_dict())
    return fill(model, [state["entity"][:, :-1], state["entity"][:, -1]], [state["relations"]])


@torch.no_grad()
def convkb(ours: Any) -> Any:
    """Σ w·ReLU(a·h + b·r + c·t + bias)."""
    state = ours.state()
    decoder = ours.decoder
    model = made("ConvKB", RELATIONS, embedding_dim=RANK, num_filters=decoder.kernels.shape[1])
    model.interaction.conv.weight.copy_(decoder.kernels.T[:, None, None])
    model.interaction.conv.bias.copy_(decoder.bias)
    model.interaction.linear.weight.copy_(decoder.weight.reshape(1, -1))
    model.interaction.linear.bias.zero_()
    return fill(model, [state["entity"]], [state["relations"]])


@torch.no_grad()
def tucker(ours: Any) -> Any:
    """W ×₁ h ×₂ r ×₃ t."""
    state = ours.state()
    model = made("TuckER", 2 * RELATIONS, embedding_dim=RANK, relation_dim=state["relations"].shape[1])
    model.interaction.core_tensor.copy_(state["core"].transpose(0, 1))
    model.interaction.head_batch_norm.load_state_dict(ours.norm_input.state_dict())
    model.interaction.head_relation_batch_norm.load_state_dict(ours.norm_hidden.state_dict())
    return fill(model, [state["entity"]], [state["relations"]])


COPIES: dict[str, Callable[[Any], Any]] = {
    "transe": transe, "transh": transh, "transd": transd, "se": se, "rotate": rotate,
    "mure": mure, "conve": conve, "convkb": convkb, "tucker": tucker,
}  # fmt: skip
SHARED = ("transe", "transh", "transd", "se", "rotate", "convkb")
"""Models in which a relation and its reciprocal are two sides of one score, so PyKEEN's heads are compared too."""


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
    ours = drawn(name)
    theirs = COPIES[name](ours)
    shared = name in SHARED
    asked = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange((1 if shared else 2) * RELATIONS))
    pairs = [(ours.score_all(asked[:, 0], asked[:, 1]), theirs.score_t(asked))]
    if shared:  # (?, r, t) is asked as (t, r⁻¹, ?)
        mine = ours.score_all(asked[:, 0], asked[:, 1] + RELATIONS)
        pairs.append((mine, theirs.score_h(asked.flip(1))))
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
