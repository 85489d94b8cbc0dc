"""Row: one line of a manifest, checked. The values that it lacks are those of the command's options."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from omnitts_cli.errors import InputError, OmniError
from omnitts_cli.fleet.names import checked_id, numbered
from omnitts_cli.parse import ParseError, json_value
from omnitts_cli.settings.setting import Setting, fields_of, nearest
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech.voice_files import SUFFIX as VOICE_SUFFIX
from omnitts_cli.text.clean import clean, has_speech
from omnitts_cli.text.inputs import INPUT_FORMATS

FIELDS = (
    "text", "id", "voice", "ref_audio", "ref_text", "description", "language", "style", "speed", "seed", "max_frames",
    "model", "tags", "format",
)  # fmt: skip
ALIASES = {"lang": "language", "instruct": "style", "instructions": "style", "input": "text", "ref": "ref_audio"}
NAMES = {**{name: name for name in FIELDS}, **ALIASES}
CHECKED = ("language", "style", "speed", "seed", "max_frames", "model")
SIMPLE = re.compile("[ -~]*")
SURROGATE = re.compile("[\ud800-\udfff]")


class RowError(Exception):
    """A row that cannot be spoken. The others go on."""

    def __init__(self, message: str, code: str = "bad_input", id: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.id = message, code, id


class VoiceChoice(NamedTuple):
    """Who speaks: the command's voice, a voice by name or file, a clip, or a description."""

    kind: str = "default"  # default, voice, clip, design
    name: str = ""
    transcript: str | None = None


class Row(NamedTuple):
    """A row that can be spoken. None: the command's option."""

    id: str
    text: str
    speaker: VoiceChoice = VoiceChoice()
    language: str | None = None
    style: str | None = None
    speed: float | None = None
    seed: int | None = None
    max_frames: int | None = None
    model: str | None = None
    tags: dict[str, Any] | None = None
    form: str = "text"


@dataclass(frozen=True)
class RowRules:
    """How the fields of a row are read."""

    base: Path  # clips and voice files lie here or below
    form: str = "text"  # of texts, unless the row has one of its own
    typed: bool = True
    by_line: bool = False
    ignore_unknown: bool = False
    empty: str = "fail"
    name: str = ""  # of the manifest, for messages

    def row(self, values: dict[str, Any], number: int, line: int) -> Row:
        """The row; RowError if it cannot be spoken, InputError for an unknown field."""
        found = self._named(values, line)
        id = ""
        try:
            given = found.get("id")
            id = numbered(line if self.by_line else number) if given is None else checked_id(given)
            text = self._text(found)
            rest = {name: self._value(name, found[name]) for name in CHECKED if found.get(name) is not None}
            return Row(
                id, text, self._speaker(found), **rest, tags=self._tags(found), form=self._form(found.get("format"))
            )
        except ValueError as error:
            raise RowError(str(error), id=id) from None
        except RowError as error:
            error.id = error.id or id
            raise

    def _named(self, values: dict[str, Any], line: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            name = NAMES.get(key)
            if name is None:
                if not self.ignore_unknown:
                    refuse_unknown([key], self.name, line)
            elif name in found:
                raise RowError(f"'{key}' and '{name}' are the same field", id=str(found.get("id", "")))
            else:
                found[name] = value
        return found

    def _text(self, found: dict[str, Any]) -> str:
        text = found.get("text")
        if text is None and self.empty == "silence":
            text = ""
        if not isinstance(text, str):
            raise ValueError("the row has no text" if text is None else "the text is not a string")
        if not SIMPLE.fullmatch(text):
            if SURROGATE.search(text):
                raise ValueError("the text is not UTF-8: it has half of a surrogate pair")
            if self._form(found.get("format")) == "text":
                text = clean(text)
        if not has_speech(text) and self.empty != "silence":
            raise ValueError("nothing to speak: the text has no letter or digit")
        return text

    def _form(self, given: Any) -> str:
        if given is None:
            return self.form
        if given not in INPUT_FORMATS or given == "epub":
            raise ValueError(f"format {given!r:.40} is not one of text, md, html, ssml, srt")
        return str(given)

    def _value(self, name: str, value: Any) -> Any:
        setting = settings()[name]
        if isinstance(value, str) and SURROGATE.search(value):
            raise ValueError(f"{name} is not UTF-8")
        if not self.typed or (name == "language" and isinstance(value, str)):
            try:
                return setting.read(value, name)
            except OmniError as error:
                raise ValueError(error.message) from None
        if not setting.accepts(value):
            raise ValueError(f"{name} {value!r:.60} is not {setting.kind.words}")
        return value

    def _speaker(self, found: dict[str, Any]) -> VoiceChoice:
        given = [name for name in ("voice", "ref_audio", "description") if found.get(name) is not None]
        if len(given) > 1:
            raise ValueError(f"the row has both {given[0]} and {given[1]}; leave one of them out")
        transcript = found.get("ref_text")
        if transcript is not None and given != ["ref_audio"]:
            raise ValueError("ref_text needs ref_audio")
        if not given:
            return VoiceChoice()
        name = found[given[0]]
        if not isinstance(name, str) or not name or SURROGATE.search(name):
            raise ValueError(f"{given[0]} is not text")
        if given == ["description"]:
            return VoiceChoice("design", name)
        if given == ["voice"]:
            return VoiceChoice("voice", str(self._inside(name)) if name.endswith(VOICE_SUFFIX) else name)
        if transcript is not None and not (isinstance(transcript, str) and transcript.strip()):
            raise ValueError("ref_text is empty or not text")
        return VoiceChoice("clip", str(self._inside(name)), transcript)

    def _inside(self, name: str) -> Path:
        """A file below the folder of clips; a manifest may come from someone else."""
        try:
            path = (self.base / name).resolve()
            inside = path.is_relative_to(self.base.resolve())
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(f"{name[:80]!r} is not a path: {error}") from None
        if not inside:
            raise ValueError(f"{name[:120]} lies outside the folder of the manifest (--clips-from DIR allows another)")
        return path

    def _tags(self, found: dict[str, Any]) -> dict[str, Any] | None:
        tags = found.get("tags")
        if isinstance(tags, str) and not self.typed:
            try:
                tags = json_value(tags)
            except ParseError as error:
                raise ValueError(f"tags {error}") from None
        if tags is not None and not isinstance(tags, dict):
            raise ValueError("tags is not a JSON object")
        return tags


def refuse_unknown(names: Iterable[str], manifest: str, line: int) -> None:
    """InputError for the first field that is not known."""
    for name in names:
        if name not in NAMES:
            close = nearest(name, list(NAMES))
            hint = f"did you mean '{close}'?   --ignore-unknown skips such fields" if close else "--ignore-unknown"
            raise InputError(
                f"{manifest} line {line}: unknown field '{name[:60]}'",
                cause="known fields: " + ", ".join(FIELDS),
                hint=hint,
                where=(manifest, line),
            )


@cache
def settings() -> dict[str, Setting]:
    """The options that a row may override."""
    return {field.name: field.setting for group in (TextIn, Speech) for field in fields_of(group)}


Check = Callable[[Row], None]
