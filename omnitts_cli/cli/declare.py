"""All that is Typer's: help, completion, and what is typed in the place of a command. Rows of the table become its
commands, but cli/run.py reads what follows the name of one, and runs it.
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperCommand, TyperGroup

from omnitts_cli.cli.commands import NAMES, rows_of
from omnitts_cli.cli.meant import unknown_option
from omnitts_cli.cli.run import Argument, Option, load
from omnitts_cli.cli.run import Command as Row
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.setting import RARE, SWITCH, Field, nearest
from omnitts_cli.terminal.console import console

# The parser's exceptions are in a private module; this is their public base class.
Refusal: type[BaseException] = typer.BadParameter.__bases__[0]


LONGEST_HINT = 100
WORDS_MEANT = {
    "version": "omnitts --version",
    "list": "omnitts voices list",
    "ls": "omnitts voices list",
    "speakers": "omnitts voices list",
    "settings": "omnitts config show",
    "check": "omnitts doctor",
    "download": "omnitts models pull NAME",
    "pull": "omnitts models pull NAME",
    "benchmark": "omnitts bench",
    "man": "omnitts help --man ~/.local/share/man",
}
"""Words typed instead of a command, and the command that was meant."""

SAME = {"delete": "rm", "remove": "rm", "add": "save", "create": "save", "download": "pull", "list": "show",
        "fetch": "pull", "get": "pull", "install": "pull"}  # fmt: skip
"""Names that other programs have for commands of ours."""

VERBS = ("tts", "speak", "talk", "read", "generate", "synthesize", "synthesise", "run")
"""Words typed instead of `say`; what follows them is the text."""


PLAIN: dict[str, Any] = {"no_args_is_help": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
"""Typer without rich and tracebacks, for speed."""


class AsTyped:
    """Stands in for Typer's conversion, which imports pydantic (50 ms): text stays as typed, and our Kinds parse it."""

    KINDS = (str, list[str], bool)

    @staticmethod
    def replace(params: Iterable[Any]) -> None:
        for param in params:
            if getattr(getattr(param, "type_descriptor", None), "annotation", None) in AsTyped.KINDS:
                param._runtime_param = AsTyped()

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        return list(value) if isinstance(value, tuple) else value


def help_text(command: Any, ctx: Any, *, everything: bool) -> str:
    """The help of a command. What makes it reads the table of settings, which `omnitts --help` does not need."""
    return str(load("terminal.usage:help_text")(command, ctx, everything=everything))


