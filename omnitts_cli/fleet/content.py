"""Keys: what a row's sound depends on, as 128 bits. Two rows with one key have the same sound.

In the key: text, voice, language, style, sampling, speed, seed, limits, splitting, format, verification. The model and
its precision are added when they are known. Not in it: id, path, device, slots, order.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.errors import InputError, OmniError
from omnitts_cli.fleet.rows import Row, RowError, VoiceChoice
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech import voice_files, voices
from omnitts_cli.speech.speaking import SEED_BYTES
from omnitts_cli.text.lexicon import load_lexicon
from omnitts_cli.weights.released import SIZES

SOUND = 1
"""Raised when the same text, voice and seed give other sound than before."""

KNOWN_VOICES = 1 << 16
WHOLE_BYTES, BLOCKS, BLOCK_BYTES = 64 << 20, 256, 1 << 16  # larger weights: only blocks are hashed
SHARED_TEXT = ("split", "sentence_gap", "paragraph_gap", "normalize", "unreadable", "encoding")
SHARED_SPEECH = (
    "volume", "loudness", "temperature", "top_p", "top_k", "repetition_penalty", "text_mode", "max_seconds", "retries",
)  # fmt: skip


class Keys:
    """Makes the keys of rows. `extra`: format, verification and the like; a seed that is made does not depend on it."""

    def __init__(self, text: TextIn, speech: Speech, extra: Mapping[str, Any], run_seed: int) -> None:
        self._given = text, speech, extra, run_seed
        self.speech, self.lexicon = speech, load_lexicon([Path(name) for name in text.lexicon])
        self.shared = shared_of(text, speech)
        self._extra = json.dumps(extra, sort_keys=True).encode()
        self._begin = hashlib.blake2b(self.shared.encode(), digest_size=16)
        self._run_seed = str(run_seed).encode()
        read = [file_digest(Path(name), "lexicon") for name in text.lexicon]
        self.identity = repr((self.shared, self._extra, speech, run_seed, read))
        self._voice_of_file = lru_cache(KNOWN_VOICES)(is_saved)
        self._tuned = lru_cache(KNOWN_VOICES)(tuned_voice)
        saved = voices.saved_voice(speech.voice) if speech.model is None else None
        self._own_model = voice_files.model_of(saved.about, saved.name) if saved else None
        self.voices: dict[VoiceChoice, str] = {}
        self._voice = lru_cache(KNOWN_VOICES)(self._digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return Keys, self._given

    def of(self, row: Row) -> tuple[bytes, int]:
        """The key of a row, and its seed."""
        speech = self.speech
        text = self.lexicon.apply(row.text) if len(self.lexicon) else row.text
        parts = (
            text,
            row.text if text is not row.text else "",
            row.form,
            self._voice(row.speaker),
            row.language or speech.language,
            speech.style if row.style is None else row.style,
            row.speed or speech.speed,
            row.max_frames or speech.max_frames,
        )
        digest = self._begin.copy()
        digest.update(repr(parts).encode("utf-8", "backslashreplace"))
        content = digest.digest()
        seed = row.seed
        if seed is None:
            seed = int.from_bytes(hashlib.blake2b(content + self._run_seed, digest_size=SEED_BYTES).digest())
        return hashlib.blake2b(content + self._extra + str(seed).encode(), digest_size=16).digest(), seed

    def _digest(self, speaker: VoiceChoice) -> str:
        speaker = self.speaker(speaker)
        try:
            digest = digest_of(speaker)
        except OmniError as error:
            raise RowError(error.message, code=error.code) from None
        if len(self.voices) < KNOWN_VOICES:
            self.voices[speaker] = digest
        return digest

    def model(self, row: Row) -> str:
        """The model of a row; a bare size such as 0.6b is completed by the kind of the voice: `0.6b|base`. For a tuned
        voice a model is opened: `tiny||myvoice`."""
        name = row.model or self.speech.model or self._own_model or EMBEDDED
        speaker = self.speaker(row.speaker)
        tuned = self._tuned(speaker)
        if tuned is not None:
            return f"{name}|{'base' * (name in SIZES)}|{tuned}"
        if name not in SIZES:
            return name
        saved = speaker.kind == "voice" and self._voice_of_file(speaker.name)
        return f"{name}|{variant_for(speaker, saved)}"

    def speaker(self, speaker: VoiceChoice) -> VoiceChoice:
        """Who speaks, with the command's own voice by its name."""
        return with_voice(speaker, self.speech.voice)


