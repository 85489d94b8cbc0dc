"""Setting: one row of the table. Its name and default are those of the field that carries it."""

import dataclasses
import difflib
import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, ClassVar, Literal, Self

from omnitts_cli.errors import DeviceError, SettingsError, UsageError

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
THOUSANDS = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?k(?:hz)?", re.ASCII | re.IGNORECASE)
WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")  # other names of standard output, which a command moves away
MOST_SHOWN = 80  # characters of a wrong value
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class ValueKind:
    """`words` completes "is not ..."; `parse` reads typed text and raises ValueError."""

    words: str
    parse: Callable[[str], Any]
    accepts: Callable[[Any], bool]
    choices: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None  # of numbers
    usual: str | None = None  # what a hint suggests in place of a word
    # devices that exist, but not for this version: why, and the value to use instead
    unsupported: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    meant: Mapping[str, str] = dataclasses.field(default_factory=dict)  # hints for other values that people type
    schema: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # what it accepts, as JSON schema

    def example(self, text: str, default: Any = None) -> str | None:
        """For a hint: the accepted number nearest to `text`, a usual value, or the default; None if there is none."""
        if self.limits is None:
            return self.usual
        low, high = self.limits
        try:
            thousands = THOUSANDS.fullmatch(text)
            wanted = 1000 * float(thousands[1]) if thousands else float(text)
        except ValueError:
            wanted = default if isinstance(default, int | float) else math.nan
        if math.isnan(wanted) and self.usual:
            return self.usual
        near = max(low, min(high, 1 if math.isnan(wanted) else wanted))
        return str(near) if isinstance(near, int) else str(int(near)) if near.is_integer() else f"{near:g}"

    def read(self, text: str) -> Any:
        """The value of `text`, or ValueError."""
        value = self.parse(text)
        if not self.accepts(value):
            raise ValueError(text)
        return value


def nearest(word: str, known: list[str]) -> str | None:
    """The known word that was most likely meant."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return close[0] if close else None


def parse_number(text: str) -> float:
    """Plain digits only: Python's float also accepts nan, inf, 1_0 and digits of other scripts."""
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def parse_whole(text: str) -> int:
    if not WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parse_bytes(text: str) -> int:
    """A number of bytes: 500MB, 1G."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?) ?([kmgt]?)b?", text.strip().lower(), re.ASCII)
    if not found:
        raise ValueError(text)
    return int(float(found[1]) * SIZES[found[2]])


def readable_size(count: float) -> str:
    """A number of bytes for messages, in the units of nvidia-smi and free."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit != "MiB" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def parse_switch(text: str) -> bool:
    if text.lower() not in YES + NO:
        raise ValueError(text)
    return text.lower() in YES


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def one_of(*words: str, aliases: Mapping[str, str] | None = None, meant: Mapping[str, str] | None = None) -> ValueKind:
    """One of `words`, or an alias that stands for one of them. `meant`: hints for other values."""

    def parse(text: str) -> str:
        return (aliases or {}).get(text.lower(), text.lower())

    return ValueKind("one of " + ", ".join(words), parse, lambda value: value in words, words, meant=meant or {},
                     schema={"type": "string", "enum": list(words)})  # fmt: skip


def whole(low: int, high: int) -> ValueKind:
    words = f"a whole number from {low} to {high}"
    return ValueKind(words, parse_whole, lambda v: type(v) is int and low <= v <= high, limits=(low, high),
                     schema={"type": "integer", "minimum": low, "maximum": high})  # fmt: skip


def number(low: float, high: float, usual: str | None = None) -> ValueKind:
    words, limits = f"a number from {low:g} to {high:g}", (low, high)
    return ValueKind(words, parse_number, lambda v: type(v) in (int, float) and low <= v <= high, (), limits, usual,
                     schema={"type": "number", "minimum": low, "maximum": high})  # fmt: skip


UNITS = {"": 1, "s": 1, "ms": 0.001, "m": 60, "h": 3600}
TIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|[smh]?)", re.ASCII)
SIZE = re.compile(r"(\d{1,6})(?:MB?)?", re.ASCII | re.IGNORECASE)


def seconds() -> ValueKind:
    """A time: a number of seconds, or with a unit such as 500ms, 30s, 15m, 1h."""

    def parse(text: str) -> float:
        found = TIME.fullmatch(text.lower())
        if not found:
            raise ValueError(text)
        return float(found[1]) * UNITS[found[2]]

    return ValueKind(
        "a time such as 30, 30s or 15m", parse, lambda v: type(v) in (int, float) and 0 < v <= 1e6, limits=(1, 1e6),
        usual="15m",
    )  # fmt: skip


def megabytes(low: int, high: int) -> ValueKind:
    """A size in megabytes, with or without the unit."""

    def parse(text: str) -> int:
        found = SIZE.fullmatch(text)
        if not found:
            raise ValueError(text)
        return int(found[1]) * 1_000_000

    return ValueKind(
        f"a size from {low}MB to {high}MB",
        parse,
        lambda v: type(v) is int and low * 1_000_000 <= v <= high * 1_000_000,
        limits=(low, high),
    )


