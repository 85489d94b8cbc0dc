"""Config: what the JSON files of a model folder say, checked, as the shapes that the models take.

Nothing is assumed of a size or an id: each comes from the files. Our own folders may add one object,
`omnitts`, to config.json:

    "omnitts": {
        "kinds": ["named", "cloned", "designed"],   voices that this one folder can speak
        "languages": ["english"],                   those of codec_language_id that it was trained for
        "voices": {"ann": "a calm, low voice"},     one line about a speaker
        "style": true                               whether named voices obey an instruction
    }
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omnitts_cli.families.qwen3_tts.fields import Fields
from omnitts_cli.families.qwen3_tts.released import KINDS, VOICES
from omnitts_cli.models.codec_decoder import DecoderShape
from omnitts_cli.models.codec_encoder import EncoderShape
from omnitts_cli.models.codec_transformer import TransformerShape
from omnitts_cli.models.layers import StackShape
from omnitts_cli.models.mel import MelShape
from omnitts_cli.models.predictor import PredictorShape
from omnitts_cli.models.speaker import SpeakerShape
from omnitts_cli.models.talker import TalkerShape
from omnitts_cli.request import Sampling

# Far above every model of the family, far below what could exhaust a machine before the weights are compared.
WIDTH, LAYERS, HEADS, GROUPS = 2**15, 256, 256, 64
CODES, TOKENS, POSITIONS = 2**16, 2**21, 2**20
KEYS, WINDOW_KEYS = 2**18, 2**24  # numbers kept per position of a request, and per stream of sound
RATE, RATES, SAMPLES_PER_FRAME = 64, 8, 2**15
PARAMETERS = 2**36

FAMILY = "qwen3_tts"
CODEC = "qwen3_tts_tokenizer_12hz"
CODEC_FOLDER = "speech_tokenizer"


@dataclass(frozen=True)
class ControlIds:
    """Entries of group 0's vocabulary that are no sound."""

    pad: int
    begin: int
    end: int
    think: int
    no_think: int
    think_begin: int
    think_end: int


@dataclass(frozen=True)
class TextIds:
    """Tokens that the template places by number."""

    start: int  # of a turn
    stop: int
    assistant: int
    pad: int
    begin: int
    end: int


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
    encoder: EncoderShape | None  # for cloning
    speaker_encoder: SpeakerShape | None
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


def read_config(folder: Path) -> Config:
    """The three JSON files of a model folder."""
    generation, tokens = folder / "generation_config.json", folder / "tokenizer_config.json"
    config = config_of(
        Fields.read(folder / "config.json"),
        Fields.read(folder / CODEC_FOLDER / "config.json"),
        Fields.read(generation) if generation.exists() else Fields(generation, {}),
    )
    if tokens.exists():
        _same_tokens(Fields.read(tokens), config)
    return config


