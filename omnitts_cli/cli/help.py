"""omnitts help: pages from the Markdown files in omnitts_cli/help. omnitts completion: shell completion."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from omnitts_cli.errors import UsageError
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import nearest
from omnitts_cli.settings.table import Messages
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.signals import PipeClosed

if TYPE_CHECKING:
    from rich.markdown import Markdown

PAGES = Path(__file__).parent.parent / "help"
TOPICS = (
    "start",
    "text",
    "voices",
    "formats",
    "pipes",
    "books",
    "batch",
    "serve",
    "security",
    "fleet",
    "settings",
    "models",
    "exit-codes",
    "python",
    "ask",
    "bench",
    "speed",
    "embedded",
    "omni",
    "ascend",
)
"""The pages in the order of the list."""

PLAIN_WIDTH, WIDEST = 80, 100
TRAILING, BLANK_LINES = re.compile(r" +$", re.MULTILINE), re.compile(r"\n{3,}")
STYLES = {
    "markdown.h1": "bold",
    "markdown.h2": "bold",
    "markdown.code": "cyan",
    "markdown.table.border": "none",
    "markdown.table.header": "bold",
}


def topic_names(incomplete: str) -> list[str]:
    return [name for name in TOPICS if name.startswith(incomplete)]


def help(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC|COMMAND]", help="A page, or a command.", autocompletion=topic_names),
    ] = None,
) -> None:
    """Show a help page, or list the topics.

    \b
    omnitts help                 list the topics
    omnitts help voices          a page
    omnitts help say             the options of a command
    """
    console.stdout.claim()
    try:
        if not words:
            show_topics()
        elif len(words) == 1 and words[0] in TOPICS:
            console.stdout.line(page(words[0]))
        else:
            raise UsageError(f"no help for '{' '.join(words)}'", hint=suggestion(words[0]))
    except BrokenPipeError:
        raise PipeClosed from None


def show_topics() -> None:
    widest = max(map(len, TOPICS))
    console.stdout.line("Topics, each with `omnitts help TOPIC`:\n")
    for name in TOPICS:
        console.stdout.line(f"  {name:<{widest}}  {summary(name)}")
    console.stdout.line("\nThe options of a command: omnitts COMMAND --help")


def summary(topic: str) -> str:
    """What the first line of a page says after the topic."""
    with (PAGES / f"{topic}.md").open(encoding="utf-8") as file:
        return file.readline().partition(": ")[2].strip()


def suggestion(word: str) -> str:
    close = nearest(word.lower(), list(TOPICS))
    return f"omnitts help {close}" if close else "omnitts help"


def page(topic: str) -> str:
    """A page as text: as wide as the terminal and with colour there, 80 columns of plain text elsewhere."""
    from rich.console import Console
    from rich.theme import Theme

    terminal = console.stdout.is_terminal()
    colour = terminal and console.paints()
    width = min(shutil.get_terminal_size().columns, WIDEST) if terminal else PLAIN_WIDTH
    out = io.StringIO()
    drawn = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        theme=Theme(STYLES),
    )
    drawn.print(markdown((PAGES / f"{topic}.md").read_text("utf-8")), crop=False)
    return BLANK_LINES.sub("\n\n", TRAILING.sub("", out.getvalue())).strip("\n")


def markdown(text: str) -> Markdown:
    """The page with headings at the left, and examples indented instead of boxed."""
    from rich.markdown import CodeBlock, Heading, Markdown
    from rich.segment import Segment

    class LeftHeading(Heading):
        def __rich_console__(self, console: Any, options: Any) -> Any:
            self.text.justify = "left"
            yield self.text

    class Example(CodeBlock):
        def __rich_console__(self, console: Any, options: Any) -> Any:
            style = console.get_style("cyan")
            for line in str(self.text).rstrip().split("\n"):
                yield Segment(f"    {line}", style)  # never wrapped: it must survive being copied
                yield Segment.line()

    class Page(Markdown):
        elements: ClassVar = {
            **Markdown.elements,
            "heading_open": LeftHeading,
            "fence": Example,
            "code_block": Example,
        }

    return Page(text, hyperlinks=False)


COMPLETING = "_OMNITTS_COMPLETE"  # set by the scripts when a shell asks
SHELLS = {"bash": "bash", "zsh": "zsh", "fish": "fish", "powershell": "powershell", "pwsh": "pwsh"}


def shell_names(incomplete: str) -> list[str]:
    return [name for name in SHELLS if name.startswith(incomplete)]


def completion(
    messages: Messages,
    shell: Annotated[
        str,
        typer.Argument(
            metavar="bash|zsh|fish|powershell", help="The shell.", show_default=False, autocompletion=shell_names
        ),
    ],
) -> None:
    """Print the completion script of a shell.

    \b
    omnitts completion bash > ~/.local/share/bash-completion/completions/omnitts
    omnitts completion zsh > ~/.zfunc/_omnitts
    omnitts completion fish > ~/.config/fish/completions/omnitts.fish
    """
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise UsageError(f"no completion for '{shell}'", hint="one of: " + ", ".join(SHELLS))
    script = get_completion_script(prog_name="omnitts", complete_var=COMPLETING, shell=SHELLS[shell])
    console.result(script)
    console.record(status="ok", shell=shell, script=script)


def preset_names(incomplete: str) -> list[str]:
    from omnitts_cli.settings import presets

    return [name for name in presets.names() if name.startswith(incomplete)]


def embedded_voices() -> list[str]:
    """The voices of the embedded model, default first; read from its config, as importing its family takes seconds."""
    import json

    from omnitts_cli.weights.find import TINY

    config = TINY / "config.json"
    return list(json.loads(config.read_text("utf-8"))["omnitts"]["voices"]) if config.is_file() else []


def voice_names(incomplete: str) -> list[str]:
    """The saved voices and those of the embedded model."""
    from omnitts_cli.speech import voice_files

    return [name for name in [*voice_files.names(), *embedded_voices()] if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    return [name for name in (EMBEDDED, "0.6b", "1.7b", "omni") if name.startswith(incomplete)]


def hub_names(incomplete: str) -> list[str]:
    """The models that can be downloaded: bare sizes, and each variant."""
    from omnitts_cli.weights.released import ALIASES, RELEASED, SIZES

    return [name for name in (*SIZES, *RELEASED, *ALIASES) if name.startswith(incomplete)]


CHOICES = {"models": model_names, "voices": voice_names, "presets": preset_names}
"""What completion offers for a setting, by its `complete`."""


def prepare_completion() -> None:
    """Prepares the parser for a completion request."""
    from typer._completion_classes import completion_init

    completion_init()
