"""Grammar: what Typer's parser lets pass and we do not, and its refusals in our own words."""

from __future__ import annotations

import re
import shlex
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from omnitts_cli.cli.console import console
from omnitts_cli.errors import UsageError
from omnitts_cli.presets import nearest

# The parser's own exceptions live in a private module; this public one names their common base.
Refusal: type[BaseException] = typer.BadParameter.__bases__[0]


PYTHON_TYPE = re.compile(r" <(?:str|list\[str\])>")
EXTRA = re.compile(r"Got unexpected extra argument\S* \((.*)\)", re.DOTALL)
LONGEST_HINT = 100


class Command(TyperCommand):
    """A command that takes each option once, and whose help speaks of no types of Python."""

    def get_help(self, ctx: Any) -> str:
        return PYTHON_TYPE.sub(lambda found: " " * len(found[0]), super().get_help(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            _, _, seen = self.make_parser(ctx).parse_args(args=list(args))
        except Refusal as refusal:
            refusal.ctx = ctx  # type: ignore[attr-defined]  # for the name of the command
            raise
        once = [param for param in seen if param.param_type_name == "option" and not param.multiple]
        twice = next((param for param in once if once.count(param) > 1), None)
        if twice is not None and not ctx.resilient_parsing:
            name = max(twice.opts, key=len)
            raise UsageError(f"{name} is given more than once", hint=f"{ctx.command_path} --help")
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class Commands(TyperGroup):
    """A group of commands. With nothing behind it, help goes to stderr; a wrong word gets a suggestion."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            console.note(ctx.get_help())
            raise typer.Exit(2)
        # A --help that was not typed would be read as a value, for which Typer imports pydantic: 50 ms.
        ctx.default_map = {**(ctx.default_map or {}), "help": False}
        given = list(args)
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except Refusal as refusal:
            option, word = getattr(refusal, "option_name", None), next((w for w in given if w in self.commands), None)
            if option and word and not ctx.resilient_parsing:
                hint = f"options go behind the command: {ctx.command_path} {word} {option}"
                raise UsageError(f"unknown option '{option}'", hint=hint) from None
            raise
        del ctx.default_map["help"]  # else the defaults of the command `help`
        return rest

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if word not in self.commands and not ctx.resilient_parsing:
            raise UsageError(f"no such command '{word}'", hint=self._suggestion(ctx, args))
        return super().resolve_command(ctx, args)

    def _suggestion(self, ctx: Any, args: list[str]) -> str:
        close = nearest(args[0].lower(), [name for name in self.commands if name != "help"])  # "hello" is to be spoken
        if close:
            meant = f"{ctx.command_path} {shlex.join([close, *args[1:]])}"
            return meant if len(meant) <= LONGEST_HINT else f"{ctx.command_path} {close}"
        if "say" in self.commands:
            return f'omnitts say "{" ".join(args)[:60]}"'
        return f"{ctx.command_path} --help"


def in_our_words(refusal: Any) -> UsageError:
    """The parser's refusal as one of our errors."""
    ctx = getattr(refusal, "ctx", None)
    path = ctx.command_path if ctx else "omnitts"
    option = getattr(refusal, "option_name", None)
    if option and hasattr(refusal, "possibilities"):
        known = [name for param in ctx.command.params for name in param.opts + param.secondary_opts] if ctx else []
        close = nearest(option, [name for name in known if name.startswith("--")])
        return UsageError(f"unknown option '{option}'", hint=close_option(path, option, close))
    message = EXTRA.sub(r"unexpected: \1", refusal.format_message().rstrip("."))
    return UsageError(message[:1].lower() + message[1:], hint=f"{path} --help")


def close_option(path: str, option: str, close: str | None) -> str:
    if close:
        return f"{close}   (for text that begins with a dash: {path} -- '{option}')"
    return f"{path} --help   (for text that begins with a dash: {path} -- '{option}')"


def group(help: str) -> typer.Typer:
    """A Typer with our grammar, set for speed: no rich, no traceback machinery."""
    return typer.Typer(
        cls=Commands, help=help, no_args_is_help=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
