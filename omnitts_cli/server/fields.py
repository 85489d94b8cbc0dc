"""Fields: one table of every field of a request for speech, ours and those of five other servers.

Fields that OpenAI defines have OpenAI's meaning, all others vLLM-Omni's. The table has the values that a field takes,
and whether it is used, mapped to another field, ignored or refused. Requests are checked with it, and `omnitts help
serve` shows it.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from omnitts_cli.server.problems import invalid, shown
from omnitts_cli.settings.setting import SWITCH, ValueKind, fields_of, number, one_of, whole
from omnitts_cli.settings.table import Speech, TextIn

Use = Literal["used", "mapped", "ignored", "refused"]
FORMATS = ("mp3", "wav", "pcm", "flac", "opus", "ogg", "aac", "pcm_f32")
TASKS = {"named": "CustomVoice", "cloned": "Base", "designed": "VoiceDesign"}  # kinds of voices, for vLLM-Omni
KINDS = {task.lower(): kind for kind, task in TASKS.items()}
SERVERS = {"O": "OpenAI", "V": "vLLM-Omni", "S": "SGLang-Omni", "K": "Kokoro-FastAPI", "E": "ElevenLabs"}
LONGEST_NAME, LONGEST_STYLE, LONGEST_WORDS, LARGEST_CLIP = 200, 2000, 10_000, 16 << 20
MOST_TOKENS = 1 << 20  # more than a slot holds; what is too much is cut to that
LARGEST_VECTOR, LARGEST_VALUE = 8192, 1e30
MOST_ITEMS = 1000
SLOWEST, FASTEST = 0.25, 4.0
KOKORO_LANGUAGES = {"a": "en", "b": "en", "e": "es", "f": "fr", "i": "it", "j": "ja", "p": "pt", "z": "zh"}
OUTPUT_FORMAT = re.compile(r"(mp3|pcm|wav|opus|flac)_(\d{4,6})(?:_\d{1,4})?")
DECIBELS = 20.0  # of a factor of ten


def words_of(most: int) -> ValueKind:
    """A string."""
    accepts: Callable[[Any], bool] = lambda value: isinstance(value, str) and len(value) <= most  # noqa: E731
    return ValueKind(f"a string of at most {most:,} characters", str, accepts,
                     schema={"type": "string", "maxLength": most})  # fmt: skip


def word(*known: str) -> ValueKind:
    """One of several words, in any case."""
    exact = one_of(*known)
    return replace(exact, choices=(), accepts=lambda value: isinstance(value, str) and value.lower() in exact.choices)


def is_voice(value: Any) -> bool:
    """Whether this can name a voice."""
    name = value.get("id") if isinstance(value, dict) else value
    return isinstance(name, str) and len(name) <= LONGEST_NAME


def is_vector(value: Any) -> bool:
    """Whether these are the values of a voice."""
    if not isinstance(value, list) or not 0 < len(value) <= LARGEST_VECTOR:
        return False
    return all(type(one) in (int, float) and abs(one) < LARGEST_VALUE for one in value)


LONGEST_WORD, LONGEST_FORM = 200, 500  # characters
LEXICON = f"an object of words and spoken forms of at most {LONGEST_FORM} characters"


def is_lexicon(value: Any) -> bool:
    """Whether these are words and how to speak them."""
    return isinstance(value, dict) and all(
        w.strip() and len(w) <= LONGEST_WORD and isinstance(s, str) and len(s) <= LONGEST_FORM for w, s in value.items()
    )


def is_task(value: Any) -> bool:
    """Whether this is a task type, however it is spelled."""
    return isinstance(value, str) and value.lower().replace("_", "") in KINDS


NAME, WORDS = words_of(LONGEST_NAME), words_of(LONGEST_WORDS)
OBJECT = ValueKind("an object", str, lambda value: isinstance(value, dict), schema={"type": "object"})
LIST = ValueKind(f"a list of at most {MOST_ITEMS} items", str, lambda v: isinstance(v, list) and len(v) <= MOST_ITEMS,
                 schema={"type": "array", "items": {}, "maxItems": MOST_ITEMS})  # fmt: skip
VOICE = ValueKind(
    f'a name of at most {LONGEST_NAME} characters, or {{"id": name}}',
    str,
    is_voice,
    schema={"anyOf": [NAME.schema, {"type": "object", "properties": {"id": NAME.schema}, "required": ["id"]}]},
)
VECTOR = ValueKind(
    f"a list of 1 to {LARGEST_VECTOR} finite numbers",
    str,
    is_vector,
    schema={"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": LARGEST_VECTOR},
)
COUNT, SECONDS = whole(0, MOST_TOKENS), number(0, 1e6)
SEED = ValueKind(f"a whole number from 0 to {2**63 - 1}, or -1 for any", int,
                 lambda v: type(v) is int and -1 <= v < 2**63,
                 schema={"type": "integer", "minimum": -1, "maximum": 2**63 - 1})  # fmt: skip
STRING = ValueKind("a string", str, lambda value: isinstance(value, str), schema={"type": "string"})
ANYTHING = ValueKind("anything", str, lambda value: True)
TASK = ValueKind(f"one of {', '.join(TASKS.values())}", str, is_task, schema=one_of(*TASKS.values()).schema)
WORD_LIST = ValueKind(LEXICON, str, is_lexicon, schema={
    "type": "object", "additionalProperties": {"type": "string", "maxLength": LONGEST_FORM},
})  # fmt: skip
OURS = {f.name: f.setting.kind for group in (TextIn, Speech) for f in fields_of(group)}


@dataclass(frozen=True)
class RequestField:
    """A field. `of` has the letters of the servers that know it; none: it is ours."""

    name: str
    of: str
    use: Use
    kind: ValueKind
    note: str = ""
    to: Callable[[Any], dict[str, Any]] | None = None  # of a mapped one: the fields that it stands for
    voice: bool = False  # it selects the voice
    harmless: tuple[Any, ...] = ()  # values of a refused one that ask for nothing

    def read(self, value: Any) -> Any:
        """The value, or 400 for the field. A whole number may be written as 3.0."""
        if type(value) is float and value.is_integer() and not self.kind.accepts(value):
            value = int(value)
        if not self.kind.accepts(value):
            raise invalid(self.name, f"{self.name} = {shown(value)} is not {self.kind.words}")
        if self.use == "refused" and value not in self.harmless:
            raise invalid(self.name, f"{self.name} is not supported here", self.note)
        return value


def same(name: str) -> Callable[[Any], dict[str, Any]]:
    """Another name for a field."""
    return lambda value: {name: value}


def of_references(value: list[Any]) -> dict[str, Any]:
    """SGLang-Omni's list of clips: one, with its transcript."""
    only = value[0] if len(value) == 1 else None
    if not isinstance(only, dict):
        raise invalid("references", "references is not a list of one object: one clip can be cloned")
    if only.get("vq_codes"):
        raise invalid("references", "vq_codes of another model cannot be used", "give the clip itself in audio_path")
    source = next((only[key] for key in ("audio_path", "ref_audio", "audio", "data") if only.get(key)), None)
    text = only.get("text") or None
    if not isinstance(source, str) or not isinstance(text, str | None):
        raise invalid("references", "the item of references has no audio_path, or its text is not a string")
    return {"ref_audio": source, "ref_text": text}