def either(word: str, kind: ValueKind) -> ValueKind:
    """`kind`, or one word such as "auto" or "off"."""

    def parse(text: str) -> Any:
        return word if text.lower() == word else kind.parse(text)

    return ValueKind(f"{kind.words}, or {word}", parse, lambda v: v == word or kind.accepts(v), (), kind.limits,
                     kind.usual, schema={"anyOf": [kind.schema, {"type": "string", "enum": [word]}]})  # fmt: skip


def is_via(value: Any) -> bool:
    return isinstance(value, str) and (value in ("auto", "off") or value.startswith(("http://", "https://")))


VIA = ValueKind(
    "auto, off or an http URL",
    lambda text: text.lower() if text.lower() in ("auto", "off") else text,
    is_via,
    ("auto", "off"),
)
DEVICE_NAMES = "auto, cpu, cuda[:N] or npu[:N]"
_DEVICE = re.compile(r"auto|cpu|(cuda|npu)(:\d{1,3})?", re.ASCII)


def parse_device(text: str) -> str:
    """A device's name; gpu is another word for cuda."""
    return re.sub("^gpu(?![a-z])", "cuda", text.lower())


def is_device(value: Any) -> bool:
    return isinstance(value, str) and _DEVICE.fullmatch(parse_device(value)) is not None


ON_A_MAC = "speech on a Mac runs on the performance cores of its CPU", "cpu"
ON_AMD = "PyTorch for ROCm calls an AMD card cuda", "cuda"
DEVICE = ValueKind(
    f"one of {DEVICE_NAMES}", parse_device, is_device, ("auto", "cpu", "cuda", "npu"),
    unsupported={
        "mps": ON_A_MAC, "metal": ON_A_MAC, "rocm": ON_AMD, "hip": ON_AMD,
        "xpu": ("nothing here is written for Intel's cards", "cpu"),
        "vulkan": ("nothing here is written for Vulkan", "cpu"),
        "directml": ("nothing here is written for DirectML", "cpu"),
    },
)  # fmt: skip
TEXT = ValueKind("text", str, is_text)
TARGET = ValueKind("text", lambda text: "-" if text in STDOUT else text, is_text)
ANY_TEXT = ValueKind("text", str, lambda value: isinstance(value, str))
BYTES = ValueKind("a size from 100KB to 1TB", parse_bytes, lambda v: type(v) is int and 10**5 <= v <= 10**12)
SWITCH = ValueKind("true or false", parse_switch, lambda value: isinstance(value, bool), schema={"type": "boolean"})


Group = Literal[
    "text", "voice", "rows", "load", "server", "limits", "sampling", "output", "report", "machine", "messages",
]  # fmt: skip
"""In the order of help."""

RARE = "+"  # behind the group of an option that only --help-all shows


@dataclass(frozen=True)
class Setting:
    """What a setting accepts, its help, and where it may be set.

    Every setting is an option, an environment variable and a key of the settings file. Presets may set those with
    `preset`. A project file, which may come from someone else, may set those with `project`: how speech sounds, never
    which files are read, written or downloaded.
    """

    flags: str  # as typed, a space between spellings
    kind: ValueKind
    help: str
    takes: str = ""  # the placeholder in help; by default the choices
    many: bool = False
    shown: str = ""  # the default, in words
    group: Group = "messages"  # the heading in help
    main: bool = False  # one of the few that most people need
    preset: bool = False
    project: bool = False
    complete: Literal["", "models", "voices", "presets"] = ""  # what shell completion offers
    needs: tuple[str, ...] = ()  # typed without any of these options, "--subs" or "--verify asr", it is refused

    @property
    def spellings(self) -> list[str]:
        """All spellings, as typed. Help does not show the former one."""
        return self.flags.split()

    @property
    def former(self) -> str:
        """Its former name, which is its second long spelling and still accepted everywhere; empty if there is none."""
        long = [one.removeprefix("--") for one in self.spellings if one.startswith("--")]
        return long[1].replace("-", "_") if len(long) > 1 else ""

    @property
    def option(self) -> str:
        """The spelling that messages use."""
        return self.option_for(True)

    def option_for(self, value: Any) -> str:
        """The spelling that messages use for this value: --no-stream for False, if there is one."""
        on, _, off = next((s for s in self.spellings if s.startswith("--")), self.spellings[0]).partition("/")
        return off if off and value is False else on

    @property
    def metavar(self) -> str:
        """The placeholder in help."""
        return self.takes or "|".join(self.kind.choices)

    def read(self, text: str, source: str = "", default: Any = None) -> Any:
        """The parsed value, or an error that names `source`, by default the option, and the text, and a value that is
        accepted."""
        try:
            return self.kind.read(text)
        except ValueError:
            source, typed = source or self.option, text.lower()
            close = nearest(typed, list(self.kind.choices))
            close = close or next((one for one in self.kind.choices if typed.startswith(f"{one}-")), None)  # en-US
            takes = (
                close or self.kind.example(text, default) or next(iter(self.kind.choices), self.metavar) or "true|false"
            )
            hint = f"{source} {takes}" if source.startswith("-") else f"{source}={takes}"
            hint = self.kind.meant.get(typed, hint)
            wrong = f"'{text[:80]}' is not {self.kind.words}" if text else "is empty"
            if typed in self.kind.unsupported:
                why, instead = self.kind.unsupported[typed]
                hint = f"{source} {instead}" if source.startswith("-") else f"{source}={instead}"
                raise DeviceError(f"{source} '{text}' is not supported by this version", cause=why, hint=hint) from None
            raise UsageError(f"{source} {wrong}", hint=hint) from None

    def accepts(self, value: Any) -> bool:
        """Whether a value from a file is valid; booleans only for switches."""
        return self.kind.accepts(value) and isinstance(value, bool) == (self.kind is SWITCH)

    def resolved(self, value: Any) -> Any:
        """A value from a file or a program; a choice may be spelled as it may be typed: "English" for "en"."""
        return self.kind.parse(value) if self.kind.choices and isinstance(value, str) else value


