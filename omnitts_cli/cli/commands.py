"""The table of commands: the name of each, where its body is, its options, its rules and its help.

Reading what was typed, help and completion go by it. Nothing here imports a body; that of the command that was typed is
imported when it runs. A body is a function of plain values: it gets each group of options, and each argument and option
of its own, under the name that it has in its row; what speaks a text gets a Job (cli/run.py:Command.for_body).
"""

import functools
from collections.abc import Collection, Iterable
from pathlib import Path

from omnitts_cli.cli.run import Argument, Command, Option, Rules
from omnitts_cli.errors import OmniError
from omnitts_cli.settings.environment import EMBEDDED

PACKAGE = Path(__file__).parent.parent

OPENING = {
    "machine": "table:Machine",
    "intent": "table:Intent",
    "network": "table:Network",
    "messages": "table:Messages",
}
"""Of commands that open a model."""
SPEAKING = {"text": "table:TextIn", "speech": "table:Speech", "output": "table:Results", **OPENING}
"""Of commands that speak."""
MESSAGES = {"messages": "table:Messages"}

WITHOUT_OMNI = {"model": ("tiny, 0.6b, 1.7b, a folder, or hf:ORG/REPO. [tiny]", "NAME|DIR")}  # its voices are fixed
DESCRIBED = {"style": ("Description of the voice, such as 'a deep, slow man'. [required]", "TEXT")}
FORCE = Option("force", "--force", "Also under the name of a voice of the model, which it hides.")
YES = Option("yes", "-y --yes", "Do not ask for confirmation.")


def words_of(what: str) -> Argument:
    """The words of a text, which may be left out."""
    return Argument("words", "TEXT", f"{what}; -- first if it begins with a dash.", many=True, required=False)


WORDS = words_of("Text to speak")