def shared_of(text: TextIn, speech: Speech, *more: str, **rest: Any) -> str:
    """The part of all keys of a command: how texts are read and spoken, `more` fields of Speech, and the `rest`."""
    how, who = asdict(text), asdict(speech)
    spoken = {name: who[name] for name in (*SHARED_SPEECH, *more)}
    return json.dumps({"sound": SOUND, **{name: how[name] for name in SHARED_TEXT}, **spoken, **rest}, sort_keys=True)


def with_overrides(speech: Speech, one: Any, **more: Any) -> Speech:
    """The speech settings of a command, with the language, style and speed that a row or a character overrides."""
    style = speech.style if one.style is None else one.style
    return replace(
        speech, language=one.language or speech.language, style=style, speed=one.speed or speech.speed, **more
    )


def with_voice(speaker: VoiceChoice, voice: str | None) -> VoiceChoice:
    """Who speaks, with this voice in the place of none."""
    return VoiceChoice("voice", voice) if speaker.kind == "default" and voice is not None else speaker


def variant_for(speaker: VoiceChoice, saved: bool) -> str:
    """The variant of a model that speaks in this voice. `saved`: the voice is a file."""
    if speaker.kind == "design":
        return "voice_design"
    return "base" if saved or speaker.kind == "clip" else "custom_voice"


def tuned_voice(speaker: VoiceChoice) -> str | None:
    """The name of a tuned voice, for which a model is opened; None for others, and for a file that is refused later."""
    if speaker.kind != "voice" or not is_saved(speaker.name):
        return None
    try:
        found = voices.saved_voice(speaker.name)
    except OmniError:
        return None
    return speaker.name if found is not None and found.adapter is not None else None


def is_saved(name: str) -> bool:
    """Whether a voice is a file: such voices are clones."""
    if name.endswith(voice_files.SUFFIX) or voice_files.is_blend(name):
        return True
    return bool(voice_files.NAME.fullmatch(name)) and (voice_files.folder() / f"{name}{voice_files.SUFFIX}").is_file()


def digest_of(speaker: VoiceChoice) -> str:
    """What a voice is made of: the bytes of its files and its words."""
    parts: list[object] = [speaker.kind, speaker.transcript]
    if speaker.kind == "clip":
        parts.append(file_digest(Path(speaker.name), "reference clip"))
    elif speaker.kind == "voice":
        blend = voice_files.is_blend(speaker.name)
        names = [name for name, _ in voice_files.parse_blend(speaker.name)] if blend else [speaker.name]
        parts += [speaker.name.lower() if blend else "", *map(digest_of_voice, names)]
    else:
        parts.append(speaker.name)
    return hashlib.blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def digest_of_voice(name: str) -> str:
    """The bytes of a saved voice or a .voice file; the name of a voice of the model."""
    if name.endswith(voice_files.SUFFIX):
        return file_digest(Path(name), "voice file")
    if is_saved(name):
        return file_digest(voice_files.folder() / f"{name}{voice_files.SUFFIX}", "voice file")
    return f"name {name.lower()}"


def file_digest(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot read {what} {path}: {reason}", hint=f"ls -l {path}") from None


def model_mask(folder: Path | None, name: str, dtype: str) -> np.ndarray:
    """The model's part of all keys, as two numbers: each key is XORed with it."""
    who = name if folder is None else fingerprint(folder)
    return np.frombuffer(hashlib.blake2b(repr((who, dtype)).encode(), digest_size=16).digest(), "<u8")


def fingerprint(folder: Path) -> str:
    """The digest of a model's files. Of large weights it covers blocks spread over the file."""
    digest = hashlib.sha256()
    for path in sorted([*folder.rglob("*.safetensors"), *folder.glob("*.json")]):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder)} {size}".encode())
        with path.open("rb") as file:
            if size <= WHOLE_BYTES:
                digest.update(file.read())
                continue
            for block in range(BLOCKS):
                file.seek(size * block // BLOCKS)
                digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()


def try_seed(seed: int, attempt: int) -> int:
    """The seed of a further try; `seed` itself for the first."""
    if attempt == 0:
        return seed
    return int.from_bytes(hashlib.blake2b(f"{seed} try {attempt}".encode(), digest_size=SEED_BYTES).digest(), "big")