def of_language(value: str) -> dict[str, Any]:
    """Kokoro's language codes are single letters."""
    return {"language": KOKORO_LANGUAGES.get(value.lower(), value)}


def of_output_format(value: str) -> dict[str, Any]:
    """ElevenLabs' formats, such as mp3_44100_128; the bit rate is ours."""
    found = OUTPUT_FORMAT.fullmatch(value.lower())
    if found is None:
        raise invalid("output_format", f"output_format = {shown(value)} is not supported", "such as mp3_44100_128")
    form = found[1]
    return {"response_format": form, "sample_rate": None if form == "opus" else int(found[2])}


def of_volume(value: float) -> dict[str, Any]:
    """A factor, in decibels."""
    return {"volume": DECIBELS * math.log10(value)}


def of_options(value: dict[str, Any]) -> dict[str, Any]:
    """Kokoro's options of normalisation, of which one is ours."""
    normalize = value.get("normalize")
    if normalize is not None and not isinstance(normalize, bool):
        raise invalid("normalization_options", "normalization_options.normalize is not true or false")
    return {"normalize": normalize}


def of_settings(value: dict[str, Any]) -> dict[str, Any]:
    """ElevenLabs' settings of a voice, of which one is ours."""
    speed = value.get("speed")
    if speed is not None and not TABLE["speed"].kind.accepts(speed):
        raise invalid("voice_settings", f"voice_settings.speed = {shown(speed)} is not {TABLE['speed'].kind.words}")
    return {"speed": speed}


