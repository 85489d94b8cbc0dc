"""The Typer app: help, completion, and what is typed in the place of a command. Rows of the table become its commands,
but cli/run.py reads what follows the name of one, and runs it.
"""

import functools
import inspect
import shlex
from collections.abc import Callable, Collection
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperCommand, TyperGroup

from omnitts_cli.cli.commands import NAMES, check, rows_of
from omnitts_cli.cli.meant import unknown_option
from omnitts_cli.cli.run import Argument, Option, load
from omnitts_cli.cli.run import Command as Row
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.environment import COMPLETING, variable
from omnitts_cli.settings.setting import RARE, SWITCH, Field, nearest
from omnitts_cli.terminal.console import console

# The parser's exceptions are in a private module; this is their public base class.
Refusal: type[BaseException] = typer.BadParameter.__bases__[0]


LONGEST_HINT = 100
WIDEST = 10_000  # columns of what a completion means
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


def help_text(command: Any, ctx: Any, *, everything: bool) -> str:
    """The help of a command. What makes it reads the table of settings, which `omnitts --help` does not need."""
    return str(load("terminal.usage:help_text")(command, ctx, everything=everything))


def whole(found: list[Any]) -> list[Any]:
    """What a shell completes, with [tiny] in its help as words: Typer takes that for markup of rich."""
    from rich.markup import escape

    for one in found:
        one.help = escape(one.help or "")
    return found


class StrictCommand(TyperCommand):
    """A command for its two kinds of help, and for what a shell completes. cli/run.py reads what is typed to run it."""

    def get_help(self, ctx: Any) -> str:
        return help_text(self, ctx, everything=False)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        return whole(super().shell_complete(ctx, incomplete))


class Commands(TyperGroup):
    """A group of commands. Without a command, help goes to stderr; an unknown word gets a suggestion."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        if args in ([], ["--"]) and not ctx.resilient_parsing:
            console.note(ctx.get_help())
            raise typer.Exit(2)
        if args[:1] == ["--"] and not ctx.resilient_parsing:  # cli/run.py has not read this as a command either
            raise self._unknown(ctx, args[1:])
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except Refusal as refusal:
            raise self._refused(ctx, refusal, given) from None
        return rest

    def _refused(self, ctx: Any, refusal: Any, given: list[str]) -> UsageError:
        """An error of Typer's parser in our words. An option may belong after a command, or to none."""
        if not hasattr(refusal, "possibilities"):
            message = refusal.format_message().rstrip(".")
            return UsageError(message[:1].lower() + message[1:], hint=f"{ctx.command_path} --help")
        option, word = refusal.option_name, next((word for word in given if word in self.commands), None)
        meant, say = f"{ctx.command_path} say {shlex.join(given)}", self.commands.get("say")
        fits = say is not None and any(option in (*one.opts, *one.secondary_opts) for one in say.params)
        if word:
            hint = f"{ctx.command_path} {word} {option}   (options come after the command)"
        elif given == ["-v"]:
            hint = f"{NAME} --version"
        elif fits and len(given) > 1 and len(meant) <= LONGEST_HINT:
            hint = meant
        else:
            known = [name for param in self.params for name in param.opts]
            return unknown_option(ctx.command_path, option, [], known, text=False)
        return UsageError(f"unknown option '{option}'", hint=hint)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        return whole(super().shell_complete(ctx, incomplete))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise self._unknown(ctx, args)
        return super().resolve_command(ctx, args)

    def _unknown(self, ctx: Any, args: list[str]) -> UsageError:
        return UsageError(f"no such command '{args[0]}'", hint=self._suggestion(ctx, args))

    def _suggestion(self, ctx: Any, args: list[str]) -> str:
        speaks, word = "say" in self.commands, args[0].lower()
        if speaks and len(args) == 1 and word in WORDS_MEANT:
            return WORDS_MEANT[word]
        if speaks and word in VERBS:
            text = shlex.join(args[1:]) if any(one.startswith("-") for one in args) else f'"{" ".join(args[1:])}"'
            return f"omnitts say {text}" if 1 < len(args) and len(text) <= LONGEST_HINT else 'omnitts say "text"'
        names = [name for name in self.commands if name != "help"]  # "hello" is text to speak
        close = SAME[word] if SAME.get(word) in names and word not in names else nearest(word, names)
        if close:
            meant = f"{ctx.command_path} {shlex.join([close, *args[1:]])}"
            return meant if len(meant) <= LONGEST_HINT else f"{ctx.command_path} {close}"
        if speaks:
            return f'omnitts say "{" ".join(args)[:60]}"'
        return f"{ctx.command_path} --help"


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
        info = typer.Option(*own.flags.split(), metavar=own.metavar, help=own.help, show_default=False)
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


