"""omnitts ask: questions to a language model, and its answers as text, or as text and speech, as they are generated."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnitts_cli import files
from omnitts_cli.cli import sound_out
from omnitts_cli.cli.job import ModelOpener, model_for
from omnitts_cli.cli.sound_out import Stage
from omnitts_cli.errors import DeviceError, InputError, ModelError, OmniError, UsageError
from omnitts_cli.settings.commands import Question, Spoken, Thinks
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Machine, Speech
from omnitts_cli.speech.assistant import Answers, Conversation, conversation, listen, load_assistant
from omnitts_cli.speech.chat_file import ChatFile
from omnitts_cli.speech.chat_local import LocalChat
from omnitts_cli.speech.chat_model import ChatAssistant, ChatModel
from omnitts_cli.speech.chat_server import ChatServer
from omnitts_cli.speech.reply import Answer, Reply
from omnitts_cli.terminal import signals
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import style
from omnitts_cli.weights.find import RATE, sample_rate

if TYPE_CHECKING:
    from omnitts_cli.models.audio_tower import Sound

MODEL = "omni"
SAMPLED = ("max_tokens", "temperature", "top_p", "top_k", "seed")


def ask(
    question: Question, spoken: Spoken, thinks: Thinks, opener: ModelOpener, words: list[str] | None = None
) -> None:
    """Ask a language model a question; it answers in text or speech."""
    if spoken.audio_device == "list":
        return sound_out.list_speakers()
    AskCommand(question, spoken, thinks, opener, words).run()


@dataclass
class AskCommand:
    """One `omnitts ask`. `stage`: where the sound of its answers goes, if they are spoken."""

    question: Question
    spoken: Spoken
    thinks: Thinks
    opener: ModelOpener
    words: list[str] | None
    stage: Stage | None = None

    def run(self) -> None:
        """Asks, and answers."""
        self.refuse_contradictions()
        with ExitStack() as closing:
            self.stage = self.opened_stage(closing)
            asked, sounds = self.questions()
            system = system_of(self.question.system)
            chat = opened_chat(self.question.chat, system, ids=self.thinks.llm is None)
            assistant = closing.enter_context(self.opened())
            if self.stage is not None and assistant.voices:
                sound_out.require_rate(self.stage.rate, assistant.sample_rate)
            if not assistant.voices:
                self.stage = None
            elif self.question.system is None and not (chat and chat.messages):  # a new conversation
                system = assistant.spoken_style
                if chat:
                    chat.system = system
            if self.question.lines:
                return self.answer_lines(assistant, asked, system)
            talk = assistant.conversation(chat.messages if chat else (), system=system)
            if not asked:
                return self.converse(talk, chat)
            self.print_answer(talk, asked[0], chat, self.stage, sounds)

    def refuse_contradictions(self) -> None:
        """UsageError for options that cannot be used together."""
        question, spoken = self.question, self.spoken
        if question.lines and (self.words or question.chat or question.audio):
            raise UsageError("--lines reads its questions from stdin", hint="omnitts ask --lines < questions.txt")
        if question.audio and question.chat:
            raise UsageError("--chat keeps text only, not the sound of --audio", hint="leave one of them out")
        if question.lines and spoken.output:
            raise UsageError("-o is for one answer", hint="-O DIR writes a file for each line")
        if spoken.output_dir and not question.lines:
            raise UsageError("--output-dir is for --lines", hint="-o answer.wav")
        sound_out.refuse_overwriting(spoken, [name for name in (question.audio, question.chat) if name])
        given = {"--play": spoken.play, "-o": spoken.output, "-O": spoken.output_dir, "--voice": spoken.voice}
        clash = next((name for name, value in given.items() if value), None)
        if question.text_only and clash:
            raise UsageError(f"{clash} cannot be used with --text-only", hint="leave one of them out")
        if self.thinks.llm is not None:
            self.refuse_llm(self.thinks.llm)

    def refuse_llm(self, llm: str) -> None:
        """UsageError for what --llm cannot be or do."""
        if not llm.startswith(("hf:", "http://", "https://")) or llm == "hf:":
            raise UsageError(
                f"--llm takes hf:ORG/REPO or the address of a server, not '{llm[:80]}'",
                hint="--llm hf:Qwen/Qwen3-0.6B   or   --llm http://127.0.0.1:11434/v1",
            )
        if self.question.audio:
            raise UsageError("--audio cannot be used with --llm, which takes text only", hint="leave one of them out")

    def questions(self) -> tuple[list[str], tuple["Sound", ...]]:
        """What is asked, with a recording; nothing for a conversation at a terminal."""
        typed = " ".join(self.words or [])
        if self.question.lines:
            return lines_of_stdin(), ()
        if self.question.audio:
            sounds = (recording(self.question.audio),)
            return [typed if self.question.audio == "-" else with_stdin(typed, alone=False)], sounds
        if self.words or sys.stdin is None or not sys.stdin.isatty():
            return [with_stdin(typed)], ()
        if self.spoken.output:
            raise UsageError("-o is for one answer", hint=f'omnitts ask "a question" -o {self.spoken.output}')
        if self.opener.messages.no_input:
            raise UsageError("no question was given, and --no-input is set", hint='omnitts ask "a question"')
        return [], ()

    def opened_stage(self, closing: ExitStack) -> Stage | None:
        """Where the sound will go, opened before the model; None for an answer in text only.

        At a terminal, an answer is played if this machine can play.
        """
        stage, question, spoken, rate = None, self.question, self.spoken, RATE
        if self.thinks.llm is not None:
            model, variant, _ = model_for(Speech(model=self.thinks.model, voice=spoken.voice))
            rate = sample_rate(model or EMBEDDED, variant)
        if spoken.output_dir:
            closing.enter_context(sound_out.folder_for_sound(Path(spoken.output_dir)))
            stage = sound_out.silent_stage(spoken, rate)
        elif spoken.play or spoken.output:
            stage = sound_out.open_stage(spoken, rate)
        elif spoken.play is None and not question.text_only and not question.lines and console.stdout.is_terminal():
            try:
                stage = sound_out.open_stage(replace(spoken, play=True), rate)
            except DeviceError as error:
                console.detail(f"answers are not played: {error.message}")
        if stage is not None:
            closing.callback(stage.sink.discard)
        elif spoken.voice:
            raise UsageError("--voice is for spoken answers", hint="--play   or   -o answer.wav")
        elif (self.opener.machine.first_chunk, self.opener.machine.chunk) != (Machine.first_chunk, Machine.chunk):
            hint = "--play   or   -o answer.wav"
            raise UsageError("--first-chunk and --chunk are for spoken answers", hint=hint)
        return stage

    @contextmanager
    def opened(self) -> Iterator[Answers]:
        """The open model, after everything else has been checked. It gets a voice if there is a place for sound."""
        if self.thinks.llm is not None:
            with self.opened_llm(self.thinks.llm) as found:
                yield found
            return
        name, spoken = self.thinks.model or MODEL, self.spoken
        if style(self.opener.messages.progress) == "bar":
            console.redraw(f"loading {name} ...")

        given = {"context": self.question.context, "sound": self.question.audio is not None, **self.opener.settings}
        try:
            assistant = load_assistant(name, speech=self.stage is not None, **given)
        except (ModelError, DeviceError) as error:
            if self.stage is None or spoken.play or spoken.output or spoken.output_dir or spoken.voice:
                raise
            console.detail(f"answers are not spoken: {error.message}")  # speech was not requested
            assistant = load_assistant(name, **given)
        console.clear_line()
        with assistant:
            if assistant.voices:
                assistant.check_voice(spoken.voice)
            yield assistant

    @contextmanager
    def opened_llm(self, llm: str) -> Iterator[Answers]:
        """The chat model of --llm. If there is a place for sound, the model of -m speaks for it."""
        speech = Speech(model=self.thinks.model, voice=self.spoken.voice)
        model: ChatModel
        if llm.startswith("hf:"):
            console.detail(f"loading {llm}; what is not on this machine is downloaded first")
            model = LocalChat(llm, context=self.question.context, **self.opener.settings)
        else:
            model = ChatServer(llm, offline=self.opener.network.offline)
        with ExitStack() as closing:
            tts = closing.enter_context(self.opener.of_voice(speech)) if self.stage is not None else None
            assistant = ChatAssistant(model, tts)
            if tts is not None:
                assistant.check_voice(self.spoken.voice)
            yield assistant

    @property
    def options(self) -> dict[str, Any]:
        """How answers are sampled."""
        return {name: getattr(self.question, name) for name in SAMPLED}

    def print_answer(
        self, talk: Conversation, words: str, chat: ChatFile | None, stage: Stage | None, sounds: Sequence["Sound"] = ()
    ) -> None:
        """Prints one answer as it is written, speaks it if there is a place for its sound, and keeps it."""
        reply: Reply
        if stage is not None:
            reply = talk.speak(words, sounds, voice=self.spoken.voice, **self.options)
        else:
            reply = talk.stream(words, sounds, **self.options)
        with reply:
            try:
                show(reply, stage)
                if stage is not None:
                    stage.sink.finish()
            except (OmniError, signals.Stopped) as error:
                raise (kept(error, stage) if stage is not None else error) from None
            answer = talk.keep(words, reply.answer(), sounds)
        self.report(answer, stage, audio_tokens=sum(sound.tokens for sound in sounds))
        if chat:
            chat.append(words, answer)

    def report(self, answer: Answer, stage: Stage | None = None, **more: Any) -> None:
        """The end of an answer, for programs, and with --stats for people."""
        rate, clip = answer.tokens_per_s, answer.clip
        if clip is not None:
            more |= {
                "ttfs_ms": None if answer.first_sound_s is None else round(answer.first_sound_s * 1000, 3),
                "audio_s": round(clip.seconds, 3),
                "rtf": None if answer.rtf is None else round(answer.rtf, 4),
            }
            if stage is not None:
                more["output"] = stage.shown
        console.record(
            event="done",
            status="ok",
            stopped=answer.stopped,
            tokens_in=answer.prompt_tokens,
            tokens_cached=answer.cached_tokens,
            tokens_out=answer.tokens_out,
            ttft_ms=None if answer.first_s is None else round(answer.first_s * 1000, 3),
            wall_ms=round(answer.wall_s * 1000, 3),
            tokens_per_s=None if rate is None else round(rate, 1),
            seed=answer.seed,
            text=answer.text,
            **more,
        )
        if answer.stopped == "limit":
            count = answer.tokens_out or self.question.max_tokens or 0
            console.warning(f"the answer was cut after {count} tokens", hint=f"--max-tokens {2 * count}")
        for notice in answer.notices:
            console.notice(notice)
        if self.question.stats:
            cached = f" ({answer.cached_tokens} cached)" if answer.cached_tokens else ""
            first = "" if answer.first_s is None else f", first after {answer.first_s * 1000:.0f} ms"
            speed = "" if rate is None else f", {rate:.1f} tokens/s"
            drawn = f", seed {answer.seed}" if self.question.temperature or clip else ""
            shown = ["?" if one is None else one for one in (answer.prompt_tokens, answer.tokens_out)]
            console.note(f"{shown[0]} tokens in{cached}, {shown[1]} out{first}{speed}{drawn}")
        if self.question.stats and clip is not None and answer.first_sound_s is not None:
            sound = f"{clip.seconds:.1f} s of speech, first sound after {answer.first_sound_s * 1000:.0f} ms"
            console.note(f"{sound}, RTF {answer.rtf:.3f}")

    def answer_lines(self, assistant: Answers, questions: list[str], system: str | None) -> None:
        """Answers many questions together, and prints the answers in their order."""
        replies, stage, folder = list[Reply](), self.stage, self.spoken.output_dir
        try:
            for number, words in enumerate(questions, 1):
                try:
                    replies.append(self.submitted(assistant, words, system))
                except InputError as error:  # before anything is answered
                    error.message = f"question {number}: {error.message}"
                    raise
            for number, (words, reply) in enumerate(zip(questions, replies, strict=True), 1):
                answer, more = reply.answer(), dict[str, Any]()
                if answer.clip is not None and folder is not None:
                    more["output"] = sound_out.write_answer(answer.clip, Path(folder) / str(number), self.spoken)
                elif answer.clip is not None and stage is not None:
                    with signals.held():
                        stage.write(answer.clip.samples)
                if not console.json:
                    console.stdout.text(" ".join(answer.text.split()) + "\n")
                self.report(answer, line=number, asked=words, **more)
            if stage is not None:
                stage.sink.finish()
        finally:
            for reply in replies:
                reply.close()

    def submitted(self, assistant: Answers, words: str, system: str | None) -> Reply:
        """The reply to one of many questions."""
        turns = conversation(words, system)
        if self.stage is not None:
            return assistant.spoken_reply(turns, voice=self.spoken.voice, **self.options)
        return assistant.reply(turns, **self.options)

    def converse(self, talk: Conversation, chat: ChatFile | None) -> None:
        """Questions and answers at a terminal. Ctrl-C stops an answer; at the prompt, it ends the conversation."""
        console.note("ask a question; Ctrl-D ends the conversation")
        while (words := console.question()) is not None:
            if not words.strip():
                continue
            try:
                with signals.handled(), ExitStack() as closing:
                    stage = None
                    if talk.assistant.voices:
                        stage = sound_out.open_stage(replace(self.spoken, play=True), talk.assistant.sample_rate)
                        closing.callback(stage.sink.discard)
                    self.print_answer(talk, words, chat, stage)
            except signals.Stopped as stopped:
                if stopped.word != signals.NAMES["SIGINT"]:
                    raise
                console.note("stopped")
            except InputError as error:
                console.problem(error)


def recording(name: str) -> "Sound":
    """The recording of --audio, read before the model is loaded."""
    if name == "-" and sys.stdin is not None and sys.stdin.isatty():
        hint = "arecord -d 5 -f S16_LE -r 16000 | omnitts ask --audio -"
        raise UsageError("--audio - reads a recording from stdin, which is a terminal", hint=hint)
    return listen(name, sys.stdin.buffer if name == "-" and sys.stdin is not None else None)


def lines_of_stdin() -> list[str]:
    """The questions of --lines; empty lines are skipped."""
    lines = [line.strip() for line in read_stdin().splitlines()]
    if not any(lines):
        raise InputError("there is no question on stdin", hint="omnitts ask --lines < questions.txt")
    return [line for line in lines if line]


def with_stdin(typed: str, alone: bool = True) -> str:
    """The question as typed, and after a blank line what a pipe or a file on stdin holds. Without `alone` there is
    a recording too, and it may be empty.
    """
    piped = read_stdin().strip() if typed == "-" or feeds_stdin() or (alone and not typed) else ""
    text = "\n\n".join(part for part in ("" if typed == "-" else typed.strip(), piped) if part)
    if not text and alone:
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
        return files.read_text(text[1:], files.LARGE, pipes=True).strip() or None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InputError(f"cannot read system prompt {text[1:]}: {reason.lower()}", hint="--system TEXT") from None


def opened_chat(name: str | None, system: str | None, *, ids: bool) -> ChatFile | None:
    chat = ChatFile.open(Path(name)) if name else None
    if chat:
        chat.ids = ids
    if chat and system and any(message.role == "system" for message in chat.messages):
        raise UsageError(f"the conversation in {name} has a system prompt already", hint="leave --system out")
    if chat and system:
        chat.system = system
    return chat


def show(reply: Reply, stage: Stage | None) -> None:
    """Prints the text of an answer and writes its sound, both as they are generated."""
    written, events = "\n", reply.events()
    try:
        while True:
            with signals.held():  # a signal takes effect between two pieces
                event = next(events, None)
                if event is None:
                    return
                if event.text:
                    console.record(event="text", text=event.text)
                    console.answer(event.text)
                    written = event.text
                if event.samples.size and stage is not None:
                    stage.write(event.samples)
                    stage.sink.sentence_done()  # if the answer is stopped, all sound so far is kept
                    console.record(event="sound", audio_s=round(event.samples.size / stage.rate, 3))
    finally:  # a stopped answer ends its line too
        if not written.endswith("\n"):
            console.answer("\n")


def kept(error: OmniError | signals.Stopped, stage: Stage) -> OmniError | signals.Stopped:
    """Keeps the speech so far; returns the error."""
    path = stage.sink.interrupt()
    if path and isinstance(error, signals.Stopped):
        error.word += f"; the speech so far is in {path}"
    elif path:
        console.note(f"the speech so far is in {path}")
    return error
