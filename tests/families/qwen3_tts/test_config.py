"""Config: what is read, and that no config.json, however wrong, ends in anything but one error of ours."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from golden_set import checkpoint
from greedy import likeliest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_paths import put

from omnitts_cli.errors import ModelError
from omnitts_cli.families.common.fields import Fields, Speaker
from omnitts_cli.families.common.tokenizer import TextTokenizer, byte_vocabulary
from omnitts_cli.families.qwen3_tts import released
from omnitts_cli.families.qwen3_tts.config import Config, config_of, read_config
from omnitts_cli.families.qwen3_tts.modules import assemble, parts
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request, Sampling
from omnitts_cli.voices import Designed, Named

Files = dict[str, dict[str, Any]]


def files(folder: Path) -> Files:
    names = {"top": "config.json", "codec": "speech_tokenizer/config.json", "generation": "generation_config.json"}
    return {key: json.loads((folder / name).read_text(encoding="utf-8")) for key, name in names.items()}


def read(files: Files) -> Config:
    config = config_of(*(Fields(Path(f"{key}.json"), files[key]) for key in ("top", "codec", "generation")))
    assert (config.encoder is None) == (config.speaker_encoder is None)  # read late, where a clip is cloned
    return config


@pytest.fixture(scope="session")
def base() -> Files:
    return files(checkpoint("base"))


@pytest.fixture(scope="session")
def named() -> Files:
    return files(checkpoint("custom_voice"))


def test_a_named_model(named: Files) -> None:
    config = read(named)
    assert config.kinds == {"named"} and config.obeys_style
    assert config.encoder is None and config.speaker_encoder is None
    assert config.speakers["eric"] == Speaker(891, "sichuan_dialect", "native language Chinese, Sichuan dialect")
    assert "sichuan_dialect" in config.language_ids and "sichuan_dialect" not in config.languages
    assert len(config.languages) == 10
    assert config.facts.end_code == 166 and config.facts.codes == 64 and config.facts.frame_rate == 12.5
    assert config.sampling == Sampling(0.9, 50, 1.0, 1.05, 0.9, 50, 1.0)


@pytest.mark.parametrize(("name", "kind"), [("voice_design", "designed"), ("base", "cloned"), ("base_large", "cloned")])
def test_the_other_kinds(name: str, kind: str) -> None:
    config = read_config(checkpoint(name))
    assert config.kinds == {kind} and not config.obeys_style and not config.speakers
    assert (config.encoder is None) == (config.speaker_encoder is None) == (kind != "cloned")


def test_what_our_own_folders_add(named: Files) -> None:
    assert read(named).longest_piece is None and not read(named).plain_letters
    config = read(put(named, "top.omnitts", {"longest_piece": 110, "plain_letters": True}))
    assert config.longest_piece == 110 and config.plain_letters and config.text_input is None
    assert read(put(named, "top.omnitts", {"text_input": "phonemes-en-us"})).text_input == "phonemes-en-us"


def test_the_released_sizes() -> None:
    for name in released.NAMES:
        config = read({"top": released.model_config(name), "codec": released.codec_config(), "generation": {}})
        count = sum(p.numel() for p in parts(config).language.module.parameters())
        assert config.obeys_style == (name == "1.7b-customvoice")
        # the figures of the published files, less the speaker encoder of the Base models
        assert count == {"0.6b": 905_788_672, "1.7b": 1_916_676_352}[name.split("-")[0]]
        if speaker := parts(config).speaker:
            published = {"0.6b-base": 914_643_008, "1.7b-base": 1_928_677_440}[name]
            assert count + sum(p.numel() for p in speaker.module.parameters()) == published


def test_a_generation_config_may_be_silent_or_greedy(base: Files) -> None:
    """Silence means the published defaults."""
    assert read(base | {"generation": {}}).sampling == read(base).sampling
    sampling = read(base | {"generation": {"do_sample": False, "subtalker_temperature": 0.5}}).sampling
    assert sampling.temperature == 0.0 and sampling.predictor_temperature == 0.5


WRONG = [
    ("top.model_type", "qwen3_omni", "qwen3_tts"),
    ("top.tokenizer_type", "qwen3_tts_tokenizer_25hz", "qwen3_tts_tokenizer_12hz"),
    ("top.tts_model_type", "singer", "custom_voice"),
    ("top.tts_model_type", ..., "missing"),
    ("top.talker_config", [], "not an object"),
    ("top.talker_config", ..., "missing"),
    ("top.im_end_token_id", 640, "from 0 to 639"),
    ("top.tts_pad_token_id", "427", "whole number"),
    ("top.speaker_encoder_config", ..., "missing"),
    ("top.talker_config.hidden_size", ..., "missing"),
    ("top.talker_config.hidden_size", 64.0, "whole number"),
    ("top.talker_config.hidden_size", True, "whole number"),
    ("top.talker_config.hidden_size", -64, "whole number"),
    ("top.talker_config.hidden_size", 10**30, "whole number"),
    ("top.talker_config.num_hidden_layers", 10**6, "whole number"),
    ("top.talker_config.num_key_value_heads", 3, "divide"),
    ("top.talker_config.head_dim", 31, "odd"),
    ("top.talker_config.hidden_act", "gelu", "silu"),
    ("top.talker_config.attention_bias", True, "False"),
    ("top.talker_config.use_sliding_window", True, "False"),
    ("top.talker_config.rope_scaling", {"rope_type": "yarn"}, "'yarn' is not supported"),
    ("top.talker_config.rope_theta", 0, "number"),
    ("top.talker_config.rope_theta", math.nan, "number"),
    ("top.talker_config.rms_norm_eps", "tiny", "number"),
    ("top.talker_config.vocab_size", 64, "from 65"),
    ("top.talker_config.codec_eos_token_id", 1088, "from 64 to 1087"),
    ("top.talker_config.codec_bos_id", 63, "from 64"),
    ("top.talker_config.codec_language_id", {"english": 5000}, "english"),
    ("top.talker_config.spk_id", {"ann": 1088}, "ann"),
    ("top.talker_config.spk_id", {"ann": 900, "Ann": 901}, "twice"),
    ("top.talker_config.num_code_groups", 15, "does not agree"),
    ("top.talker_config.num_code_groups", 65, "from 2 to 64"),
    ("top.talker_config.code_predictor_config.num_code_groups", 8, "does not agree"),
    ("top.talker_config.code_predictor_config.vocab_size", 32, "does not agree"),
    ("top.speaker_encoder_config.enc_channels", [32, 32, 16, 32, 96], "differ"),
    ("top.speaker_encoder_config.enc_channels", [32, 96], "entries"),
    ("top.speaker_encoder_config.enc_res2net_scale", 5, "divide"),
    ("top.speaker_encoder_config.sample_rate", 16_000, "24000"),
    ("top.omnitts", {"kinds": ["sung"]}, "sung"),
    ("top.omnitts", {"kinds": "named"}, "list"),
    ("top.omnitts", {"languages": ["klingon"]}, "klingon"),
    ("top.omnitts", {"voices": {"ann": 3}, "kinds": ["cloned"]}, "not text"),
    ("top.omnitts", {"longest_piece": 0}, "longest_piece"),
    ("top.omnitts", {"longest_piece": 10_001}, "from 20 to 10000"),
    ("top.omnitts", {"longest_piece": True}, "from 20 to 10000"),
    ("top.omnitts", {"plain_letters": "yes"}, "neither true nor false"),
    ("top.omnitts", {"text_input": "runes"}, "phonemes-en-us"),
    ("codec.model_type", "mimi", "qwen3_tts_tokenizer_12hz"),
    ("codec.decode_upsample_rate", 960, "does not agree"),
    ("codec.output_sample_rate", 48_000, "does not agree"),
    ("codec.decoder_config.codebook_dim", 15, "odd"),
    ("codec.decoder_config.codebook_size", 32, "does not agree"),
    ("codec.decoder_config.num_key_value_heads", 2, "does not agree"),
    ("codec.decoder_config.decoder_dim", 40, "halved"),
    ("codec.decoder_config.upsample_rates", [], "list"),
    ("codec.decoder_config.upsample_rates", [8, 5, 4, "3"], "list"),
    ("codec.decoder_config.upsample_rates", [64] * 9, "list"),
    ("codec.decoder_config.num_hidden_layers", 0, "whole number"),
    ("codec.encoder_config.num_quantizers", 15, "fewer"),
    ("codec.encoder_config.upsampling_ratios", [8, 6, 5, 5], "frames"),
    ("codec.encoder_config.compress", 3, "divide"),
    ("codec.encoder_config.pad_mode", "reflect", "constant"),
    ("codec.encoder_config.norm_eps", None, "missing"),
    ("generation.temperature", -1, "number"),
    ("generation.top_k", 2.5, "whole number"),
    ("generation.top_p", 1.5, "number"),
    ("generation.do_sample", "yes", "neither true nor false"),
    ("generation.repetition_penalty", 0, "number"),
]


@pytest.mark.parametrize(("path", "value", "says"), WRONG)
def test_a_wrong_value_is_named_with_its_file_and_key(path: str, value: object, says: str, base: Files) -> None:
    with pytest.raises(ModelError) as raised:
        read(put(base, path, value))
    file, *_, key = path.split(".")
    message = raised.value.message
    if "does not agree" in says or says in ("halved", "frames", "fewer"):
        assert ".json" in message  # either side of a disagreement may be the one that is named
    else:
        assert f"{file}.json" in message and key in message
    assert says in message and len(message) < 500


def test_a_model_that_would_fill_any_machine() -> None:
    top = released.model_config("1.7b-base")
    top["talker_config"] |= {"hidden_size": 2**15, "intermediate_size": 2**18, "num_hidden_layers": 128}
    with pytest.raises(ModelError, match="parameters"):
        read({"top": top, "codec": released.codec_config(), "generation": {}})


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", "[" * 100_000, '{"a": NaN', "\ufeff{}", '{"model_type": 1e999}']
)
def test_files_that_are_no_config(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match=r"config\.json"):
        read_config(tmp_path)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(" " * 2**21, encoding="utf-8")
    with pytest.raises(ModelError, match="bytes"):
        read_config(tmp_path)


def test_tokens_that_the_tokenizer_has_elsewhere(tmp_path: Path) -> None:
    source = checkpoint("base")
    for name in ("config.json", "speech_tokenizer/config.json", "tokenizer_config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((source / name).read_bytes())
    assert read_config(tmp_path).text.pad == 427
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8")) | {"tts_pad_token_id": 428}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match="<tts_pad>"):
        read_config(tmp_path)


def leaves(files: Files) -> list[str]:
    """The path of every value, objects themselves included."""
    found: list[str] = []

    def walk(value: object, path: str) -> None:
        if path.count("."):
            found.append(path)
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else key)

    walk(files, "")
    return found


NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 31, 32, 48, 63, 64, 65, 96, 128, 165, 166, 640, 1088])
WORDS = ["", "silu", "64", [], [0], [2, 2], [8, 5, 4, 3], [3] * 9, ["named"], {}, {"a": 1}, {"rope_type": "default"}]
STRANGE = st.sampled_from(
    [..., None, -1, 2**31, 2**63, 10**40, 0.5, -0.0, 1e-9, 1e300, math.inf, math.nan, True, False, *WORDS]
)


@torch.no_grad()
def one_frame(model: SpeechModel) -> None:
    """A prompt, a talker step, a frame, its sound: whatever the sizes are."""
    voice = Named(next(iter(model.speakers), "")) if "named" in model.kinds else Designed("")
    prompt = model.prompter.prompt(Request("hi", voice))
    slots, rows = torch.zeros(1, dtype=torch.int64), len(prompt.rows)
    cache = model.talker.cache(1, rows)
    model.talker.prefill(prompt.rows[None, :-1], slots, slots, cache, rows)
    hidden = model.talker.step(prompt.rows[-1:], slots + rows - 1, slots, cache, rows)
    logits = model.talker.logits(hidden)
    assert logits.shape == (1, model.facts.vocabulary)
    first = logits[:, : model.facts.codes].argmax(-1)
    table = model.predictor.inputs(model.embedder)[0]
    row = table._replace(rows=table.rows[first])
    codes = model.predictor.frame(hidden, first, row, model.embedder, likeliest)
    assert model.embedder.frame(codes).shape == (1, model.facts.hidden)
    sound = model.codec(codes[:, None])
    assert sound.shape == (1, model.facts.samples_per_frame)
    assert torch.isfinite(sound).all()


def fill_small(config: Config) -> SpeechModel | None:
    """The model of a config with made-up numbers, unless it is too large for a test."""
    pieces = parts(config)
    if sum(p.numel() for part in pieces.all() for p in part.module.parameters()) > 3_000_000:
        return None
    generator = torch.Generator().manual_seed(0)
    for part in pieces.all():
        part.module._apply(lambda empty: torch.empty(empty.shape, dtype=empty.dtype))
        for weight in part.module.parameters():
            weight.data.copy_(0.05 * torch.randn(weight.shape, generator=generator))
    return assemble("any", config, pieces, TextTokenizer(byte_vocabulary(), []))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_config_works_or_fails_with_one_error(data: st.DataObject, named: Files) -> None:
    """Up to three values are replaced; what is accepted must make a frame of sound."""
    paths = leaves(named)
    changed = named
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(paths))
        try:
            changed = put(changed, path, data.draw(NUMBERS | STRANGE))
        except (KeyError, TypeError):  # an earlier change took the object away
            continue
    try:
        config = read(changed)
    except ModelError as error:
        assert ".json" in error.message
        return
    # a vocabulary of bytes stands in for the tokenizer, whose ids the loader compares with this size
    model = fill_small(config) if config.text_vocabulary >= 256 else None
    if model is not None:
        one_frame(model)


SIZES = {
    "top.talker_config.hidden_size": st.integers(1, 40),
    "top.talker_config.head_dim": st.sampled_from([2, 4, 6, 32]),
    "top.talker_config.num_attention_heads": st.integers(1, 6),
    "top.talker_config.num_key_value_heads": st.integers(1, 3),
    "top.talker_config.num_hidden_layers": st.integers(1, 3),
    "top.talker_config.intermediate_size": st.integers(1, 50),
    "top.talker_config.text_hidden_size": st.integers(1, 30),
    "top.talker_config.code_predictor_config.hidden_size": st.integers(1, 40),
    "top.talker_config.code_predictor_config.head_dim": st.sampled_from([2, 8, 16]),
    "top.talker_config.code_predictor_config.num_hidden_layers": st.integers(1, 3),
    "codec.decoder_config.latent_dim": st.integers(1, 20),
    "codec.decoder_config.codebook_dim": st.sampled_from([2, 6, 16]),
    "codec.decoder_config.decoder_dim": st.sampled_from([16, 32, 48]),
    "codec.decoder_config.hidden_size": st.integers(1, 20),
    "codec.decoder_config.head_dim": st.sampled_from([2, 6, 8]),
    "codec.decoder_config.num_hidden_layers": st.integers(1, 3),
    "codec.decoder_config.sliding_window": st.integers(1, 20),
}


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_other_sizes_make_a_frame_of_sound(data: st.DataObject, named: Files) -> None:
    """Sizes that fit together in any combination; none is assumed by the code."""
    changed = named
    for path, values in SIZES.items():
        changed = put(changed, path, data.draw(values))
    groups = data.draw(st.integers(2, 20))
    for path in ("top.talker_config", "top.talker_config.code_predictor_config"):
        changed = put(changed, f"{path}.num_code_groups", groups)
    changed = put(changed, "codec.decoder_config.num_quantizers", groups)
    heads = changed["top"]["talker_config"]["num_attention_heads"]
    if heads % changed["top"]["talker_config"]["num_key_value_heads"]:
        changed = put(changed, "top.talker_config.num_key_value_heads", heads)
    model = fill_small(read(changed))
    assert model is not None and model.facts.groups == groups
    one_frame(model)
