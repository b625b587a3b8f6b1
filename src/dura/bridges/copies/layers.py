"""The models with layers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dura.bridges.copies.copy import Copy, State, Tables


class Layered(Copy):
    """Models with layers, whose parts are pairs of modules with the same form."""

    @abstractmethod
    def pairs(self, model: Any, theirs: Any) -> list[tuple[Any, Any]]:
        """(dura's module, PyKEEN's module)."""

    def layers(self, model: Any, theirs: Any) -> None:
        """Copy each layer."""
        for mine, other in self.pairs(model, theirs):
            other.load_state_dict(mine.state_dict())


class ConvE(Layered):
    """<features of a picture, t> + b_t."""

    theirs = "ConvE"
    _ORDER = ("norm_input", "convolution", "norm_features", "linear", "norm_hidden")

    def options(self, model: Any) -> dict[str, Any]:
        filters = model.convolution.weight.shape
        shape = {"embedding_dim": model.rank, "embedding_height": model.height, "embedding_width": model.width}
        return shape | {"output_channels": filters[0], "kernel_height": filters[2], "kernel_width": filters[3]}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        return [state["entity"][:, :-1], state["entity"][:, -1:]], [state["relations"]]

    def pairs(self, model: Any, theirs: Any) -> list[tuple[Any, Any]]:
        return list(zip((getattr(model, name) for name in self._ORDER), self._theirs(theirs), strict=True))

    def settings(self, theirs: Any) -> dict[str, Any]:
        shape, kernel = theirs.interaction.shape_info, self._theirs(theirs)[1].weight.shape
        rank = theirs.entity_representations[0].shape[0]
        return {"rank": rank, "height": shape.image_height, "filters": kernel[0], "kernel": kernel[2]}

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        rows, bias = (table.reshape(len(table), -1) for table in entities)
        named = zip(self._ORDER, self._theirs(theirs), strict=True)
        layers = {f"{name}.{key}": value for name, layer in named for key, value in layer.state_dict().items()}
        return {"entity": torch.cat([rows, bias], 1), "relations": relations[0], **layers}

    def refused(self, theirs: Any) -> str:
        layers = self._theirs(theirs)
        if len(layers) != len(self._ORDER):
            return "it has no batch normalization, and dura's has"
        kernel = layers[1].weight.shape
        return "" if kernel[2] == kernel[3] else "its kernel is not square"

    @staticmethod
    def _theirs(theirs: Any) -> list[Any]:
        kinds = nn.Conv2d | nn.Linear | nn.modules.batchnorm._BatchNorm
        return [module for module in theirs.interaction.modules() if isinstance(module, kinds)]


class ConvKB(Copy):
    """Σ w·ReLU(a·h + b·r + c·t + bias)."""

    theirs, reciprocal = "ConvKB", False

    def options(self, model: Any) -> dict[str, Any]:
        return {"embedding_dim": model.rank, "num_filters": model.decoder.kernels.shape[1]}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        return [state["entity"]], [state["relations"]]

    @torch.no_grad()
    def layers(self, model: Any, theirs: Any) -> None:
        """The convolution and the linear layer."""
        decoder, interaction = model.decoder, theirs.interaction
        interaction.conv.weight.copy_(decoder.kernels.T[:, None, None])
        interaction.conv.bias.copy_(decoder.bias)
        interaction.linear.weight.copy_(decoder.weight.reshape(1, -1))
        interaction.linear.bias.zero_()

    def settings(self, theirs: Any) -> dict[str, Any]:
        return {"rank": theirs.entity_representations[0].shape[0], "filters": theirs.interaction.conv.weight.shape[0]}

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        convolution, linear = theirs.interaction.conv, theirs.interaction.linear
        decoder = {
            "decoder.kernels": convolution.weight[:, 0, 0].T.contiguous(),
            "decoder.bias": convolution.bias,
            "decoder.weight": linear.weight.reshape(len(convolution.weight), -1),
        }
        return {"entity": entities[0], "relations": relations[0], **decoder}

    def refused(self, theirs: Any) -> str:
        return "" if not theirs.interaction.linear.bias.any() else "its linear layer has a bias, and dura's has none"


class TuckER(Layered):
    """W ×₁ h ×₂ r ×₃ t."""

    theirs = "TuckER"
    _NORMS: ClassVar[dict[str, str]] = {"norm_input": "head_batch_norm", "norm_hidden": "head_relation_batch_norm"}

    def options(self, model: Any) -> dict[str, Any]:
        return {"embedding_dim": model.rank, "relation_dim": model.relations.shape[1]}

    def tables(self, state: Mapping[str, Tensor]) -> Tables:
        return [state["entity"]], [state["relations"]]

    def pairs(self, model: Any, theirs: Any) -> list[tuple[Any, Any]]:
        return [(getattr(model, mine), getattr(theirs.interaction, other)) for mine, other in self._NORMS.items()]

    @torch.no_grad()
    def layers(self, model: Any, theirs: Any) -> None:
        """The core and the norms."""
        super().layers(model, theirs)
        theirs.interaction.core_tensor.copy_(model.core.transpose(0, 1))

    def settings(self, theirs: Any) -> dict[str, Any]:
        entity, relation = (r[0].shape[0] for r in (theirs.entity_representations, theirs.relation_representations))
        return {"rank": entity, "relation_rank": relation}

    def state(self, entities: list[Tensor], relations: list[Tensor], theirs: Any) -> State:
        interaction = theirs.interaction
        norms = {
            f"{mine}.{key}": value
            for mine, other in self._NORMS.items()
            for key, value in getattr(interaction, other).state_dict().items()
        }
        core = interaction.core_tensor.transpose(0, 1).contiguous()
        return {"entity": entities[0], "relations": relations[0], "core": core, **norms}

    def refused(self, theirs: Any) -> str:
        return "" if theirs.interaction.head_batch_norm is not None else "it has no batch normalization, and dura's has"