class StrictCommand(TyperCommand):
    """A command for its two kinds of help, and for what a shell completes. cli/run.py reads what is typed to run it."""

    def get_help(self, ctx: Any) -> str:
        return help_text(self, ctx, everything=False)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        AsTyped.replace(self.get_params(ctx))
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class Commands(TyperGroup):
    """A group of commands. Without a command, help goes to stderr; an unknown word gets a suggestion."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            console.note(ctx.get_help())
            raise typer.Exit(2)
        AsTyped.replace(self.get_params(ctx))
        given = list(args)
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except Refusal as refusal:
            option, word = getattr(refusal, "option_name", None), next((w for w in given if w in self.commands), None)
            if option and not ctx.resilient_parsing and (hint := self._moved(ctx, word, option, given)):
                raise UsageError(f"unknown option '{option}'", hint=hint) from None
            raise
        return rest

    def _moved(self, ctx: Any, word: str | None, option: str, given: list[str]) -> str:
        """A hint for an option that belongs after a command; "" if it is of none."""
        if word:
            return f"{ctx.command_path} {word} {option}   (options come after the command)"
        if given == ["-v"]:
            return f"{ctx.command_path} --version"
        meant, say = f"{ctx.command_path} say {shlex.join(given)}", self.commands.get("say")
        fits = say is not None and any(option in param.opts for param in say.params)
        return meant if fits and len(given) > 1 and len(meant) <= LONGEST_HINT else ""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if word not in self.commands and not ctx.resilient_parsing:
            raise UsageError(f"no such command '{word}'", hint=self._suggestion(ctx, args))
        return super().resolve_command(ctx, args)

    def _suggestion(self, ctx: Any, args: list[str]) -> str:
        speaks, word = "say" in self.commands, args[0].lower()
        if speaks and len(args) == 1 and word in WORDS_MEANT:
            return WORDS_MEANT[word]
        if speaks and word in VERBS:
            text = shlex.join(args[1:]) if any(one.startswith("-") for one in args) else f'"{" ".join(args[1:])}"'
            return f"omnitts say {text}" if 1 < len(args) and len(text) <= LONGEST_HINT else 'omnitts say "text"'
        names = [name for name in self.commands if name != "help"]  # "hello" is text to speak
        close = SAME[word] if SAME.get(word) in names else nearest(word, names)
        if close:
            meant = f"{ctx.command_path} {shlex.join([close, *args[1:]])}"
            return meant if len(meant) <= LONGEST_HINT else f"{ctx.command_path} {close}"
        if speaks:
            return f'omnitts say "{" ".join(args)[:60]}"'
        return f"{ctx.command_path} --help"


def in_our_words(refusal: Any) -> UsageError:
    """An error of Typer's parser as a UsageError. It reads what stands before the name of a command."""
    ctx = getattr(refusal, "ctx", None)
    path = ctx.command_path if ctx else NAME
    option = getattr(refusal, "option_name", None)
    if option and hasattr(refusal, "possibilities"):
        known = [name for param in ctx.command.params for name in param.opts] if ctx else []
        return unknown_option(path, option, [], known, text=False)
    message = refusal.format_message().rstrip(".")
    return UsageError(message[:1].lower() + message[1:], hint=f"{path} --help")


def group(row: Row) -> typer.Typer:
    """A Typer app for the commands below a row, with our parser."""
    return typer.Typer(cls=Commands, help=row.help, **PLAIN)


COMPLETE = {"models": "model_names", "voices": "voice_names", "presets": "preset_names"}
"""The function of cli/complete.py for a setting, by its `complete`."""


def completion(name: str) -> Callable[[str], list[str]] | None:
    """A function of cli/complete.py, which is imported when a shell asks."""
    return (lambda incomplete: load(f"cli.complete:{name}")(incomplete)) if name else None


def own_parameter(own: Argument | Option) -> inspect.Parameter:
    """What Typer sees of an argument or option that is in no group."""
    base: Any = str
    default: Any = own.default
    if isinstance(own, Argument):
        base = list[str] if own.many else str
        info = typer.Argument(metavar=own.metavar, help=own.help, autocompletion=completion(own.complete))
        default = inspect.Parameter.empty if own.required else default
    elif own.metavar:
        info = typer.Option(*own.flags.split(), metavar=own.metavar, help=own.help)
    else:
        base, default = bool, False
        info = typer.Option(*own.flags.split(), help=own.help)
    annotation: Any = Annotated[base if default is not None else Optional[base], info]  # noqa: UP045
    return inspect.Parameter(own.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


@functools.cache
def parameter(field: Field, hidden: bool = False, words: tuple[str, str] | None = None) -> inspect.Parameter:
    """What Typer sees of a setting. None means not given. `words`: other help and another metavar."""
    setting, default = field.setting, field.default
    base = bool if setting.kind is SWITCH else list[str] if setting.many else str
    has_default = not (default is None or isinstance(default, bool) or default in ("", ()))
    as_typed = f"{default:g}" if isinstance(default, float) else f"{default}"
    shown = setting.shown or (as_typed if has_default else "")
    meaning, takes = words or (f"{setting.help} [{shown}]" if shown else setting.help, setting.metavar)

    def choices(incomplete: str) -> list[str]:
        return [choice for choice in setting.kind.choices if choice.startswith(incomplete)]

    option = typer.Option(
        *setting.spellings,
        help=meaning,
        metavar=None if setting.kind is SWITCH else takes,
        show_default=False,
        hidden=hidden,
        autocompletion=completion(COMPLETE.get(setting.complete, "")) or (choices if setting.kind.choices else None),
        rich_help_panel=f"{setting.group}{'' if setting.main else RARE}",
    )
    annotation = Annotated[Optional[base], option]  # type: ignore[valid-type] # noqa: UP045
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def show_all(ctx: typer.Context, wanted: bool) -> None:
    """--help-all"""
    if wanted and not ctx.resilient_parsing:
        typer.echo(help_text(ctx.command, ctx, everything=True))
        raise typer.Exit()


HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option("--help-all", help="Show all options.", is_eager=True, callback=show_all, rich_help_panel=RARE),
    ],
)


