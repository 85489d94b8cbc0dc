"""Conformance: clients written elsewhere use the server, and every way to it gives the sound of `omnitts say`.

The client of OpenAI, curl, ffmpeg, `websockets`, the AI SDK of Vercel (slow, where it is installed), and our own bench.
"""

import asyncio
import base64
import io
import json
import os
import shutil
import subprocess
import threading
import wave
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from browser import chromium
from command import Omnitts
from patience import LONG_S, eventually
from serving import Running, samples_of_say, start
from websockets.sync.client import connect

from omnitts_cli.audio.pcm import to_int16
from omnitts_cli.server.guard import digest

openai = pytest.importorskip("openai")

TEXT = "Hello there, this is a test. Here is another sentence!"
FORMATS = {"wav": "wav", "mp3": "mp3", "opus": "opus", "flac": "flac", "aac": "aac", "pcm": "pcm_s16le"}
"""OpenAI's formats, and the codec that ffprobe finds in them."""
ITEMS = [{"input": TEXT, "voice": "clara", "seed": 7, "language": "en"}, {"input": "", "voice": "clara"}]


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def said() -> bytes:
    return samples_of_say(TEXT)


def ask(**more: Any) -> dict[str, Any]:
    """The arguments of a call."""
    given = {"model": "tts-1", "voice": "alloy", "input": TEXT, "extra_body": {"seed": 7, "voice": "ann"}}
    return given | more


# -- the client of OpenAI


@pytest.mark.parametrize("form", [*FORMATS, "ogg"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "as made"])
def test_every_format_opens_everywhere(client: Any, said: bytes, tmp_path: Path, form: str, whole: bool) -> None:
    path = tmp_path / f"a.{form}"
    body = {"seed": 7, "voice": "ann"} | ({"stream": False} if whole else {"stream_format": "audio"})
    with client.audio.speech.with_streaming_response.create(**ask(response_format=form, extra_body=body)) as answer:
        assert answer.headers["x-seed"] == "7" and answer.headers["x-voice"] == "ann"
        assert ("content-length" in answer.headers) is whole
        answer.stream_to_file(path)
    expected, rate = np.frombuffer(said, np.int16), int(answer.headers["x-sample-rate"])
    assert probed(path, form, rate) == FORMATS.get(form, "vorbis")
    sound = of_ffmpeg(path, form, rate)
    if form in ("wav", "pcm", "flac"):
        assert np.array_equal(sound, expected)
    else:
        assert sound.size / rate == pytest.approx(expected.size / 8000, abs=0.3)
        assert np.abs(sound.astype(float)).mean() == pytest.approx(np.abs(expected.astype(float)).mean(), rel=0.3)
    if form in ("wav", "flac", "opus", "mp3") and (whole or form in ("wav", "opus")):
        found, found_rate = soundfile.read(path, dtype="int16")  # libsndfile
        assert found_rate == rate and abs(found.size - sound.size) <= rate // 5
    if form == "wav" and whole:
        with wave.open(str(path)) as file:  # Python's own reader
            assert file.readframes(file.getnframes()) == said


def given(form: str, rate: int) -> list[str]:
    """How to read a file without a header."""
    return ["-f", "s16le", "-ar", str(rate)] if form == "pcm" else []


def probed(path: Path, form: str, rate: int) -> str:
    """The codec of a file."""
    command = ["ffprobe", "-v", "error", *given(form, rate), "-show_entries", "stream=codec_name", "-of", "csv=p=0"]
    name = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True).stdout.strip()
    return "wav" if form == "wav" and name == "pcm_s16le" else name


def of_ffmpeg(path: Path, form: str, rate: int) -> np.ndarray:
    """The samples as ffmpeg reads them."""
    out = ["-f", "s16le", "-ac", "1", "-ar", str(rate), "-"]
    channels = ["-ac", "1"] if form == "pcm" else []
    command = ["ffmpeg", "-v", "error", *given(form, rate), *channels, "-i", str(path), *out]
    return np.frombuffer(subprocess.run(command, capture_output=True, check=True).stdout, np.int16)


