"""The teacher: flite's speech, as clips with known attributes and known sounds.

flite is called in this process through its C library; one utterance takes about a tenth of a second.
A voice is one of flite's own with another pace, and its finished sound played faster or slower, which
moves pitch and formants together.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnitts_cli.errors import OmniError

SAMPLE_RATE = 24000
SAMPLES_PER_FRAME = 1920
BASES = ("rms", "slt", "awb", "kal16")
PHONES = (
    "pau aa ae ah ao aw ax axr ay b ch d dh dx eh el em en er ey f g hh hv ih iy jh k l m n nx ng ow oy p r s sh t th "
    "uh uw v w y z zh"
).split()
PHONES_PER_FRAME = 2
OWN_PITCH = {"kal16": 95.0}  # Hz, where flite has it as a setting from the beginning
_PARTS = ("asound.so.2", "flite.so.1", "flite_usenglish.so.1", "flite_cmulex.so.1")


@dataclass(frozen=True)
class TeacherVoice:
    """`shift` above 1 raises pitch and formants; `pace` above 1 speaks faster.

    `pitch`: Hz before the shift, formants left alone; rms does not heed it.
    """

    base: str
    shift: float = 1.0
    pace: float = 1.0
    pitch: float = 0.0


@dataclass(frozen=True)
class Spoken:
    """`sound`: mono float32 at 24 kHz, a whole number of frames. `phones`: what is heard in each half of a frame."""

    sound: np.ndarray  # [T * 1920]
    phones: np.ndarray  # [T, 2] uint8, places in PHONES


class _Wave(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_char_p),
        ("sample_rate", ctypes.c_int),
        ("num_samples", ctypes.c_int),
        ("num_channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    )


class _Voice(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("features", ctypes.c_void_p))


class Teacher:
    """flite's libraries, loaded from `folder` or, without one, from where the system keeps them."""

    def __init__(self, folder: Path | None = None) -> None:
        def load(name: str) -> ctypes.CDLL:
            path = str(folder / f"lib{name}") if folder else f"lib{name}"
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)

        try:
            self._flite = [load(name) for name in _PARTS][1]
            voices = {base: load(f"flite_cmu_us_{base}.so.1") for base in BASES}
        except OSError as error:
            raise OmniError(f"the teacher is missing: {error}", hint="install flite 2.2 (Debian: libflite1)") from None
        self._flite.flite_init()
        handle, word = ctypes.c_void_p, ctypes.c_char_p
        for name, result, arguments in (
            ("flite_synth_text", handle, [word, handle]),
            ("utt_wave", ctypes.POINTER(_Wave), [handle]),
            ("utt_relation", handle, [handle, word]),
            ("relation_head", handle, [handle]),
            ("item_next", handle, [handle]),
            ("item_feat_string", word, [handle, word]),
            ("item_feat_float", ctypes.c_float, [handle, word]),
            ("delete_utterance", None, [handle]),
            ("flite_feat_set_float", None, [handle, word, ctypes.c_float]),
            ("feat_remove", ctypes.c_int, [handle, word]),
        ):
            function = getattr(self._flite, name)
            function.restype, function.argtypes = result, arguments
        self._voices = {base: self._register(library, base) for base, library in voices.items()}

    @staticmethod
    def _register(library: ctypes.CDLL, base: str) -> int:
        register = getattr(library, f"register_cmu_us_{base}")
        register.restype, register.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        return register(None)

    def speak(self, text: str, voice: TeacherVoice) -> Spoken:
        """The text with 50 ms of silence before it and 100 ms after; nothing if there is nothing to hear."""
        raw, rate, phones, ends = self._raw(text, voice)
        sound = resample(raw, round(len(raw) * SAMPLE_RATE / rate / voice.shift))
        loud = np.flatnonzero(np.abs(sound) > 0.01)
        if len(loud) == 0:
            return Spoken(np.zeros(0, np.float32), np.zeros((0, PHONES_PER_FRAME), np.uint8))
        start = max(0, loud[0] - SAMPLE_RATE // 20)
        sound = sound[start : loud[-1] + SAMPLE_RATE // 10]
        sound = np.pad(sound, (0, -len(sound) % SAMPLES_PER_FRAME))
        # one loudness for all voices: speech at -22 dB leaves room for its peaks
        power = np.sqrt(np.mean(sound[np.abs(sound) > 0.01] ** 2))
        sound = np.clip(sound * (0.08 / power), -0.95, 0.95).astype(np.float32)
        halves = len(sound) // SAMPLES_PER_FRAME * PHONES_PER_FRAME
        middles = (np.arange(halves) + 0.5) * (SAMPLES_PER_FRAME / SAMPLE_RATE / PHONES_PER_FRAME)
        at = np.searchsorted(ends / voice.shift, middles + start / SAMPLE_RATE).clip(max=len(phones) - 1)
        return Spoken(sound, phones[at].reshape(-1, PHONES_PER_FRAME))

    def _raw(self, text: str, voice: TeacherVoice) -> tuple[np.ndarray, int, np.ndarray, np.ndarray]:
        """(sound, its rate, phones, the second at which each ends)."""
        flite, handle = self._flite, self._voices[voice.base]
        features = ctypes.cast(handle, ctypes.POINTER(_Voice)).contents.features
        flite.flite_feat_set_float(features, b"duration_stretch", voice.shift / voice.pace)
        # said or taken back each time, or a voice would keep the pitch of whoever spoke before it
        pitch = voice.pitch or OWN_PITCH.get(voice.base)
        if pitch:
            flite.flite_feat_set_float(features, b"int_f0_target_mean", pitch)
        else:
            flite.feat_remove(features, b"int_f0_target_mean")
        utterance = flite.flite_synth_text(text.encode("ascii", "ignore"), handle)
        wave = flite.utt_wave(utterance).contents
        sound = np.ctypeslib.as_array(wave.samples, (wave.num_samples,)).astype(np.float32) / 32768
        rate, phones, ends = wave.sample_rate, [0], [0.0]
        item = flite.relation_head(flite.utt_relation(utterance, b"Segment"))
        while item:
            name = flite.item_feat_string(item, b"name").decode()
            phones.append(PHONES.index(name) if name in PHONES else 0)
            ends.append(flite.item_feat_float(item, b"end"))
            item = flite.item_next(item)
        flite.delete_utterance(utterance)
        return sound, rate, np.array(phones, np.uint8), np.array(ends)


def resample(sound: np.ndarray, length: int) -> np.ndarray:
    """Another number of samples for the same sound, by its spectrum; exact for sound that ends in silence."""
    spectrum = np.fft.rfft(sound)
    bins = length // 2 + 1
    spectrum = spectrum[:bins] if bins <= len(spectrum) else np.pad(spectrum, (0, bins - len(spectrum)))
    return np.fft.irfft(spectrum, length).astype(np.float32) * np.float32(length / len(sound))