def carries(default: Any, setting: Setting) -> Any:
    """A field of a group of settings."""
    return dataclasses.field(default=default, metadata={"setting": setting})


def fields_with(**usual: Any) -> Callable[..., Any]:
    """What makes fields whose settings have these arguments in common; it takes the default, then the others."""
    return lambda default, *given, **more: carries(default, Setting(*given, **(usual | more)))


@dataclass(frozen=True, eq=False)
class Field:
    """A setting together with the name and default of its place in a group. There is one object of each."""

    name: str
    setting: Setting
    default: Any

    @property
    def key(self) -> str:
        """Its name in files: `sentence-gap`."""
        return self.name.replace("_", "-")

    @property
    def former_key(self) -> str:
        """Its former name in files; empty if there is none."""
        return self.setting.former.replace("_", "-")

    def typed(self, value: Any) -> Any:
        """The parsed value of a typed option; None if it was not typed."""
        if value is None or value == [] or self.setting.kind is SWITCH:
            return None if value == [] else value
        if self.setting.many:
            return tuple(self.setting.read(text) for text in value)
        return self.setting.read(value, default=self.default)

    def checked(self, value: Any) -> Any:
        """A value from a program, checked; NumPy numbers and paths are accepted."""
        items = list(value) if self.setting.many and not isinstance(value, str) else [value]
        found = [item.item() if hasattr(item, "item") else item for item in items]
        found = [self.setting.resolved(fspath(item) if isinstance(item, PathLike) else item) for item in found]
        for item in found:
            if not self.setting.accepts(item):
                raise UsageError(
                    f"{self.name} = {item!r} is not {self.setting.kind.words}", hint=f"correct {self.name}="
                )
        return tuple(found) if self.setting.many else found[0]

    def stored(self, key: str, value: Any, place: str, where: tuple[str, int | None] | None = None) -> Any:
        """A value from a file, checked. `key`: its name there; `place`: of the key, in words."""
        items = list(value) if self.setting.many and isinstance(value, list) else [value]
        found = [self.setting.resolved(item) for item in items]
        if not all(map(self.setting.accepts, found)):
            wrong = f"{place}: {key} = {shown(value)} is not {self.setting.kind.words}"
            raise SettingsError(wrong, hint=f"correct '{key}'", where=where)
        return tuple(found) if self.setting.many else found[0]

    def spelled(self, text: str, source: str) -> Any:
        """The parsed value of a text that was not typed."""
        parts = text.split(",") if self.setting.many else [text]
        read = [self.setting.read(part, source, self.default) for part in parts]
        return tuple(read) if self.setting.many else read[0]


@functools.cache
def fields_of(group: type) -> tuple[Field, ...]:
    """The settings of a group, in order of declaration. Cached, because most commands share most groups."""
    return tuple(Field(one.name, one.metadata["setting"], one.default) for one in dataclasses.fields(group))


def former_names(fields: Mapping[str, Field]) -> dict[str, str]:
    """Former name -> name."""
    return {field.setting.former: name for name, field in fields.items() if field.setting.former}


def kinds_of(*groups: type) -> dict[str, ValueKind]:
    """What the settings of these groups accept, by name."""
    return {field.name: field.setting.kind for group in groups for field in fields_of(group)}


class Checked:
    """Base of a dataclass that programs fill in: `rules` says what each field accepts, besides a default of None."""

    rules: ClassVar[Mapping[str, ValueKind]]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value, kind = getattr(self, field.name), self.rules[field.name]
            if not kind.accepts(value) and not (value is None and field.default is None):
                raise SettingsError(f"{field.name} = {shown(value)} is not {kind.words}")

    @classmethod
    def of(cls, values: Mapping[str, Any], source: str) -> Self:
        """Settings from a table; an unknown key is an error that names `source` and the nearest key."""
        for key in values:
            if key not in cls.rules:
                close = nearest(key, list(cls.rules))
                hint = f"did you mean '{close}'?" if close else "known keys: " + ", ".join(cls.rules)
                raise SettingsError(f"{source}: unknown key '{key}'", hint=hint)
        try:
            return cls(**values)
        except SettingsError as error:
            raise SettingsError(f"{source}: {error.message}") from None


def shown(value: object) -> str:
    """A wrong value, short enough for a message."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
