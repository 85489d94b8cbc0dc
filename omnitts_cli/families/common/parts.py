"""Parts of a model: modules without values, and where their values are stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from omnitts_cli.families.common.names import embedder_names, predictor_names, prefixed
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.embed import FrameEmbedder, TextEmbedder
from omnitts_cli.models.sources import Names
from omnitts_cli.models.talker import Predictor, PredictorShape, Talker, TalkerShape


class Language(nn.Module):
    """Everything between text and codes: the modules that share one number format."""

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


class SkipInit(TorchFunctionMode):
    """Skips initial values: on "meta" there is nothing to fill, and filling would import torch's compiler (3 s)."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else (kwargs or {})["tensor"]
        if func is torch.randn:
            func = torch.empty
        return func(*args, **(kwargs or {}))


def language_names(predictor: PredictorShape, talker: Names, text: Names) -> Names:
    """The rename table of `Language`."""
    return (
        prefixed("talker", talker)
        | prefixed("predictor", predictor_names(predictor))
        | prefixed("embedder", embedder_names(predictor.groups))
        | prefixed("text", text)
    )
