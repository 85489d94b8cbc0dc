"""omnitts mcp: tools that speak, for programs that use the Model Context Protocol."""

import sys
from pathlib import Path

from omnitts_cli.cli import sound_out
from omnitts_cli.cli.job import ModelOpener
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.commands import Hosted
from omnitts_cli.settings.table import Speech
from omnitts_cli.terminal.console import console


def mcp(hosted: Hosted, speech: Speech, opener: ModelOpener) -> None:
    """Serve speech tools to programs that use the Model Context Protocol."""
    from omnitts_cli.audio.speaker import open_speaker
    from omnitts_cli.doors.desk import Desk
    from omnitts_cli.doors.mcp import McpServer

    if hosted.audio_device == "list":
        return sound_out.list_speakers()
    folders = [Path(name).expanduser() for name in hosted.allow_folder]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--allow-folder {folder} is not a folder", hint=f"mkdir {folder}")
    desk = Desk(
        lambda: opener.of_voice(speech, hosted.via),
        lambda rate: open_speaker(rate, hosted.audio_device), speech, folders, console.warning,
    )  # fmt: skip
    McpServer(desk, sys.stdin.buffer, console.stdout.file, console.warning).run()
