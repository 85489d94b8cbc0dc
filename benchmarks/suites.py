"""The test suites of other servers against ours. A checkout of theirs is given by its path; none of their code is here.

    python benchmarks/suites.py CHECKOUT [CHECKOUT ...]     the name of the folder is that of the suite
    python benchmarks/suites.py localai vllm-omni
    python benchmarks/suites.py --url http://127.0.0.1:8000 kokoro-fastapi

Needs pytest, pytest-asyncio, openai, httpx, requests, websockets, pydub and soundfile, curl and ffmpeg;
for Kokoro's two English sentences pocketsphinx, soxr and jiwer. `localai` and `vllm-omni` need no checkout: their
requests are here and in vllm_omni.py. What a suite assumes about its own server is changed before it runs, and printed:
names of models and voices, fixtures that start a server, clips that are fetched. Tests that look inside their server
cannot be run against another one and are left out.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import wave
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import vllm_omni

TREE = Path(__file__).resolve().parent.parent
SENTENCE = "We asked over twenty different people, and they all said it was his."


@dataclass(frozen=True)
class Suite:
    """Tests of another server: which files, what is changed in them, which tests, and why some still fail."""

    files: tuple[str, ...]
    conftest: str
    changed: tuple[tuple[str, str, str], ...] = ()  # pattern, replacement, and what that adapts
    only: str = ""  # of pytest -k
    stays: dict[str, str] = field(default_factory=dict)  # part of a test's name -> why it fails


SPEACHES = '''
import os, sys, types, typing
import httpx, pytest, pytest_asyncio
from openai import AsyncOpenAI

FORMATS = ("pcm", "mp3", "wav", "flac", "opus", "aac")
types_of_api = types.ModuleType("speaches.api_types")
types_of_api.SUPPORTED_SPEECH_RESPONSE_FORMATS = FORMATS
types_of_api.DEFAULT_SPEECH_RESPONSE_FORMAT = "mp3"
types_of_api.SpeechResponseFormat = typing.Literal["pcm", "mp3", "wav", "flac", "opus", "aac"]
sys.modules["speaches"], sys.modules["speaches.api_types"] = types.ModuleType("speaches"), types_of_api

@pytest_asyncio.fixture()
async def aclient():
    async with httpx.AsyncClient(base_url=os.environ["SUITE_URL"], timeout=120) as client:
        yield client

@pytest_asyncio.fixture()
async def openai_client():
    async with AsyncOpenAI(base_url=os.environ["SUITE_URL"] + "/v1", api_key="none", max_retries=0) as client:
        yield client

@pytest.fixture()
def pull_model_without_cleanup():
    """Our models are there."""
'''
KOKORO = '''
import os
import pytest

@pytest.fixture(scope="session")
def server_url():
    return os.environ["SUITE_URL"]

@pytest.fixture(scope="session")
def openai_client(server_url):
    import openai
    return openai.OpenAI(base_url=f"{server_url}/v1", api_key="none", timeout=120)

@pytest.fixture(scope="session")
def whisper_model():
    """PocketSphinx hears; the words of a sentence are all that is compared."""
    import types
    import numpy, pocketsphinx, soundfile, soxr

    class Heard:
        def transcribe(self, path, **options):
            sound, rate = soundfile.read(path, dtype="float32")
            decoder = pocketsphinx.Decoder(loglevel="FATAL")
            decoder.start_utt()
            sound = soxr.resample(sound, rate, 16000)
            decoder.process_raw((numpy.clip(sound, -1, 1) * 32767).astype("<i2").tobytes(), full_utt=True)
            decoder.end_utt()
            words = decoder.hyp()
            return [types.SimpleNamespace(text=words.hypstr if words else "")], None

    return Heard()
'''
SGLANG = """
import contextlib, os, sys, types
from urllib.parse import urlsplit

utils = types.ModuleType("tests.utils")
utils.disable_proxy = contextlib.nullcontext
for name in ("find_free_port", "start_server", "start_server_from_cmd", "stop_server", "server_log_file"):
    setattr(utils, name, lambda *args, **kwargs: urlsplit(os.environ["SUITE_URL"]).port)
