"""Config: what the JSON files of a model folder say, checked, as the shapes that the models take.

Nothing is assumed of a size or an id: each comes from the files. What only cloning needs is
read when the first clip is cloned.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from omnitts_cli.families.common.fields import (
    CONTROL_KEYS,
    PARAMETERS,
    POSITIONS,
    SAMPLES_PER_FRAME,
    TOKENS,
    WIDTH,
    Fields,
    Ours,
    Speaker,
    SpeechConfig,
    control_ids,
    drawn,
    language_shapes,
    ours_in,
    same_tokens,
    text_ids,
    upsampling_fields,
)
from omnitts_cli.families.qwen3_tts.encoders import encoder_shape, speaker_shape
from omnitts_cli.families.qwen3_tts.released import KINDS, VOICES
from omnitts_cli.models.shapes import DecoderShape, EncoderShape, SpeakerShape
from omnitts_cli.request import Sampling

FRAME_RATE = 100

FAMILY = "qwen3_tts"
CODEC_FOLDER = "speech_tokenizer"


@dataclass(frozen=True, kw_only=True)
class Config(SpeechConfig):
    """The settings of a model folder, under our names."""

    decoder: DecoderShape
    language_ids: dict[str, int]  # dialects included
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
    "text_vocabulary": (Fields.whole, "text_vocab_size", TOKENS),
    "text_width": (Fields.whole, "text_hidden_size", WIDTH),
    "max_positions": (Fields.whole, "max_position_embeddings", POSITIONS, 16),
    "languages": (Fields.part, "codec_language_id"),
    "speakers": (Fields.part, "spk_id", {}),
    "dialects": (Fields.part, "spk_is_dialect", {}),
}


def config_of(top: Fields, codec: Fields, generation: Fields) -> Config:
    """The same, already parsed."""
    said, ours = top.each(TOP), ours_in(top)
    kinds, talker, large = _kinds(said["kind"], ours), said["talker"], top.values.get("tts_model_size") != "0b6"
    given = talker.each(TALKER)
    shape, predictor = language_shapes(talker, talker)
    codes, decoder = predictor.codes, decoder_shape(codec, predictor.groups, predictor.codes)
    rate = codec.whole("output_sample_rate", 192_000, 8_000)
    codec.at_most("frames per second", rate // decoder.samples_per_frame, FRAME_RATE)
    at = given["languages"]
    languages = {name.lower(): at.whole(name, shape.vocabulary - 1, codes) for name in at.values}
    config = Config(
        kinds=kinds,
        obeys_style="named" in kinds and (large if ours.style is None else ours.style),
        talker=shape,
        predictor=predictor,
        decoder=decoder,
        text=text_ids(top, given["text_vocabulary"]),
        control=control_ids(talker, shape, codes, (*CONTROL_KEYS, "think")),
        language_ids=languages,
        languages=_offered(ours, languages),
        speakers=_speakers(given["speakers"], given["dialects"], ours, languages, shape.vocabulary),
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


SAMPLING = drawn("") | {
    "predictor_temperature": (Fields.number, "subtalker_temperature", 0, 100, 0.9),
    "predictor_top_k": (Fields.whole, "subtalker_top_k", 2**31, 0, 50),
    "predictor_top_p": (Fields.number, "subtalker_top_p", 0, 1, 1.0),
}
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
