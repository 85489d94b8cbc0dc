"""Config: what config.json of a model folder says about speaking, checked, as the shapes that the models take.

Everything is read or refused, nothing falls back to a class default: upstream's defaults for this family
(32 code groups, control ids from 4196 on, eight experts per row) are not what was released. Two spellings
of some keys are in use, since newer libraries write them anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.fields import (
    CODES,
    GROUPS,
    POSITIONS,
    SAMPLES_PER_FRAME,
    TOKENS,
    WIDTH,
    Fields,
    TextIds,
    same_tokens,
    stack_shape,
    text_ids,
    upsampling_fields,
)
from omnitts_cli.families.qwen3_omni.released import DEFAULT_VOICE, FAMILY, LANGUAGES, PREDICTOR_SAMPLING, VOICES
from omnitts_cli.models.shapes import Code2WavShape, ExpertShape, PredictorShape, TalkerShape
from omnitts_cli.request import Sampling

SAMPLE_RATE = 24_000
"""In no file of the release."""

EXPERTS = 1024
PARAMETERS = 2**36


@dataclass(frozen=True)
class ControlIds:
    """Entries of group 0's vocabulary that are not sound."""

    pad: int
    begin: int
    end: int
    no_think: int
    think_begin: int
    think_end: int


@dataclass(frozen=True)
class Config:
    """One model folder in our words."""

    file: Path
    talker: TalkerShape
    predictor: PredictorShape
    codec: Code2WavShape
    text_vocabulary: int
    text_width: int
    text_inner: int
    text: TextIds
    control: ControlIds
    speakers: dict[str, int]  # by lower-case name, the default one first
    about: dict[str, str]
    languages: tuple[str, ...]
    max_positions: int
    sampling: Sampling


def read_config(folder: Path) -> Config:
    """The JSON files of a model folder."""
    generation = Fields.read(folder / "generation_config.json", optional=True)
    config = config_of(Fields.read(folder / "config.json"), generation)
    same_tokens(folder, config.text)
    return config


def config_of(top: Fields, generation: Fields) -> Config:
    """The same, already parsed."""
    top.word("model_type", [FAMILY])
    _can_speak(top)
    talker, thinker = top.part("talker_config"), top.part("thinker_config").part("text_config")
    at, predictor = talker.part("text_config"), talker.part("code_predictor_config")
    talker_stack, stack = stack_shape(at, experts_shape(at)), stack_shape(predictor)
    if talker_stack.hidden != stack.hidden:
        raise predictor.problem(
            "hidden_size", f"{stack.hidden} is not that of the talker, which is {talker_stack.hidden}"
        )
    groups, codes = talker.whole("num_code_groups", GROUPS, 2), predictor.whole("vocab_size", CODES, 2)
    predictor.agree("num_code_groups", groups, f"{talker.path}.num_code_groups")
    vocabulary, text_vocabulary = at.whole("vocab_size", CODES, codes + 1), thinker.whole("vocab_size", TOKENS)
    talker.agree("thinker_hidden_size", thinker.whole("hidden_size", WIDTH), f"{thinker.path}.hidden_size")
    speakers = _speakers(talker, codes, vocabulary)
    config = Config(
        file=top.file,
        talker=TalkerShape(talker_stack, vocabulary),
        predictor=PredictorShape(stack, talker_stack.hidden, groups, codes),
        codec=_codec(top.part("code2wav_config"), groups, codes),
        text_vocabulary=text_vocabulary,
        text_width=thinker.whole("hidden_size", WIDTH),
        text_inner=at.whole("intermediate_size", 8 * WIDTH),
        text=text_ids(top, text_vocabulary),
        control=_control_ids(talker, codes, vocabulary),
        speakers=speakers,
        about={name: VOICES.get(name, "") for name in speakers},
        languages=LANGUAGES,
        max_positions=at.whole("max_position_embeddings", POSITIONS, 16),
        sampling=_sampling(generation),
    )
    _sane_size(top, config)
    return config


def _can_speak(top: Fields) -> None:
    """The family has members that only write; theirs is the same model_type."""
    if not top.flag("enable_audio_output", True) or not (top.has("talker_config") and top.has("code2wav_config")):
        raise ModelError(
            f"{top.file}: this model listens and writes, but has no talker and cannot speak",
            hint="of its family, Qwen3-Omni-30B-A3B-Instruct can: -m omni",
        )


def experts_shape(at: Fields, shared: int | None = None) -> ExpertShape:
    """A block of experts; `shared`: the width of the shared expert, which talkers write in their config."""
    at.must_be(decoder_sparse_step=1, mlp_only_layers=[])
    if not at.has("norm_topk_prob"):
        raise at.problem("norm_topk_prob", "is missing")
    count = at.whole("num_local_experts" if at.has("num_local_experts") else "num_experts", EXPERTS)
    return ExpertShape(
        count=count,
        chosen=at.whole("num_experts_per_tok", count),
        inner=at.whole("moe_intermediate_size", WIDTH),
        shared=at.whole("shared_expert_intermediate_size", WIDTH) if shared is None else shared,
        renormalised=at.flag("norm_topk_prob", True),
    )


def _codec(at: Fields, groups: int, codes: int) -> Code2WavShape:
    shape = Code2WavShape(**upsampling_fields(at, groups, codes, shared_width=True))
    at.at_most("the product of the upsampling rates", shape.samples_per_frame, SAMPLES_PER_FRAME)
    at.at_most("samples lost at the beginning", shape.missing_samples, shape.samples_per_frame - 1)
    return shape


def _control_ids(talker: Fields, codes: int, vocabulary: int) -> ControlIds:
    def control(key: str) -> int:
        return talker.whole(key, vocabulary - 1, codes)

    return ControlIds(
        pad=control("codec_pad_id"),
        begin=control("codec_bos_id"),
        end=control("codec_eos_token_id"),
        no_think=control("codec_nothink_id"),
        think_begin=control("codec_think_bos_id"),
        think_end=control("codec_think_eos_id"),
    )


def _speakers(talker: Fields, codes: int, vocabulary: int) -> dict[str, int]:
    at = talker.part("speaker_id")
    ids = {name.lower(): at.whole(name, vocabulary - 1, codes) for name in at.values}
    if not ids:
        raise talker.problem("speaker_id", "names no speaker")
    return dict(sorted(ids.items(), key=lambda item: item[0] != DEFAULT_VOICE))


def _sampling(at: Fields) -> Sampling:
    """The talker's own way of drawing codes is in a file; the predictor's is upstream's code."""
    return Sampling(
        temperature=at.number("talker_temperature", 0, 100, 0.9),
        top_k=at.whole("talker_top_k", 2**31, 0, 50),
        top_p=at.number("talker_top_p", 0, 1, 1.0),
        repetition_penalty=at.number("talker_repetition_penalty", 0.01, 100, 1.05),
        **PREDICTOR_SAMPLING,
    )


def _sane_size(top: Fields, config: Config) -> None:
    """Each size may be large, but not all at once."""
    stack = config.talker.stack
    assert stack.experts is not None
    experts = stack.layers * stack.experts.count * 3 * stack.experts.inner * stack.hidden
    if (total := experts + config.text_vocabulary * config.text_width) > PARAMETERS:
        raise top.problem(None, f"describes {total:.1e} parameters; not a model of this family")