sys.modules["tests"], sys.modules["tests.utils"] = types.ModuleType("tests"), utils
"""
CLIP = 'open(__import__("os").environ["SUITE_CLIP"]).read()'
SUITES = {
    "speaches": Suite(
        ("tests/speech_test.py", "tests/api_model_test.py"), SPEACHES,
        (
            (r'(SPEECH_MODEL_ID|MODEL_ID_THAT_EXISTS) = "[^"]*"', r'\1 = "tiny"', "the model"),
            (r'VOICE_ID = "[^"]*"', 'VOICE_ID = "clara"', "the voice"),
            (r"UnprocessableEntityError", "BadRequestError", "a refusal is 400 here, not FastAPI's 422"),
            (r"(input=test_input,)", r'\1 extra_body={"seed": 1},', "a seed where six answers must have one length, as "
             "they do from a model that draws nothing"),
        ),
        "not test_openai",
        {
            "sse_stream_format": "its reader fails at event: lines, and wants token_usage for usage",
            "invalid_resample[48001": "48,001 Hz is a rate that can be written",
        },
    ),
    "kokoro": Suite(
        ("api/tests/integration/test_voices_endpoint.py", "api/tests/integration/test_rate_durations.py",
         "api/tests/integration/test_tts_roundtrip.py"), KOKORO,
        (
            (r'"(af_bella|af_heart|bf_emma)"', '"clara"', "the voices"),
            (r"WER_THRESHOLD = 0.25", "WER_THRESHOLD = 0.5", "PocketSphinx instead of Whisper"),
        ),
        "voices or nova or duration or rate or (roundtrip and en)",
        {
            "rate_tag": "[voice:] and [rate:] tags in the text are refused",
            "ssml_prosody": "/dev/ssml translates SSML to such tags; ours is \"ssml\": true",
        },
    ),
    "sglang-omni": Suite(
        ("tests/docs/s2pro/test_docs_tts_s2pro.py",), SGLANG,
        (
            (r'REFERENCE_AUDIO = "[^"]*"', f"REFERENCE_AUDIO = {CLIP}", "the clip, as data"),
            (r"from sglang_omni\.utils import find_available_port", "from tests.utils import find_free_port as "
             "find_available_port", "the fixture of the server"),
        ),
    ),
}  # fmt: skip


def localai(url: str) -> tuple[int, int, list[str]]:
    """The one request for speech of LocalAI's end-to-end tests, which are written in Go."""
    fields = {"model": "tts-1", "input": "Hello!", "voice": "default"}
    request = urllib.request.Request(f"{url}/v1/audio/speech", json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})  # fmt: skip
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            good = answer.status == 200 and len(answer.read()) > 0
    except OSError as error:
        return 1, 0, [f"speech: {error}"]
    return 1, int(good), [] if good else ["speech: no sound"]


def openedai(checkout: Path, url: str) -> tuple[int, int, list[str]]:
    """test_voices.sh, with a player that decodes instead of playing; samples of OpenAI's own server are left out."""
    with tempfile.TemporaryDirectory() as folder:
        programs = {
            "curl": f'case "$*" in *cdn.openai.com*) echo left out;; *) exec {shutil.which("curl")} "$@";; esac',
            "mpv": f"cat > {folder}/sound\nif head -c 8 {folder}/sound | grep -qa '^left out'; then exit; fi\n"
            f"if ffmpeg -v error -i {folder}/sound -f null -; then echo good; else echo bad; fi >> {folder}/heard",
        }
        for name, text in programs.items():
            path = Path(folder, name)
            path.write_text(f"#!/bin/bash\n{text}\n")
            path.chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        command = ["bash", str(checkout / "test_voices.sh"), f"{url}/v1/audio/speech"]
        subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
        heard = Path(folder, "heard").read_text().split()
    return len(heard), heard.count("good"), [f"call {n}" for n, one in enumerate(heard, 1) if one != "good"]


