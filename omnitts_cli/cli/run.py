"""A row of the table of commands, and how it runs: every option gets its value, then the body is imported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnitts_cli.errors import ModelError, OmniError, UsageError, VoiceError
from omnitts_cli.settings.setting import Field, fields_of
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.signals import PipeClosed

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


JOB = {"words", "text", "speech", "output", "machine", "network", "messages"}


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

    def for_body(self, values: dict[str, Any]) -> dict[str, Any]:
        """What its body gets. A preset has been read by then; a text and what it needs to be spoken are one Job."""
        values.pop("intent", None)
        if JOB <= values.keys():
            values["job"] = load("cli.job:Job")(self.name, **{name: values.pop(name) for name in JOB})
        return values


def load(place: str) -> Any:
    """What stands at a place of the package, such as "cli.say:say"."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"{__package__.partition('.')[0]}.{module}"), name)


def run(row: Command, fields: Mapping[str, list[Field]], typed: Mapping[str, Any]) -> None:
    """Runs a row of the table, whose settings are `fields`, with what was typed, which the setting's Kind parses.

    A setting that was not typed is that of a preset, the environment or a settings file: see Layers.
    """
    from omnitts_cli.settings.layers import Layers  # help needs none of it

    values = {one.name: typed[one.name] for one in row.own}
    settings = [field for group in fields.values() for field in group]
    layers = None
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
    try:
        load(row.body)(**row.for_body(values))
    except (VoiceError, ModelError, UsageError) as error:
        raise (with_origin(error, layers, settings) if layers is not None else error) from None
    except BrokenPipeError:
        raise PipeClosed from None  # Typer would turn it into exit code 1


def warn(layers: Layers) -> None:
    """Warns about unknown variables and unusable files."""
    for name, hint in layers.unknown_variables():
        console.warning(f"unknown setting {name}", hint=hint)
    for error in layers.broken:
        console.warning(f"{error.message}; its settings are ignored", cause=error.cause, hint=error.hint)


def refuse_idle(options: list[Field], typed: Mapping[str, Any], layers: Layers) -> None:
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


def with_origin(error: OmniError, layers: Layers, options: Iterable[Field]) -> OmniError:
    """The error; if the voice or model in it was not typed, it says where it is set."""
    for one in options:
        value, origin = layers.origin(one) if one.name in ("voice", "model") else (None, "typed")
        if origin not in ("typed", "default") and value and f"'{value}'" in error.message:
            error.message += layers.set_in(origin)
    return error