PARTLY = {"normalization_options": ("normalize",), "voice_settings": ("speed",)}
"""Objects of which only these keys have an effect; the others are reported as ignored."""
USED: Use = "used"
MAPPED: Use = "mapped"
IGNORED: Use = "ignored"
REFUSED: Use = "refused"

FIELDS: tuple[RequestField, ...] = (
    RequestField("input", "OVSK", USED, STRING, "the text"),
    RequestField("model", "OVSK", USED, NAME, "as in `GET /v1/models`"),
    RequestField("voice", "OVSK", USED, VOICE, "`default`: the server's choice; a clip takes precedence", voice=True),
    RequestField("response_format", "OVSK", USED, word(*FORMATS), f"{', '.join(FORMATS)}; default {FORMATS[0]}"),
    RequestField("speed", "OVSK", USED, number(SLOWEST, FASTEST), f"{SLOWEST:g} to {FASTEST:g}"),
    RequestField("instructions", "OVS", USED, words_of(LONGEST_STYLE), "ignored by voices without styles"),
    RequestField("stream_format", "OVS", USED, word("audio", "sse"), "`audio` or `sse`"),
    RequestField("stream", "VSK", USED, SWITCH, "true: events, unless `stream_format` is `audio`"),
    RequestField("task_type", "VS", USED, TASK,
                 "`CustomVoice`, `Base` (a clone) or `VoiceDesign`", voice=True),
    RequestField("language", "VS", USED, NAME, "a code, a name, `auto` or `detect`"),
    RequestField("ref_audio", "VS", USED, words_of(LARGEST_CLIP), "the clip to clone", voice=True),
    RequestField("ref_text", "VS", USED, WORDS, "its transcript", voice=True),
    RequestField("x_vector_only_mode", "VS", USED, SWITCH, "true: without `ref_text`", voice=True),
    RequestField("speaker_embedding", "V", USED, VECTOR, "instead of `ref_audio`", voice=True),
    RequestField("max_new_tokens", "VS", USED, whole(1, MOST_TOKENS),
                 "limit for each sentence; a value that is too high is reduced"),
    RequestField("seed", "VSE", USED, SEED, "-1: random"),
    RequestField("non_streaming_mode", "V", USED, SWITCH, "true: `text_mode` whole, false: streamed"),
    RequestField("sample_rate", "V", USED, whole(8000, 192_000)),
    RequestField("temperature", "S", USED, OURS["temperature"]),
    RequestField("top_k", "S", USED, OURS["top_k"]),
    RequestField("top_p", "S", USED, OURS["top_p"]),
    RequestField("repetition_penalty", "S", USED, OURS["repetition_penalty"]),
    RequestField("stream_audio", "VS", USED, SWITCH, "WebSocket only"),
    RequestField("items", "VS", USED, LIST, "batch only"),
    RequestField("speaker", "VS", MAPPED, VOICE, "`voice`", same("voice"), voice=True),
    RequestField("word_timestamps", "V", MAPPED, SWITCH, "`timestamps`: `word`",
                 lambda on: {"timestamps": "word" if on else None}),
    RequestField("references", "S", MAPPED, LIST, "`ref_audio`, `ref_text`; a list of one", of_references, voice=True),
    RequestField("lang_code", "K", MAPPED, NAME, "`language`", of_language),
    RequestField("volume_multiplier", "K", MAPPED, number(0.001, 100), "`volume`, in dB", of_volume),
    RequestField("normalization_options", "K", MAPPED, OBJECT, "`normalize`, from its key of that name", of_options),
    RequestField("ssml", "K", MAPPED, SWITCH, "`input_format`: `ssml`",
                 lambda on: {"input_format": "ssml" if on else None}),
    RequestField("voice_aliases", "K", MAPPED, OBJECT, "`voice`, `speed`", voice=True),
    RequestField("text", "E", MAPPED, STRING, "`input`", same("input")),
    RequestField("voice_id", "E", MAPPED, VOICE, "`voice`", same("voice"), voice=True),
    RequestField("model_id", "E", MAPPED, NAME, "`model`", same("model")),
    RequestField("language_code", "E", MAPPED, NAME, "`language`", same("language")),
    RequestField("voice_settings", "E", MAPPED, OBJECT, "`speed`, from its key of that name", of_settings),
    RequestField("output_format", "E", MAPPED, NAME, "`response_format`, `sample_rate`", of_output_format),
    RequestField("apply_text_normalization", "E", MAPPED, word("auto", "on", "off"), "`normalize`",
                 lambda way: {"normalize": {"on": True, "off": False}.get(way.lower())}),
    RequestField("initial_codec_chunk_frames", "VS", IGNORED, COUNT),
    RequestField("split_granularity", "VS", IGNORED, NAME),
    RequestField("extra_params", "V", IGNORED, OBJECT),
    RequestField("duration_seconds", "V", IGNORED, SECONDS),
    RequestField("ambient_sound", "V", IGNORED, WORDS),
    RequestField("stage_params", "S", IGNORED, OBJECT),
    RequestField("token_count", "S", IGNORED, COUNT),
    RequestField("duration_tokens", "S", IGNORED, COUNT),
    RequestField("download_format", "K", IGNORED, NAME),
    RequestField("return_download_link", "K", IGNORED, SWITCH),
    RequestField("return_timing", "K", IGNORED, SWITCH),
    RequestField("previous_text", "E", IGNORED, words_of(LARGEST_CLIP)),
    RequestField("next_text", "E", IGNORED, words_of(LARGEST_CLIP)),
    RequestField("previous_request_ids", "E", IGNORED, LIST),
    RequestField("next_request_ids", "E", IGNORED, LIST),
    RequestField("pronunciation_dictionary_locators", "E", IGNORED, LIST),
    RequestField("apply_language_text_normalization", "E", IGNORED, SWITCH),
    RequestField("enable_logging", "E", IGNORED, SWITCH),
    RequestField("optimize_streaming_latency", "E", IGNORED, whole(0, 4)),
    RequestField("ref_audio_2", "V", REFUSED, ANYTHING, "a second voice", voice=True),
    RequestField("speakers", "V", REFUSED, ANYTHING, "give `voice`", voice=True, harmless=([], {})),
    RequestField("reference_audio", "V", REFUSED, ANYTHING, "give `ref_audio`", voice=True),
    RequestField("voice_prompt", "V", REFUSED, ANYTHING, "give `ref_audio`", voice=True),
    RequestField("speaker_audio", "V", REFUSED, ANYTHING, "give `ref_audio`", voice=True),
    RequestField("allow_voice_tags", "K", REFUSED, SWITCH, "where the text has tags", voice=True,
                 harmless=(False, True)),
    RequestField("use_pvc_as_ivc", "E", REFUSED, SWITCH, "another version of the voice", voice=True, harmless=(False,)),
    RequestField("timestamps", "", USED, word("sentence", "word", "none"),
                 "`sentence`, `word` or `none`; in events, WebSocket and batch"),
    RequestField("ignore_eos", "", USED, SWITCH, "with `max_new_tokens`: exactly that length"),
    RequestField("lexicon", "", USED, WORD_LIST, "an object of words and their spoken forms"),
    *(RequestField(name, "", USED, OURS[name], "as the option") for name in (
        "loudness", "volume", "split", "normalize", "unreadable", "sentence_gap", "paragraph_gap", "input_format",
        "retries", "text_mode", "safe")),
    RequestField("prepared", "", USED, SWITCH, "sent by `--via`"),
    RequestField("urgent", "", USED, SWITCH, "sent by `--via`"),
)  # fmt: skip
TABLE: Mapping[str, RequestField] = {field.name: field for field in FIELDS}


def table() -> str:
    """The fields as a table of Markdown, as `omnitts help serve` shows them."""
    rows = [(f"`{one.name}`", " ".join(one.of), one.use, one.note) for one in FIELDS]
    head = ("| field | known to | here | notes |", "|---|---|---|---|")
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])