def run(suite: Suite, checkout: Path, url: str, clip: str) -> tuple[int, int, list[str]]:
    """Tests that ran, that passed, and a line for each that failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(suite.conftest)
        (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\nasyncio_mode = auto\n")
        for file in suite.files:
            text = (checkout / file).read_text("utf-8")
            for pattern, replacement, _ in suite.changed:
                text = re.sub(pattern, replacement, text)
            (folder / Path(file).name).write_text(text)
        (folder / "clip").write_text(clip)
        environment = {**os.environ, "SUITE_URL": url, "SUITE_CLIP": str(folder / "clip")}
        command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=line", "-W", "ignore", "-k", suite.only or "test"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = re.findall(r"^(PASSED|FAILED|ERROR) (\S+)(?: - (.*))?", done.stdout, re.MULTILINE)
    if not lines:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-2000:])
    failed = []
    for outcome, test, why in lines:
        if outcome != "PASSED":
            reason = next((words for part, words in suite.stays.items() if part in test), f"? {why[:150]}")
            failed.append(f"{test.partition('::')[2]}: {reason}")
    return len(lines), sum(outcome == "PASSED" for outcome, *_ in lines), failed


def said(url: str) -> str:
    """A clip of speech as a data URL."""
    fields = {"input": SENTENCE, "voice": "henry", "response_format": "wav", "stream": False}
    request = urllib.request.Request(f"{url}/v1/audio/speech", json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})  # fmt: skip
    with urllib.request.urlopen(request, timeout=120) as answer:
        data = answer.read()
    with wave.open(io.BytesIO(data)) as file:
        assert file.getnframes() > file.getframerate()
    return "data:audio/wav;base64," + base64.b64encode(data).decode()


def about(url: str) -> dict[str, Any]:
    """The entry of the first model."""
    with urllib.request.urlopen(f"{url}/v1/models", timeout=60) as answer:
        return dict(json.load(answer)["data"][0])


class Served:
    """A server of tiny, whose voices are in a folder of its own."""

    def __enter__(self) -> str:
        self._folder = tempfile.TemporaryDirectory()
        command = [sys.executable, "-m", "omnitts_cli", "serve", "-m", "tiny", "--port", "0", "--socket", "off",
                   "--voices-dir", self._folder.name]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(TREE)}
        self._process = subprocess.Popen(
            command, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._folder.cleanup()


def main() -> None:
    """Runs the suites that were named and prints a table, then what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", help="folders, localai or vllm-omni")
    parser.add_argument("--url", help="a running server of tiny; without it one is started")
    given = parser.parse_args()
    if given.url:
        report(given.checkouts, given.url.rstrip("/"))
    else:
        with Served() as url:
            report(given.checkouts, url)


def report(checkouts: list[str], url: str) -> None:
    """The table."""
    clip, hidden = said(url), int(about(url)["omnitts"]["hidden"])
    table, failures = [], []
    for name in checkouts:
        checkout = Path(name)
        key = next((one for one in SUITES if one in checkout.name.lower()), "")
        if "openedai" in checkout.name.lower():
            found = openedai(checkout, url)
        elif name == "localai":
            found = localai(url)
        elif name == "vllm-omni":
            found = vllm_omni.run(url, clip, hidden)
        elif key:
            found = run(SUITES[key], checkout, url, clip)
        else:
            raise SystemExit(f"{name} is not one of openedai-speech, localai, vllm-omni, {', '.join(SUITES)}")
        table.append(f"| {checkout.name} | {found[0]} | {found[1]} |")
        failures += [f"{checkout.name}: {line}" for line in found[2]]
        if key:
            failures += [
                f"{checkout.name}: adapted: {what}" for what in dict.fromkeys(w for *_, w in SUITES[key].changed)
            ]
    print("\n".join(["| suite | ran | passed |", "|---|--:|--:|", *table, "", *failures]))


if __name__ == "__main__":
    main()
