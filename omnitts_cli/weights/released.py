"""The released models by short name: repository, size, and the SHA-256 of their weights."""

from __future__ import annotations

from dataclasses import dataclass

VARIANTS = ("custom_voice", "base", "voice_design")
LICENCE = "Apache-2.0"

_CODEC_BYTES = 682_293_092
_CODEC_SHA256 = "836b7b357f5ea43e889936a3709af68dfe3751881acefe4ecf0dbd30ba571258"
_CODEC_CONFIG_BYTES = 2336


@dataclass(frozen=True)
class ReleasedFile:
    """One file of a model. For small files only the size is known."""

    path: str
    size_bytes: int
    sha256: str | None = None


@dataclass(frozen=True)
class Released:
    name: str
    repo: str
    revision: str  # the first twelve digits of the commit
    files: tuple[ReleasedFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def _model(name: str, repo: str, revision: str, config_bytes: int, weight_bytes: int, sha256: str) -> Released:
    files = (
        ReleasedFile("config.json", config_bytes),
        ReleasedFile("generation_config.json", 245),
        ReleasedFile("preprocessor_config.json", 127),
        ReleasedFile("tokenizer_config.json", 7344),
        ReleasedFile("vocab.json", 2_776_833),
        ReleasedFile("merges.txt", 1_671_839),
        ReleasedFile("model.safetensors", weight_bytes, sha256),
        ReleasedFile("speech_tokenizer/config.json", _CODEC_CONFIG_BYTES),
        ReleasedFile("speech_tokenizer/preprocessor_config.json", 234),
        ReleasedFile("speech_tokenizer/model.safetensors", _CODEC_BYTES, _CODEC_SHA256),
    )
    return Released(name, repo, revision, files)


_ALL = (
    _model(
        "0.6b-base",
        "Qwen/Qwen3-TTS-12Hz-0.6B-Base",
        "5d83992436ea",
        4494,
        1_829_344_272,
        "180b3b10eb1c9f1b4db7806d5475bae3071c0243c299d49926bab1da3b6946f6",
    ),
    _model(
        "0.6b-customvoice",
        "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "85e237c12c02",
        4908,
        1_811_626_576,
        "bc3c7e785eb961179c25450d1acff03f839e0002f2f3a5aeb67b5735c0fa2adb",
    ),
    _model(
        "1.7b-base",
        "Qwen/Qwen3-TTS-12Hz-1.7B-Base",
        "fd4b25438912",
        4494,
        3_857_413_744,
        "38fc7fc51c5e776e840414b6fd443962e9411b9654888fd7913e4da643cb857c",
    ),
    _model(
        "1.7b-customvoice",
        "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice",
        "0c0e3051f131",
        4908,
        3_833_402_552,
        "38b1d5971bdbd982b561cccec982669a53b0537c3cf5e9bd4778ed07bb2f5137",
    ),
    _model(
        "1.7b-voicedesign",
        "Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        "5ecdb67327fd",
        4421,
        3_833_402_552,
        "391e8db219f292c515297cdceeb43e4eae67cdde35fa57e79a6a8a532fca0522",
    ),
    Released(
        "codec",
        "Qwen/Qwen3-TTS-Tokenizer-12Hz",
        "7dd38ad4e9bd",
        (
            ReleasedFile("config.json", _CODEC_CONFIG_BYTES),
            ReleasedFile("model.safetensors", _CODEC_BYTES, _CODEC_SHA256),
        ),
    ),
)

OMNI = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
ALIASES = {"omni": OMNI}
"""Models without known hashes: the newest commit of the repository is downloaded."""

TENSORS = {OMNI: ("talker.*", "code2wav.*", "thinker.model.embed_tokens.*")}
"""For repositories that hold far more than speech needs: only shards with one of these tensors are downloaded."""

THINKER = {OMNI: ("thinker.model.*", "thinker.lm_head.*", "thinker.audio_tower.*")}
"""What answering questions needs beside these."""
OMNI_BYTES = 70_500_000_000  # of all shards

RELEASED = {model.name: model for model in _ALL}
SIZES = ("0.6b", "1.7b")