def switch(
    name: str, flags: str, meaning: str, show: Callable[[typer.Context], None], panel: str = ""
) -> inspect.Parameter:
    """What Typer sees of an option that prints something and ends the program. Typer's own --help imports pydantic."""

    def wanted(ctx: typer.Context, given: bool) -> None:
        if given and not ctx.resilient_parsing:
            show(ctx)
            raise typer.Exit()

    option = typer.Option(*flags.split(), help=meaning, is_eager=True, callback=wanted, rich_help_panel=panel)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option])


HELP = switch("help", "-h --help", "Show this message.", lambda ctx: print_text(ctx.get_help()))
HELP_ALL = switch(
    "help_all", "--help-all", "Show all options.",
    lambda ctx: print_text(help_text(ctx.command, ctx, everything=True)), RARE,
)  # fmt: skip
VERSION = switch("version", "-V --version", "Show the version.", lambda ctx: load("cli.app:show_version")())


def print_text(text: str) -> None:
    console.stdout.claim()
    console.stdout.line(text)


def function_of(parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """A function for Typer, which reads options from a signature. It does nothing: cli/run.py runs commands."""

    def called(**typed: Any) -> None:
        pass

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def command_of(row: Row) -> Callable[..., None]:
    """The function for a row."""
    rules = row.rules
    of_groups = [parameter(one, one.name in rules.hidden, rules.words.get(one.name)) for one in row.settings]
    return function_of([*map(own_parameter, row.own), *of_groups, *([HELP_ALL] if of_groups else []), HELP])


NAME = "omnitts"
ABOUT = """Speech from the command line.

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
BARE = (["-h"], ["--help"])


class Root(Commands):
    """The commands in the order of the table."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in NAMES if name in self.commands]


def app_of(names: Collection[str], *, listed: bool = False) -> typer.Typer:
    """The app with these commands of the table; if they are only `listed`, their names and help suffice."""
    # Typer's own options for completion would import pydantic for every command; `omnitts completion` replaces them
    no_help = {"help_option_names": list[str]()}
    app = typer.Typer(name=NAME, cls=Root, help=ABOUT, add_completion=False, context_settings=no_help, **PLAIN)
    app.callback()(function_of([VERSION, HELP]))
    groups: dict[str, typer.Typer] = {}
    rows = rows_of(names)
    if not listed:
        check(rows)
    for row in rows:
        above, _, name = row.name.rpartition(" ")
        texts: dict[str, Any] = {"help": row.help, "short_help": row.summary}  # Typer would cut off its own short help
        if listed:
            if not above:
                app.command(name, **texts)(lambda: None)
        elif not row.body:
            groups[name] = typer.Typer(cls=Commands, callback=function_of([HELP]), **PLAIN)
            app.add_typer(groups[name], name=name, **texts)
        else:
            groups.get(above, app).command(name, cls=StrictCommand, **texts)(command_of(row))
    return app


def asked_for(arguments: list[str], completing: bool = False) -> Collection[str]:
    """Only the command that comes first: declaring all of them takes longer than showing its help."""
    return arguments[:1] if arguments and arguments[0] in NAMES and not completing else NAMES


def call(arguments: list[str]) -> int:
    """Shows help, the version or what a shell completes, or raises UsageError: no command is named. Returns the exit
    code."""
    completing = variable(COMPLETING) is not None
    if completing:
        from typer import rich_utils  # needed for completion only
        from typer._completion_classes import completion_init

        completion_init()
        rich_utils.MAX_WIDTH = WIDEST  # a second line would be another completion
    app = app_of(asked_for(arguments, completing), listed=arguments in BARE)
    try:
        code = app(arguments, prog_name=NAME, standalone_mode=False)
    except SystemExit as left:  # Typer exits so after completion, or if the reader of help has gone
        if not completing:
            raise BrokenPipeError from None
        code = left.code
    return code if isinstance(code, int) else 0
