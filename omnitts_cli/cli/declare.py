"""How a command is declared: groups of options as dataclasses, each option once, in one place.

`command` turns a function whose parameters are such groups into what Typer wants: a function with one
parameter per option. Every value arrives as text and is read by the option's Kind, whether it was
typed, came from the environment, a settings file or a preset; so all of them are equally strict.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any, Optional, get_args, get_type_hints

import typer

from omnitts_cli.cli.console import console
from omnitts_cli.cli.signals import PipeClosed
from omnitts_cli.errors import UsageError
from omnitts_cli.kinds import SWITCH, Kind
from omnitts_cli.presets import nearest


@dataclass(frozen=True)
class Opt:
    """One option: its spellings, what it takes, its line of help, and how help shows its default."""

    flags: str  # as typed, a space between spellings
    kind: Kind
    help: str
    takes: str = ""  # the placeholder in help; by itself the choices
    many: bool = False
    shown: str = ""
    complete: Callable[[str], list[str]] | None = None

    @property
    def spellings(self) -> list[str]:
        return self.flags.split()

    @property
    def name(self) -> str:
        """The spelling that messages use."""
        return next((s for s in self.spellings if s.startswith("--")), self.spellings[0]).split("/")[0]

    @property
    def metavar(self) -> str:
        return self.takes or "|".join(self.kind.choices)

    def read(self, text: str, source: str) -> Any:
        """The value of what was typed behind `source`, or an error that names both."""
        try:
            return self.kind.read(text)
        except ValueError:
            typed = text.lower()
            close = nearest(typed, list(self.kind.choices))
            close = close or next((one for one in self.kind.choices if typed.startswith(f"{one}-")), None)  # en-US
            takes = close or self.metavar or "true|false"
            hint = f"{source} {takes}" if source.startswith("-") else f"{source}={takes}"
            wrong = f"'{text[:80]}' is not {self.kind.words}" if text else "is empty"
            raise UsageError(f"{source} {wrong}", hint=hint) from None


@dataclass(frozen=True)
class Field:
    """An option together with the name and default of its place in a group."""

    name: str
    opt: Opt
    default: Any

    @functools.cached_property
    def parameter(self) -> inspect.Parameter:
        """The parameter that Typer sees. Its default is None: not given."""
        base = bool if self.opt.kind is SWITCH else list[str] if self.opt.many else str
        told = not (self.default is None or isinstance(self.default, bool) or self.default in ("", ()))
        default = f"{self.default:g}" if isinstance(self.default, float) else f"{self.default}"
        shown = self.opt.shown or (default if told else "")
        complete = self.opt.complete or (self._choices if self.opt.kind.choices else None)
        option = typer.Option(
            *self.opt.spellings,
            help=f"{self.opt.help} [{shown}]" if shown else self.opt.help,
            metavar=None if self.opt.kind is SWITCH else self.opt.metavar,
            show_default=False,
            autocompletion=complete,
        )
        annotation = Annotated[Optional[base], option]  # type: ignore[valid-type] # noqa: UP045
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    def _choices(self, incomplete: str) -> list[str]:
        return [choice for choice in self.opt.kind.choices if choice.startswith(incomplete)]

    def typed(self, value: Any) -> Any:
        """What was typed, read; None where nothing was."""
        if value is None or value == [] or self.opt.kind is SWITCH:
            return None if value == [] else value
        if self.opt.many:
            return tuple(self.opt.read(text, self.opt.name) for text in value)
        return self.opt.read(value, self.opt.name)


@functools.cache
def fields_of(group: type) -> tuple[Field, ...]:
    """The options of a group, in the order of declaration. Kept, as most commands share most groups."""
    hints = get_type_hints(group, include_extras=True)
    fields = []
    for field in dataclasses.fields(group):
        opt = next(extra for extra in get_args(hints[field.name])[1:] if isinstance(extra, Opt))
        fields.append(Field(field.name, opt, field.default))
    return tuple(fields)


def command(body: Callable[..., None], typed_only: Collection[str] = ()) -> Callable[..., None]:
    """The function that Typer calls for `body`. Options in `typed_only` have no say unless they are typed:
    a voice in a settings file is for `say`, not against `clone`.
    """
    hints = get_type_hints(body, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    fields = {name: list(fields_of(group)) for name, group in groups.items()}
    section = body.__module__.rpartition(".")[2]

    def run(**typed: Any) -> None:
        from omnitts_cli.cli import defaults

        given = {field.name: field.typed(typed.pop(field.name)) for group in fields.values() for field in group}
        layers = defaults.Layers(section, given, [field for group in fields.values() for field in group])
        without = {*typed_only, "file"} if typed.get("words") else typed_only  # words that were typed are the text
        values = {
            field.name: layers.value(field, typed_only=field.name in without)
            for group in fields.values()
            for field in group
        }
        built = {name: groups[name](**{f.name: values[f.name] for f in fields[name]}) for name in groups}
        for group in built.values():
            if hasattr(group, "apply"):
                group.apply()
        defaults.warn_of_strangers(layers)
        console.stdout.claim()
        try:
            body(**typed, **built)
        except BrokenPipeError:
            raise PipeClosed from None  # Typer would make exit code 1 of it

    own = [p for p in inspect.signature(body, eval_str=True).parameters.values() if p.name not in groups]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters = own + [field.parameter for group in fields.values() for field in group]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__name__, run.__doc__, run.__module__ = body.__name__, body.__doc__, body.__module__
    return run
