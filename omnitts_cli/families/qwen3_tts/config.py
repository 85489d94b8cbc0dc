"""Config: what the JSON files of a model folder say, checked, as the shapes that the models take.

Nothing is assumed of a size or an id: each comes from the files. What only cloning needs is
read when the first clip is cloned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from omnitts_cli.families.common.fields import (
    CODES,
    GROUPS,
    POSITIONS,
    TOKENS,
    WIDTH,
    Fields,
    TextIds,
    longest_piece,
    ours_in,
    plain_letters,
    same_tokens,
    text_ids,
    text_input,
)
from omnitts_cli.families.common.names import SAMPLES_PER_FRAME, stack_shape, upsampling_fields
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
    """The three JSON files of a model folder."""
    generation, tokens = folder / "generation_config.json", folder / "tokenizer_config.json"
    config = config_of(
        Fields.read(folder / "config.json"),
        Fields.read(folder / CODEC_FOLDER / "config.json"),
        Fields.read(generation) if generation.exists() else Fields(generation, {}),
    )
    if tokens.exists():
        same_tokens(Fields.read(tokens), config.text)
    return config


def config_of(top: Fields, codec: Fields, generation: Fields) -> Config:
    """The same three, already parsed."""
    top.word("model_type", [FAMILY])
    top.word("tokenizer_type", [CODEC])
    ours = ours_in(top)
    kinds = _kinds(top, ours)
    talker = top.part("talker_config")
    predictor = talker.part("code_predictor_config")
    talker_stack, stack = stack_shape(talker), stack_shape(predictor)
    groups, codes = talker.whole("num_code_groups", GROUPS, 2), predictor.whole("vocab_size", CODES, 2)
    predictor.agree("num_code_groups", groups, f"{talker.path}.num_code_groups")
    vocabulary = talker.whole("vocab_size", CODES, codes + 1)
    text_vocabulary = talker.whole("text_vocab_size", TOKENS)
    decoder, rate = decoder_shape(codec, groups, codes), codec.whole("output_sample_rate", 192_000, 8_000)
    codec.at_most("frames per second", rate // decoder.samples_per_frame, FRAME_RATE)
    languages = _languages(talker, codes, vocabulary)
    config = Config(
        file=top.file,
        kinds=kinds,
        obeys_style="named" in kinds and ours.flag("style", top.values.get("tts_model_size") != "0b6"),
        talker=TalkerShape(talker_stack, vocabulary),
        predictor=PredictorShape(stack, talker_stack.hidden, groups, codes),
        decoder=decoder,
        text_vocabulary=text_vocabulary,
        text_width=talker.whole("text_hidden_size", WIDTH),
        text=text_ids(top, text_vocabulary),
        control=_control_ids(talker, codes, vocabulary),
        language_ids=languages,
        languages=_offered(ours, languages),
        speakers=_speakers(talker, ours, languages, vocabulary),
        max_positions=talker.whole("max_position_embeddings", POSITIONS, 16),
        sample_rate=rate,
        sampling=_sampling(generation),
        longest_piece=longest_piece(ours),
        plain_letters=plain_letters(ours),
        text_input=text_input(ours),
        top=top,
        codec=codec,
    )
    _sane_size(top, config)
    return config


def _kinds(top: Fields, ours: Fields) -> frozenset[str]:
    kind = KINDS[top.word("tts_model_type", list(KINDS))]
    if not ours.has("kinds"):
        return frozenset([kind])
    kinds = ours.words("kinds")
    if unknown := set(kinds) - set(KINDS.values()):
        raise ours.problem("kinds", f"{min(unknown)!a} is not one of {', '.join(KINDS.values())}")
    return frozenset(kinds) or frozenset([kind])


def _control_ids(talker: Fields, codes: int, vocabulary: int) -> ControlIds:
    return ControlIds(*(talker.whole(f"codec_{key}_id", vocabulary - 1, codes) for key in CONTROL_KEYS))


def _languages(talker: Fields, codes: int, vocabulary: int) -> dict[str, int]:
    at = talker.part("codec_language_id")
    return {name.lower(): at.whole(name, vocabulary - 1, codes) for name in at.values}


def _offered(ours: Fields, known: dict[str, int]) -> tuple[str, ...]:
    """What a request may ask for: dialects come with a speaker, not by name."""
    if not ours.has("languages"):
        return tuple(name for name in known if "dialect" not in name)
    names = tuple(name.lower() for name in ours.words("languages"))
    if unknown := set(names) - known.keys():
        raise ours.problem("languages", f"{min(unknown)!a} is not in codec_language_id")
    return names


def _speakers(talker: Fields, ours: Fields, languages: dict[str, int], vocabulary: int) -> dict[str, Speaker]:
    """Speakers by lower-case name: fine-tuned folders store capitals, and requests may write what they like."""
    at, dialects, lines = talker.part("spk_id", {}), talker.part("spk_is_dialect", {}), ours.part("voices", {})
    about = {name.lower(): lines.text(name) for name in lines.values}
    speakers: dict[str, Speaker] = {}
    for name in at.values:
        if name.lower() in speakers:
            raise at.problem(name, "is there twice, in capitals and not")
        dialect = _dialect(dialects, name, languages)
        line = about.get(name.lower(), "" if ours.values else VOICES.get(name.lower(), ""))
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


def _sampling(at: Fields) -> Sampling:
    """The model's own way of drawing codes; the published defaults where the file is silent."""
    draws, predictor_draws = at.flag("do_sample", True), at.flag("subtalker_dosample", True)
    temperature, predictor_temperature = (at.number(f"{who}temperature", 0, 100, 0.9) for who in ("", "subtalker_"))
    return Sampling(
        temperature=temperature if draws else 0.0,
        top_k=at.whole("top_k", 2**31, 0, 50),
        top_p=at.number("top_p", 0, 1, 1.0),
        repetition_penalty=at.number("repetition_penalty", 0.01, 100, 1.05),
        predictor_temperature=predictor_temperature if predictor_draws else 0.0,
        predictor_top_k=at.whole("subtalker_top_k", 2**31, 0, 50),
        predictor_top_p=at.number("subtalker_top_p", 0, 1, 1.0),
    )


def _sane_size(top: Fields, config: Config) -> None:
    """Each size may be large, but not all at once."""
    stacks = (config.talker.stack, config.predictor.stack)
    layers = sum(s.layers * s.hidden * (2 * (s.heads + s.kv_heads) * s.head_dim + 3 * s.inner) for s in stacks)
    tables = config.text_vocabulary * config.text_width
    tables += config.predictor.groups * config.predictor.codes * (stacks[0].hidden + stacks[1].hidden)
    if layers + tables > PARAMETERS:
        raise top.problem(None, f"describes {layers + tables:.1e} parameters; not a model of this family")


CODEC = "qwen3_tts_tokenizer_12hz"
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
