"""Voices by name: the model's own, saved ones, blends, and OpenAI's names. No name becomes a path unchecked."""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omnitts_cli.errors import OmniError
from omnitts_cli.server.problems import Problem, invalid, unknown
from omnitts_cli.speech import voice_files, voices
from omnitts_cli.speech.voices import Voice
from omnitts_cli.voices import Cloned, Named

OPENAI = {
    **dict.fromkeys(("coral", "nova", "sage", "shimmer", "marin"), "female"),
    **dict.fromkeys(("ash", "ballad", "echo", "onyx", "verse", "cedar"), "male"),
    **dict.fromkeys(("alloy", "fable"), ""),  # neither clearly female nor male
}
"""The voices of OpenAI. A model without a voice of that name speaks with one of its own, always the same: of the same
sex where the model's descriptions name one."""
WORDS = {"female": {"female", "woman", "girl", "lady"}, "male": {"male", "man", "boy"}}
DEFAULT = "default"
PART = re.compile(r"([^\s()+:,]+)\s*(?:\((\d{1,6}(?:\.\d{1,6})?)\))?")
"""A voice of a blend as Kokoro-FastAPI writes it."""
MOST_SAVED, MOST_IN_MEMORY = 1000, 32
MOST_ADAPTER_BYTES = 512 << 20  # of tuned voices in memory
CHECK_S = 1.0  # how long a listing of the folder stays valid
MOST_PARTS = 16


class Saved:
    """The saved voices, read once and again when their file changes."""

    def __init__(self) -> None:
        self._voices: OrderedDict[str, tuple[tuple[int, int], Voice]] = OrderedDict()  # those that were used last
        self._names: list[str] = []
        self._listed: float | None = None
        self._lock = threading.Lock()  # tuned voices are read in threads

    def names(self) -> list[str]:
        """The names of all saved voices."""
        if self._listed is None or time.monotonic() - self._listed > CHECK_S:
            self._names, self._listed = voice_files.names(), time.monotonic()
        return self._names

    def changed(self) -> None:
        """A voice was saved or deleted."""
        self._listed = None

    def load(self, name: str) -> Voice:
        """The saved voice of this name, which `names` has."""
        path = voice_files.folder() / f"{voice_files.check_name(name)}{voice_files.SUFFIX}"
        try:
            about = path.stat()
        except OSError:
            self.changed()
            raise unknown(404, "voice", name, self.names()) from None
        stamp = (about.st_mtime_ns, about.st_size)
        known = self._voices.get(name)
        if known is None or known[0] != stamp:
            found = voice_files.read(path)
            known = (stamp, Voice(found.voice, found.name, found.about, adapter=found.adapter))
        with self._lock:
            self._voices[name] = known
            self._voices.move_to_end(name)
            while len(self._voices) > 1 and self._too_many():
                self._voices.popitem(last=False)
        return known[1]

    def _too_many(self) -> bool:
        adapters = (voice.adapter for _, voice in self._voices.values())
        held = sum(adapter.nbytes for adapter in adapters if adapter is not None)
        return len(self._voices) > MOST_IN_MEMORY or held > MOST_ADAPTER_BYTES

    def tuned(self, name: str) -> bool:
        """Whether a saved voice is tuned; only the header of its file is read."""
        known = self._voices.get(name)
        return known[1].adapter is not None if known is not None else "adapter_sha256" in self.about(name)

    def about(self, name: str) -> dict[str, str]:
        """The fields of the file of a saved voice, and its transcript."""
        return voice_files.about(voice_files.folder() / f"{voice_files.check_name(name)}{voice_files.SUFFIX}")


def own_name(name: str, speakers: Sequence[str]) -> str | None:
    """The model's spelling of one of its voices."""
    return next((one for one in speakers if one.lower() == name.lower()), None)


def alias(name: str, speakers: Mapping[str, str]) -> str | None:
    """The model's voice that stands for one of OpenAI's; `speakers`: names and what is known of them."""
    sex = OPENAI.get(name.lower())
    if sex is None or not speakers:
        return None
    alike = [one for one, about in speakers.items() if WORDS.get(sex, set()) & set(re.findall(r"\w+", about.lower()))]
    fitting, names = alike or list(speakers), [one for one in OPENAI if OPENAI[one] == sex]
    return fitting[names.index(name.lower()) % len(fitting)]


def spelled(name: str | None, saved: Saved) -> str | None:
    """A voice in our notation: `default` is the server's choice, and Kokoro's a(2)+b(1) is a:2,b:1."""
    if name is None or name in saved.names():
        return name
    if name.lower() == DEFAULT:
        return None
    parts = [PART.fullmatch(part.strip()) for part in name.split("+")]
    if ("+" in name or name.endswith(")")) and all(parts):
        return ",".join(f"{part[1]}:{part[2] or 1}" for part in parts if part)
    return name


def kind_of(name: str | None, saved: Saved) -> str:
    """The kind of a voice by its name: a saved one, or a blend of saved ones, is a cloned voice."""
    if name is not None and (name in saved.names() or voice_files.is_blend(name)):
        return "cloned"
    return "named"


def voice_of(name: str | None, model: Any, saved: Saved) -> Voice:
    """The voice of that name for this model; without a name its first."""
    speakers = list(model.speakers)
    if name is None:
        if not speakers:
            raise invalid("voice", f"{model.name} has no voices of its own", "give a voice or ref_audio")
        return Voice(Named(speakers[0]), speakers[0])
    if voice_files.is_blend(name):
        return blend_of(name, model, saved)
    if name in saved.names():  # before the model's own, as on the command line
        return voices.voice_for(saved.load(name), model)
    own = own_name(name, speakers) or alias(name, model.speakers)
    if own is not None:
        return Voice(Named(own), own)
    raise unknown(404, "voice", name, [*speakers, *saved.names(), *OPENAI])


def of_values(values: np.ndarray, model: Any) -> Voice:
    """A voice that is given as the values of its embedding."""
    if values.size != model.facts.hidden:
        found = f"speaker_embedding has {values.size:,} values; {model.name} needs {model.facts.hidden:,}"
        raise invalid("speaker_embedding", found)
    about = {"model": model.name, "revision": model.sha256 or ""}
    return Voice(Cloned(values), "embedding", {key: value for key, value in about.items() if value})


def blend_of(name: str, model: Any, saved: Saved) -> Voice:
    """A blend such as a:60,b:40 of saved voices and the model's own."""
    try:
        parts = voice_files.parse_blend(name)
    except OmniError as error:
        raise invalid("voice", error.message, error.hint) from None
    if len(parts) > MOST_PARTS:
        raise invalid("voice", f"a blend has at most {MOST_PARTS} voices")
    found = []
    for one, weight in parts:
        if one in saved.names():
            voice = saved.load(one)
            identity: Any = voice.identity
            part: Any = voice_files.SavedVoice(one, identity, dict(voice.about), None, voice.adapter)
        else:
            part = voices.own_voice(model, one)
        if part is None:
            raise unknown(404, "voice", one, [*saved.names(), *(model.speakers if model.vector_of else ())])
        found.append((part, weight))
    try:
        blended = voice_files.blend(found, name)
    except OmniError as error:
        raise Problem(400, error.message, code="invalid_value", param="voice", hint=error.hint) from None
    return voices.voice_for(Voice(blended.voice, blended.name, blended.about), model)
