"""Speak: from a checked request to the stream that answers it, and the chunks of that stream on the event loop."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from omnitts_cli.errors import Notice
from omnitts_cli.server.asked import Asked
from omnitts_cli.server.body import Gone, Receive
from omnitts_cli.server.encode import THREADS
from omnitts_cli.server.models import ServedModel
from omnitts_cli.server.problems import Problem, invalid
from omnitts_cli.server.state import ServerState, SpeechCall
from omnitts_cli.server.voices import kind_of, of_values, spelled, voice_of
from omnitts_cli.speech.clip import Chunk
from omnitts_cli.speech.script import Fed
from omnitts_cli.speech.tts import TTS, script_of
from omnitts_cli.speech.voices import Voice
from omnitts_cli.speech.words import Aligned, Timer
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.voices import Cloned, Designed, Named

SHORT_CHARS = 100
"""Texts up to this length are split and normalised on the event loop; longer ones in a thread."""
READERS = ThreadPoolExecutor(2, "omnitts reader")
"""Threads in which texts are read: all other requests wait while the event loop reads one."""
STREAM_AHEAD, STREAM_AHEAD_S = 4, 10.0
"""Limits of a streamed request: pieces in flight, and unread sound above which no further piece begins."""


async def begin(state: ServerState, call: SpeechCall, asked: Asked, *, live: bool = False) -> None:
    """Opens the request's stream; loads its model if necessary. Errors name the field that the client has sent."""
    try:
        await start(state, call, asked, live)
    except Problem as problem:
        problem.param = asked.sent.get(problem.param or "", problem.param)
        raise


async def start(state: ServerState, call: SpeechCall, asked: Asked, live: bool) -> None:
    """The same, with the names of our own fields in errors."""
    asked = replace(asked, voice=spelled(asked.voice, state.saved))
    kind = asked.task or kind_of(asked.voice, state.saved)
    tuned = await tuned_voice(state, asked, kind)
    if tuned is not None:
        model = await state.models.of_tuned(asked.model, tuned)
    else:
        model = await state.models.of_kind(asked.model, kind, prefer=made_with(state, asked.voice))
    model.active += 1
    call.model = model
    tts = await state.models.ready(model)
    voice = await voice_for(state, model, asked, kind)
    call.voice = voice.name or "clone"
    asked = without_style(call, asked, model, voice)
    opened = partial(open_stream, state, call, asked, tts, voice, live)
    if asked.words:
        call.timer = Timer(tts.sample_rate, Aligned(asked.speech.language))
    if len(asked.text) <= SHORT_CHARS and not asked.lexicon:
        call.stream = opened()
        if call.stream.hungry:  # the rest of a short text needs no thread
            call.stream.prepare()
    else:
        call.stream = await asyncio.to_thread(opened)


async def tuned_voice(state: ServerState, asked: Asked, kind: str) -> Voice | None:
    """The voice, if it is a tuned one: its file is large, so it is read in a thread."""
    name = asked.voice
    if kind != "cloned" or asked.clip is not None or asked.vector is not None or name not in state.saved.names():
        return None
    if not state.saved.tuned(name):
        return None
    return await asyncio.to_thread(state.saved.load, name)


def made_with(state: ServerState, voice: str | None) -> str | None:
    """The model that a saved voice was made with."""
    if voice is None or voice not in state.saved.names():
        return None
    return state.saved.load(voice).about.get("model")


def without_style(call: SpeechCall, asked: Asked, model: ServedModel, voice: Voice) -> Asked:
    """The request without instructions that the voice cannot follow. Most clients send some to every voice."""
    named = isinstance(voice.identity, Named)
    if asked.prepared or asked.describes or not (asked.speech.style or "").strip():
        return asked
    if named and model.speech.obeys_style:
        return asked
    call.ignored.append("instructions")
    call.raised.append(Notice(f"{'this' if named else 'a cloned'} voice has no styles: instructions had no effect"))
    return replace(asked, speech=replace(asked.speech, style=None))


