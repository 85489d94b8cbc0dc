"""The published checkpoints: their names, their config files, and what is known of their voices.

Nothing here is used to read a model folder; `random:` models are built from it, and messages name it. config.json is
that of 1.7b-customvoice, codec.json that of its codec.
"""

from pathlib import Path
from typing import Any

from omnitts_cli.parse import json_object

KINDS = {"custom_voice": "named", "base": "cloned", "voice_design": "designed"}
"""The published word for what a checkpoint can do -> the kind of voice that it speaks."""

VARIANTS = {"customvoice": "custom_voice", "base": "base", "voicedesign": "voice_design"}
SIZES = {"0.6b": "0b6", "1.7b": "1b7"}
NAMES = ("0.6b-customvoice", "0.6b-base", "1.7b-customvoice", "1.7b-base", "1.7b-voicedesign")

VOICES = {
    "serena": "native language Chinese",
    "vivian": "native language Chinese",
    "uncle_fu": "native language Chinese",
    "ryan": "native language English",
    "aiden": "native language English",
    "ono_anna": "native language Japanese",
    "sohee": "native language Korean",
    "eric": "native language Chinese, Sichuan dialect",
    "dylan": "native language Chinese, Beijing dialect",
}


def values_in(name: str) -> dict[str, Any]:
    """The values of a config file that is here."""
    return json_object(Path(__file__).with_name(name).read_bytes())


def codec_config() -> dict[str, Any]:
    """config.json of the codec."""
    return values_in("codec.json")


def model_config(name: str) -> dict[str, Any]:
    """config.json of one of NAMES."""
    size, variant = name.split("-")
    kind, config = VARIANTS[variant], values_in("config.json")
    talker = config["talker_config"]
    config |= {"tts_model_size": SIZES[size], "tts_model_type": kind}
    if size == "0.6b":
        talker |= {"hidden_size": 1024, "intermediate_size": 3072}
    if kind != "custom_voice":
        plain = {name: code for name, code in talker["codec_language_id"].items() if not name.endswith("_dialect")}
        talker |= {"codec_language_id": plain, "spk_id": {}, "spk_is_dialect": {}}
    if kind == "base":
        config["speaker_encoder_config"] = {"enc_dim": talker["hidden_size"], "sample_rate": 24_000}
    return config