def test_a_plain_call_is_an_mp3_and_the_models_are_listed(client: Any) -> None:
    answer = client.audio.speech.create(model="gpt-4o-mini-tts", voice="nova", input="Hello.")
    assert answer.response.headers["content-type"] == "audio/mpeg" and len(answer.read()) > 500
    listed = [model.id for model in client.models.list()]
    assert listed[0] == "random:toy" and {"tts-1", "tts-1-hd", "gpt-4o-mini-tts"} <= set(listed)


def test_the_asynchronous_client_asks_many_at_once(server: Running, said: bytes) -> None:
    async def all_of() -> list[bytes]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as made:

            async def one() -> bytes:
                async with made.audio.speech.with_streaming_response.create(**ask(response_format="pcm")) as answer:
                    return b"".join([part async for part in answer.iter_bytes()])

            return await asyncio.gather(*(one() for _ in range(12)))

    assert asyncio.run(all_of()) == [said] * 12


def test_a_full_server_is_asked_again(server: Running, said: bytes) -> None:
    options = server.state.options
    server.state.options = replace(options, max_queue=0)
    held = [threading.Thread(target=server.speech, args=("A longer text for a while. " * 20,)) for _ in range(6)]
    for thread in held:
        thread.start()
    try:
        eventually(lambda: server.speech("Hi.").status == 429)
        threading.Timer(0.5, lambda: setattr(server.state, "options", options)).start()
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=8) as patient:
            assert patient.audio.speech.create(**ask(response_format="pcm")).content == said
    finally:
        server.state.options = options
        for thread in held:
            thread.join()


def test_errors_are_the_exceptions_of_the_client(client: Any) -> None:
    for fields, kind, param in (
        ({"input": ""}, openai.BadRequestError, None),
        ({"voice": "nobody"}, openai.NotFoundError, "voice"),
        ({"model": "nothing"}, openai.NotFoundError, "model"),
        ({"speed": 9.0}, openai.BadRequestError, "speed"),
        ({"response_format": "mod"}, openai.BadRequestError, "response_format"),
    ):
        with pytest.raises(kind) as caught:
            client.audio.speech.create(**{**ask(), "extra_body": {}, **fields})
        assert caught.value.body["message"] and (param is None or caught.value.body["param"] == param)


# -- other clients


def test_curl(server: Running, said: bytes, tmp_path: Path) -> None:
    body = json.dumps({"input": TEXT, "seed": 7, "response_format": "pcm"})
    command = ["curl", "-sS", "--fail", "-D", "head", "-o", "a.pcm", f"{server.url}/v1/audio/speech", "-d", body]
    subprocess.run([*command, "-H", "Content-Type: application/json"], cwd=tmp_path, check=True, timeout=LONG_S)
    assert (tmp_path / "a.pcm").read_bytes() == said
    assert "transfer-encoding: chunked" in (tmp_path / "head").read_text().lower()
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert plain.returncode == 22 and "415" in plain.stderr, "a form that a foreign page could send"


WORDS = ["Hello", " there, this", " is", " a test", ". Here is", " another sen", "tence!"]