def config_of(top: Fields, codec: Fields, generation: Fields) -> Config:
    """The same three, already parsed."""
    top.word("model_type", [FAMILY])
    top.word("tokenizer_type", [CODEC])
    ours = top.part("omnitts") if top.has("omnitts") else Fields(top.file, {}, "omnitts")
    kinds = _kinds(top, ours)
    talker = top.part("talker_config")
    predictor = talker.part("code_predictor_config")
    heard, stack = _stack(talker), _stack(predictor)
    groups, codes = talker.whole("num_code_groups", GROUPS, 2), predictor.whole("vocab_size", CODES, 2)
    _agree(predictor, "num_code_groups", groups, f"{talker.path}.num_code_groups")
    vocabulary = talker.whole("vocab_size", CODES, codes + 1)
    text_vocabulary = talker.whole("text_vocab_size", TOKENS)
    decoder, rate = _decoder(codec, groups, codes), codec.whole("output_sample_rate", 192_000, 8_000)
    languages = _languages(talker, codes, vocabulary)
    config = Config(
        file=top.file,
        kinds=kinds,
        obeys_style="named" in kinds and ours.flag("style", top.values.get("tts_model_size") != "0b6"),
        talker=TalkerShape(heard, vocabulary),
        predictor=PredictorShape(stack, heard.hidden, groups, codes),
        decoder=decoder,
        encoder=_encoder(codec, groups, codes, decoder.samples_per_frame) if "cloned" in kinds else None,
        speaker_encoder=_speaker_encoder(top, heard.hidden, rate) if "cloned" in kinds else None,
        text_vocabulary=text_vocabulary,
        text_width=talker.whole("text_hidden_size", WIDTH),
        text=_text_ids(top, text_vocabulary),
        control=_control_ids(talker, codes, vocabulary),
        language_ids=languages,
        languages=_offered(ours, languages),
        speakers=_speakers(talker, ours, languages, vocabulary),
        max_positions=talker.whole("max_position_embeddings", POSITIONS, 16),
        sample_rate=rate,
        sampling=_sampling(generation),
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


def _stack(at: Fields) -> StackShape:
    """A decoder stack. Its rotation is the plain one: the three axes of the talker's are always equal in speech."""
    at.must_be("hidden_act", "silu")
    at.must_be("attention_bias", False)
    at.must_be("use_sliding_window", False)
    at.must_be("tie_word_embeddings", False)
    if at.has("rope_scaling"):
        scaling = at.part("rope_scaling")
        scaling.must_be("rope_type", "default")
        scaling.must_be("type", "default")
    shape = StackShape(
        hidden=at.whole("hidden_size", WIDTH),
        inner=at.whole("intermediate_size", 8 * WIDTH),
        layers=at.whole("num_hidden_layers", LAYERS),
        heads=at.whole("num_attention_heads", HEADS),
        kv_heads=at.whole("num_key_value_heads", HEADS),
        head_dim=_even(at, "head_dim"),
        eps=at.number("rms_norm_eps", 1e-12, 0.1),
        rope_theta=at.number("rope_theta", 1.0, 1e12),
    )
    _divides(at, "num_key_value_heads", shape.kv_heads, "num_attention_heads", shape.heads)
    _at_most(at, "num_attention_heads x head_dim", shape.heads * shape.head_dim, WIDTH)
    _at_most(at, "keys of one position", shape.layers * shape.kv_heads * shape.head_dim, KEYS)
    return shape


def _decoder(codec: Fields, groups: int, codes: int) -> DecoderShape:
    codec.word("model_type", [CODEC])
    at = codec.part("decoder_config")
    at.must_be("hidden_act", "silu")
    at.must_be("attention_bias", False)
    at.must_be("num_semantic_quantizers", 1)
    _agree(at, "num_quantizers", groups, "talker_config.num_code_groups")
    _agree(at, "codebook_size", codes, "talker_config.code_predictor_config.vocab_size")
    _agree(at, "num_key_value_heads", at.whole("num_attention_heads", HEADS), "num_attention_heads")
    width, rises = at.whole("decoder_dim", WIDTH), at.wholes("upsample_rates", RATE, RATES)
    if width % 2 ** len(rises):
        raise at.problem("decoder_dim", f"{width} cannot be halved {len(rises)} times, once for each of upsample_rates")
    quantised = at.whole("codebook_dim", WIDTH, 2)
    if quantised % 2:
        raise at.problem("codebook_dim", f"{quantised} is odd; codes are stored at half this width")
    shape = DecoderShape(
        groups=groups,
        codes=codes,
        book_width=quantised // 2,
        quantised=quantised,
        latent=at.whole("latent_dim", WIDTH),
        width=width,
        transformer=_transformer(at, "rms_norm_eps"),
        window=at.whole("sliding_window", 4096),
        stretches=at.wholes("upsampling_ratios", RATE, RATES),
        rises=rises,
    )
    _agree(codec, "decode_upsample_rate", shape.samples_per_frame, "the product of the upsampling rates")
    _at_most(codec, "decode_upsample_rate", shape.samples_per_frame, SAMPLES_PER_FRAME)
    past = shape.transformer.layers * shape.window * shape.transformer.heads * shape.transformer.head_dim
    _at_most(at, "keys of the sliding_window", past, WINDOW_KEYS)
    return shape


def _encoder(codec: Fields, groups: int, codes: int, samples_per_frame: int) -> EncoderShape:
    at = codec.part("encoder_config")
    for key, only in _ENCODER_CHOICES.items():
        at.must_be(key, only)
    _agree(codec, "encoder_valid_num_quantizers", groups, "talker_config.num_code_groups")
    _agree(codec, "input_sample_rate", codec.whole("output_sample_rate", 192_000), "output_sample_rate")
    _agree(at, "codebook_size", codes, "talker_config.code_predictor_config.vocab_size")
    _agree(at, "num_key_value_heads", at.whole("num_attention_heads", HEADS), "num_attention_heads")
    if (books := at.whole("num_quantizers", 4 * GROUPS)) < groups:
        raise at.problem("num_quantizers", f"{books} are fewer than the {groups} code groups")
    shape = EncoderShape(
        groups=groups,
        codes=codes,
        book_width=at.whole("codebook_dim", WIDTH),
        filters=at.whole("num_filters", WIDTH),
        falls=at.wholes("upsampling_ratios", RATE, RATES)[::-1],  # stored in the order of the way back
        transformer=_transformer(at, "norm_eps"),
        dilations=_dilations(at),
        kernel=at.whole("kernel_size", 64),
        unit_kernel=at.whole("residual_kernel_size", 64),
        closing_kernel=at.whole("last_kernel_size", 64),
        squeeze=at.whole("compress", 64),
    )
    _divides(at, "compress", shape.squeeze, "num_filters", shape.filters)
    if shape.samples_per_frame != samples_per_frame:
        raise at.problem(
            "upsampling_ratios", f"make frames of {shape.samples_per_frame} samples, not {samples_per_frame}"
        )
    return shape


_ENCODER_CHOICES: dict[str, object] = {
    "hidden_act": "gelu",
    "attention_bias": False,
    "num_semantic_quantizers": 1,
    "audio_channels": 1,
    "pad_mode": "constant",
    "use_causal_conv": True,
    "use_conv_shortcut": False,
    "normalize": False,
}


def _dilations(at: Fields) -> tuple[int, ...]:
    growth = at.whole("dilation_growth_rate", 8)
    return tuple(growth**unit for unit in range(at.whole("num_residual_layers", 4)))


def _transformer(at: Fields, eps: str) -> TransformerShape:
    return TransformerShape(
        hidden=at.whole("hidden_size", WIDTH),
        inner=at.whole("intermediate_size", 8 * WIDTH),
        layers=at.whole("num_hidden_layers", LAYERS),
        heads=at.whole("num_attention_heads", HEADS),
        head_dim=_even(at, "head_dim"),
        eps=at.number(eps, 1e-12, 0.1),
        rope_theta=at.number("rope_theta", 1.0, 1e12),
    )


def _speaker_encoder(top: Fields, hidden: int, rate: int) -> SpeakerShape:
    """Published files name two values and leave the rest to these defaults.

    The vector is used as a row of the prompt, so its width is the talker's, whatever `enc_dim` says; the
    stored weights are compared with it.
    """
    at, usual = top.part("speaker_encoder_config"), SpeakerShape(hidden)
    blocks = len(usual.channels)
    shape = SpeakerShape(
        embedding=hidden,
        channels=at.wholes("enc_channels", WIDTH, blocks, usual.channels),
        kernels=at.wholes("enc_kernel_sizes", 64, blocks, usual.kernels),
        dilations=at.wholes("enc_dilations", 64, blocks, usual.dilations),
        parts=at.whole("enc_res2net_scale", 64, 2, usual.parts),
        gate=at.whole("enc_se_channels", WIDTH, 1, usual.gate),
        attention=at.whole("enc_attention_channels", WIDTH, 1, usual.attention),
        mel=MelShape(rate, bands=at.whole("mel_dim", 1024, 1, MelShape().bands), highest=rate / 2),
    )
    at.must_be("sample_rate", rate)
    if not len(shape.channels) == len(shape.kernels) == len(shape.dilations) == blocks:
        raise at.problem("enc_channels", f"with kernel sizes and dilations, must have {blocks} entries each")
    inside = shape.channels[:-1]
    if len(set(inside)) > 1:
        raise at.problem("enc_channels", f"{list(inside)} differ, but blocks add to what they hear")
    _divides(at, "enc_res2net_scale", shape.parts, "enc_channels", inside[0])
    return shape


def _even(at: Fields, key: str) -> int:
    value = at.whole(key, 1024, 2)
    if value % 2:
        raise at.problem(key, f"{value} is odd; rotation works on halves")
    return value


def _agree(at: Fields, key: str, other: int, place: str) -> None:
    if (value := at.whole(key, 2**31)) != other:
        raise at.problem(key, f"{value} does not agree with {place}, which is {other}")


def _at_most(at: Fields, key: str, value: int, most: int) -> None:
    if value > most:
        raise at.problem(key, f"{value} is more than {most}; that is no model of this family")


def _divides(at: Fields, small: str, part: int, large: str, whole: int) -> None:
    if whole % part:
        raise at.problem(small, f"{part} does not divide {large}, which is {whole}")


def _text_ids(top: Fields, vocabulary: int) -> TextIds:
    def token(key: str) -> int:
        return top.whole(f"{key}_token_id", vocabulary - 1, 0)

    return TextIds(
        start=token("im_start"),
        stop=token("im_end"),
        assistant=token("assistant"),
        pad=token("tts_pad"),
        begin=token("tts_bos"),
        end=token("tts_eos"),
    )


def _same_tokens(tokenizer: Fields, config: Config) -> None:
    """config.json names the tokens of the template by number, the tokenizer by word: they must agree."""
    if not tokenizer.has("added_tokens_decoder"):
        return
    added = tokenizer.part("added_tokens_decoder")
    for word, id in {
        "<|im_start|>": config.text.start,
        "<|im_end|>": config.text.stop,
        "<tts_pad>": config.text.pad,
        "<tts_text_bos>": config.text.begin,
        "<tts_text_eod>": config.text.end,
    }.items():
        entry = added.part(str(id)) if added.has(str(id)) else None
        if entry is not None and entry.text("content") != word:
            raise added.problem(str(id), f"{entry.text('content')!a} is not {word}, which config.json has at {id}")


def _control_ids(talker: Fields, codes: int, vocabulary: int) -> ControlIds:
    def control(key: str) -> int:
        return talker.whole(key, vocabulary - 1, codes)

    return ControlIds(
        pad=control("codec_pad_id"),
        begin=control("codec_bos_id"),
        end=control("codec_eos_token_id"),
        think=control("codec_think_id"),
        no_think=control("codec_nothink_id"),
        think_begin=control("codec_think_bos_id"),
        think_end=control("codec_think_eos_id"),
    )


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
    if not talker.has("spk_id"):
        return {}
    at = talker.part("spk_id")
    dialects = talker.part("spk_is_dialect") if talker.has("spk_is_dialect") else Fields(talker.file, {})
    lines = ours.part("voices") if ours.has("voices") else Fields(ours.file, {}, "omnitts.voices")
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
        raise top.problem(None, f"describes {layers + tables:.1e} parameters; that is no model of this family")
