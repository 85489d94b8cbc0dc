"""Records real commands on a real pseudo-terminal and draws them as samples/terminal.svg, the picture in the README.

python samples/terminal.py            # with `omnitts` installed; takes a minute on a CPU
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = Path(__file__).with_suffix(".svg")
COLUMNS = 80
SESSION = (
    'omnitts say "Hello, world." -o hello.wav',
    "omnitts voices list",
    "omnitts say -v clara -f chapter.md -o chapter.flac --subs chapter.srt",
    "tail -n 3 chapter.srt",
    'omnitts clone -r chapter.flac --save-voice friend "Hello" -o hi.wav',
    "git log --format=%s | omnitts say -v friend -o - -F opus | file -",
    'omnitts say "Guten Morgen, wie geht es Ihnen heute?" -o guten.wav',
    "echo $?",
)
CHAPTER = "# The kettle\n\nThe kettle is on, and the bread is still warm from the oven. Come in, and close the door.\n"
SETUP = "git init -q && git -c user.name=me -c user.email=me@here commit -q --allow-empty -m 'The first change'"
PROMPT = "\033[1;32m$\033[0m "
REPLACED = re.compile(r".*\r(?:\033\[K)?(?=[^\n])")  # a line of progress, and what was drawn over it
COLOURS = TerminalTheme(
    (24, 26, 31),
    (220, 223, 228),
    [(40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194),
     (220, 223, 228)],
    [(92, 99, 112), (224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194),
     (255, 255, 255)],
)  # fmt: skip


def recorded(command: str, folder: Path, environment: dict[str, str]) -> str:
    """What a command shows on a terminal, without the progress lines that it takes away again."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    shell = subprocess.Popen(
        ["bash", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:  # the other end has closed
            break
        if not data:
            break
        seen += data
    os.close(ours)
    shell.wait()
    return REPLACED.sub("", seen.decode().replace("\r\n", "\n")).replace("\033[K", "")


def main() -> None:
    screen = Console(record=True, width=COLUMNS, force_terminal=True, color_system="standard", file=io.StringIO())
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "speech"
        folder.mkdir()
        environment = {
            "HOME": home,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "LANG": "C.UTF-8",
        }
        (folder / "chapter.md").write_text(CHAPTER)
        subprocess.run(["bash", "-c", SETUP], cwd=folder, env=environment, check=True)
        before = 0
        for command in SESSION:
            shown = recorded(f"(exit {before}); {command}; echo -n $? >../code", folder, environment)
            before = int((Path(home) / "code").read_text())
            screen.print(Text.from_ansi(f"{PROMPT}{command}"), highlight=False)
            screen.print(Text.from_ansi(shown.rstrip("\n").replace(home, "~")), highlight=False)
            if shown.strip():
                screen.print()
    svg = screen.export_svg(title="omnitts", theme=COLOURS)
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # fonts from elsewhere would not be loaded
    svg = svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    PICTURE.write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
