"""Clients: programs that people already use, each with instructions, without, streamed, cloned, and its default voice.

Those whose packages install in seconds run here. The others are slow tests for Pythons and folders that variables name.
SillyTavern, which is a web application, is represented by the request of its server.
"""

import base64
import io
import json
import os
import re
import socket
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from patience import LONG_S, eventually
from serving import Running, start

from omnitts_cli.speech import voice_files
from omnitts_cli.voices import Cloned

openai = pytest.importorskip("openai")

TEXT = "Hello there, this is a test."
SAVED = "mary"  # a cloned voice, for clients that send only names
RATE = 24_000
CLIP_S = 3


@pytest.fixture(scope="module")
def clip() -> str:
    """A clip as a data URL."""
    at = np.arange(RATE * CLIP_S)
    noise = np.random.default_rng(0).standard_normal(at.size) * 3000 * (np.sin(at / 8000) > 0)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
        out.writeframes(noise.astype("<i2").tobytes())
    return "data:audio/wav;base64," + base64.b64encode(file.getvalue()).decode()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a saved voice."""
    voice_files.use_folder(str(tmp_path_factory.mktemp("voices")))
    with start() as server:
        hidden = server.state.models.loaded[0].speech.facts.hidden
        voice = np.random.default_rng(1).standard_normal(hidden).astype(np.float32)
        voice_files.save(voice_files.SavedVoice(SAVED, Cloned(voice)))
        yield server
    voice_files._chosen.clear()


@pytest.fixture(scope="module")
def client(saved: Running) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{saved.url}/v1", api_key="none", max_retries=0) as made:
        yield made


# -- openai for Python


@pytest.mark.parametrize("source", ["ref_audio", "references", "speaker_embedding", "voice"])
def test_the_client_of_openai_clones_a_voice(client: Any, saved: Running, clip: str, source: str) -> None:
    """By a clip, by SGLang-Omni's list, by values, and by the name of a saved voice."""
    hidden = saved.state.models.loaded[0].speech.facts.hidden
    given = {"ref_audio": clip, "references": [{"audio_path": clip}], "speaker_embedding": [0.5] * hidden,
             "voice": SAVED}  # fmt: skip
    body = {"seed": 7, source: given[source]}
    expected = saved.speech(TEXT, **{source: given[source]})
    name = {"voice": SAVED, "speaker_embedding": "embedding"}.get(source, "clone")
    assert expected.status == 200 and expected.body != saved.speech(TEXT).body, expected.body[:200]

    def arguments(**more: Any) -> dict[str, Any]:
        return {"model": "tts-1", "voice": "alloy", "input": TEXT, "response_format": "pcm", "extra_body": body, **more}

    for more in ({}, {"instructions": "Be cheerful."}):
        answer = client.audio.speech.create(**arguments(**more))
        assert answer.content == expected.body
        assert answer.response.headers["x-voice"] == name
        ignored = answer.response.headers.get("x-ignored-fields", "")
        assert ("instructions" in ignored) is bool(more)
    streamed = {"stream_format": "audio", "extra_body": {**body, "stream": True}}
    with client.audio.speech.with_streaming_response.create(**arguments(**streamed)) as answer:
        assert b"".join(answer.iter_bytes()) == expected.body
    events = client.audio.speech.create(**arguments(stream_format="sse")).content.decode().split("\n")
    data = [json.loads(line[6:]) for line in events if line.startswith("data: {")]
    sound = [one["audio"] for one in data if one.get("audio")]
    if source == "references":  # SGLang-Omni's events
        sound = [one["data"] for one in sound]
    assert b"".join(map(base64.b64decode, sound)) == expected.body


# -- SillyTavern


@pytest.mark.parametrize("voice", ["alloy", "shimmer", SAVED, "ann"])
def test_the_request_of_sillytavern(saved: Running, voice: str) -> None:
    """What its server sends for the provider "OpenAI Compatible": an empty key, no instructions, never streamed."""
    body = {"input": TEXT, "response_format": "mp3", "voice": voice, "speed": 1, "model": "tts-1"}
    aliases = saved.request("GET", "/v1/audio/voices").json["aliases"]
    for key in ("Bearer ", "Bearer undefined"):
        headers = {"Content-Type": "application/json", "Authorization": key, "User-Agent": "node-fetch"}
        answer = saved.request("POST", "/v1/audio/speech", json.dumps(body), headers)
        assert answer.status == 200 and answer.headers["content-type"] == "audio/mpeg"
        assert answer.headers["x-voice"] == aliases.get(voice, voice)
        sound, _ = soundfile.read(io.BytesIO(answer.body))
        assert sound.size > 1000 and np.abs(sound).max() > 0


