"""omnitts ask: questions to a language model, and its answers as text while they are generated."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnitts_cli.cli.declare import QuestionWords
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.settings.commands import Question, Thinks
from omnitts_cli.settings.table import Machine, Messages, Network
from omnitts_cli.terminal import signals
from omnitts_cli.terminal.console import console

if TYPE_CHECKING:
    from omnitts_cli.models.audio_tower import Sound
    from omnitts_cli.speech.assistant import Answer, Assistant, Conversation, Reply
    from omnitts_cli.speech.chat_file import ChatFile

MODEL = "omni"


def ask(
    question: Question,
    thinks: Thinks,
    machine: Machine,
    network: Network,
    messages: Messages,
    words: QuestionWords = None,
) -> None:
    """Ask Qwen3-Omni a question, typed or recorded; the answer is text.

    \b
    omnitts ask "Why is the sky blue?"
    git diff | omnitts ask "What changed?"
    omnitts ask --audio question.wav
    omnitts ask --chat talk.jsonl "And at night?"
    omnitts ask --lines < questions.txt
    omnitts ask                                a conversation, at a terminal
    """
    typed = " ".join(words or [])
    if question.lines and (words or question.chat or question.audio):
        raise UsageError("--lines reads its questions from stdin", hint="omnitts ask --lines < questions.txt")
    if question.audio and question.chat:
        raise UsageError("--chat keeps text only, not the sound of --audio", hint="leave one of them out")
    sounds: tuple[Sound, ...] = ()
    asked: list[str] | None
    if question.lines:
        asked = lines_of_stdin()
    elif question.audio:
        asked = [with_stdin(typed) if typed and question.audio != "-" else typed]
        sounds = (heard(question.audio),)
    elif not words and sys.stdin is not None and sys.stdin.isatty():
        asked = None
    else:
        asked = [with_stdin(typed)]
    system = system_of(question.system)
    chat = opened_chat(question.chat, system)
    with opened(thinks, question, machine, network, messages) as assistant:
        if question.lines:
            answer_lines(assistant, asked or [], system, question)
        elif asked is None:
            converse(assistant.conversation(chat.messages if chat else (), system=system), question, chat)
        else:
            talk = assistant.conversation(chat.messages if chat else (), system=system)
            print_answer(talk, asked[0], question, chat, sounds)


def heard(name: str) -> Sound:
    """The recording of --audio, read before the model is loaded."""
    from omnitts_cli.speech.assistant import listen

    return listen(name, sys.stdin.buffer if name == "-" and sys.stdin is not None else None)


def lines_of_stdin() -> list[str]:
    """The questions of --lines; empty lines are skipped."""
    lines = [line.strip() for line in read_stdin().splitlines()]
    if not any(lines):
        raise InputError("there is no question on stdin", hint="omnitts ask --lines < questions.txt")
    return [line for line in lines if line]


def with_stdin(typed: str) -> str:
    """The question as typed, and after a blank line what a pipe or a file on stdin holds."""
    piped = read_stdin().strip() if typed in ("", "-") or feeds_stdin() else ""
    text = "\n\n".join(part for part in ("" if typed == "-" else typed.strip(), piped) if part)
    if not text:
        raise InputError("the question is empty", hint='omnitts ask "a question"')
    return text


def feeds_stdin() -> bool:
    """Whether stdin is a pipe or a file, rather than a terminal or nothing."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def read_stdin() -> str:
    if sys.stdin is None:
        return ""
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"stdin, line {line}: not UTF-8", hint="iconv -f latin1 -t utf-8") from None


def system_of(text: str | None) -> str | None:
    """The system prompt, or the content of the file after @."""
    if text is None or not text.startswith("@"):
        return text or None
    try:
        return Path(text[1:]).read_text("utf-8").strip() or None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InputError(f"cannot read system prompt {text[1:]}: {reason.lower()}", hint="--system TEXT") from None


def opened_chat(name: str | None, system: str | None) -> ChatFile | None:
    from omnitts_cli.speech.chat_file import ChatFile

    chat = ChatFile.open(Path(name)) if name else None
    if chat and system and any(message.role == "system" for message in chat.messages):
        raise UsageError(f"the conversation in {name} has a system prompt already", hint="leave --system out")
    if chat and system:
        chat.system = system
    return chat


