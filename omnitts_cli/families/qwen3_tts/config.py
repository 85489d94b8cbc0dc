"""Config: what the JSON files of a model folder say, checked, as the shapes that the models take.

Nothing is assumed of a size or an id: each comes from the files. What only cloning needs is
read when the first clip is cloned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from omnitts_cli.families.common.fields import (
    CODES,
    GROUPS,
    POSITIONS,
    SAMPLES_PER_FRAME,
    TOKENS,
    WIDTH,
    Fields,
    Ours,
    TextIds,
    ours_in,
    same_tokens,
    stack_shape,
    text_ids,
    upsampling_fields,
)
from omnitts_cli.families.qwen3_tts.encoders import encoder_shape, speaker_shape
from omnitts_cli.families.qwen3_tts.released import KINDS, VOICES
from omnitts_cli.models.shapes import DecoderShape, EncoderShape, PredictorShape, SpeakerShape, TalkerShape
from omnitts_cli.request import Sampling

FRAME_RATE = 100
PARAMETERS = 2**36

FAMILY = "qwen3_tts"
CODEC_FOLDER = "speech_tokenizer"


@dataclass(frozen=True)
class ControlIds:
    """Entries of group 0's vocabulary that are not sound."""

    pad: int
    begin: int
    end: int
    think: int
    no_think: int
    think_begin: int
    think_end: int


CONTROL_KEYS = ("pad", "bos", "eos_token", "think", "nothink", "think_bos", "think_eos")
"""Of ControlIds, as config.json spells them."""


@dataclass(frozen=True)
class Speaker:
    """A named voice: its row, and the dialect it speaks when nothing else is asked for."""

    id: int
    dialect: str | None
    about: str


@dataclass(frozen=True)
class Config:
    """One model folder in our words."""

    file: Path
    kinds: frozenset[str]
    obeys_style: bool
    talker: TalkerShape
    predictor: PredictorShape
    decoder: DecoderShape
    text_vocabulary: int
    text_width: int
    text: TextIds
    control: ControlIds
    language_ids: dict[str, int]  # dialects included
    languages: tuple[str, ...]  # what a request may ask for
    speakers: dict[str, Speaker]  # by lower-case name
    max_positions: int
    sample_rate: int
    sampling: Sampling
    longest_piece: int | None  # letters
    plain_letters: bool
    text_input: str | None  # None: letters
    top: Fields = field(compare=False, repr=False)  # config.json
    codec: Fields = field(compare=False, repr=False)  # the codec's

    @cached_property
    def encoder(self) -> EncoderShape | None:
        """Shape of the codec's encoder, in models that clone."""
        at, frame = self.predictor, self.decoder.samples_per_frame
        return encoder_shape(self.codec, at.groups, at.codes, frame) if "cloned" in self.kinds else None

    @cached_property
    def speaker_encoder(self) -> SpeakerShape | None:
        """Shape of the speaker encoder, in models that clone."""
        hidden = self.talker.stack.hidden
        return speaker_shape(self.top, hidden, self.sample_rate) if "cloned" in self.kinds else None


def read_config(folder: Path) -> Config:
    """The JSON files of a model folder."""
    top, codec = (Fields.read(folder / name) for name in ("config.json", f"{CODEC_FOLDER}/config.json"))
    config = config_of(top, codec, Fields.read(folder / "generation_config.json", optional=True))
    same_tokens(folder, config.text)
    return config


CODEC = "qwen3_tts_tokenizer_12hz"
TOP = {
    "model_type": (Fields.word, "model_type", [FAMILY]),
    "codec": (Fields.word, "tokenizer_type", [CODEC]),
    "kind": (Fields.word, "tts_model_type", list(KINDS)),
    "talker": (Fields.part, "talker_config"),
}
TALKER: dict[str, tuple[Any, ...]] = {
    "groups": (Fields.whole, "num_code_groups", GROUPS, 2),
    "text_vocabulary": (Fields.whole, "text_vocab_size", TOKENS),
    "text_width": (Fields.whole, "text_hidden_size", WIDTH),
    "max_positions": (Fields.whole, "max_position_embeddings", POSITIONS, 16),
    "predictor": (Fields.part, "code_predictor_config"),
    "languages": (Fields.part, "codec_language_id"),
    "speakers": (Fields.part, "spk_id", {}),
    "dialects": (Fields.part, "spk_is_dialect", {}),
}


