"""Config: what config.json of a model folder says about speaking, checked, as the shapes that the models take.

Everything is read or refused, nothing falls back to a class default: upstream's defaults for this family
(32 code groups, control ids from 4196 on, eight experts per row) are not what was released. Two spellings
of some keys are in use, since newer libraries write them anew.
"""

from dataclasses import dataclass
from pathlib import Path

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.fields import (
    PARAMETERS,
    POSITIONS,
    SAMPLES_PER_FRAME,
    TOKENS,
    WIDTH,
    Fields,
    Speaker,
    SpeechConfig,
    control_ids,
    drawn,
    language_shapes,
    same_tokens,
    text_ids,
    upsampling_fields,
)
from omnitts_cli.families.qwen3_omni.released import DEFAULT_VOICE, FAMILY, LANGUAGES, PREDICTOR_SAMPLING, VOICES
from omnitts_cli.models.shapes import Code2WavShape, ExpertShape, TalkerShape
from omnitts_cli.request import Sampling

SAMPLE_RATE = 24_000
"""In no file of the release."""

EXPERTS = 1024


@dataclass(frozen=True, kw_only=True)
class Config(SpeechConfig):
    """The settings of a model folder, under our names. The first speaker is the default."""

    decoder: Code2WavShape
    text_inner: int


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
    at = talker.part("text_config")
    shape, predictor = language_shapes(talker, at, experts_shape(at))
    if shape.stack.hidden != predictor.stack.hidden:
        raise talker.part("code_predictor_config").problem(
            "hidden_size", f"{predictor.stack.hidden} is not that of the talker, which is {shape.stack.hidden}"
        )
    text_vocabulary = thinker.whole("vocab_size", TOKENS)
    talker.agree("thinker_hidden_size", thinker.whole("hidden_size", WIDTH), f"{thinker.path}.hidden_size")
    config = Config(
        talker=shape,
        predictor=predictor,
        decoder=_codec(top.part("code2wav_config"), predictor.groups, predictor.codes),
        text_vocabulary=text_vocabulary,
        text_width=thinker.whole("hidden_size", WIDTH),
        text_inner=at.whole("intermediate_size", 8 * WIDTH),
        text=text_ids(top, text_vocabulary),
        control=control_ids(talker, shape, predictor.codes),
        speakers=_speakers(talker, predictor.codes, shape),
        languages=LANGUAGES,
        max_positions=at.whole("max_position_embeddings", POSITIONS, 16),
        sample_rate=SAMPLE_RATE,
        sampling=Sampling(**generation.each(drawn("talker_")), **PREDICTOR_SAMPLING),  # the predictor's is in no file
        least_frames=0,
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


def _speakers(talker: Fields, codes: int, shape: TalkerShape) -> dict[str, Speaker]:
    at = talker.part("speaker_id")
    ids = {name.lower(): at.whole(name, shape.vocabulary - 1, codes) for name in at.values}
    if not ids:
        raise talker.problem("speaker_id", "names no speaker")
    ordered = sorted(ids.items(), key=lambda item: item[0] != DEFAULT_VOICE)
    return {name: Speaker(id, None, VOICES.get(name, "")) for name, id in ordered}


def _sane_size(top: Fields, config: Config) -> None:
    """Each size may be large, but not all at once."""
    stack = config.talker.stack
    assert stack.experts is not None
    experts = stack.layers * stack.experts.count * 3 * stack.experts.inner * stack.hidden
    if (total := experts + config.text_vocabulary * config.text_width) > PARAMETERS:
        raise top.problem(None, f"describes {total:.1e} parameters; not a model of this family")