async def voice_for(state: ServerState, model: ServedModel, asked: Asked, kind: str) -> Voice:
    """The voice of a request."""
    if asked.clip is not None:
        return await state.clips.voice_of(model, asked.clip)
    if asked.vector is not None:
        return of_values(asked.vector, model.speech)
    if kind == "designed":
        return Voice(Designed(asked.speech.style or ""), "designed")
    voice = voice_of(asked.voice, model.speech, state.saved)
    if asked.task == "cloned" and not isinstance(voice.identity, Cloned):
        raise invalid("ref_audio", "task_type Base needs ref_audio or a saved voice")
    return voice


def open_stream(state: ServerState, call: SpeechCall, asked: Asked, tts: TTS, voice: Voice, live: bool) -> Any:
    """The stream of a request; the same steps as `omnitts say`."""
    speech = replace(asked.speech, loudness="off")  # the whole sound is levelled at the end
    if asked.describes:
        speech = replace(speech, style=None)
    if asked.prepared:
        language = LANGUAGES.get(speech.language)
        return tts.piece(
            asked.text, voice, language, speech, notify=partial(state.hub.mark, call.news),
            urgent=asked.urgent, client=call.client,
        )  # fmt: skip
    ahead: dict[str, Any] = {} if asked.whole else {"ahead": STREAM_AHEAD, "ahead_s": STREAM_AHEAD_S}
    return tts.open(
        Fed()
        if live
        else script_of(asked.text, asked.how, asked.speech.language, asked.lexicon, state.options.max_chars),
        voice,
        asked.how,
        speech,
        safe=asked.whole,
        urgent=True,
        client=call.client,
        ignore_end=asked.ignore_end,
        apart=not live,
        notify=partial(state.hub.mark, call.news),
        tell=call.raised.append,
        **ahead,
    )


async def chunks(call: SpeechCall) -> AsyncIterator[Chunk]:
    """The chunks of the call's stream; ends with an error if the client goes, or a limit is reached."""
    stream, news = call.stream, call.news
    assert stream is not None
    while True:
        news.clear()
        check(call)
        read_on(call)
        for chunk in stream.poll():
            if chunk.samples.size and call.first_sound is None:
                call.first_sound = time.perf_counter()
            yield chunk
            check(call)
            if call.timer is not None:
                await time_words(call.timer, chunk)
        if stream.complete:
            return
        await news.wait()


def read_on(call: SpeechCall) -> None:
    """Has more of the text read, if the stream needs it; the request is woken when that is done."""
    stream = call.stream
    if stream is None or call.reading or not stream.hungry:
        return

    def ended(done: Any) -> None:
        call.reading = False
        call.news.set()

    call.reading = True
    asyncio.get_running_loop().run_in_executor(READERS, stream.prepare).add_done_callback(ended)


async def time_words(timer: Timer, chunk: Chunk) -> None:
    """Collects sound and, when a sentence is complete, aligns its words with it."""
    add = partial(timer.add, chunk.samples, chunk.sentence)
    if chunk.sentence is None:
        add()
    else:
        await asyncio.get_running_loop().run_in_executor(THREADS, add)


def check(call: SpeechCall) -> None:
    """Raises the error that has ended the request, if there is one."""
    if call.gone:
        raise Gone
    if call.problem is not None:
        raise call.problem


@contextlib.contextmanager
def watched(call: SpeechCall, receive: Receive) -> Any:
    """Notices while the block runs that the client disconnects."""
    task = asyncio.ensure_future(disconnect(call, receive))
    try:
        yield
    finally:
        task.cancel()


async def disconnect(call: SpeechCall, receive: Receive) -> None:
    """Waits for the client to disconnect."""
    while (await receive())["type"] != "http.disconnect":
        pass
    call.gone = True
    call.news.set()
