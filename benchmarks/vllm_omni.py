"""What vLLM-Omni's tests ask of its speech server, asked of ours: each row is one of their tests, by its name.

    python benchmarks/suites.py vllm-omni
    python benchmarks/suites.py --url http://127.0.0.1:8000 vllm-omni      a running server of tiny, with uploads

None of their code is here: a row has the request of a test and what the test expects of the answer, in our words. Tests
that call a handler in their process are sent over HTTP. Left out are tests that look inside their server or let it
fail, and those of other models. Their voices are ours, their clips one of ours, and their 422 is our 400, 404, 413 or
415. From their main branch of autumn 2026, with the files that FILES names; Python packages: websockets, numpy.
"""

from __future__ import annotations

import base64
import http.client
import json
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np

SPEECH, BATCH, VOICES = "/v1/audio/speech", "/v1/audio/speech/batch", "/v1/audio/voices"
FILES = {
    "speech": "entrypoints/openai_api/test_serving_speech.py",
    "stream": "entrypoints/openai_api/test_serving_speech_stream.py",
    "batch": "entrypoints/openai_api/test_serving_speech_batch.py",
    "values": "entrypoints/openai_api/test_qwen3_tts_speaker_embedding.py",
    "socket": "entrypoints/openai_api/test_qwen3_tts_websocket.py",
    "lists": "entrypoints/openai_api/test_openai_audio_list_endpoints.py",
    "base": "e2e/online_serving/test_qwen3_tts_base.py",
    "base+": "e2e/online_serving/test_qwen3_tts_base_expansion.py",
    "custom": "e2e/online_serving/test_qwen3_tts_customvoice.py",
    "custom+": "e2e/online_serving/test_qwen3_tts_customvoice_expansion.py",
}
RATE = 24_000
ENOUGH = 10_000  # bytes of an answer that has speech in it
PLACEHOLDER = 0xFFFFFFFF
LEAST_HNR_DB = 1.2
WAIT_S = 300
BORDER = "----part-of-a-form"
CLIP, VALUES, SHORT = "\0clip", "\0values", "\0short"
"""Stand for a clip as a data URL, the values of an embedding, and values of another length."""
HELLO = {"input": "Hello"}
WORLD = {"input": "Hello world", "model": "tiny", "voice": "alloy"}
CLONE = {"input": "Hello.", "task_type": "Base"}
LONG = "The river was calm in the morning, and two small boats came slowly home with the tide."
MORE = "The bridge is old. It has seven arches. People meet on it in the evening and watch the water go by."


