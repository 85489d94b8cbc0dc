"""Shared by the families: their networks as modules without values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from omnitts_cli.families.common.fields import SpeechConfig
from omnitts_cli.families.common.names import books
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.codec_decoder import UpsamplingDecoder
from omnitts_cli.models.embed import FrameEmbedder, TextEmbedder
from omnitts_cli.models.networks import Networks
from omnitts_cli.models.prompts import Prompter
from omnitts_cli.models.shapes import PredictorShape, TalkerShape
from omnitts_cli.models.sources import Derived, Join, Names, One, Stack
from omnitts_cli.models.talker import Predictor, Talker


class Language(nn.Module):
    """Everything between text and codes: the modules that share one dtype."""

    def __init__(self, talker: TalkerShape, predictor: PredictorShape, text: TextEmbedder, ops: Ops) -> None:
        super().__init__()
        self.talker = Talker(talker, ops)
        self.predictor = Predictor(predictor, ops)
        self.embedder = FrameEmbedder(talker.vocabulary, predictor.groups, predictor.codes, talker.stack.hidden)
        self.text = text


@dataclass(frozen=True)
class Part:
    """A module and the names of its tensors. `leftover`: names in the same file that belong to other parts."""

    module: nn.Module
    names: Names
    folder: str  # inside the model folder
    leftover: tuple[str, ...] | None
    float32: bool = True


@dataclass(frozen=True)
class Parts:
    """The parts of a model that speaks. The last two are set if it is built for cloning."""

    language: Part
    decoder: Part
    encoder: Part | None = None
    speaker: Part | None = None

    def all(self) -> list[Part]:
        return [part for part in (self.language, self.decoder, self.encoder, self.speaker) if part is not None]

    def networks(self, name: str, config: SpeechConfig, ops: Ops, prompter: Prompter, **more: Any) -> Networks:
        """The model of filled parts that are ready for inference."""
        language, decoder = self.language.module, self.decoder.module
        assert isinstance(language, Language) and isinstance(decoder, UpsamplingDecoder)
        return Networks(
            talker=language.talker,
            predictor=language.predictor,
            embedder=language.embedder,
            codec=decoder,
            prompter=prompter,
            device=language.talker.head.device,
            dtype=language.embedder.first.dtype,
            ops=ops,
            **config.model_fields(name) | {"cloner": None} | more,
        )


def joined_rows(name: str, count: int, ours: Mapping[str, Tensor]) -> list[int]:
    """The rows of each of the `count` matrices that our matrix `name` joins: queries have the width of the attention
    output, keys and values share the rest; gate and up are alike."""
    rows = len(ours[name])
    if count == 3:
        queries = ours[name.replace("qkv", "out")].shape[1]
        return [queries, *[(rows - queries) // 2] * 2]
    return [rows // count] * count


def stored(module: nn.Module, names: Names) -> dict[str, Tensor]:
    """Applies a rename table backwards: our tensors under the names and in the shapes of the checkpoint."""
    ours = dict(module.named_parameters()) | dict(module.named_buffers())
    tensors: dict[str, Tensor] = {}
    for name, source in names.items():
        value = ours[name].detach()
        match source:
            case One(theirs):
                tensors[theirs] = value
            case Join(theirs):
                tensors |= dict(zip(theirs, value.split(joined_rows(name, len(theirs), ours)), strict=True))
            case Stack(theirs):
                tensors |= dict(zip(theirs, value.unbind(0), strict=True))
            case Derived(theirs, compute) if compute is books:
                for number, book in enumerate(value):
                    tensors[theirs[2 * number]] = book
                    tensors[theirs[2 * number + 1]] = torch.ones(book.shape[0])
            case Derived(theirs, _):  # a matrix that is stored as a convolution of width one
                tensors[theirs[0]] = value[..., None]
    return tensors
