"""A row of the table of commands, and how it runs: what was typed is read, every option gets its value, then the body
is imported.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from omnitts_cli.cli.meant import unexpected, unknown_option
from omnitts_cli.errors import ModelError, OmniError, UsageError, VoiceError
from omnitts_cli.settings.setting import SWITCH, Field, fields_of
from omnitts_cli.terminal.console import console

if TYPE_CHECKING:
    from omnitts_cli.settings.layers import Layers


@dataclass(frozen=True)
class Argument:
    """A word, or with `many` several, after the name of a command. `default`: what the body gets without it."""

    name: str
    metavar: str
    help: str
    many: bool = False
    required: bool = True
    default: str | None = None
    complete: str = ""  # the function of cli/complete.py that knows what may stand there


@dataclass(frozen=True)
class Option:
    """An option of one command that no settings file has. Without a metavar it is a switch."""

    name: str
    flags: str  # a space between spellings
    help: str
    metavar: str = ""
    default: str | None = None


@dataclass(frozen=True)
class Rules:
    """How a command differs from others in reading its options."""

    typed_only: Collection[str] = ()
    """These count only when they are typed: a voice in a settings file is for `say`, not against `clone`."""
    own_only: Collection[str] = ()
    """These count only when they are typed or in the command's own table of a settings file."""
    absent: Collection[str] = ()
    """Options of its groups that it does not have. They keep their defaults."""
    hidden: Collection[str] = ()
    """Options that its help does not show."""
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Another help and another metavar for an option."""
    as_typed: bool = False
    """Its body also gets what was typed, by name, in `typed`."""
    tolerant: bool = False
    """It works although a settings file is broken."""
    negative_values: bool = False
    """-6 is a value, not an option."""


OPENER = {"machine", "network", "messages"}
JOB = {"words", "text", "speech", "output", "opener"}


@dataclass(frozen=True)
class Command:
    """One row. `name` as it is typed: "say", "voices list". `body`: "module:function", a place in the package.

    A row without a body is the name of those that follow it: "voices".
    """

    name: str
    body: str
    help: str
    own: tuple[Argument | Option, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)  # "module:class", places in settings/
    rules: Rules = Rules()

    @property
    def words(self) -> list[str]:
        """Its name, as it is typed."""
        return self.name.split()

    @property
    def path(self) -> str:
        """Its name behind that of the program."""
        return f"omnitts {self.name}".rstrip()

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
        first, stop, _ = " ".join(self.help.partition("\n\n")[0].split()).partition(". ")
        return first + stop.rstrip()

    @property
    def section(self) -> str:
        """Its table in settings files."""
        return self.name.split()[0]

    @property
    def types(self) -> dict[str, type]:
        """Its groups of settings. They are imported here: the list of commands needs none of them."""
        return {name: load(f"settings.{place}") for name, place in self.groups.items()}

    @property
    def fields(self) -> dict[str, list[Field]]:
        """Its settings, by group."""
        absent = self.rules.absent
        return {name: [one for one in fields_of(group) if one.name not in absent] for name, group in self.types.items()}

    @property
    def settings(self) -> list[Field]:
        """Its settings, of all groups."""
        return [field for group in self.fields.values() for field in group]

    def for_body(self, values: dict[str, Any]) -> dict[str, Any]:
        """What its body gets. A preset has been read by then; what opens a model is one ModelOpener, a text and what it
        needs to be spoken are one Job.
        """
        values.pop("intent", None)
        if OPENER <= values.keys():
            values["opener"] = load("cli.job:ModelOpener")(**{name: values.pop(name) for name in OPENER})
        if JOB <= values.keys():
            values["job"] = load("cli.job:Job")(self.name, **{name: values.pop(name) for name in JOB})
        return values


def load(place: str) -> Any:
    """What stands at a place of the package, such as "cli.say:say"."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"{__package__.partition('.')[0]}.{module}"), name)


class Spelled(NamedTuple):
    """What a spelling of an option means."""

    name: str
    switch: bool | None  # what it is set to; None: a text follows
    many: bool = False


