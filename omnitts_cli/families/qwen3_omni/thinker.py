"""The thinker of the family: its config, where its tensors are stored, and how filled modules become a TextModel.

Members of the family that cannot speak (Thinking, Captioner) have a thinker too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.fields import POSITIONS, TOKENS, Fields
from omnitts_cli.families.common.parts import Part, SkipInit, prefixed, stack_shape
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_omni import released
from omnitts_cli.families.qwen3_omni.chat import SPOKEN_STYLE, ChatIds, OmniChat
from omnitts_cli.families.qwen3_omni.config import PARAMETERS, experts_shape
from omnitts_cli.families.qwen3_omni.names.language import expert_stack_names
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.sources import Names, One
from omnitts_cli.models.thinker import TextFacts, TextModel, Thinker, ThinkerShape

HEAD = "thinker.lm_head.weight"
BESIDE = ("thinker.audio_tower.*", "thinker.visual.*", "talker.*", "code2wav.*")
"""The rest of the same files."""


@dataclass(frozen=True)
class ThinkerConfig:
    """What config.json says about answering in text."""

    file: Path
    shape: ThinkerShape
    ids: ChatIds
    tokens: int  # ids below it may be chosen
    max_positions: int
    speaks: bool

    @property
    def text_vocabulary(self) -> int:
        """Rows of the embedding table."""
        return self.shape.vocabulary


def read_thinker_config(folder: Path) -> ThinkerConfig:
    """The JSON files of a model folder."""
    file = folder / "tokenizer_config.json"
    return thinker_config_of(Fields.read(folder / "config.json"), Fields.read(file) if file.exists() else None)


def thinker_config_of(top: Fields, tokenizer: Fields | None) -> ThinkerConfig:
    """The same, already parsed."""
    top.word("model_type", [released.FAMILY])
    if not top.has("thinker_config"):
        raise top.problem("thinker_config", "is missing: this model cannot answer questions")
    at = top.part("thinker_config").part("text_config")
    if not at.has("num_hidden_layers"):  # a copy that was made for speech only
        raise ModelError(f"{top.file}: this model has no thinker and cannot answer", hint="omnitts ask -m omni")
    vocabulary = at.whole("vocab_size", TOKENS)
    added = _added(tokenizer)
    config = ThinkerConfig(
        file=top.file,
        shape=ThinkerShape(stack_shape(at, experts_shape(at, shared=0)), vocabulary),
        ids=_chat_ids(top, vocabulary, added),
        tokens=min(max(added) + 1, vocabulary) if added else min(released.TOKENS, vocabulary),
        max_positions=at.whole("max_position_embeddings", POSITIONS, 16),
        speaks=top.flag("enable_audio_output", True) and top.has("talker_config"),
    )
    stack = config.shape.stack
    assert stack.experts is not None
    total = stack.layers * stack.experts.count * 3 * stack.experts.inner * stack.hidden
    if (total := total + 2 * vocabulary * stack.hidden) > PARAMETERS:
        raise top.problem(None, f"describes {total:.1e} parameters; not a model of this family")
    return config


def _added(tokenizer: Fields | None) -> dict[int, str]:
    """Control tokens by id."""
    if tokenizer is None or not tokenizer.has("added_tokens_decoder"):
        return {}
    added = tokenizer.part("added_tokens_decoder")
    return {int(id): added.part(id).text("content") for id in added.values if id.isdecimal()}


def _chat_ids(top: Fields, vocabulary: int, added: dict[int, str]) -> ChatIds:
    def token(key: str) -> int:
        return top.whole(f"{key}_token_id", vocabulary - 1, 0)

    start, stop = token("im_start"), token("im_end")
    for id, word in ((start, "<|im_start|>"), (stop, "<|im_end|>")):
        if added.get(id, word) != word:
            raise top.problem(None, f"token {id} is {word}, but tokenizer_config.json has {added[id]!a} there")
    guards = [id for id, word in added.items() if word == "<|endoftext|>"]
    return ChatIds(start=start, stop=stop, guards=(*guards, start), control=frozenset(added))


def thinker_names(shape: ThinkerShape) -> Names:
    """The rename table of a Thinker."""
    assert shape.stack.experts is not None
    stack = expert_stack_names("thinker.model", shape.stack.layers, shape.stack.experts)
    return prefixed("stack", stack) | {"table": One("thinker.model.embed_tokens.weight"), "head": One(HEAD)}


def thinker_part(config: ThinkerConfig, ops: Ops = plain.OPS) -> Part:
    """The module without values: nothing large is allocated before the files are compared."""
    with torch.device("meta"), SkipInit():
        thinker = Thinker(config.shape, ops.long or ops)
    return Part(thinker, thinker_names(config.shape), "", BESIDE, float32=False)


def assemble_thinker(name: str, config: ThinkerConfig, part: Part, tokenizer: TextTokenizer) -> TextModel:
    """A filled part -> the model that the engine runs."""
    thinker = part.module
    assert isinstance(thinker, Thinker)
    thinker.eval().requires_grad_(False)
    facts = TextFacts(
        hidden=config.shape.stack.hidden,
        tokens=config.tokens,
        stops=_unique(config.ids.stop, *config.ids.guards),
        max_positions=config.max_positions,
    )
    chat = OmniChat(tokenizer, config.ids)
    return TextModel(name, facts, thinker, chat, thinker.head.device, thinker.head.dtype, SPOKEN_STYLE)


def _unique(*ids: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ids))


def made_up_thinker_config(file: Path) -> ThinkerConfig:
    """The released shapes, for random weights."""
    return thinker_config_of(Fields(file, released.CONFIG), None)
