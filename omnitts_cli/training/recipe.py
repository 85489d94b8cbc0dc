"""Recipe: the one settings file that drives every stage, read strictly into frozen values."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import MISSING, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from omnitts_cli.errors import SettingsError
from omnitts_cli.parse import ParseError, toml_tables
from omnitts_cli.training.teacher import TeacherVoice

T = TypeVar("T")


@dataclass(frozen=True)
class Texts:
    made_up: int
    made_up_abroad: int
    described: int
    merges: int
    more_merges: int


@dataclass(frozen=True)
class Teaching:
    first: float
    varied: float
    abroad: float
    longest: float
    hours: float
    kept: float
    shard: int
    at_once: int
    locked: bool
    rise: float


@dataclass(frozen=True)
class CodecSizes:
    groups: int
    codes: int
    book_width: int
    filters: int
    unit_kernel: int
    dilations: tuple[int, ...]
    falls: tuple[int, ...]
    encoder_width: int
    quantised: int
    latent: int
    decoder_width: int
    transformer_width: int
    transformer_inner: int
    transformer_layers: int
    heads: int
    window: int
    stretches: tuple[int, ...]
    rises: tuple[int, ...]


@dataclass(frozen=True)
class CodecTraining:
    minutes: float
    batch: int
    frames: int
    rate: float
    final_rate: float
    warm_up: int
    bypass: int
    mel: float
    wave: float
    commit: float
    alike: float
    phones: float
    repetition: float
    pitch: float
    low: float
    outline: float
    shorter: float
    keeps_books: bool
    compile: bool


@dataclass(frozen=True)
class Polish:
    minutes: float
    batch: int
    rate: float
    final_rate: float
    warm_up: int
    discriminator_width: int
    judged: int
    periods: tuple[int, ...]
    period_width: int
    feature: float
    adversary: float
    mel: float
    latent: float
    latent_share: int
    repetition: float
    low: float
    bent: float
    kept: float
    rise: int
    recogniser_width: int
    teaching: float
    heard_layers: float
    heard_phones: float
    heard_speaker: float
    heard_spectra: float


@dataclass(frozen=True)
class SpeechSizes:
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    text_width: int
    predictor_hidden: int
    predictor_inner: int
    predictor_layers: int
    predictor_heads: int
    predictor_kv_heads: int
    predictor_head_dim: int


@dataclass(frozen=True)
class SpeechTraining:
    minutes: float
    positions: int
    lengths: tuple[int, ...]
    rate: float
    final_rate: float
    warm_up: int
    predicted: int
    predictor_weight: float
    predictor_taper: float
    streamed: float
    no_language: float
    corrupt: float
    history_dropout: float
    drawn_history: float
    phone_weight: float
    weight_decay: float
    dropout: float
    held_back: int
    encoded: int
    copies: int
    compile: bool


@dataclass(frozen=True)
class SpeakerSizes:
    """Of the speaker encoder."""

    channels: int
    joined: int
    parts: int
    gate: int
    attention: int
    stretch: float


@dataclass(frozen=True)
class UnnamedSpeakers:
    """Unnamed speakers, for cloning and design. Shares are those of a batch, by length of examples."""

    crossing: float
    pace: tuple[float, ...]
    pitch: tuple[float, ...]
    tract: tuple[float, ...]
    shortest: float
    clips: tuple[float, ...]
    kept: int
    cloned: tuple[float, ...]
    continued: float
    described: tuple[float, ...]
    streamed: float
    facts_weight: float


@dataclass(frozen=True)
class Recordings:
    copies: int
    tract: tuple[float, ...]
    words: bool


@dataclass(frozen=True)
class Drawn:
    """How the finished model draws codes, unless a caller says otherwise."""

    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    predictor_temperature: float
    predictor_top_k: int


@dataclass(frozen=True)
class NamedVoice:
    """`clips`: the number of the teacher's clips from which its row is made after training; 0: the row is learned."""

    name: str
    line: str
    made: TeacherVoice
    clips: int = 0


@dataclass(frozen=True)
class LanguagePlan:
    """Another language. `share`: of the utterances. `women`, `men`: shares of the teacher's native voices, for a voice
    of that sex. `sound`: the share of these in the sound of a named voice; how it speaks is theirs alone. `men_tract`:
    factor of a man's formants, where the native voice is a woman's."""

    code: str
    share: float
    women: tuple[tuple[str, float], ...]
    men: tuple[tuple[str, float], ...]
    sound: float
    men_tract: float = 1.0