HELP = {"-h": Spelled("help", True), "--help": Spelled("help", True)}
HELPS = {"help", "help-all"}
HELP_ALL = {"--help-all": Spelled("help-all", True)}  # where there are settings


def spellings(row: Command, settings: Iterable[Field]) -> dict[str, Spelled]:
    """Of all options of a row."""
    found = {**HELP, **(HELP_ALL if settings else {})}
    for own in row.own:
        if isinstance(own, Option):
            found |= dict.fromkeys(own.flags.split(), Spelled(own.name, None if own.metavar else True))
    for one in settings:
        for spelling in one.setting.spellings:
            yes, _, no = spelling.partition("/")
            found[yes] = Spelled(one.name, True if one.setting.kind is SWITCH else None, one.setting.many)
            if no:
                found[no] = Spelled(one.name, False)
    return found


def options_in(word: str, known: Mapping[str, Spelled]) -> Iterator[tuple[str, str | None]]:
    """The options in a word, and the text that stands in it after one: --speed=1.2, -vAnna, -qj."""
    if word.startswith("--"):
        name, equals, text = word.partition("=")
        yield name, text if equals else None
    elif word.startswith("-"):
        for at, letter in enumerate(word[1:], 2):
            option = known.get(f"-{letter}")
            takes = option is not None and option.switch is None
            yield f"-{letter}", word[at:] or None if takes else None
            if takes or option is None:
                return


def read(row: Command, known: Mapping[str, Spelled], arguments: list[str]) -> dict[str, Any]:
    """What was typed, by name: texts, lists of them, and what switches are set to."""
    typed, words, left = dict[str, Any](), list[str](), deque(arguments)
    while left and (word := left.popleft()) != "--":
        options = [*options_in(word, known)]
        if not options or (row.rules.negative_values and any(name not in known for name, _ in options)):
            words.append(word)
            continue
        for name, text in options:
            if (error := refusal(row, known, arguments, typed, name, text, bool(left))) is not None:
                raise error
            option = known[name]
            value = option.switch if option.switch is not None else left.popleft() if text is None else text
            typed[option.name] = [*typed.get(option.name, ()), value] if option.many else value
    if not typed.keys() & HELPS:
        typed |= arguments_of(row, [*words, *left], known)
    return typed


def refusal(
    row: Command, known: Mapping[str, Spelled], given: list[str], typed: Mapping[str, Any], name: str, text: str | None,
    more: bool,
) -> UsageError | None:  # fmt: skip
    """Why an option is not accepted. `typed`: those before it; `text` stands in the same word; `more`: words follow."""
    option, path = known.get(name), row.path
    if option is None:
        takes = any(isinstance(one, Argument) and "TEXT" in one.metavar for one in row.own)
        return unknown_option(path, name, given, known, takes)
    if option.switch is None and text is None and not more:
        return UsageError(f"option '{name}' requires an argument", hint=f"{path} --help")
    if option.switch is not None and text is not None:
        return UsageError(f"option '{name}' does not take a value", hint=f"{path} --help")
    return twice(option, known) if option.name in typed and not option.many else None


def arguments_of(row: Command, words: list[str], known: Iterable[str]) -> dict[str, Any]:
    """The words that are not options, by the name of their argument."""
    found, path = dict[str, Any](), row.path
    for one in (own for own in row.own if isinstance(own, Argument)):
        taken, words = (words, []) if one.many else (words[:1], words[1:])
        if one.required and not taken:
            raise UsageError(f"missing argument '{one.metavar}'", hint=f"{path} --help")
        found[one.name] = taken if one.many else taken[0] if taken else one.default
    if words:
        raise unexpected(path, words, known)
    return found


def unset(own: Argument | Option) -> Any:
    """What the body gets of an option that was not typed; False for a switch."""
    return False if isinstance(own, Option) and not own.metavar else own.default