# fmt: off
SPEECH = (
    Command("say", "cli.say:say", """Speak text.

        \b
        omnitts say "Hello there"
        git log --oneline -5 | omnitts say --play
        omnitts say -f book.epub -o book.m4b
        omnitts say -f one.txt -f two.txt -O sounds
        cat book.txt | omnitts say -o - -F flac | ffmpeg -i - book.opus
        """,
        (WORDS,), {**SPEAKING, "folder": "table:Folder", "book": "table:Book"},
    ),
    Command("clone", "cli.clone:clone", """Speak text in a voice like that of a clip.

        \b
        omnitts clone -r me.wav "Good morning"
        omnitts clone -r me.wav --ref-text "what I said" "Good morning" -o hi.wav
        omnitts clone -r me.wav "Good morning" --save-voice me
        """,
        (WORDS,),
        {"clip": "commands:Clip", **SPEAKING},
        Rules(typed_only={"voice"}, hidden={"voice"}, words=WITHOUT_OMNI),
    ),
    Command("design", "cli.design:design", """Speak text in a voice made from a description.

        \b
        omnitts design -i "an elderly storyteller" "Once upon a time" -o tale.wav
        omnitts design -i "bright and quick" "Good morning" --candidates 3 -O takes
        """,
        (WORDS,),
        {"takes": "commands:Takes", **SPEAKING},
        Rules(typed_only={"voice", "style"}, hidden={"voice"}, words={**WITHOUT_OMNI, **DESCRIBED}),
    ),
    Command("play", "cli.say:play",
        """Speak live: standard input as it arrives, a file, or words. Space pauses, q stops.

        \b
        tail -f app.log | grep --line-buffered ERROR | omnitts play
        omnitts play -f book.txt
        some-language-model | omnitts play --live
        """,
        (WORDS,),
        {"live": "table:Live", **SPEAKING},
        Rules(absent={"max_hours"}, hidden={"play"}, words={"output": ("Also write the sound to this file.", "PATH")}),
    ),
    Command("ask", "cli.ask:ask", """Ask a language model a question; it answers in text or speech.

        \b
        omnitts ask "Why is the sky blue?" --play
        omnitts ask "Why is the sky blue?" -v aiden -o answer.wav
        git diff | omnitts ask "What changed?"
        omnitts ask --audio question.wav
        omnitts ask --chat talk.jsonl "And at night?"
        omnitts ask --llm hf:Qwen/Qwen3-0.6B "Why is the sky blue?" --play
        omnitts ask                                a conversation, at a terminal
        """,
        (words_of("Your question"),),
        {
            "question": "commands:Question", "spoken": "commands:Spoken", "thinks": "commands:Thinks",
            "machine": "table:Machine", "network": "table:Network", "messages": "table:Messages",
        },
        Rules(
            # settings files have options of these names for speech, not for answers
            own_only={"model", "temperature", "top_p", "top_k", "seed"},
            typed_only={"voice", "play", "output", "first_chunk", "chunk"},
        ),
    ),
    Command("batch", "cli.batch:batch",
        """Speak the rows of a manifest into a folder. The same command again continues where it stopped.

        \b
        omnitts batch lines.csv -O corpus
        omnitts batch lines.jsonl -O corpus -m 1.7b --verify asr
        jq -c '{id, text}' rows.json | omnitts batch - -O corpus
        omnitts batch lines.csv --check
        """,
        (
            Argument(
                "manifest", "MANIFEST",
                "JSONL, CSV, TSV, Parquet, LJSpeech, lines of text, a folder of texts; - is stdin.",
            ),
        ),
        {
            "corpus": "corpus:Corpus", "checks": "corpus:Verification", "text": "table:TextIn",
            "speech": "table:Speech", "machine": "corpus:BatchMachine", "intent": "table:Intent",
            "network": "table:Network", "messages": "table:Messages",
        },
        Rules(absent={"file", "safe"}),
    ),
    Command("serve", "cli.serve:serve", """Serve speech over HTTP: OpenAI's API and a web page.

        \b
        omnitts serve
        omnitts serve -m 1.7b --port 8080
        omnitts serve --wyoming 127.0.0.1:10200    also for Home Assistant
        curl localhost:8000/v1/audio/speech -H 'Content-Type: application/json' \\
             -d '{"input": "Hello"}' -o hello.mp3
        omnitts serve --print-unit user > ~/.config/systemd/user/omnitts.service
        """,
        (
            Option(
                "print_unit", "--print-unit", "Print a systemd unit with the other options, and exit.",
                "user|socket|system",
            ),
            Option("print_compose", "--print-compose", "The same as compose.yaml, for containers."),
        ),
        {
            "serving": "commands:Serving", "machine": "table:Machine", "network": "table:Network",
            "messages": "table:Messages",
        },
        Rules(as_typed=True),
    ),
    Command("speechd", "cli.speechd:speechd", """Speak for screen readers: a module of Speech Dispatcher.

        \b
        omnitts speechd --install
        spd-say -o omnitts "Hello there"
        omnitts speechd --print-generic > omnitts-generic.conf
        """,
        (
            Option("install", "--install", "Install this module for the current user."),
            Option("uninstall", "--uninstall", "Remove the module again."),
            Option("print_generic", "--print-generic", "Print a file for the generic module of Speech Dispatcher."),
        ),
        {"speech": "table:Speech", **OPENING},
    ),
    Command("mcp", "cli.mcp:mcp", """Serve speech tools to programs that speak MCP.

        For hosts of the Model Context Protocol.

        \b
        {"mcpServers": {"omnitts": {"command": "omnitts", "args": ["mcp"]}}}
        omnitts mcp --allow-folder ~/Music    with a tool that writes files there
        """,
        (), {"hosted": "commands:Hosted", "speech": "table:Speech", **OPENING},
    ),
)

SAVED = Argument("name", "NAME", "A saved voice.", complete="saved_names")
ANY_VOICE = Argument("name", "NAME", "A saved voice, or a voice of the model.", complete="voice_names")
NEW_VOICE = Argument("name", "NAME", "Name for the voice.")
SAMPLE = "The kettle is on, the bread is still warm from the oven, and it has been raining all morning."
NAMED = Rules(absent={"voice", "save_voice"})  # the argument NAME is the voice

