"""The thinker of the family: its config, where its tensors are stored, and how filled modules become a TextModel.

Members of the family that cannot speak (Thinking, Captioner) have a thinker too.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.fields import HEADS, LAYERS, PARAMETERS, POSITIONS, TOKENS, WIDTH, Fields, stack_shape
from omnitts_cli.families.common.names import prefixed
from omnitts_cli.families.common.parts import Part
from omnitts_cli.families.common.tokenizer import TextTokenizer
from omnitts_cli.families.qwen3_omni import released
from omnitts_cli.families.qwen3_omni.chat import SPOKEN_STYLE, ChatIds, OmniChat, SoundIds
from omnitts_cli.families.qwen3_omni.config import experts_shape
from omnitts_cli.families.qwen3_omni.names import expert_stack_names
from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.models.audio_tower import PIECE, AudioTower, TowerShape
from omnitts_cli.models.shapes import TalkerShape
from omnitts_cli.models.sources import Join, Names, One
from omnitts_cli.models.thinker import StateProjection, TextFacts, TextModel, Thinker

HEAD = "thinker.lm_head.weight"
BESIDE = ("thinker.audio_tower.*", "thinker.visual.*", "talker.*", "code2wav.*")
"""The rest of the same files."""


@dataclass(frozen=True)
class ThinkerConfig:
    """What config.json says about answering in text."""

    shape: TalkerShape
    ids: ChatIds
    tokens: int  # ids below it may be chosen
    max_positions: int
    speaks: bool
    audio: Fields | None  # what it says about sound, read when that is wanted
    talker: Fields | None  # what it says about speech, likewise

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
    thinker = top.part("thinker_config")
    at = thinker.part("text_config")
    if not at.has("num_hidden_layers"):  # a copy that was made for speech only
        raise ModelError(f"{top.file}: this model has no thinker and cannot answer", hint="omnitts ask -m omni")
    vocabulary = at.whole("vocab_size", TOKENS)
    added = _added(tokenizer)
    config = ThinkerConfig(
        shape=TalkerShape(stack_shape(at, experts_shape(at, shared=0)), vocabulary),
        ids=_chat_ids(top, vocabulary, added),
        tokens=min(max(added) + 1, vocabulary) if added else min(released.TOKENS, vocabulary),
        max_positions=at.whole("max_position_embeddings", POSITIONS, 16),
        speaks=top.flag("enable_audio_output", True) and top.has("talker_config"),
        audio=thinker.part("audio_config") if thinker.has("audio_config") else None,
        talker=top.part("talker_config") if top.has("talker_config") else None,
    )
    stack = config.shape.stack
    assert stack.experts is not None
    total = stack.layers * stack.experts.count * 3 * stack.experts.inner * stack.hidden
    if (total := total + 2 * vocabulary * stack.hidden) > PARAMETERS:
        raise top.problem(None, f"describes {total:.1e} parameters; not a model of this family")
    return config


def tower_shape(at: Fields, width: int) -> TowerShape:
    """Sizes of the audio tower for a thinker of this width."""
    at.must_be(activation_function="gelu", scale_embedding=False, n_window=PIECE // 2, num_mel_bins=128)
    at.agree("output_dim", width, "text_config.hidden_size")
    shape = TowerShape(
        width=at.even("d_model", WIDTH),
        layers=at.whole("encoder_layers", LAYERS),
        heads=at.whole("encoder_attention_heads", HEADS),
        inner=at.whole("encoder_ffn_dim", 8 * WIDTH),
        channels=at.whole("downsample_hidden_size", WIDTH),
        bands=at.whole("num_mel_bins", 128),
        out=width,
        window=at.whole("n_window_infer", 100 * PIECE, PIECE, 800),
    )
    at.divides("encoder_attention_heads", shape.heads, "d_model", shape.width)
    return shape


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
    audio = top.part("thinker_config")
    sound = None
    if audio.has("audio_token_id") and audio.has("audio_start_token_id") and audio.has("audio_end_token_id"):
        keys = ("audio_start_token_id", "audio_token_id", "audio_end_token_id")
        first, pad, last = (audio.whole(key, vocabulary - 1, 0) for key in keys)
        sound = SoundIds(first, pad, last)
    guards = [id for id, word in added.items() if word == "<|endoftext|>"]
    return ChatIds(start=start, stop=stop, guards=(*guards, start), control=frozenset(added), sound=sound)


def thinker_names(shape: TalkerShape) -> Names:
    """The rename table of a Thinker."""
    assert shape.stack.experts is not None
    stack = expert_stack_names("thinker.model", shape.stack.layers, shape.stack.experts)
    return prefixed("stack", stack) | {"table": One("thinker.model.embed_tokens.weight"), "head": One(HEAD)}


def tower_names(shape: TowerShape) -> Names:
    """The rename table of an AudioTower."""
    theirs = "thinker.audio_tower"
    pairs = {f"convs.{index}": f"conv2d{index + 1}" for index in range(3)}
    pairs |= {"norm": "ln_post", "first": "proj1", "last": "proj2"}
    table: Names = {"join.weight": One(f"{theirs}.conv_out.weight")}
    for index in range(shape.layers):
        ours, layer = f"layers.{index}", f"layers.{index}"
        pairs |= {f"{ours}.out": f"{layer}.self_attn.out_proj", f"{ours}.wide": f"{layer}.fc1"}
        pairs |= {f"{ours}.narrow": f"{layer}.fc2", f"{ours}.attend_norm": f"{layer}.self_attn_layer_norm"}
        pairs |= {f"{ours}.mlp_norm": f"{layer}.final_layer_norm"}
        for kind in ("weight", "bias"):
            parts = tuple(f"{theirs}.{layer}.self_attn.{part}_proj.{kind}" for part in "qkv")
            table[f"{ours}.qkv.{kind}"] = Join(parts)
    both = {(ours, other, kind) for ours, other in pairs.items() for kind in ("weight", "bias")}
    return table | {f"{ours}.{kind}": One(f"{theirs}.{other}.{kind}") for ours, other, kind in both}


def tower_part(config: ThinkerConfig, name: str) -> Part:
    """The audio tower without values, or an error for a model that takes no sound."""
    if config.audio is None or config.ids.sound is None:
        raise ModelError(f"{name} does not accept sound", hint='omnitts ask "a question"')
    shape = tower_shape(config.audio, config.shape.stack.hidden)
    with torch.device("meta"):
        tower = AudioTower(shape)
    return Part(tower, tower_names(shape), "", None, float32=False)


def tapped_layer(config: ThinkerConfig) -> int | None:
    """The layer whose input the talker reads where a recording is; None for a model that does not speak."""
    if config.talker is None or not config.speaks:
        return None
    return config.talker.whole("accept_hidden_layer", config.shape.stack.layers - 1, 0)


def projection_part(config: ThinkerConfig, name: str) -> Part:
    """From hidden states of the thinker to rows of the talker, without values, or an error for a model that only
    writes.
    """
    if config.talker is None or tapped_layer(config) is None:
        raise ModelError(f"{name} answers in text; it cannot speak", hint='omnitts ask --text-only "a question"')
    at = config.talker.part("text_config")
    inner, width = at.whole("intermediate_size", 8 * WIDTH), at.whole("hidden_size", WIDTH)
    with torch.device("meta"):
        projection = StateProjection(config.shape.stack.hidden, inner, width)
    pairs = (("inner", "linear_fc1"), ("out", "linear_fc2"))
    names: Names = {
        f"{ours}.{kind}": One(f"talker.hidden_projection.{theirs}.{kind}")
        for ours, theirs in pairs
        for kind in ("weight", "bias")
    }
    return Part(projection, names, "", None, float32=False)


@dataclass(frozen=True)
class ThinkerParts:
    """With the tower, a thinker takes sound; with both, its talker can read recordings."""

    thinker: Part
    tower: Part | None = None
    projection: Part | None = None

    def all(self) -> list[Part]:
        return [part for part in (self.thinker, self.tower, self.projection) if part is not None]


def thinker_parts(
    config: ThinkerConfig, ops: Ops = plain.OPS, name: str = "", sound: bool = False, speech: bool = False
) -> ThinkerParts:
    """The modules without values: nothing large is allocated before the files are compared. ModelError where the model
    called `name` cannot take `sound`, or speak.
    """
    with torch.device("meta"):
        thinker = Thinker(config.shape, ops.long or ops)
    part = Part(thinker, thinker_names(config.shape), "", BESIDE, float32=False)
    projection = projection_part(config, name) if speech else None
    return ThinkerParts(part, tower_part(config, name), projection) if sound else ThinkerParts(part)


def assemble_thinker(name: str, config: ThinkerConfig, parts: ThinkerParts, tokenizer: TextTokenizer) -> TextModel:
    """Filled parts -> the model that the engine runs."""
    thinker, tower, projection = parts.thinker.module, parts.tower, parts.projection
    assert isinstance(thinker, Thinker)
    thinker.eval().requires_grad_(False)
    facts = TextFacts(
        hidden=config.shape.stack.hidden,
        tokens=config.tokens,
        stops=_unique(config.ids.stop, *config.ids.guards),
        max_positions=config.max_positions,
        sound_pad=None if config.ids.sound is None else config.ids.sound.pad,
        tap=None if projection is None else tapped_layer(config),
    )
    chat = OmniChat(tokenizer, config.ids)
    ears = None
    if tower is not None:
        assert isinstance(tower.module, AudioTower)
        ears = tower.module.eval().requires_grad_(False)
    to_talker = None
    if projection is not None:
        assert isinstance(projection.module, StateProjection)
        to_talker = projection.module.eval().requires_grad_(False)
    device, dtype = thinker.head.device, thinker.head.dtype
    return TextModel(name, facts, thinker, chat, device, dtype, SPOKEN_STYLE, ears, to_talker)


def _unique(*ids: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ids))


def made_up_thinker_config(file: Path) -> ThinkerConfig:
    """The released shapes, for random weights."""
    return thinker_config_of(Fields(file, released.config()), None)