def twice(option: Spelled, known: Mapping[str, Spelled]) -> UsageError:
    """The error for an option that is typed again."""
    flags = [flag for flag, one in known.items() if one.name == option.name]
    name = next((one for one in flags if one.startswith("--")), flags[0])
    blend = "-v A:50,B:50   blends two voices"
    return UsageError(f"{name} is given more than once", hint=blend if name == "--voice" else f"give {name} once")


def run_row(row: Command, arguments: list[str]) -> int:
    """Runs a row of the table with what was typed after its name; the setting's Kind parses it. Returns the exit code.

    A setting that was not typed is that of a preset, the environment or a settings file: see Layers.
    """
    from omnitts_cli.settings.layers import Layers  # help needs none of it

    fields, settings = row.fields, row.settings
    typed = dict.fromkeys(field.name for field in settings) | read(row, spellings(row, settings), arguments)
    for wanted in typed.keys() & HELPS:
        return int(load("cli.declare:call")([*row.words, f"--{wanted}"]))
    values: dict[str, Any] = {one.name: typed.get(one.name, unset(one)) for one in row.own}
    layers: Layers | None = None
    if settings:
        given = {field.name: field.typed(typed[field.name]) for field in settings}
        layers = Layers(row.section, given, settings, row.rules.tolerant, row.rules.own_only)
        rules, words = row.rules, values.get("words")
        typed_only = {*rules.typed_only, "file"} if words else rules.typed_only  # typed words are the text
        for name, group in row.types.items():
            of_group = {one.name: layers.value(one, typed_only=one.name in typed_only) for one in fields[name]}
            values[name] = group(**of_group)
        if rules.as_typed:
            values["typed"] = typed
        messages = values["messages"]
        if messages.quiet and messages.verbose:
            raise UsageError("use either -q or --verbose, not both", hint="leave one of them out")
        console.configure(messages)
        warn(layers)
        refuse_idle(settings, given, layers)
    console.stdout.claim()
    body = body_of(row)
    try:
        code = body(**row.for_body(values))
    except (VoiceError, ModelError, UsageError) as error:
        raise (with_origin(error, layers, settings) if layers is not None else error) from None
    return code if isinstance(code, int) else 0


def body_of(row: Command) -> Callable[..., Any]:
    """The function that a row names, which is imported now."""
    try:
        body: Callable[..., Any] = load(row.body)
    except (ModuleNotFoundError, AttributeError):
        load("cli.commands:check")([row])
        raise
    return body


def warn(layers: "Layers") -> None:
    """Warns about unknown variables and unusable files."""
    for name, hint in layers.unknown_variables():
        console.warning(f"unknown setting {name}", hint=hint)
    for error in layers.broken:
        console.warning(f"{error.message}; its settings are ignored", cause=error.cause, hint=error.hint)


def refuse_idle(options: list[Field], typed: Mapping[str, Any], layers: "Layers") -> None:
    """Refuses a typed option that has no effect without another. In a settings file it is allowed."""
    depends = [field for field in options if field.setting.needs and typed[field.name] is not None]
    if not depends:
        return
    known = {option: field for field in options for option in field.setting.spellings}

    def given(need: str) -> bool:
        option, _, wanted = need.partition(" ")
        value, _ = layers.origin(known[option])
        return value == wanted if wanted else value not in (None, False)

    for one in depends:
        needs = [need for need in one.setting.needs if need.split()[0] in known]
        if needs and not any(map(given, needs)):
            option = one.setting.option_for(typed[one.name])
            would = [need if " " in need else f"{need} {known[need].setting.metavar}".rstrip() for need in needs]
            without = f"{option} has no effect without {' or '.join(needs)}"
            raise UsageError(without, hint="   or   ".join(would))


def with_origin(error: OmniError, layers: "Layers", options: Iterable[Field]) -> OmniError:
    """The error; if the voice or model in it was not typed, it says where it is set."""
    for one in options:
        value, origin = layers.origin(one) if one.name in ("voice", "model") else (None, "typed")
        if origin not in ("typed", "default") and value and f"'{value}'" in error.message:
            error.message += layers.set_in(origin)
    return error