VOICES = (
    Command("voices", "", "List, preview, save, share and blend voices."),
    Command("voices list", "cli.voices:list_", "List saved voices and the voices of the model.",
        (
            Option("model", "-m --model", "Also list the voices of this model.", "NAME", ""),
            Option("language", "-l --language --lang", "Only voices of this language.", "CODE", ""),
        ),
        MESSAGES,
        Rules(tolerant=True),
    ),
    Command("voices show", "cli.voices:show", "Show details of a voice.", (ANY_VOICE,), MESSAGES),
    Command("voices preview", "cli.say:preview", "Speak a sample sentence in a voice.",
        (ANY_VOICE, Argument("text", "TEXT", "Text to speak.", required=False, default=SAMPLE)),
        {"speech": "table:Speech", "output": "table:Results", **OPENING},
        NAMED,
    ),
    Command("voices save", "cli.voices:save", "Save the voice of a clip.",
        (NEW_VOICE, FORCE), {"clip": "commands:SavedClip", "model": "table:Model", **OPENING}, NAMED,
    ),
    Command("voices blend", "cli.voices:blend", "Blend saved voices, or the model's own, into a new one.",
        (
            NEW_VOICE,
            Argument("parts", "A:60 B:40", "Voices and their weights; without weights, equal parts.", many=True),
            FORCE,
        ),
        {"model": "table:Model", "machine": "table:Machine", "network": "table:Network", "messages": "table:Messages"},
    ),
    Command("voices rename", "cli.voices:rename", "Give a saved voice another name.",
        (SAVED, Argument("new", "NEW", "Its new name."), FORCE), MESSAGES,
    ),
    Command("voices renew", "cli.voices:renew",
        "Make a saved voice again from its clip, for this version of its model or for another model.",
        (SAVED,), {"model": "table:Model", **OPENING},
    ),
    Command("voices rm", "cli.voices:rm", "Remove a saved voice.", (SAVED, YES), MESSAGES),
    Command("voices export", "cli.voices:export", "Export a saved voice to a file.",
        (
            SAVED,
            Argument("file", "FILE.voice|DIR", "File to write, or with --format a folder."),
            Option("form", "--format", "A tuned voice as an adapter (peft), or as a whole model (model).", "NAME"),
        ),
        MESSAGES,
    ),
    Command("voices import", "cli.voices:import_", "Import a voice file.",
        (
            Argument("file", "FILE.voice|DIR", "A voice file, or a folder with an adapter in the format of PEFT."),
            Option("name", "--name", "Name to save it under.", "NAME"),
            Option("model", "-m --model", "The model of the adapter in a folder. [tiny]", "NAME", EMBEDDED),
            FORCE,
        ),
        MESSAGES,
    ),
)

TUNE = (
    Command("tune", "cli.tune:tune", """Teach a model a voice from a person's recordings.

        \b
        omnitts tune recordings --name myvoice --consent "the speaker, today"
        omnitts tune metadata.csv --name myvoice --dry-run
        omnitts say -v myvoice "Good morning."
        """,
        (
            Argument(
                "recordings", "RECORDINGS", "A folder of sound files and texts, or a manifest: CSV, JSONL, LJSpeech.",
            ),
            YES, FORCE,
        ),
        {"tuning": "commands:Tuning", "model": "table:Model", **OPENING},
        # settings files have options of these names for speech
        Rules(typed_only={"name", "consent", "licence"}, own_only={"language", "output_dir", "seed"}),
    ),
)

MODEL = Argument("name", "NAME", "0.6b, 1.7b-base, hf:ORG/REPO ...", complete="hub_names")

