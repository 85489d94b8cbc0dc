"""Numbers that the model's files and its training must agree on: control ids, languages, speakers, text ids."""

from __future__ import annotations

from dataclasses import dataclass

from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.tokens import TokenLists

LANGUAGES = ("en", "es", "fr", "it", "pt")
CONTROLS = 1024
"""The number of entries of group 0's vocabulary after the audio codes; generators of the family suppress this many."""


@dataclass(frozen=True)
class CodecIds:
    """Ids after the audio codes, with the same offsets as in the released models. The other languages of LANGUAGES
    follow English."""

    codes: int
    vocabulary: int
    english: int
    pad: int
    begin: int
    end: int
    think: int
    no_think: int
    think_begin: int
    think_end: int
    first_speaker: int

    @staticmethod
    def behind(codes: int) -> CodecIds:
        return CodecIds(
            codes=codes,
            vocabulary=codes + CONTROLS,
            english=codes + 2,
            pad=codes + 100,
            begin=codes + 101,
            end=codes + 102,
            think=codes + 106,
            no_think=codes + 107,
            think_begin=codes + 108,
            think_end=codes + 109,
            first_speaker=codes + 900,
        )


@dataclass(frozen=True)
class TinyTextIds:
    """Text tokens that prompts place by number."""

    start: int
    stop: int
    assistant: int
    newline: int
    pad: int
    begin: int
    end: int

    @staticmethod
    def of(tokens: TokenLists) -> TinyTextIds:
        return TinyTextIds(
            start=tokens.special("<|im_start|>"),
            stop=tokens.special("<|im_end|>"),
            assistant=tokens.word("assistant"),
            newline=tokens.newline,
            pad=tokens.special("<tts_pad>"),
            begin=tokens.special("<tts_text_bos>"),
            end=tokens.special("<tts_text_eod>"),
        )


def codec_ids(recipe: Recipe) -> CodecIds:
    return CodecIds.behind(recipe.codec.codes)