# -- programs whose packages take longer to install: a script prints a line for each case, with the bytes of its sound

LIVEKIT = """
import asyncio, sys
from livekit.agents.utils import http_context
from livekit.plugins import openai

async def main():
    for name, given in {
        "plain": {"model": "tts-1", "voice": "ash"}, "default": {},
        "instructions": {"instructions": "Be cheerful."}, "cloned": {"model": "tts-1", "voice": sys.argv[2]},
        "pcm": {"model": "tts-1-hd", "response_format": "pcm", "instructions": "Be calm."},
    }.items():
        tts = openai.TTS(base_url=sys.argv[1] + "/v1", api_key="none", **given)
        stream, samples = tts.synthesize("Hello there, this is a test."), 0
        async for event in stream:
            samples += event.frame.samples_per_channel
        await stream.aclose()
        await tts.aclose()
        print(name, 2 * samples)

asyncio.run(main())
"""
PIPECAT = """
import asyncio, sys
from pipecat.frames.frames import ErrorFrame, TTSAudioRawFrame
from pipecat.services.openai.tts import OpenAITTSService as Service

async def main():
    for name, given in {
        "plain": Service.Settings(voice="nova", model="tts-1"), "default": None,
        "instructions": Service.Settings(instructions="Be cheerful.", speed=1.2),
    }.items():
        service = Service(api_key="none", base_url=sys.argv[1] + "/v1", settings=given)
        service._sample_rate = 24000
        size = parts = 0
        async for frame in service.run_tts("Hello there, this is a test.", "one"):
            assert not isinstance(frame, ErrorFrame), frame
            if isinstance(frame, TTSAudioRawFrame):
                size, parts = size + len(frame.audio), parts + 1
        assert parts > 1, "streamed"
        print(name, size)

asyncio.run(main())
"""
REALTIMETTS = """
import os, queue, sys
os.environ |= {"OPENAI_BASE_URL": sys.argv[1] + "/v1", "OPENAI_API_KEY": "none"}
from RealtimeTTS.engines.openai_engine import OpenAIEngine

for name, given in {
    "plain": {"voice": "onyx"}, "default": {}, "instructions": {"instructions": "Be cheerful.", "speed": 1.2},
    "cloned": {"voice": sys.argv[2]}, "pcm": {"response_format": "pcm", "model": "gpt-4o-mini-tts"},
}.items():
    engine = OpenAIEngine(api_key="none", **given)
    engine.queue = queue.Queue()
    assert engine.synthesize("Hello there, this is a test.")
    print(name, sum(len(engine.queue.get()) for _ in range(engine.queue.qsize())))
"""
OPEN_WEBUI = """
import __future__, ast, asyncio, io, json, logging, os, sys, tempfile, zipfile
from pathlib import Path
from types import SimpleNamespace
import aiohttp

url, voice, wheel = sys.argv[1:]
source = zipfile.ZipFile(wheel).read("open_webui/routers/audio/__init__.py").decode()
wanted = ("_tts_openai", "get_available_voices", "get_available_models", "transcode_audio_to_mp3", "_raise_tts_error")
functions = [one for one in ast.parse(source).body if getattr(one, "name", "") in wanted]
settings = {"audio.tts.engine": "openai", "audio.tts.openai.api_base_url": url + "/v1", "audio.tts.model": "tts-1",
            "audio.tts.voice": "alloy", "audio.tts.openai.api_key": ""}

class Config:
    @staticmethod
    async def get(key):
        return settings.get(key)

class File:
    def __init__(self, path, mode):
        self.file = open(path, mode)
    async def __aenter__(self):
        return self
    async def __aexit__(self, *error):
        self.file.close()
    async def write(self, data):
        self.file.write(data)

async def main():
    async with aiohttp.ClientSession() as session:
        async def get_session():
            return session
        names = {
            "Config": Config, "get_session": get_session, "aiofiles": SimpleNamespace(open=File), "aiohttp": aiohttp,
            "asyncio": asyncio, "io": io, "log": logging.getLogger("open-webui"), "FileResponse": lambda path: path,
            "HTTPException": RuntimeError, "JSONCodec": json, "USE_SLIM": False, "BYPASS_PYDUB_PREPROCESSING": False,
            "ENABLE_FORWARD_USER_INFO_HEADERS": False, "AIOHTTP_CLIENT_SESSION_SSL": None,
            "AIOHTTP_CLIENT_TIMEOUT_MODEL_LIST": 10, "_OPENAI_DEFAULT_VOICES": {},
        }
        code = compile(ast.Module(functions, []), wheel, "exec", __future__.annotations.compiler_flag)
        exec(code, names)
        voices = await names["get_available_voices"](None)
        assert voices[voice] == voice and len(voices) > 4, voices
        models = [one["id"] for one in await names["get_available_models"](None)]
        assert "tts-1" in models and "tiny" in models, models
        folder = Path(tempfile.mkdtemp())
        for name, payload, more in (
            ("plain", {"input": "Hello there, this is a test.", "voice": "nova"}, None),
            ("default", {"input": "Hello there, this is a test."}, None),
            ("instructions", {"input": "Hello there."}, {"instructions": "Be cheerful.", "speed": 1.1}),
            ("cloned", {"input": "Hello there, this is a test.", "voice": voice}, None),
        ):
            settings["audio.tts.openai.params"] = more
            path = await names["_tts_openai"](None, payload, folder / "a.mp3", folder / "a.json", None)
            print(name, os.path.getsize(path))

asyncio.run(main())
"""
CASES = {"plain", "default", "instructions"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of the embedded model, with a saved voice."""
    voice_files.use_folder(str(tmp_path_factory.mktemp("voices")))
    with start(("tiny",)) as server:
        model = server.state.models.loaded[0].speech
        voice_files.save(voice_files.SavedVoice(SAVED, Cloned(model.vector_of("clara")), {"model": model.name}))
        yield server
    voice_files._chosen.clear()


def python_of(variable: str, packages: str) -> str:
    """The Python that a variable names, which has these packages."""
    found = os.environ.get(variable)
    if found is None:
        pytest.skip(f"needs {variable}, a Python with {packages}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("script", "more"), [
    (LIVEKIT, {"cloned", "pcm"}), (PIPECAT, set()), (REALTIMETTS, {"cloned", "pcm"}), (OPEN_WEBUI, {"cloned"}),
], ids=["livekit-agents", "pipecat", "realtimetts", "open-webui"])  # fmt: skip
def test_clients_of_voice_agents(tiny: Running, script: str, more: set[str]) -> None:
    """`pip install livekit-plugins-openai "pipecat-ai[openai]"`, and `--no-deps realtimetts` with pyaudio, for the
    Python that OMNITTS_TEST_AGENTS names. Of Open WebUI, the functions in the wheel that OMNITTS_TEST_OPEN_WEBUI names
    run with stand-ins for its settings and files. Pipecat has a fixed list of voices."""
    python, wheel = python_of("OMNITTS_TEST_AGENTS", "livekit-agents, pipecat, realtimetts"), []
    if script is OPEN_WEBUI:
        wheel = [python_of("OMNITTS_TEST_OPEN_WEBUI", "the wheel of open-webui")]
    command = [python, "-c", script, tiny.url, SAVED, *wheel]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 0, done.stderr
    sizes = {name: int(size) for name, size in (line.split() for line in done.stdout.splitlines())}
    assert set(sizes) == CASES | more and min(sizes.values()) > 3000, sizes


@pytest.mark.slow
@pytest.mark.parametrize("given", [
    ["--tts-voices", "clara", "henry"], [], ["--tts-voices", SAVED], ["--tts-instructions", "Be cheerful."],
    ["--tts-streaming-models", "tts-1", "--tts-speed", "1.2"],
], ids=["named", "default", "cloned", "instructions", "streamed"])  # fmt: skip
def test_the_proxy_of_home_assistant(tiny: Running, given: list[str]) -> None:
    """`pip install wyoming-openai wyoming-bench` for the Python that OMNITTS_TEST_WYOMING names (3.12 or newer)."""
    python = python_of("OMNITTS_TEST_WYOMING", "wyoming-openai and wyoming-bench")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [python, "-m", "wyoming_openai", "--uri", f"tcp://{address}", "--tts-openai-url", f"{tiny.url}/v1",
               "--tts-openai-key", "none", "--tts-models", "tts-1", "--stt-openai-key", "none", *given]  # fmt: skip
    proxy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def open_port() -> bool:
        with socket.socket() as found:
            return found.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0

    try:
        eventually(open_port)
        bench = [str(Path(python).with_name("wyoming-bench")), "tts", "--mode", "both", "--rounds", "1", "-v",
                 "--warmup", "0", "--texts", "Hello there, this is a test. It has two sentences.", "--",
                 address]  # fmt: skip
        done = subprocess.run(bench, capture_output=True, text=True, timeout=LONG_S, check=False)
    finally:
        proxy.terminate()
        proxy.wait(LONG_S)
    modes = 2 if "--tts-streaming-models" in given else 1
    assert done.returncode == 0 and re.findall(r"ok=\d+ fail=\d+", done.stdout) == ["ok=1 fail=0"] * modes, done.stdout