def command_of(row: Row) -> Callable[..., None]:
    """A function for Typer, which reads options from a signature; this one is drawn from the row."""
    own = [own_parameter(one) for one in row.own]
    settings = [field for group in row.fields.values() for field in group]
    rules = row.rules
    of_groups = [parameter(one, one.name in rules.hidden, rules.words.get(one.name)) for one in settings]
    parameters = [*own, *of_groups, *([HELP_ALL] if settings else [])]

    def called(**typed: Any) -> None:
        raise AssertionError("cli/run.py runs commands")

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


NAME = "omnitts"
BARE = (["-h"], ["--help"], ["-V"], ["--version"])


def show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version
        from pathlib import Path

        try:
            words = version("omnitts-cli")
        except PackageNotFoundError:
            words = f"(not installed; run from {Path(__file__).parents[2]})"
        console.stdout.claim()
        console.stdout.line(f"omnitts {words}")
        raise typer.Exit()


def root(
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Speech from the command line.

    \b
    omnitts say "Hello there"                      speak
    omnitts say -f book.md -o book.flac            speak a file into a file
    omnitts clone -r me.wav "Good morning"         speak in a voice like a clip's
    omnitts design -i "deep and slow" "Once"       speak in a described voice
    omnitts batch lines.csv -O corpus              speak the rows of a manifest
    omnitts ask "Why is the sky blue?"             ask a language model
    omnitts doctor                                 check this machine
    omnitts help                                   list the help pages
    """


class Root(Commands):
    """The commands in the order of the table."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in NAMES if name in self.commands]


def app_of(names: Collection[str], *, listed: bool = False) -> typer.Typer:
    """The app with these commands of the table; if they are only `listed`, their names and help suffice."""
    # Typer's own options for completion would import pydantic for every command; `omnitts completion` replaces them
    help_option = {"help_option_names": ["-h", "--help"]}
    app = typer.Typer(name=NAME, cls=Root, add_completion=False, context_settings=help_option, **PLAIN)
    app.callback()(root)
    groups: dict[str, typer.Typer] = {}
    for row in rows_of(names, run=not listed):
        above, _, name = row.name.rpartition(" ")
        if listed:
            if not above:
                app.command(name, help=row.help)(lambda: None)
        elif not row.body:
            groups[name] = group(row)
            app.add_typer(groups[name], name=name)
        else:
            groups.get(above, app).command(name, cls=StrictCommand, help=row.help)(command_of(row))
    return app


def asked_for(arguments: list[str], completing: bool = False) -> Collection[str]:
    """Only the command that comes first: declaring all of them takes longer than showing its help."""
    return arguments[:1] if arguments and arguments[0] in NAMES and not completing else NAMES


def call(arguments: list[str], completing: bool = False) -> int:
    """Shows help, the version or what a shell completes, or raises UsageError: no command is named. Returns the exit
    code."""
    app = app_of(asked_for(arguments, completing), listed=arguments in BARE)
    try:
        code = app(arguments, prog_name=NAME, standalone_mode=False)
    except Refusal as refusal:
        raise in_our_words(refusal) from None
    return code if isinstance(code, int) else 0
