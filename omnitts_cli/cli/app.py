"""The `omnitts` command: its subcommands, and the only place where an error becomes an exit code."""

import errno
import os
import signal
import sys
from collections.abc import Collection
from typing import Any

from omnitts_cli.cli import commands
from omnitts_cli.cli.commands import NAMES, TOPICS
from omnitts_cli.cli.run import load, run_row
from omnitts_cli.errors import OmniError, OutputError
from omnitts_cli.settings import environment
from omnitts_cli.terminal import signals
from omnitts_cli.terminal.console import console


def as_option(arguments: list[str], commands: Collection[str]) -> list[str]:
    """`help say` as `say --help`; anything else as it is."""
    word, *rest = [*arguments, "", ""]
    if word != "help" or rest[0] not in commands or (rest[0] in TOPICS and len(arguments) == 2):
        return arguments
    return [*arguments[1:], "--help"]


def run(arguments: list[str]) -> int:
    """One command from its arguments to its exit code."""
    console.reset()
    arguments = as_option(arguments, NAMES)
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    console.json, console.debug = "--json" in options, "--debug" in options
    if any(option.startswith("--color") for option in options):
        console.color = color_of(options) or "auto"  # for errors in the options themselves
    try:
        return outcome(arguments)
    except signals.Stopped as stopped:  # came while an error message was printed
        return stopped.exit_code
    finally:
        console.stdout.release()


@signals.handled()
def outcome(arguments: list[str]) -> int:
    """Runs the command and returns its exit code. Errors and signals are reported to the user."""
    try:
        row = next((one for one in commands.COMMANDS if one.body and arguments[: len(one.words)] == one.words), None)
        if row is None or environment.variable(environment.COMPLETING) is not None:
            return without_command(arguments)
        return run_row(row, arguments[len(row.words) :])
    except signals.Stopped as stopped:
        return interrupted(stopped)
    except KeyboardInterrupt:  # where our handler is not installed
        return interrupted(signals.Stopped(signal.SIGINT))
    except BrokenPipeError:  # no error, and not exit code 1
        return pipe_closed()
    except Exception as error:
        return ended(error)


def without_command(arguments: list[str]) -> int:
    """The Typer app answers where no command is named, and when a shell asks. A version needs less time without it."""
    return show_version() if arguments in (["-V"], ["--version"]) else int(load("cli.declare:call")(arguments))


def show_version() -> int:
    """--version. Returns the exit code."""
    found = environment.own_version()
    words = f"(not installed; run from {commands.PACKAGE.parent})" if found == "0" else found
    console.stdout.claim()
    console.stdout.line(f"omnitts {words}")
    return 0


def ended(error: Exception) -> int:
    """Reports an error and returns its exit code. An error that follows a signal is reported as that signal."""
    signals.no_alarm()
    if signals.HOLD.came is not None:
        return interrupted(signals.Stopped(signals.HOLD.came))
    if isinstance(error, OmniError):
        return failed(error)
    return failed(no_space(error)) if is_full(error) else internal(error)


def color_of(options: list[str]) -> str | None:
    """--color, before the options are read."""
    found = None
    for option, following in zip(options, [*options[1:], ""], strict=False):
        name, equals, value = option.partition("=")
        if name == "--color":
            found = (value if equals else following).lower()
    return found if found in ("always", "never") else None


def interrupted(stopped: signals.Stopped) -> int:
    """Reports a signal, with an error record in JSON mode, and returns its exit code."""
    console.note(stopped.word)
    record = {"status": "error", "code": "stopped", "exit": stopped.exit_code, "message": stopped.word}
    try:
        console.record(**record)
    except (OmniError, OSError):  # no stdout, or its reader has gone; the exit code says it
        pass
    return stopped.exit_code


def failed(error: OmniError) -> int:
    try:
        console.report_repeats()
        if not (console.json and console.audio_on_stdout):
            console.problem(error)
        console.stdout.claim()
        console.error_record(error)
    except BrokenPipeError:
        return pipe_closed()
    except (OmniError, OSError):  # stdout is closed or full; the exit code says it
        pass
    return error.exit_code


def pipe_closed() -> int:
    """The reader has gone: print nothing, and flush nothing into the closed pipe at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return signals.PIPE_CLOSED


def is_full(error: Exception) -> bool:
    """Whether a disk is full. Sound files have a message of their own; this is for everything else."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def no_space(error: Any) -> OutputError:
    """The error for a full disk; standard output has no file name."""
    name = error.filename or "standard output"
    return OutputError(f"cannot write {name}: no space left", hint="free some space, or write elsewhere")


def internal(error: Exception) -> int:
    """A bug: one line on stderr, the traceback in a file."""
    import traceback

    report = "".join(traceback.format_exception(error))
    if console.debug:
        console.note(report.rstrip())
    what = f"internal error: {type(error).__name__}: {error}".splitlines()[0]
    return failed(OmniError(what[:300], hint=f"please report this, with {written(report)}"))


def written(report: str) -> str:
    """Writes the report; returns its path."""
    import platformdirs

    try:
        folder = platformdirs.user_log_path("omnitts", appauthor=False, ensure_exists=True)
        path = folder / f"error-{os.getpid()}.log"
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # it may quote the text
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(report)
    except OSError:
        return "the output of --debug"
    return str(path)


def main() -> None:
    """The entry point of the installed command."""
    environment.before_torch()
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, full, or never there
            pipe_closed()
    raise SystemExit(code)
