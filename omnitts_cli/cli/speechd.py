"""omnitts speechd: a module of Speech Dispatcher, through which screen readers speak."""

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from omnitts_cli import files
from omnitts_cli.cli.job import ModelOpener
from omnitts_cli.errors import OutputError, UsageError
from omnitts_cli.settings.table import Speech
from omnitts_cli.terminal.console import console

if TYPE_CHECKING:
    from omnitts_cli.speech.tts import TTS

MODULE = "sd_omnitts"
GENERIC = Path(__file__).parent.parent / "doors" / "omnitts-generic.conf"
SERVER_FILE = "speech-dispatcher/speechd.conf"
SWITCH_S = 0.0005
"""After so many seconds at most, a thread that makes sound lets the one that reads STOP go on."""
ADD = 'AddModule "omnitts" "sd_omnitts" "omnitts.conf"'


def speechd(install: bool, uninstall: bool, print_generic: bool, speech: Speech, opener: ModelOpener) -> None:
    """Speak for screen readers: a module of Speech Dispatcher."""
    if install + uninstall + print_generic > 1:
        raise UsageError("use one of --install, --uninstall and --print-generic", hint="leave the others out")
    if print_generic:
        return console.result(GENERIC.read_text("utf-8").rstrip("\n"))
    if install or uninstall:
        return (write if install else remove)(module_path())
    from omnitts_cli.doors.speechd import Module

    with ExitStack() as closing:

        def load() -> "TTS":
            tts = closing.enter_context(opener.of_voice(speech))
            from omnitts_cli.server.models import warm_up

            warm_up(tts)
            return tts

        sys.setswitchinterval(SWITCH_S)
        Module(load, speech, sys.stdin.buffer, console.stdout.file, console.warning).run()


def module_path() -> Path:
    """Where Speech Dispatcher looks for modules of this user."""
    return user_data().parent / "libexec" / "speech-dispatcher-modules" / MODULE


def user_data() -> Path:
    """The folder for data of this user's programs."""
    import platformdirs

    return platformdirs.user_data_path()


def write(path: Path) -> None:
    """--install"""
    from omnitts_cli.audio.target import put

    words = f"#!/bin/sh\n# Written by omnitts speechd --install; --uninstall removes it.\nexec {started()} speechd\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        user_data().mkdir(parents=True, exist_ok=True)  # the server looks for ../libexec from there
        put(path, words.encode())
        path.chmod(0o755)
    except OSError as error:
        raise OutputError(f"cannot write {path}", cause=error.strerror) from None
    console.result(str(path))
    console.note('to try it: close all programs that use Speech Dispatcher, then run   spd-say -o omnitts "Hello."')
    console.note(f"to make it the default: the line DefaultModule omnitts in ~/.config/{SERVER_FILE}")
    if (names := naming_modules()) is not None:
        console.warning(f"{names} has AddModule lines, so no other module is found", hint=f"add the line: {ADD}")
    console.note("to undo this: omnitts speechd --uninstall")


def remove(path: Path) -> None:
    """--uninstall"""
    try:
        path.unlink()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", hint="omnitts speechd --install") from None
    except OSError as error:
        raise OutputError(f"cannot remove {path}", cause=error.strerror) from None
    console.note(f"removed {path}")


def started() -> str:
    """The command that starts this program, for a shell."""
    from omnitts_cli import child

    return shlex.join(child.command("omnitts_cli.__main__"))


def naming_modules() -> Path | None:
    """The settings of the server, if they have AddModule; then it does not look for others."""
    import platformdirs

    for folder in (platformdirs.user_config_path(), Path("/etc")):
        path = folder / SERVER_FILE
        try:
            lines = files.read(path, files.LARGE).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        return path if any(line.split()[:1] == ["AddModule"] for line in lines) else None
    return None