def test_single_words_give_the_sound_of_play_live(
    server: Running, omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnitts_cli.audio import sinks
    from omnitts_cli.cli import sound_out

    class Played(sinks.MemorySink):
        level = played_s = 0.0

    played = Played()
    monkeypatch.setattr(sound_out, "open_speaker", lambda *_: played)
    omnitts("play", "--live", "-m", "random:toy", "--seed", "7", "-d", "cpu", stdin="".join(WORDS).encode()).ended(0)
    with connect(f"ws://127.0.0.1:{server.port}/v1/audio/speech/stream") as socket:
        config = {"seed": 7, "response_format": "pcm", "stream_audio": True, "model": "random:toy"}
        for message in (
            {"type": "session.config", **config},
            *({"type": "input.text", "text": word} for word in WORDS),
            {"type": "input.done"},
        ):
            socket.send(json.dumps(message))
        frames: list[bytes] = []
        while not isinstance(found := socket.recv(timeout=LONG_S), str) or json.loads(found)["type"] != "session.done":
            frames += [found] if isinstance(found, bytes) else []
    assert b"".join(frames) == to_int16(played.sound).tobytes() and len(frames) > 3


def test_our_bench(server: Running, omnitts: Omnitts) -> None:
    done = omnitts("bench", "--url", server.url, "-c", "1,3", "-n", "6", "--frames", "7", "--json").ended(0)
    assert [(level["failed"], level["frames"]) for level in done.json["levels"]] == [(0, 42), (0, 42)]
    assert done.json["model"] == "random:toy" and done.json["levels"][0]["ttfp_ms"]["median"] > 0
    done = omnitts("bench", "--url", server.url, "-c", "2", "-n", "6", "--frames", "7", "--vs", "engine",
                   "-m", "random:toy", "--body", '{"stream_format": "sse"}', "--json")  # fmt: skip
    assert done.code == 0, done.err
    assert [level["variant"] for level in done.json["levels"]] == [None, "engine"]


SCRIPT = """
import { experimental_generateSpeech as speak } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
const openai = createOpenAI({ baseURL: process.argv[1] + "/v1", apiKey: "none" });
const made = await speak({ model: openai.speech("tts-1"), text: process.argv[2], voice: "alloy", outputFormat: "wav" });
process.stdout.write(JSON.stringify({ type: made.audio.mediaType, data: made.audio.base64 }));
try { await speak({ model: openai.speech("nothing"), text: "a", voice: "alloy", maxRetries: 0 }); }
catch (error) { process.stderr.write(String(error.statusCode) + " " + error.message); }
"""


def of_node(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What a script says in the folder OMNITTS_TEST_NODE, which `npm install ai @ai-sdk/openai openai` fills."""
    folder = os.environ.get("OMNITTS_TEST_NODE")
    if folder is None or shutil.which("node") is None:
        pytest.skip("needs node and the packages ai, @ai-sdk/openai and openai")
    command = ["node", "--input-type=module", "-e", script, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_the_ai_sdk(server: Running) -> None:
    done = of_node(SCRIPT, server.url, TEXT)
    made = json.loads(done.stdout)
    sound, rate = soundfile.read(io.BytesIO(base64.b64decode(made["data"])), dtype="int16")
    assert (made["type"], rate) == ("audio/wav", 8000) and sound.size > 8000
    assert done.stderr.startswith("404 model 'nothing' not found")


# -- the same sound, whichever way


def test_every_way_gives_the_same_samples(omnitts: Omnitts, home: Path) -> None:
    """say, HTTP whole, HTTP stream, events, the batch endpoint, the client of OpenAI, and --via."""
    say = ("say", "-v", "clara", "-l", "en", "--seed", "7", "-F", "raw", TEXT)
    omnitts(*say, "-d", "cpu", "--via", "off", "-o", "say.raw").ended(0)
    said = Path("say.raw").read_bytes()
    with start(("tiny",)) as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as made:  # a model without styles
            for voice in ("clara", "nova", "default"):
                sound = made.audio.speech.create(model="tts-1", voice=voice, input="Hi.", instructions="Be cheerful.")
                assert len(sound.content) > 500 and "instructions" in sound.response.headers["x-ignored-fields"]
            assert made.models.retrieve("tiny").id == "tiny"
        fields = {"voice": "clara", "language": "en", "seed": 7}
        assert server.speech(TEXT, **fields, stream=False).body == said
        assert server.speech(TEXT, **fields).body == said
        audio = [event.get("audio", "") for event in server.speech(TEXT, **fields, stream_format="sse").events]
        assert b"".join(base64.b64decode(part) for part in audio) == said
        batch = server.request("POST", "/v1/audio/speech/batch", {"items": ITEMS, "response_format": "pcm"}).json
        assert (batch["succeeded"], batch["failed"]) == (1, 1)
        assert base64.b64decode(batch["results"][0]["audio_data"]) == said
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as made:
            body = {"seed": 7, "language": "en"}
            answer = made.audio.speech.create(
                model="tiny", voice="clara", input=TEXT, response_format="pcm", extra_body=body
            )
            assert answer.content == said
        eventually(lambda: server.state.models.all[0].card)
        assert omnitts(*say, "--via", server.url, "-o", "via.raw").code == 0
        assert Path("via.raw").read_bytes() == said


# -- a page of another origin, in a browser

SPEAK = """
const [url, key, body, done] = arguments;
const headers = { "Authorization": `Bearer ${key}`, "Content-Type": "application/json" };
fetch(url, { method: "POST", headers, body: JSON.stringify(body) }).then(async (answer) => {
  const bytes = await answer.arrayBuffer();
  if (!answer.ok) return done({ status: answer.status, code: JSON.parse(new TextDecoder().decode(bytes)).error.code });
  const played = new Audio(URL.createObjectURL(new Blob([bytes], { type: answer.headers.get("Content-Type") })));
  const plays = await new Promise((ready) => {
    played.oncanplay = () => ready(true);
    played.onerror = () => ready(played.error.message);
    played.load();
  });
  const sound = await new OfflineAudioContext(1, 8000, 8000).decodeAudioData(bytes);
  done({ status: 200, voice: answer.headers.get("X-Voice"), samples: sound.length, plays });
}).catch((error) => done({ failed: String(error) }));
"""
STREAMED = {"stream": True, "stream_format": "audio"}


@pytest.fixture(scope="module")
def other_page() -> Iterator[str]:
    """The address of a page that is not the server's."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>another page</title>")

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_page_of_another_origin_speaks_with_a_key(other_page: str, said: bytes, tmp_path: Path) -> None:
    expected = len(said) // 2
    with chromium(tmp_path) as driver, start(keys={digest("sesame"): "me"}, cors_origin=(other_page,)) as server:
        driver.set_script_timeout(LONG_S)

        def speak(key: str = "sesame", page: str = other_page, **fields: Any) -> dict[str, Any]:
            if not driver.current_url.startswith(page):
                driver.get(page)
            body = {"input": TEXT, "seed": 7, "voice": "ann", **fields}
            return dict(driver.execute_async_script(SPEAK, f"{server.url}/v1/audio/speech", key, body))

        for fields in ({"response_format": "flac"}, {"response_format": "flac", **STREAMED},
                       {"response_format": "wav"}, {"response_format": "wav", "stream": False},
                       {"response_format": "mp3"}):  # fmt: skip
            found = speak(**fields)
            assert (found.get("status"), found.get("voice")) == (200, "ann"), found
            tolerance = 0.4 * 8000 if fields["response_format"] == "mp3" else 1
            assert found["samples"] == pytest.approx(expected, abs=tolerance), fields
            assert found["plays"] is True, fields
        assert speak(instructions="Be cheerful.", stream=False)["status"] == 200
        assert speak(key="wrong") == {"status": 401, "code": "invalid_api_key"}, "the page can read the error"
        assert "Failed to fetch" in speak(page=other_page.replace("127.0.0.1", "localhost"))["failed"]


NODE = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: process.argv[1] + "/v1", apiKey: "none", maxRetries: 0 });
const found = {};
for (const form of ["mp3", "opus", "aac", "flac", "wav", "pcm"]) {
  const answer = await client.audio.speech.create({ model: "tts-1", voice: "nova", input: "Hello.",
    response_format: form, instructions: "Be cheerful." });
  let parts = 0;
  let bytes = 0;
  for await (const part of answer.body) { parts += 1; bytes += part.length; }
  found[form] = bytes;
}
found.model = (await client.models.retrieve("tts-1")).id;
process.stdout.write(JSON.stringify(found));
"""


@pytest.mark.slow
def test_openai_for_node(server: Running) -> None:
    found = json.loads(of_node(NODE, server.url).stdout)
    assert found.pop("model") == "tts-1" and set(found) == set(FORMATS) and min(found.values()) > 500
