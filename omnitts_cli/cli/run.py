"""How a command runs: every option gets its value, then the body is imported and called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omnitts_cli.cli.commands import Command, load
from omnitts_cli.errors import ModelError, OmniError, UsageError, VoiceError
from omnitts_cli.settings.layers import Layers, set_in, unknown_variables
from omnitts_cli.settings.setting import Field
from omnitts_cli.settings.table import Messages
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.signals import PipeClosed


def run(row: Command, fields: Mapping[str, list[Field]], typed: Mapping[str, Any]) -> None:
    """Runs a row of the table, whose settings are `fields`, with what was typed, which the setting's Kind parses.

    A setting that was not typed is that of a preset, the environment or a settings file: see Layers.
    """
    values = {one.name: typed[one.name] for one in row.own}
    settings = [field for group in fields.values() for field in group]
    layers = layers_of(row, settings, typed) if settings else None
    if layers is not None:
        rules, words = row.rules, values.get("words")
        typed_only = {*rules.typed_only, "file"} if words else rules.typed_only  # typed words are the text
        for name, group in row.types.items():
            of_group = {one.name: layers.value(one, typed_only=one.name in typed_only) for one in fields[name]}
            values[name] = group(**of_group)
        if rules.as_typed:
            values["typed"] = typed
        configure_console(values["messages"])
        warn(layers)
        refuse_idle(settings, layers)
    console.stdout.claim()
    try:
        load(row.body)(**values)
    except (VoiceError, ModelError, UsageError) as error:
        raise (with_origin(error, layers, settings) if layers is not None else error) from None
    except BrokenPipeError:
        raise PipeClosed from None  # Typer would turn it into exit code 1


def layers_of(row: Command, settings: list[Field], typed: Mapping[str, Any]) -> Layers:
    """Where the settings of a command come from."""
    given = {field.name: field.typed(typed[field.name]) for field in settings}
    return Layers(row.section, given, settings, row.rules.tolerant, row.rules.own_only)


def configure_console(messages: Messages) -> None:
    """Applies the message options to the console."""
    if messages.quiet and messages.verbose:
        raise UsageError("use either -q or --verbose, not both", hint="leave one of them out")
    console.configure(messages)


def warn(layers: Layers) -> None:
    """Warns about unknown variables and unusable files."""
    for name, hint in unknown_variables(layers):
        console.warning(f"unknown setting {name}", hint=hint)
    for error in layers.broken:
        console.warning(f"{error.message}; its settings are ignored", cause=error.cause, hint=error.hint)


def refuse_idle(options: list[Field], layers: Layers) -> None:
    """Refuses a typed option that has no effect without another. In a settings file it is allowed."""
    depends = [field for field in options if field.setting.needs and layers.origin(field)[1] == "typed"]
    if not depends:
        return
    known = {option: field for field in options for option in field.setting.spellings}

    def given(need: str) -> bool:
        option, _, wanted = need.partition(" ")
        value, _ = layers.origin(known[option])
        return value == wanted if wanted else value not in (None, False)

    for field in depends:
        needs = [need for need in field.setting.needs if need.split()[0] in known]
        if needs and not any(map(given, needs)):
            option = field.setting.option_for(layers.origin(field)[0])
            typed = [need if " " in need else f"{need} {known[need].setting.metavar}".rstrip() for need in needs]
            without = f"{option} has no effect without {' or '.join(needs)}"
            raise UsageError(without, hint="   or   ".join(typed))


def with_origin(error: OmniError, layers: Layers, options: Iterable[Field]) -> OmniError:
    """The error; if the voice or model in it was not typed, it says where it is set."""
    for field in options:
        value, origin = layers.origin(field) if field.name in ("voice", "model") else (None, "typed")
        if origin not in ("typed", "default") and value and f"'{value}'" in error.message:
            error.message += set_in(origin)
    return error