@dataclass(frozen=True)
class Recipe:
    """`languages`: beside English; none unless they are asked for."""

    seed: int
    voices: tuple[NamedVoice, ...]
    languages: tuple[LanguagePlan, ...]
    texts: Texts
    teacher: Teaching
    codec: CodecSizes
    codec_training: CodecTraining
    polish: Polish
    speech: SpeechSizes
    speech_training: SpeechTraining
    speaker: SpeakerSizes
    unnamed_speakers: UnnamedSpeakers
    recordings: Recordings
    sampling: Drawn


SECTIONS = {
    "texts": Texts,
    "teacher": Teaching,
    "codec": CodecSizes,
    "codec_training": CodecTraining,
    "polish": Polish,
    "speech": SpeechSizes,
    "speech_training": SpeechTraining,
    "speaker": SpeakerSizes,
    "unnamed_speakers": UnnamedSpeakers,
    "recordings": Recordings,
    "sampling": Drawn,
}


def read(
    path: Path | None = None, miniature: bool = False, wider: bool = False, languages: bool | Collection[str] = False
) -> Recipe:
    """The recipe beside this file, or the one at `path`, with the values of its tables `wider`, `more_languages` and
    `miniature` where these are asked for. `languages`: all others beside English, or the codes of some."""
    source = path or resources.files(__package__) / "recipe.toml"
    try:
        values = toml_tables(source.read_bytes())
    except OSError as error:
        raise SettingsError(f"cannot read recipe {path}", cause=error.strerror) from None
    except ParseError as error:
        raise SettingsError(f"recipe {path} {error}") from None
    # the later one has the last word
    asked = {"wider": wider, "more_languages": bool(languages), "miniature": miniature}
    tables: dict[str, dict[str, dict[str, Any]]] = {table: values.pop(table, {}) for table in asked}
    _check("the recipe", values, {"seed", "voices", *SECTIONS}, {"languages"})
    for table in (table for table, wanted in asked.items() if wanted):
        _check(f"[{table}] of the recipe", tables[table], set(), SECTIONS.keys())
        for name, changes in tables[table].items():
            values[name] |= changes
    voices = tuple(_voice(name, dict(made)) for name, made in values["voices"].items())
    sections: dict[str, Any] = {name: _section(kind, values[name], name) for name, kind in SECTIONS.items()}
    known = values.get("languages", {})
    wanted = languages if isinstance(languages, Collection) else known if languages else ()
    if unknown := set(wanted) - set(known):
        has = f"it has {', '.join(known)}"
        raise SettingsError(f"the recipe has no language {', '.join(sorted(unknown))}", hint=has)
    others = tuple(_language(code, dict(plan)) for code, plan in known.items() if code in wanted)
    return Recipe(seed=values["seed"], voices=voices, languages=others, **sections)


def _check(what: str, values: dict[str, Any], needed: Set[str], optional: Set[str] = frozenset()) -> None:
    """Raises SettingsError for unknown and for missing keys."""
    if unknown := values.keys() - needed - optional:
        raise SettingsError(f"{what} has no key {', '.join(sorted(unknown))}")
    if missing := needed - values.keys():
        raise SettingsError(f"{what} lacks {', '.join(sorted(missing))}")


def _voice(name: str, values: dict[str, Any]) -> NamedVoice:
    own: dict[str, Any] = {key: values.pop(key) for key in ("line", "clips") if key in values}
    _check(f"[voices.{name}] of the recipe", own, {"line"}, {"clips"})
    return NamedVoice(name, made=_section(TeacherVoice, _mixtures(values), f"voices.{name}"), **own)


def _language(code: str, values: dict[str, Any]) -> LanguagePlan:
    return _section(LanguagePlan, {"code": code, **_mixtures(values)}, f"languages.{code}")


def _mixtures(values: dict[str, Any]) -> dict[str, Any]:
    """The same with shares of voices in the order of their names."""
    return {key: tuple(sorted(value.items())) if isinstance(value, dict) else value for key, value in values.items()}


def _section(kind: type[T], values: dict[str, Any], name: str) -> T:
    known: Any = fields(kind)  # type: ignore[arg-type]
    needed = {field.name for field in known if field.default is MISSING}
    _check(f"[{name}] of the recipe", values, needed, {field.name for field in known} - needed)
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})