@contextmanager
def opened(
    thinks: Thinks, question: Question, machine: Machine, network: Network, messages: Messages
) -> Iterator[Assistant]:
    """The open model, after everything else has been checked."""
    from omnitts_cli.cli.job import settings_for
    from omnitts_cli.terminal.progress import style

    name = thinks.model or MODEL
    if style(messages.progress) == "bar":
        console.redraw(f"loading {name} ...")
    from omnitts_cli.speech.assistant import load_assistant  # takes seconds: after the message

    assistant = load_assistant(
        name, context=question.context, sound=question.audio is not None, **settings_for(machine, network)
    )
    console.stand_still()
    with assistant:
        yield assistant


def options_of(question: Question) -> dict[str, Any]:
    names = ("max_tokens", "temperature", "top_p", "top_k", "seed")
    return {name: getattr(question, name) for name in names}


def print_answer(
    talk: Conversation, words: str, question: Question, chat: ChatFile | None, sounds: Sequence[Sound] = ()
) -> Answer:
    """Prints one answer as it is written, and keeps it in the conversation."""
    with talk.stream(words, sounds, **options_of(question)) as reply:
        written = "\n"
        try:
            pieces: Iterator[str] = iter(reply)
            while True:
                with signals.held():  # a signal takes effect between two pieces
                    piece = next(pieces, None)
                    if piece is None:
                        break
                    console.record(event="text", text=piece)
                    if not console.json:
                        console.stdout.text(piece)
                    written = piece
        finally:  # a stopped answer ends its line too
            if not console.json and not written.endswith("\n"):
                console.stdout.text("\n")
        answer = talk.keep(words, reply.answer(), sounds)
    report(answer, question)
    if chat:
        chat.append(words, answer)
    return answer


def report(answer: Answer, question: Question, **more: Any) -> None:
    """The end of an answer, for programs, and with --stats for people."""
    rate = answer.tokens_per_s
    console.record(
        event="done",
        status="ok",
        stopped=answer.stopped,
        tokens_in=answer.prompt_tokens,
        tokens_cached=answer.cached_tokens,
        tokens_out=len(answer.tokens),
        ttft_ms=None if answer.first_s is None else round(answer.first_s * 1000, 3),
        wall_ms=round(answer.wall_s * 1000, 3),
        tokens_per_s=None if rate is None else round(rate, 1),
        seed=answer.seed,
        text=answer.text,
        **more,
    )
    if answer.stopped == "limit":
        console.warning(
            f"the answer was cut after {len(answer.tokens)} tokens", hint=f"--max-tokens {2 * len(answer.tokens)}"
        )
    if question.stats:
        cached = f" ({answer.cached_tokens} cached)" if answer.cached_tokens else ""
        first = "" if answer.first_s is None else f", first after {answer.first_s * 1000:.0f} ms"
        speed = "" if rate is None else f", {rate:.1f} tokens/s"
        drawn = f", seed {answer.seed}" if question.temperature else ""
        console.note(f"{answer.prompt_tokens} tokens in{cached}, {len(answer.tokens)} out{first}{speed}{drawn}")


def answer_lines(assistant: Assistant, questions: list[str], system: str | None, question: Question) -> None:
    """Answers many questions together, and prints the answers in their order."""
    from omnitts_cli.speech.assistant import conversation

    replies: list[Reply] = []
    try:
        for words in questions:
            replies.append(assistant.reply(conversation(words, system), **options_of(question)))
        for number, (words, reply) in enumerate(zip(questions, replies, strict=True), 1):
            answer = reply.answer()
            if not console.json:
                console.stdout.text(" ".join(answer.text.split()) + "\n")
            report(answer, question, line=number, asked=words)
    finally:
        for reply in replies:
            reply.close()


def converse(talk: Conversation, question: Question, chat: ChatFile | None) -> None:
    """Questions and answers at a terminal. Ctrl-C stops an answer; at the prompt, it ends the conversation."""
    console.note("ask a question; Ctrl-D ends the conversation")
    while (words := console.question()) is not None:
        if not words.strip():
            continue
        with signals.handled():
            try:
                print_answer(talk, words, question, chat)
            except signals.Stopped as stopped:
                if stopped.word != signals.NAMES["SIGINT"]:
                    raise
                console.note("stopped")
            except InputError as error:
                console.problem(error)