@dataclass(frozen=True)
class Answer:
    """An answer that was read to its end."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)


class Server:
    """The server under test."""

    def __init__(self, url: str, clip: str, hidden: int) -> None:
        self.url, self.clip = url, clip
        self.filler = {CLIP: clip, VALUES: [0.1] * hidden, SHORT: [0.1] * (hidden // 2)}

    def filled(self, values: Any) -> Any:
        """Values with their placeholders replaced."""
        if isinstance(values, dict):
            return {name: self.filled(value) for name, value in values.items()}
        if isinstance(values, list):
            return [self.filled(value) for value in values]
        return self.filler.get(values, values) if isinstance(values, str) else values

    def send(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Answer:
        """One request."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=WAIT_S)
        try:
            connection.request(method, path, body, {"Content-Type": kind} if kind else {})
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, headers, answer.read())
        finally:
            connection.close()

    def post(self, path: str, fields: dict[str, Any]) -> Answer:
        """A request of JSON, in which NaN may stand as Python writes it."""
        return self.send("POST", path, json.dumps(self.filled(fields)).encode(), "application/json")

    def get(self, path: str) -> Answer:
        """A plain request."""
        return self.send("GET", path)

    def delete(self, name: str) -> Answer:
        """Deletes a voice."""
        return self.send("DELETE", f"{VOICES}/{name}")

    def upload(self, file: bytes | None = None, kind: str = "audio/wav", **fields: Any) -> Answer:
        """A form, with a clip if there is one."""
        part = "--{}\r\nContent-Disposition: form-data; name="
        parts = [f'{part.format(BORDER)}"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
        if file is not None:
            head = f'{part.format(BORDER)}"audio_sample"; filename="test.wav"\r\nContent-Type: {kind}\r\n\r\n'
            parts.append(head.encode() + file + b"\r\n")
        body = b"".join(parts) + f"--{BORDER}--\r\n".encode()
        return self.send("POST", VOICES, body, f"multipart/form-data; boundary={BORDER}")

    @property
    def sample(self) -> bytes:
        """The clip as a file."""
        return base64.b64decode(self.clip.partition(",")[2])


@dataclass(frozen=True)
class Case:
    """One of their tests: `run` raises if the answer is another one. `stays`: why ours differs, if it does."""

    test: str
    run: Callable[[Server], None]
    stays: str = ""


# ---- what is checked of an answer


def good(answer: Answer, media: str = "audio/wav", least: int = 45) -> bytes:
    """The sound of an answer."""
    assert answer.status_code == 200, f"{answer.status_code}: {answer.text[:200]}"
    assert answer.headers["content-type"].startswith(media), answer.headers["content-type"]
    assert len(answer.content) >= least, f"{len(answer.content)} bytes"
    if media == "audio/wav":
        assert answer.content[:4] == b"RIFF" and answer.content[8:12] == b"WAVE"
    return bytes(answer.content)


def bad(answer: Answer, param: str | None = None) -> None:
    """A refusal that has the shape of OpenAI's errors, of the field that is wrong."""
    assert 400 <= answer.status_code < 500, f"{answer.status_code}: {answer.text[:200]}"
    error = answer.json()["error"]
    assert error["message"] and {"type", "param", "code"} <= set(error), error
    assert param is None or error["param"] == param, error


def events(answer: Answer, form: str) -> None:
    """Server-sent events of sound, and the last one."""
    assert answer.status_code == 200, answer.text[:200]
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers["content-type"]
    assert "event: speech.audio.delta" in answer.text and "event: speech.audio.done" in answer.text
    first = json.loads(next(line for line in answer.text.splitlines() if line.startswith("data: "))[6:])
    assert (first["type"], first["response_format"]) == ("speech.audio.delta", form), first
    assert base64.b64decode(first["audio"])


def loud(sound: bytes) -> None:
    """Samples that are not all the same."""
    assert np.unique(np.frombuffer(sound, "<i2")).size > 1, "silence"


def harmonics_db(sound: bytes) -> float:
    """The mean ratio of harmonics to noise in windows of 30 ms that have sound, by their autocorrelation."""
    samples = np.frombuffer(sound, "<i2") / 32768
    size, found = int(0.03 * RATE), []
    for begin in range(0, samples.size - size, size // 2):
        window = samples[begin : begin + size]
        if np.abs(window).max() >= 0.01:
            power = np.correlate(window, window, "full")[size - 1 :]
            peak = float((power / power[0])[RATE // 400 : RATE // 80].max())
            found += [10 * np.log10(peak / (1 - peak))] if 0 < peak < 1 else []
    return float(np.mean(found))


# ---- rows of one request


def speaks(test: str, fields: dict[str, Any], media: str = "audio/wav", stays: str = "", **more: Any) -> Case:
    """200, with sound of this type."""

    def run(server: Server) -> None:
        good(server.post(SPEECH, {"response_format": "wav", **fields}), media, **more)

    return Case(test, run, stays)


def refuses(test: str, fields: dict[str, Any], param: str | None = None, stays: str = "", path: str = SPEECH) -> Case:
    """A refusal, of this field."""
    return Case(test, lambda server: bad(server.post(path, fields), param), stays)


def streams(test: str, fields: dict[str, Any], form: str = "pcm") -> Case:
    """Events."""
    return Case(test, lambda server: events(server.post(SPEECH, {**fields, "response_format": form}), form))


def raw(test: str, fields: dict[str, Any], form: str = "pcm", stays: str = "") -> Case:
    """Streamed sound, without events."""
    media = "audio/wav" if form == "wav" else "audio/pcm"
    return speaks(test, {**fields, "response_format": form}, media, stays, least=100)


SUPERSET = "ours streams every format"
SPEEDY = "ours changes the speed while it streams"
WORDLESS = "ours clones the sound of a clip without its words"


# ---- rows of several requests


def usage(server: Server) -> None:
    answer = server.post(SPEECH, {**WORLD, "response_format": "wav"})
    good(answer)
    counts = ("input-tokens", "output-tokens", "total-tokens", "input-text-tokens", "input-audio-tokens")
    assert all(int(answer.headers[f"x-vllm-omni-{name}"]) >= 0 for name in counts)


def speed(server: Server) -> None:
    sizes = [len(good(server.post(SPEECH, {**WORLD, "input": LONG, "response_format": "wav", "seed": 1, "speed": one})))
             for one in (1.0, 2.5)]  # fmt: skip
    assert sizes[1] < 0.6 * sizes[0], sizes


def voices(server: Server) -> None:
    answer = server.get(VOICES)
    assert answer.status_code == 200 and isinstance(answer.json()["voices"], list) and answer.json()["voices"]


def models(server: Server) -> None:
    answer = server.get("/v1/models")
    assert answer.status_code == 200 and answer.json()["data"]


def startup(server: Server) -> None:
    assert server.get("/health").status_code == 200
    assert "tiny" in [model["id"] for model in server.get("/v1/models").json()["data"]]


def uploaded(**expected: Any) -> Callable[[Server], None]:
    """Uploads a clip with these fields and finds them in the answer."""

    def run(server: Server) -> None:
        name = expected["name"]
        server.delete(name)
        given = {key: value for key, value in expected.items() if key not in ("mime_type", "file_size")}
        try:
            answer = server.upload(server.sample, **{"consent": "c1", **given})
            assert answer.status_code == 200, answer.text[:200]
            voice = answer.json()["voice"]
            sizes = {"file_size": len(server.sample)} if "file_size" in expected else {}
            wanted = {key: str(value).strip() for key, value in expected.items()} | sizes
            assert answer.json()["success"] is True and {key: voice.get(key) for key in wanted} == wanted, voice
        finally:
            server.delete(name)

    return run


def described(server: Server) -> None:
    server.delete("listed")
    try:
        assert server.upload(server.sample, name="listed", consent="c", speaker_description="calm").status_code == 200
        found = {voice["name"]: voice for voice in server.get(VOICES).json()["uploaded_voices"]}
        assert found["listed"]["speaker_description"] == "calm"
    finally:
        server.delete("listed")


def again(server: Server) -> None:
    try:
        for _ in range(2):
            answer = server.upload(server.sample, name="twice", consent="c")
            assert answer.status_code == 200, answer.text[:200]
    finally:
        server.delete("twice")


def incomplete(server: Server) -> None:
    bad(server.upload(server.sample, name="mary"))
    bad(server.upload(server.sample, consent="c"))
    bad(server.upload(name="mary", consent="c"))


def deleted(server: Server) -> None:
    assert server.upload(server.sample, name="gone", consent="c").status_code == 200
    answer = server.delete("gone")
    assert answer.status_code == 200 and answer.json()["success"] is True
    assert "deleted successfully" in answer.json()["message"]
    assert server.delete("gone").status_code == 404


def missing(server: Server) -> None:
    assert server.delete("nonexistent").status_code == 404


def valued(listed: bool) -> Callable[[Server], None]:
    """Uploads values, and finds the voice in the answer or the list."""

    def run(server: Server) -> None:
        values = server.filler[VALUES]
        try:
            answer = server.upload(speaker_embedding=json.dumps(values), name="valued", consent="c")
            assert answer.status_code == 200, answer.text[:200]
            found = {voice["name"]: voice for voice in server.get(VOICES).json()["uploaded_voices"]}
            voice = found["valued"] if listed else answer.json()["voice"]
            assert (voice["embedding_source"], voice["embedding_dim"]) == ("direct", len(values)), voice
        finally:
            server.delete("valued")

    return run


def form_refused(clip: bytes | None = None, kind: str = "audio/wav", **fields: Any) -> Callable[[Server], None]:
    """A form that is refused."""
    return lambda server: bad(server.upload(clip, kind, **{"name": "mary", "consent": "c", **fields}))


def short_values(server: Server) -> None:
    values = json.dumps(server.filler[SHORT])
    bad(server.upload(speaker_embedding=values, name="mary", consent="c"), "speaker_embedding")


def with_voice(fields: dict[str, Any], values: bool = False, path: str = SPEECH) -> Callable[[Server], None]:
    """A request that speaks with a voice that was uploaded, `me`."""

    def run(server: Server) -> None:
        server.delete("me")
        source = {"speaker_embedding": json.dumps(server.filler[VALUES])} if values else {"file": server.sample}
        try:
            assert server.upload(name="me", consent="c", **source).status_code == 200
            answer = server.post(path, {"response_format": "wav", **fields})
            if path == BATCH:
                assert answer.json()["results"][0]["status"] == "success", answer.text[:200]
                return
            good(answer)
            assert answer.headers["x-voice"] == ("clone" if "ref_audio" in fields else "me")
        finally:
            server.delete("me")

    return run


def named(fields: dict[str, Any]) -> Callable[[Server], None]:
    """A request in the voice clara."""

    def run(server: Server) -> None:
        answer = server.post(SPEECH, {**HELLO, "response_format": "wav", **fields})
        good(answer)
        assert answer.headers["x-voice"] == "clara", answer.headers["x-voice"]

    return run


def languages(server: Server) -> None:
    for name in ("English", "english", "Auto", "AUTO"):
        good(server.post(SPEECH, {**HELLO, "language": name, "response_format": "wav"}))


def default(server: Server) -> None:
    answer = server.post(SPEECH, HELLO)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("audio/")


def both(*cases: Case) -> Callable[[Server], None]:
    """Several requests that one test has."""

    def run(server: Server) -> None:
        for case in cases:
            case.run(server)

    return run


def headers(*rates: int) -> Callable[[Server], None]:
    """The headers of WAV streams of unknown length."""

    def run(server: Server) -> None:
        for rate in rates:
            fields = {**HELLO, "response_format": "wav", "stream_format": "audio"}
            answer = server.post(SPEECH, fields if rate == RATE else {**fields, "sample_rate": rate})
            found = struct.unpack("<4sI4s4sIHHIIHH4sI", good(answer)[:44])
            expected = (b"RIFF", PLACEHOLDER, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", PLACEHOLDER)
            assert found == expected, found

    return run


# ---- batches


def batch(test: str, items: list[Any], stays: str = "", failed: int = 0, least: int = 1, **shared: Any) -> Case:
    """A batch of which all items but `failed` succeed, in order."""

    def run(server: Server) -> None:
        answer = server.post(BATCH, {"items": items, **shared})
        assert answer.status_code == 200, answer.text[:200]
        found = answer.json()
        good_ones = len(items) - failed
        assert (found["total"], found["succeeded"], found["failed"]) == (len(items), good_ones, failed), found["failed"]
        assert found["id"].startswith("speech-batch-")
        assert [result["index"] for result in found["results"]] == list(range(len(items)))
        for result in found["results"]:
            if result["status"] == "success":
                assert result["error"] is None and len(base64.b64decode(result["audio_data"])) >= least

    return Case(test, run, stays)


def merged(item: dict[str, Any], shared: dict[str, Any], alone: dict[str, Any]) -> Callable[[Server], None]:
    """An item of a batch has the sound of a single request with these fields."""

    def run(server: Server) -> None:
        fields = {"items": [{"input": "hi", **item}], "seed": 5, **shared}
        result = server.post(BATCH, fields).json()["results"][0]
        assert result["status"] == "success", result
        single = server.post(SPEECH, {"input": "hi", "seed": 5, "response_format": "wav", "stream": False, **alone})
        good(single, result["media_type"], 20)
        assert base64.b64decode(result["audio_data"]) == single.content

    return run


def without_nulls(server: Server) -> None:
    items = [{"input": "Hi."}, {"input": ""}]
    success, error = server.post(BATCH, {"items": items}).json()["results"]
    assert success["usage"]["total_tokens"] > 0 and {"text_tokens"} <= set(success["usage"]["input_token_details"])
    assert "error" not in success and not {"usage", "audio_data", "media_type"} & set(error)


def one_by_one(server: Server) -> None:
    for text in ("The hens ran.", "A cat sat."):
        good(server.post(SPEECH, {"input": text, "voice": "clara", "language": "English", "response_format": "wav"}))
    batch("", [{"input": "The hens ran."}, {"input": "A cat sat."}], voice="clara").run(server)


# ---- the WebSocket


def talk(server: Server, *messages: dict[str, Any], until: tuple[str, ...] = ("session.done",)) -> list[Any]:
    """Sends messages; returns what arrives up to the last one."""
    with connected(server) as socket:
        for message in messages:
            socket.send(json.dumps(server.filled(message)))
        return collected(socket, until)


def connected(server: Server) -> Any:
    """A connection."""
    from websockets.sync.client import connect

    return connect(server.url.replace("http", "ws", 1) + SPEECH + "/stream", max_size=None)


def collected(socket: Any, until: tuple[str, ...] = ("session.done",)) -> list[Any]:
    """Messages up to the first of these kinds."""
    found: list[Any] = []
    while not found or isinstance(found[-1], bytes) or found[-1]["type"] not in until:
        message = socket.recv(timeout=WAIT_S)
        found.append(message if isinstance(message, bytes) else json.loads(message))
    return found


def config(**fields: Any) -> dict[str, Any]:
    """The first message."""
    return {"type": "session.config", "voice": "clara", **fields}


def text(words: Any) -> dict[str, Any]:
    """A message with text."""
    return {"type": "input.text", "text": words}


DONE = {"type": "input.done"}
PCM = {"stream_audio": True, "response_format": "pcm"}


def messages_of(found: list[Any], *kinds: str) -> list[dict[str, Any]]:
    """The messages of these kinds; none is an error unless errors are wanted."""
    messages = [one for one in found if isinstance(one, dict)]
    assert "error" in kinds or not [one for one in messages if one["type"] == "error"], messages
    return [one for one in messages if one["type"] in kinds]


def utterance(found: list[Any], index: int = 0, sentences: int = 1, form: str = "wav") -> None:
    """Start, sound, end of an utterance, and the end of the session, as theirs has them."""
    starts, ends = messages_of(found, "audio.start"), messages_of(found, "audio.done")
    size = sum(len(one) for one in found if isinstance(one, bytes))
    assert len(starts) == len(ends) == sentences, (starts, ends)
    assert [one["sentence_index"] for one in starts] == list(range(sentences))
    assert all(one["format"] == form and one["sentence_text"] for one in starts)
    assert sum(one["total_bytes"] for one in ends) == size > 0 and not any(one["error"] for one in ends)
    assert {one["utterance_index"] for one in (*starts, *ends)} == {index}
    ended = {"type": "session.done", "utterance_index": index, "total_sentences": sentences}
    assert found[-1] == ended, found[-1]


def whole_frame(server: Server) -> None:
    found = talk(server, config(), text("Hello world. "), DONE)
    utterance(found)
    sounds = [one for one in found if isinstance(one, bytes)]
    assert len(sounds) == 1 and sounds[0].startswith(b"RIFF")
    assert messages_of(found, "audio.start")[0]["sentence_text"] == "Hello world."


def several_frames(server: Server) -> None:
    found = talk(server, config(initial_codec_chunk_frames=12, **PCM), text(f"{LONG} "), DONE)
    utterance(found, form="pcm")
    assert len([one for one in found if isinstance(one, bytes)]) > 1
    assert messages_of(found, "audio.start")[0]["sample_rate"] == RATE


def nothing_said(server: Server) -> None:
    found = talk(server, config(), text(""), DONE)
    assert [one["type"] for one in found] == ["session.done"] and found[0]["total_sentences"] == 0


def two_sentences(server: Server) -> None:
    utterance(talk(server, config(), text("First sentence. Second sentence. "), DONE), sentences=2)


def survives(message: Any, sentences: int = 1) -> Callable[[Server], None]:
    """A wrong message is an error, and the session goes on."""

    def run(server: Server) -> None:
        with connected(server) as socket:
            for one in (config(), message):
                socket.send(json.dumps(one))
            assert collected(socket, ("error",))[-1]["message"]
            for one in ([text("Hello world. ")] if sentences else []) + [DONE]:
                socket.send(json.dumps(one))
            assert collected(socket)[-1]["total_sentences"] == sentences

    return run


def socket_error(*messages: dict[str, Any]) -> Callable[[Server], None]:
    """Messages that are answered with an error."""

    def run(server: Server) -> None:
        assert talk(server, *messages, until=("error", "session.done"))[-1]["type"] == "error"

    return run


def reused(server: Server) -> None:
    with connected(server) as socket:
        socket.send(json.dumps(config(model="tiny", language="English", **PCM)))
        for index, words in enumerate((LONG, MORE)):
            for one in (text(words), DONE):
                socket.send(json.dumps(one))
            utterance(collected(socket), index, form="pcm")
        socket.send(json.dumps({"type": "session.close"}))


def committed(server: Server) -> None:
    """Text of which a part is final is spoken before the end of the input, a sentence at a time."""
    with connected(server) as socket:
        for one in (config(text_input_mode="commitment", **PCM), text("The total is 2026"), text(" dollars. "),
                    text("Thank you"), DONE):  # fmt: skip
            socket.send(json.dumps(one))
        utterance(collected(socket), sentences=2, form="pcm")


def impatient(server: Server) -> None:
    with connected(server) as socket:
        try:
            message = json.loads(socket.recv(timeout=15))
        except TimeoutError:
            raise AssertionError("no message within 15 s") from None
        assert message["type"] == "error"


def in_socket(fields: dict[str, Any]) -> Callable[[Server], None]:
    """A session with these settings speaks."""
    return lambda server: utterance(talk(server, config(**fields), text("Hello world."), DONE), form="pcm")


# ---- their end-to-end tests


def clone(**fields: Any) -> dict[str, Any]:
    """A request that clones a clip."""
    return {"model": "tiny", "input": LONG, "task_type": "Base", "ref_audio": CLIP, "ref_text": "He said so.", **fields}


def cloned_sound(server: Server) -> None:
    loud(good(server.post(SPEECH, clone(response_format="pcm")), "audio/pcm", ENOUGH))


def undistorted(server: Server) -> None:
    found = harmonics_db(good(server.post(SPEECH, clone(response_format="pcm")), "audio/pcm", ENOUGH))
    assert found >= LEAST_HNR_DB, f"{found:.2f} dB"


def both_modes(server: Server) -> None:
    for more in ({"x_vector_only_mode": True}, {"x_vector_only_mode": False}, {"x_vector_only_mode": True}):
        fields = clone(response_format="wav", stream=False, **more)
        if more["x_vector_only_mode"]:
            del fields["ref_text"]
        good(server.post(SPEECH, fields))


def at_once(count: int, fields: dict[str, Any]) -> Callable[[Server], None]:
    """The same request several times at once."""

    def run(server: Server) -> None:
        answers: list[Answer] = []
        threads = [threading.Thread(target=lambda: answers.append(server.post(SPEECH, fields))) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == count
        for answer in answers:
            good(answer, least=ENOUGH)

    return run


def values(**fields: Any) -> dict[str, Any]:
    """A request with the values of a voice."""
    return {"model": "tiny", "input": "Hello.", "task_type": "Base", "speaker_embedding": VALUES,
            "x_vector_only_mode": True, "max_new_tokens": 256, **fields}  # fmt: skip


def values_sound(server: Server) -> None:
    loud(good(server.post(SPEECH, values(response_format="pcm")), "audio/pcm", 2000))


def spoken(**fields: Any) -> dict[str, Any]:
    """A request for a voice of the model."""
    return {"model": "tiny", "input": MORE, "response_format": "wav", "task_type": "CustomVoice", "voice": "clara",
            **fields}  # fmt: skip


def recognised(server: Server) -> None:
    raise AssertionError("needs Whisper")


STREAMED = {"stream": True, "stream_format": "audio"}
ENGLISH = "tiny speaks English only"
WHISPER = "needs Whisper"
NAN, INFINITE = float("nan"), float("inf")
CASES = (
    # speech: HTTP
    speaks("speech::create_speech_success", WORLD),
    Case("speech::create_speech_includes_token_usage_and_detail_headers", usage,
         "the counts are headers with stream: false; else they are known when the headers have left"),
    speaks("speech::create_speech_mp3_format", {**WORLD, "response_format": "mp3"}, "audio/mpeg"),
    refuses("speech::create_speech_invalid_format", {**WORLD, "response_format": "invalid_format"}, "response_format"),
    Case("speech::speed_parameter_is_used", speed),
    Case("speech::list_voices_endpoint", voices),
    Case("speech::upload_voice_success", uploaded(name="v1", consent="u", mime_type="audio/wav", file_size=0)),
    Case("speech::upload_voice_with_ref_text", uploaded(name="v2", ref_text="Hello world transcript"),
         "a transcript is kept by models that continue a clip; tiny does not"),
    Case("speech::upload_voice_with_speaker_description", uploaded(name="v3", speaker_description="  warm  ")),
    Case("speech::upload_voice_speaker_description_in_listing", described),
    Case("speech::upload_voice_file_too_large", form_refused(b"x" * (11 << 20))),
    Case("speech::upload_voice_invalid_mime_type", form_refused(b"fake audio content", "text/plain")),
    Case("speech::upload_voice_name_collision", again, "409 unless replace=true"),
    Case("speech::upload_voice_missing_parameters", incomplete),
    Case("speech::delete_voice_success", deleted),
    Case("speech::delete_voice_not_found", missing),
    Case("speech::upload_voice_embedding_success", valued(False)),
    Case("speech::upload_voice_embedding_appears_in_listing", valued(True)),
    Case("speech::upload_voice_embedding_and_audio_mutually_exclusive", form_refused(b"fake", speaker_embedding="[1]")),
    Case("speech::upload_voice_embedding_invalid_json", form_refused(speaker_embedding="not valid json [[[")),
    Case("speech::upload_voice_embedding_nan_rejected", form_refused(speaker_embedding="[0.1, NaN]")),
    # speech: requests that their handler checks
    Case("speech::validate_tts_request_basic", both(
        refuses("", {"input": ""}, "input"), refuses("", {**HELLO, "language": "InvalidLang"}, "language"),
        refuses("", {**HELLO, "voice": "Invalid"}, "voice"))),
    Case("speech::validate_tts_request_task_types", both(
        refuses("", CLONE, "ref_audio"), refuses("", {**HELLO, "task_type": "VoiceDesign"}, "instructions"),
        refuses("", {**HELLO, "ref_text": "text"}, "ref_audio"))),
    refuses("speech::validate_tts_request_auto_infer_base", {**HELLO, "ref_audio": CLIP}, "ref_text", WORDLESS),
    refuses("speech::validate_tts_request_base_empty_ref_text", {**CLONE, "ref_audio": CLIP, "ref_text": ""},
            "ref_text", WORDLESS),
    *(refuses(f"speech::validate_base_task_missing_ref_text_returns_400[{name}]",
              {**CLONE, "ref_audio": CLIP, "ref_text": words}, "ref_text", WORDLESS)
      for name, words in (("none", None), ("empty", ""), ("whitespace", "   "))),
    speaks("speech::speaker_embedding_valid_base_task", values()),
    speaks("speech::speaker_embedding_auto_sets_x_vector_only_mode", {**CLONE, "speaker_embedding": VALUES}),
    refuses("speech::speaker_embedding_wrong_task_type",
            {**HELLO, "task_type": "VoiceDesign", "speaker_embedding": VALUES, "instructions": "warm"}, "task_type"),
    refuses("speech::speaker_embedding_mutually_exclusive_with_ref_audio",
            {**CLONE, "speaker_embedding": VALUES, "ref_audio": CLIP}, "speaker_embedding"),
    refuses("speech::speaker_embedding_nan_rejected", {**CLONE, "speaker_embedding": [0.1, NAN]}),
    refuses("speech::speaker_embedding_inf_rejected", {**CLONE, "speaker_embedding": [INFINITE, 0.1]}),
    refuses("speech::speaker_embedding_empty_list_rejected", {**CLONE, "speaker_embedding": []}, "speaker_embedding"),
    refuses("speech::speaker_embedding_wrong_dims_rejected", values(speaker_embedding=SHORT), "speaker_embedding"),
    speaks("speech::speaker_embedding_2048_dims_accepted", values()),
    Case("speech::upload_voice_embedding_wrong_dims_rejected", short_values),
    refuses("speech::base_task_requires_ref_audio_or_speaker_embedding", CLONE, "ref_audio"),
    Case("speech::build_tts_params", named({"voice": "Clara", "language": "English"})),
    speaks("speech::build_tts_params_with_speaker_embedding", {**CLONE, "speaker_embedding": VALUES}),
    speaks("speech::build_tts_params_base_non_streaming_mode_true", clone(non_streaming_mode=True)),
    speaks("speech::build_tts_params_base_omits_non_streaming_mode_by_default", clone()),
    Case("speech::build_tts_params_with_uploaded_voice", with_voice({**HELLO, "voice": "me"})),
    Case("speech::build_tts_params_with_explicit_ref_audio", with_voice({**clone(), "voice": "me"})),
    Case("speech::build_tts_params_with_uploaded_voice_embedding", with_voice({**HELLO, "voice": "me"}, True)),
    Case("speech::validate_language_custom_dialect_accepted", languages),
    Case("speech::validate_language_unknown_rejected", both(
        refuses("", {**HELLO, "language": "Klingon"}, "language"),
        refuses("", {**HELLO, "language": "klingon"}, "language"))),
    Case("speech::speaker_alias_accepted_as_voice", named({"speaker": "clara"})),
    Case("speech::voice_field_still_accepted", named({"voice": "clara"})),
    Case("speech::speaker_alias_in_base_task_with_uploaded_voice",
         with_voice({**CLONE, "speaker": "me"})),
    Case("speech::regression_1603_speaker_key_with_uploaded_audio_voice", with_voice({**CLONE, "speaker": "me"})),
    Case("speech::regression_1603_speaker_key_with_uploaded_embedding_voice",
         with_voice({**CLONE, "speaker": "me"}, True)),
    Case("speech::x_vector_only_mode_not_overwritten_for_uploaded_embedding",
         with_voice({**HELLO, "voice": "me", "x_vector_only_mode": False}, True)),
    refuses("speech::validate_instructions_length_uses_cached_value",
            {**HELLO, "task_type": "VoiceDesign", "instructions": "x" * 2001}, "instructions"),
    Case("speech::batch_voice_not_treated_as_inline_ref_audio",
         with_voice({"items": [{"input": "hello"}], "voice": "me"}, path=BATCH)),
    # speech: streams
    Case("speech::default_is_non_streaming", default),
    refuses("speech::stream_validation_errors", {**HELLO, "stream": True, "response_format": "mp3"}, None, SUPERSET),
    refuses("speech::stream_format_audio_validation_errors",
            {**HELLO, "stream_format": "audio", "response_format": "mp3"}, None, SUPERSET),
    Case("speech::stream_valid", both(streams("", {**HELLO, "stream": True}),
                                      streams("", {**HELLO, "stream": True}, "wav"))),
    raw("speech::stream_format_audio_is_valid", {**HELLO, "stream_format": "audio"}),
    streams("speech::sse_stream_format_is_valid", {**HELLO, "stream_format": "sse"}, "mp3"),
    streams("speech::streaming", {**HELLO, "stream": True}),
    raw("speech::stream_format_audio_streaming", {**HELLO, "stream_format": "audio"}),
    streams("speech::sse_streaming", {**HELLO, "stream_format": "sse"}),
    streams("speech::stream_true_with_stream_format_sse_uses_sse", {**HELLO, "stream": True, "stream_format": "sse"}),
    raw("speech::stream_format_audio_with_stream_true_opts_into_raw_audio", {**HELLO, **STREAMED}),
    refuses("speech::sse_rejects_unsupported_response_format",
            {**HELLO, "stream_format": "sse", "response_format": "mp3"}, None, SUPERSET),
    refuses("speech::sse_rejects_speed_adjustment",
            {**HELLO, "stream_format": "sse", "response_format": "pcm", "speed": 2.0}, None, SPEEDY),
    refuses("speech::stream_format_audio_rejects_unsupported_response_format",
            {**HELLO, "stream_format": "audio", "response_format": "mp3"}, None, SUPERSET),
    refuses("speech::stream_format_audio_rejects_speed_adjustment",
            {**HELLO, "stream_format": "audio", "response_format": "pcm", "speed": 2.0}, None, SPEEDY),
    streams("speech::native_speed_control_accepts_streaming_speed[sse]", {**HELLO, "stream_format": "sse", "speed": 2}),
    raw("speech::native_speed_control_accepts_streaming_speed[audio]", {**HELLO, "stream_format": "audio", "speed": 2}),
    speaks("speech::non_streaming_unchanged", HELLO),
    raw("speech::wav_streaming_success", {**HELLO, **STREAMED}, "wav"),
    refuses("speech::streaming_unsupported_format_rejected", {**HELLO, **STREAMED, "response_format": "mp3"}, None,
            SUPERSET),
    Case("speech::wav_header_basic_structure", headers(RATE)),
    Case("speech::wav_header_different_sample_rates", headers(16_000, 22_050, 24_000, 44_100, 48_000)),
    Case("speech::wav_header_placeholder_values", headers(RATE)),
    # speech: batches
    batch("speech::batch_success", [{"input": "Hello world"}, {"input": "Goodbye world"}], response_format="wav"),
    batch("speech::batch_single_item", [{"input": "Solo"}]),
    refuses("speech::batch_empty_items_rejected", {"items": []}, "items", path=BATCH),
    refuses("speech::batch_too_many_items", {"items": [{"input": f"text {n}"} for n in range(33)]}, "items",
            path=BATCH),
    batch("speech::batch_max_items_allowed", [{"input": f"text {n}"} for n in range(32)]),
    batch("speech::batch_results_have_correct_indices", [{"input": f"text {n}"} for n in range(3)]),
    batch("speech::batch_response_has_id", [HELLO]),
    Case("speech::item_override_wins", merged({"voice": "henry"}, {"voice": "clara"}, {"voice": "henry"})),
    Case("speech::batch_default_used", merged({}, {"voice": "clara"}, {"voice": "clara"})),
    Case("speech::response_format_override",
         merged({"response_format": "flac"}, {"response_format": "wav"}, {"response_format": "flac"})),
    Case("speech::stream_always_false", merged({}, {"stream": True}, {})),
    Case("speech::all_fields_merge", merged(
        {"voice": "henry", "language": "English", "speed": 1.5, "task_type": "CustomVoice", "max_new_tokens": 512},
        {"voice": "clara", "language": "Chinese", "speed": 1.0}, {"voice": "henry", "language": "en", "speed": 1.5})),
    Case("speech::non_streaming_mode_batch_default_used",
         merged({}, {"non_streaming_mode": True}, {"non_streaming_mode": True})),
    Case("speech::non_streaming_mode_item_override_wins",
         merged({"non_streaming_mode": False}, {"non_streaming_mode": True}, {"non_streaming_mode": False})),
    Case("speech::api_server_create_speech_batch_omits_null_fields", without_nulls,
         "null is written, as their end-to-end tests of batches expect"),
    # speech: the server's errors
    refuses("speech::api_server_create_speech_wraps_error_response_status", {"input": ""}),
    Case("speech::api_server_upload_voice_value_error_returns_400", form_refused(b"not a sound", "audio/x-m4a")),
    Case("speech::api_server_upload_voice_without_input_returns_400", form_refused()),
    Case("speech::api_server_upload_voice_with_audio_and_embedding_returns_400",
         form_refused(b"fake", speaker_embedding="[0.1]")),
    Case("speech::api_server_delete_voice_not_found_returns_404", missing),
    # the WebSocket
    Case("speech::streaming_speech_session_config_accepts_non_streaming_mode",
         in_socket({"non_streaming_mode": True, **PCM})),
    Case("speech::streaming_speech_session_config_scopes_native_speed_to_http",
         socket_error(config(speed=1.5, **PCM), text("Hello."), DONE), SPEEDY),
    Case("stream::non_streaming_single_frame", whole_frame),
    Case("stream::streaming_multiple_binary_frames", several_frames),
    Case("stream::flush_on_input_done",
         lambda server: utterance(talk(server, config(), text("Hello world without punctuation"), DONE))),
    Case("stream::invalid_streaming_config",
         socket_error(config(stream_audio=True, response_format="wav"), text("Hello."), DONE), SUPERSET),
    Case("stream::empty_input_text_emits_no_audio", nothing_said),
    Case("stream::multiple_sentences_increment_indices", two_sentences,
         "an utterance has one sentence_index, as in their newer test_streaming_pcm_output"),
    Case("stream::unknown_message_type_keeps_session_open", survives({"type": "unknown"})),
    Case("stream::config_timeout_closes_session", impatient,
         "no session.config is needed; an idle connection ends after 300 s"),
    Case("stream::invalid_input_text_type_returns_validation_error", survives(text(123), 0)),
    Case("stream::input_text_message_too_large", survives(text("x" * 200_000), 0)),
    Case("stream::session_config_message_too_large", socket_error(config(ref_audio="x" * (5 << 20)))),
    Case("socket::streaming_pcm_output", lambda server: utterance(
        talk(server, config(model="tiny", language="English", **PCM), text(MORE), DONE), form="pcm")),
    Case("socket::input_done_flushes_without_closing_connection", reused),
    Case("socket::commitment_mode_streams_before_input_done_and_reuses_connection", committed,
         "text_input_mode is unknown: text is spoken as it arrives, and an utterance has one sentence_index"),
    # their end-to-end tests
    batch("batch::batch_basic_two_items", [{"input": "Hello, how are you today?"}, {"input": "The weather is nice."}],
          least=ENOUGH, voice="clara", language="English"),
    batch("batch::batch_single_item", [{"input": "Single item batch test."}], voice="clara", language="English"),
    batch("batch::batch_per_item_voice_override",
          [{"input": "First item."}, {"input": "Second item.", "voice": "henry"}], voice="clara", language="English"),
    batch("batch::batch_multiple_languages", [{"input": "Hello.", "language": "English"},
                                              {"input": "\u4f60\u597d\u3002", "language": "Chinese"}], ENGLISH),
    Case("batch::batch_whisper_transcription", recognised, WHISPER),
    batch("batch::batch_result_indices_ordered", [{"input": f"Sentence {n}."} for n in range(3)], voice="clara"),
    refuses("batch::batch_empty_items_rejected", {"items": [], "voice": "clara"}, "items", path=BATCH),
    refuses("batch::batch_exceeds_max_items", {"items": [{"input": f"Item {n}"} for n in range(33)]}, "items",
            path=BATCH),
    batch("batch::batch2_produces_valid_audio", [{"input": LONG}, {"input": MORE}], least=ENOUGH, voice="clara"),
    Case("batch::batch2_vs_sequential_timing", one_by_one),
    Case("lists::list_voices_endpoint", voices),
    Case("lists::models_endpoint", models),
    speaks("values::speaker_embedding_produces_audio", values(response_format="wav"), least=2000),
    Case("values::speaker_embedding_pcm_not_silence", values_sound),
    raw("values::speaker_embedding_streaming", values(stream=True), "pcm",
        "stream: true is events here, as in their newer tests"),
    refuses("values::speaker_embedding_mutually_exclusive_with_ref_audio",
            values(ref_audio="https://example.com/audio.wav"), "speaker_embedding"),
    refuses("values::speaker_embedding_empty_rejected", values(speaker_embedding=[]), "speaker_embedding"),
    speaks("values::2048_dim_embedding_produces_audio", values(response_format="wav"), least=2000),
    refuses("values::1024_dim_on_1_7b_model_rejected_or_errors", values(speaker_embedding=SHORT), "speaker_embedding"),
    Case("base::base_voice_clone_not_silence", cloned_sound),
    Case("base::base_voice_clone_whisper_transcription", recognised, WHISPER),
    speaks("base::base_voice_clone_wav_format", clone(response_format="wav"), least=ENOUGH),
    Case("base::base_voice_clone_no_distortion", undistorted,
         "the ratio of harmonics to noise of tiny's clone is -0.6 dB; the limit, 1.2, is for a model of 1.7B"),
    Case("base+::voice_clone_streaming_001", at_once(5, clone(voice="clone", response_format="wav", **STREAMED))),
    raw("base+::response_format_001", clone(voice="clone")),
    Case("base+::xvector_then_icl_same_ref_audio_keeps_engine_alive", both_modes),
    Case("custom::default_cuda_graph_startup", startup),
    Case("custom::text_to_audio_001", at_once(5, spoken(stream=False))),
    Case("custom::text_to_audio_002", at_once(1, spoken(**STREAMED))),
    Case("custom+::voice_001", at_once(3, spoken(voice="henry", **STREAMED))),
    Case("custom+::voice_002", at_once(1, spoken(voice="Clara", stream=False))),
    Case("custom+::voice_003", at_once(1, spoken(voice="CLARA", stream=False))),
    speaks("custom+::language_001", spoken(input="\u5317\u4eac\u662f\u9996\u90fd\u3002", stream=False), stays=ENGLISH),
)  # fmt: skip


def run(url: str, clip: str, hidden: int) -> tuple[int, int, list[str]]:
    """Tests that were sent, that passed, and a line for each that failed."""
    server, passed, lines = Server(url, clip, hidden), 0, []
    for case in CASES:
        try:
            case.run(server)
        except Exception as error:
            lines.append(f"{case.test}: {case.stays or f'? {type(error).__name__}: {str(error)[:150]}'}")
        else:
            passed += 1
            lines += [f"{case.test}: passes now, but its row says: {case.stays}"] if case.stays else []
    return len(CASES), passed, [*lines, *(f"{name}:: is tests/{path}" for name, path in FILES.items())]
