"""The language side as one module to train, in the sizes of the recipe."""

from __future__ import annotations

import math

from torch import nn

from omnitts_cli.models.embed import FrameEmbedder, TextEmbedder
from omnitts_cli.models.layers import Layer
from omnitts_cli.models.shapes import MelShape, PredictorShape, SpeakerShape, StackShape, TalkerShape
from omnitts_cli.models.speaker import SpeakerEncoder
from omnitts_cli.models.talker import Predictor, Talker
from omnitts_cli.training.ids import codec_ids
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import SAMPLE_RATE
from omnitts_cli.training.tokens import TokenLists

EPS = 1e-6
ROPE_THETA = 10_000.0  # with the released 1,000,000, half of a short prompt's dimensions would hardly rotate


def talker_shape(recipe: Recipe) -> TalkerShape:
    s = recipe.speech
    stack = StackShape(s.hidden, s.inner, s.layers, s.heads, s.kv_heads, s.head_dim, EPS, ROPE_THETA)
    return TalkerShape(stack, codec_ids(recipe).vocabulary)


def predictor_shape(recipe: Recipe) -> PredictorShape:
    s = recipe.speech
    stack = StackShape(
        s.predictor_hidden,
        s.predictor_inner,
        s.predictor_layers,
        s.predictor_heads,
        s.predictor_kv_heads,
        s.predictor_head_dim,
        EPS,
        ROPE_THETA,
    )
    return PredictorShape(stack, s.hidden, recipe.codec.groups, recipe.codec.codes)


def speaker_shape(recipe: Recipe) -> SpeakerShape:
    s = recipe.speaker
    return SpeakerShape(
        embedding=recipe.speech.hidden,
        channels=(s.channels,) * 4 + (s.joined,),
        parts=s.parts,
        gate=s.gate,
        attention=s.attention,
        mel=MelShape(SAMPLE_RATE),
    )


class TinySpeech(nn.Module):
    """Talker, predictor, their tables, and the speaker encoder."""

    def __init__(self, recipe: Recipe, tokens: TokenLists) -> None:
        super().__init__()
        talker, predictor, sizes = talker_shape(recipe), predictor_shape(recipe), recipe.speech
        self.text = TextEmbedder(tokens.size, sizes.text_width, sizes.hidden)
        self.embedder = FrameEmbedder(talker.vocabulary, predictor.groups, predictor.codes, sizes.hidden)
        self.talker = Talker(talker)
        self.predictor = Predictor(predictor)
        self.speaker = SpeakerEncoder(speaker_shape(recipe))
        # each branch starts small beside the residual stream
        for stack in (self.talker.stack, self.predictor.stack):
            for layer in stack.layers:
                assert isinstance(layer, Layer)
                for weight in (layer.out, layer.down):
                    nn.init.normal_(weight, std=0.02 / math.sqrt(2 * len(stack.layers)))