MODELS = (
    Command("models", "", "List, download, verify and remove models."),
    Command("models list", "cli.models:list_", "List models with size and location.",
        (Option("remote", "--remote", "Also list models that can be downloaded."),), MESSAGES,
    ),
    Command("models pull", "cli.models:pull", "Download a model. Files that are already here are kept.",
        (
            MODEL,
            Option("revision", "--revision", "Use this revision instead of the pinned one.", "REV"),
            Option("mirror", "--mirror", "Hub mirror URL.", "URL"),
            Option(
                "with_thinker", "--with-thinker",
                "Also the thinker of omni, for omnitts ask (66 GiB instead of 12 GiB).",
            ),
        ),
        {"messages": "table:Messages", "network": "table:Network"},
    ),
    Command("models path", "cli.models:path", "Print the folder of a model.", (MODEL,), MESSAGES),
    Command("models verify", "cli.models:verify", "Check every file of a model against its SHA-256.",
        (Argument("name", "[NAME]", "A model; all, if left out.", required=False),), MESSAGES,
    ),
    Command("models rm", "cli.models:rm", "Remove a downloaded model, or with NAME/q8 what was made of it.",
        (MODEL, YES), MESSAGES,
    ),
)

CODEC = (
    Command("codec", "", "Convert sound to codec codes and back."),
    Command("codec encode", "cli.codec:encode", "Encode sound to codec codes.",
        (
            Argument("sound", "SOUND", "wav, flac, mp3, ogg or opus; - is stdin."),
            Argument("file", "[CODES]", "Safetensors file to write, as with -o; - is stdout.", required=False),
            Option("output", "-o --output", "The same file.", "CODES"),
        ),
        {"model": "table:Model", **OPENING},
    ),
    Command("codec decode", "cli.codec:decode", "Decode codec codes to sound.",
        (
            Argument("file", "CODES", "Safetensors file with the tensor `codes`; - is stdin."),
            Argument("sound", "[SOUND]", "Sound file to write, as with -o.", required=False),
        ),
        {"model": "table:Model", "output": "table:Output", **OPENING},
    ),
)

CHECKS = (
    Command("bench", "cli.bench:bench", """Measure speed and latency.

        \b
        omnitts bench                              1, 4 and 10 requests at a time
        omnitts bench -c 1,8,64 --save new.json --compare old.json
        omnitts bench -c 64 --frames 50 --arrivals apart  users who come and go
        omnitts bench --rate 10 --duration 60      open loop
        omnitts bench --url http://localhost:8000  a server with OpenAI's API
        omnitts bench ask -c 1,32                  answers in text
        omnitts bench --quality -m 0.6b            what 8 bits change in a model
        """,
        (
            Argument("subject", "[ask]", "ask: measure omnitts ask instead of speech.", many=True, required=False),
            Option("quality", "--quality", "Compare weights in 8 bits with float32, on the CPU."),
        ),
        {
            "load": "commands:Load", "what": "commands:What", "server": "commands:Server", "answer": "commands:Answer",
            "lengths": "commands:Lengths", "machine": "table:Machine", "network": "table:Network",
            "messages": "table:Messages",
        },
    ),
    Command("doctor", "cli.doctor:doctor", """Check this machine. Exit code 0 if speech works on any device, else 5.

        \b
        omnitts doctor
        omnitts doctor --json | jq '.checks[]|select(.status!="ok")'
        omnitts doctor --kernels --for sm_90 -m 1.7b --rows 12  # which kernels
        """,
        (
            Option("kernels", "--kernels", "Instead, print which kernel runs what, and what would be faster."),
            Option("card", "--for", "With --kernels: a card that is not here, as in sm_89; cpu, avx2, npu.", "CARD"),
            Option("rows", "--rows", "With --kernels: requests at the same time. [1]", "N"),
        ),
        {"machine": "table:Machine", "network": "table:Network", "messages": "table:Messages", "model": "table:Model"},
        rules=Rules(tolerant=True),
    ),
)