def config_of(top: Fields, codec: Fields, generation: Fields) -> Config:
    """The same, already parsed."""
    said, ours = top.each(TOP), ours_in(top)
    kinds, talker, large = _kinds(said["kind"], ours), said["talker"], top.values.get("tts_model_size") != "0b6"
    given = talker.each(TALKER)
    groups, predictor = given["groups"], given["predictor"]
    talker_stack, stack = stack_shape(talker), stack_shape(predictor)
    codes = predictor.whole("vocab_size", CODES, 2)
    predictor.agree("num_code_groups", groups, f"{talker.path}.num_code_groups")
    vocabulary = talker.whole("vocab_size", CODES, codes + 1)
    decoder, rate = decoder_shape(codec, groups, codes), codec.whole("output_sample_rate", 192_000, 8_000)
    codec.at_most("frames per second", rate // decoder.samples_per_frame, FRAME_RATE)
    at = given["languages"]
    languages = {name.lower(): at.whole(name, vocabulary - 1, codes) for name in at.values}
    config = Config(
        file=top.file,
        kinds=kinds,
        obeys_style="named" in kinds and (large if ours.style is None else ours.style),
        talker=TalkerShape(talker_stack, vocabulary),
        predictor=PredictorShape(stack, talker_stack.hidden, groups, codes),
        decoder=decoder,
        text=text_ids(top, given["text_vocabulary"]),
        control=ControlIds(*(talker.whole(f"codec_{key}_id", vocabulary - 1, codes) for key in CONTROL_KEYS)),
        language_ids=languages,
        languages=_offered(ours, languages),
        speakers=_speakers(given["speakers"], given["dialects"], ours, languages, vocabulary),
        sample_rate=rate,
        sampling=_sampling(generation),
        top=top,
        codec=codec,
        **{name: given[name] for name in ("text_vocabulary", "text_width", "max_positions")},
        **{name: getattr(ours, name) for name in ("longest_piece", "plain_letters", "text_input")},
    )
    _sane_size(top, config)
    return config


def _kinds(kind: str, ours: Ours) -> frozenset[str]:
    if unknown := set(ours.kinds or ()) - set(KINDS.values()):
        raise ours.at.problem("kinds", f"{min(unknown)!a} is not one of {', '.join(KINDS.values())}")
    return frozenset(ours.kinds or [KINDS[kind]])


def _offered(ours: Ours, known: dict[str, int]) -> tuple[str, ...]:
    """What a request may ask for: dialects come with a speaker, not by name."""
    if ours.languages is None:
        return tuple(name for name in known if "dialect" not in name)
    names = tuple(name.lower() for name in ours.languages)
    if unknown := set(names) - known.keys():
        raise ours.at.problem("languages", f"{min(unknown)!a} is not in codec_language_id")
    return names


def _speakers(
    at: Fields, dialects: Fields, ours: Ours, languages: dict[str, int], vocabulary: int
) -> dict[str, Speaker]:
    """Speakers by lower-case name: fine-tuned folders store capitals, and requests may write what they like."""
    speakers: dict[str, Speaker] = {}
    for name in at.values:
        if name.lower() in speakers:
            raise at.problem(name, "is there twice, in capitals and not")
        dialect = _dialect(dialects, name, languages)
        line = ours.voices.get(name.lower(), "" if ours.at.values else VOICES.get(name.lower(), ""))
        speakers[name.lower()] = Speaker(at.whole(name, vocabulary - 1, 0), dialect, line)
    return speakers


def _dialect(dialects: Fields, name: str, languages: dict[str, int]) -> str | None:
    """The stored value is the name of a dialect, or false."""
    if dialects.values.get(name) in (None, False):
        return None
    dialect = dialects.text(name).lower()
    if dialect not in languages:
        raise dialects.problem(name, f"{dialect!a} is not in codec_language_id")
    return dialect


SAMPLING = {
    "temperature": (Fields.number, "temperature", 0, 100, 0.9),
    "top_k": (Fields.whole, "top_k", 2**31, 0, 50),
    "top_p": (Fields.number, "top_p", 0, 1, 1.0),
    "repetition_penalty": (Fields.number, "repetition_penalty", 0.01, 100, 1.05),
    "predictor_temperature": (Fields.number, "subtalker_temperature", 0, 100, 0.9),
    "predictor_top_k": (Fields.whole, "subtalker_top_k", 2**31, 0, 50),
    "predictor_top_p": (Fields.number, "subtalker_top_p", 0, 1, 1.0),
}
"""The model's own way of drawing codes; the published defaults where the file is silent."""
DRAWS = {
    "temperature": (Fields.flag, "do_sample", True),
    "predictor_temperature": (Fields.flag, "subtalker_dosample", True),
}


def _sampling(at: Fields) -> Sampling:
    greedy = {name: 0.0 for name, draws in at.each(DRAWS).items() if not draws}
    return Sampling(**at.each(SAMPLING) | greedy)


def _sane_size(top: Fields, config: Config) -> None:
    """Each size may be large, but not all at once."""
    stacks = (config.talker.stack, config.predictor.stack)
    layers = sum(s.layers * s.hidden * (2 * (s.heads + s.kv_heads) * s.head_dim + 3 * s.inner) for s in stacks)
    tables = config.text_vocabulary * config.text_width
    tables += config.predictor.groups * config.predictor.codes * (stacks[0].hidden + stacks[1].hidden)
    if layers + tables > PARAMETERS:
        raise top.problem(None, f"describes {layers + tables:.1e} parameters; not a model of this family")


WINDOW_KEYS = 2**24  # keys of one stream


def decoder_shape(codec: Fields, groups: int, codes: int) -> DecoderShape:
    codec.word("model_type", [CODEC])
    at = codec.part("decoder_config")
    at.must_be(num_semantic_quantizers=1)
    quantised = at.even("codebook_dim", WIDTH)
    shape = DecoderShape(
        **upsampling_fields(at, groups, codes),
        book_width=quantised // 2,
        quantised=quantised,
        latent=at.whole("latent_dim", WIDTH),
    )
    codec.agree("decode_upsample_rate", shape.samples_per_frame, "the product of the upsampling rates")
    codec.at_most("decode_upsample_rate", shape.samples_per_frame, SAMPLES_PER_FRAME)
    past = shape.transformer.layers * shape.window * shape.transformer.heads * shape.transformer.head_dim
    at.at_most("keys of the sliding_window", past, WINDOW_KEYS)
    return shape