KEY = Argument("name", "KEY", "The long name of an option, as in 'sentence-gap'.", complete="key_names")
REPAIRS = Rules(tolerant=True)

CONFIG = (
    Command("config", "", "Show and change settings."),
    Command("config path", "cli.config:path", """Print the path of the file that `set` writes.

        On a terminal, also the other files that are read, strongest first; --json lists all.
        """,
        groups=MESSAGES, rules=REPAIRS,
    ),
    Command("config show", "cli.config:show", """Print the settings that differ from their defaults.

        The model and the voice are always shown. `omnitts help settings` explains files and environment variables.
        """,
        (
            Option("every", "--all", "Also show settings that have their default value."),
            Option("origin", "--origin", "Show where each value comes from, and which files are read."),
        ),
        MESSAGES,
        REPAIRS,
    ),
    Command("config get", "cli.config:get", "Print one setting as it would be used.", (KEY,), MESSAGES, REPAIRS),
    Command("config set", "cli.config:set", "Write one setting to your settings file.",
        (KEY, Argument("value", "VALUE", "New value.")),
        MESSAGES,
        Rules(tolerant=True, negative_values=True),
    ),
    Command("config unset", "cli.config:unset", "Remove one setting from your settings file, even a misspelt one.",
        (KEY,), MESSAGES, REPAIRS,
    ),
    Command("config edit", "cli.config:edit", "Edit your settings file with $VISUAL or $EDITOR.",
        groups=MESSAGES, rules=REPAIRS,
    ),
)

TOPICS = (
    "start", "text", "voices", "tune", "formats", "pipes", "books", "batch", "serve", "doors", "programs", "security",
    "fleet", "settings", "models", "exit-codes", "python", "ask", "bench", "speed", "embedded", "omni", "ascend",
)  # fmt: skip
"""The pages of `omnitts help`, in the order of its list."""

HELP = (
    Command("completion", "cli.help:completion", """Print the completion script of a shell.

        \b
        omnitts completion bash > ~/.local/share/bash-completion/completions/omnitts
        omnitts completion zsh > ~/.zfunc/_omnitts
        omnitts completion fish > ~/.config/fish/completions/omnitts.fish
        """,
        (Argument("shell", "bash|zsh|fish|powershell", "The shell.", complete="shell_names"),),
        MESSAGES,
    ),
    Command("help", "cli.help:help", """Show a help page, or list the topics.

        \b
        omnitts help                 list the topics
        omnitts help voices          a page
        omnitts help say             the options of a command
        omnitts help --man ~/.local/share/man
        """,
        (
            Option("man", "--man", "Write a manual page of every command and topic into this folder.", "DIR"),
            Argument(
                "words", "[TOPIC|COMMAND]", "A page, or a command.", many=True, required=False, complete="topic_names",
            ),
        ),
    ),
)
# fmt: on

COMMANDS = (*SPEECH, *VOICES, *TUNE, *MODELS, *CODEC, *CHECKS, *CONFIG, *HELP)
"""All rows, in the order of the list of commands."""

NAMES = tuple(row.name for row in COMMANDS if " " not in row.name)
"""The words that may follow `omnitts`."""


def rows_of(names: Collection[str]) -> list[Command]:
    """The rows of these commands, with those below them."""
    return [row for row in COMMANDS if row.section in names]


@functools.cache
def text_of(path: str) -> str:
    """The text of a file of the package; "" if it does not exist."""
    try:
        return (PACKAGE / path).read_text("utf-8")
    except FileNotFoundError:
        return ""


def check(rows: Iterable[Command]) -> None:
    """Raises OmniError for a row whose body does not exist. No body is imported."""
    for row in rows:
        module, _, name = row.body.partition(":")
        path = module.replace(".", "/") + ".py"
        if row.body and f"\ndef {name}(" not in text_of(path):
            raise OmniError(
                f"the command '{row.name}' cannot run: {path} does not define '{name}'",
                hint="correct its row in cli/commands.py, or install omnitts again",
            )
