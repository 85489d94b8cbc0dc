"""Fetching whole models from a hub on the loopback: only what is needed, resumed, checked, or one clear error."""

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from omnitts_cli.errors import ModelError, UsageError
from omnitts_cli.weights import store
from omnitts_cli.weights.fetch import DownloadProgress, part_of
from omnitts_cli.weights.find import Found, find, here
from omnitts_cli.weights.names import HubName
from omnitts_cli.weights.pull import pull
from omnitts_cli.weights.released import ALIASES, RELEASED, TENSORS, THINKER

REPO = "someone/a-voice"
NAME = f"hf:{REPO}"
WANTED = HubName(NAME, REPO, None)

Hub = Any  # tests/weights/conftest.py
NO_ENTRY = {"X-Error-Code": "EntryNotFound"}
LONGER = {"Content-Length": "5000"}


def refused(hub: Hub, wanted: HubName = WANTED) -> ModelError:
    with pytest.raises(ModelError) as caught:
        pull(wanted)
    error = caught.value
    assert error.exit_code == 4
    assert "\n" not in error.message and "\n" not in (error.cause or "")
    assert local_snapshots(hub) == [], "half a model was left where a whole one would be looked for"
    return error


def cache(tmp_path: Path) -> Path:
    return tmp_path / "hub" / "models--someone--a-voice"


def local_snapshots(hub: Hub) -> list[Path]:
    from huggingface_hub import constants

    return list(Path(constants.HF_HUB_CACHE).glob("*/snapshots/*/config.json"))


def part(hub: Hub, tmp_path: Path, path: str = "model.safetensors") -> Path:
    return part_of(cache(tmp_path) / "blobs" / hub.sha256(path))


def arrived(hub: Hub, tmp_path: Path) -> bool:
    blob = cache(tmp_path) / "blobs" / hub.sha256("model.safetensors")
    return blob.read_bytes() == hub.files["model.safetensors"]


def test_only_what_is_needed_arrives(hub: Hub, tmp_path: Path) -> None:
    found = pull(WANTED)
    assert found == Found(cache(tmp_path) / "snapshots" / hub.commit, NAME, hub.commit)
    assert found.folder is not None
    here = {path.relative_to(found.folder).as_posix() for path in found.folder.rglob("*") if path.is_file()}
    assert here == {
        "config.json", "generation_config.json", "tokenizer_config.json", "vocab.json", "merges.txt",
        "model.safetensors", "speech_tokenizer/config.json", "speech_tokenizer/model.safetensors",
    }  # fmt: skip
    assert all((found.folder / path).read_bytes() == hub.files[path] for path in here)
    assert hub.asked_for("modeling.py") == hub.asked_for("pytorch_model") == hub.asked_for("escape") == []
    assert not part(hub, tmp_path).exists()


def test_the_second_time_nothing_is_asked(hub: Hub) -> None:
    first = find(NAME)
    hub.asked.clear()
    assert find(NAME) == find(NAME, offline=True) == first
    assert find(f"{NAME}@{hub.commit}").folder == first.folder
    assert hub.asked == []


def test_progress_adds_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnitts_cli.weights.fetch.REPORT_S", 0)
    reported: list[DownloadProgress] = []
    pull(WANTED, report=reported.append)
    assert reported[0].done_bytes == reported[0].resumed_bytes == 0
    assert reported[-1].done_bytes == reported[-1].total_bytes > 400_000
    assert [p.done_bytes for p in reported] == sorted(p.done_bytes for p in reported)
    assert reported[-1].bytes_per_s > 0 and reported[0].model == NAME


@pytest.mark.parametrize("at", [0, 1, 65536, 150_000, 299_999])
def test_a_broken_line_is_picked_up_where_it_broke(hub: Hub, tmp_path: Path, at: int) -> None:
    hub.fails("GET", f"{hub.commit}/model.safetensors", send=at)
    pull(WANTED)
    assert arrived(hub, tmp_path)
    second = hub.asked_for(f"{hub.commit}/model.safetensors")[-1]
    assert int(second.partition(" from ")[2] or 0) == at - at % 1024


def test_a_later_run_fetches_only_the_missing_bytes(hub: Hub, tmp_path: Path) -> None:
    hub.fails("GET", "/model.safetensors", send=122_880)
    hub.fails("GET", "/model.safetensors", status=403, times=99)
    refused(hub)
    assert part(hub, tmp_path).stat().st_size == 122_880
    hub.faults.clear()
    hub.sent_bytes = 0
    reported: list[DownloadProgress] = []
    pull(WANTED, report=reported.append)
    assert hub.sent_bytes < 281_000 + 10_000  # 177,120 of one file, 100,000 of the other
    assert reported[0].resumed_bytes == reported[0].done_bytes == 122_880
    assert reported[-1].done_bytes == reported[-1].total_bytes


def test_two_at_once_fetch_once(hub: Hub, tmp_path: Path) -> None:
    hub.fails("GET", "/model.safetensors", send=200_000, times=2)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: pull(WANTED), range(2))
    assert first == second
    whole = [line for line in hub.asked_for(f"{hub.commit}/model.safetensors") if " from " not in line]
    assert len(whole) == 1
    assert arrived(hub, tmp_path)


def test_a_killed_process_leaves_a_part_that_the_next_one_uses(hub: Hub, tmp_path: Path) -> None:
    hub.fails("GET", "/model.safetensors", send=200_000, stall=True)
    program = (
        "import sys; from huggingface_hub import constants; constants.DOWNLOAD_CHUNK_SIZE = 1024;"
        "from omnitts_cli.weights.find import find; find(sys.argv[1])"
    )
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    run = [sys.executable, "-c", program, NAME]
    child = subprocess.Popen(run, env=environment, stderr=subprocess.DEVNULL)
    waiting = part(hub, tmp_path)
    for _ in range(3000):
        if waiting.exists() and waiting.stat().st_size >= 65_536:
            break
        hub.closing.wait(0.01)
    child.kill()
    child.wait()
    here = waiting.stat().st_size
    assert 0 < here <= 200_000
    assert local_snapshots(hub) == []
    with pytest.raises(ModelError, match="not on this machine"):
        find(NAME, offline=True)
    find(NAME)
    assert hub.asked_for(f"{hub.commit}/model.safetensors")[-1].endswith(f" from {here}")


@pytest.mark.parametrize("stale", [b"x" * 1000, b"x" * 299_999, b"x" * 400_000, None])
def test_a_part_that_is_of_no_use_is_thrown_away_once(hub: Hub, tmp_path: Path, stale: bytes | None) -> None:
    """It is wrong, or right and the server ignores ranges."""
    waiting = part(hub, tmp_path)
    waiting.parent.mkdir(parents=True)
    waiting.write_bytes(hub.files["model.safetensors"][:1000] if stale is None else stale)
    if stale is None:
        hub.fails("GET", f"{hub.commit}/model.safetensors", ignore_range=True)
    reported: list[DownloadProgress] = []
    pull(WANTED, report=reported.append)
    assert arrived(hub, tmp_path)
    assert reported[-1].done_bytes == reported[-1].total_bytes


def test_wrong_bytes_are_not_believed(hub: Hub, tmp_path: Path) -> None:
    hub.fails("GET", "/model.safetensors", replace=b"x" * 300_000, times=9)
    error = refused(hub)
    assert "is corrupt after the download" in error.message and "SHA-256" in (error.cause or "")
    assert not part(hub, tmp_path).exists()


@pytest.mark.parametrize(("status", "code", "words"), [
    (401, "GatedRepo", "is gated"), (403, "GatedRepo", "is gated"), (401, "RepoNotFound", "has no model"),
    (404, "RepoNotFound", "has no model"), (401, "", "refused to send"), (403, "", "refused to send"),
    (404, "RevisionNotFound", "no such revision"), (418, "", "refused to send"),
])  # fmt: skip
def test_the_hub_says_no(hub: Hub, status: int, code: str, words: str) -> None:
    hub.fails("GET", REPO, status=status, headers={"X-Error-Code": code}, times=9)
    error = refused(hub)
    assert words in error.message and REPO in error.message
    assert error.hint
    assert len(hub.asked) == 1 and hub.waits == [], "asking again would not help"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_hub_is_asked_again_after_growing_waits(
    hub: Hub, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.fails("GET", REPO, status=status, times=2)
    hub.fails("GET", "/model.safetensors", send=5000)
    pull(WANTED)
    assert hub.waits[:2] == [1.0, 4.0]
    assert capfd.readouterr() == ("", ""), "what there is to say is for the caller to say"


LARGE = "/model.safetensors"


@pytest.mark.parametrize(("method", "path", "how", "words"), [
    ("GET", LARGE, {"replace": b"x" * 1000}, "cannot download"),  # another length
    ("GET", LARGE, {"status": 200, "body": b"<html>Welcome</html>"}, "cannot download"),
    ("GET", LARGE, {"status": 403}, "403"),
    ("GET", LARGE, {"status": 429}, "429"),
    ("GET", LARGE, {"status": 503}, "503"),
    ("GET", REPO, {"status": 429}, "429.*try again later"),
    ("GET", REPO, {"status": 503}, "503.*try again later"),
    ("GET", REPO, {"status": 200, "body": b"<html>Welcome to our hotel</html>"}, "is not a Hub.*HF_ENDPOINT"),
    ("GET", REPO, {"status": 200, "body": b"[]"}, "is not a Hub"),
    ("GET", REPO, {"status": 200, "body": b"null"}, "is not a Hub"),
    ("GET", REPO, {"status": 200, "body": b'{"id": 1}'}, "is not a Hub"),
    ("GET", REPO, {"status": 200, "body": b'{"id": "a", "siblings": [{}]}'}, "is not a Hub"),
    ("GET", REPO, {"status": 200, "body": b"{}"}, "is not a Hub"),
    ("HEAD", "/vocab.json", {"status": 404, "headers": NO_ENTRY}, "has no complete speech model"),
])  # fmt: skip
def test_what_comes_instead(hub: Hub, method: str, path: str, how: dict[str, Any], words: str) -> None:
    hub.fails(method, path, **how, times=99)
    error = refused(hub)
    assert re.search(words, f"{error.message} {error.cause} {error.hint}")


def test_a_hub_that_never_ends_its_answer(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnitts_cli.weights.hub.ANSWER_S", 0.4)  # no attempt ever gets more
    hub.fails("GET", REPO, status=200, headers=LONGER, stall=True, times=99)
    error = refused(hub)
    assert re.search("cannot download.*network", f"{error.message} {error.cause} {error.hint}")


def test_silence_is_not_waited_for(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.4)
    hub.fails("GET", "/model.safetensors", send=2048, stall=True, times=1)
    pull(WANTED)
    assert hub.asked_for(f"{hub.commit}/model.safetensors")[-1].endswith(" from 2048")


@pytest.mark.parametrize(
    ("address", "cause", "hint"),
    [("http://127.0.0.1:9", "network: ", "proxies"), ("nonsense", "http://", "HF_ENDPOINT")],
)
def test_an_address_without_a_hub_is_reported(
    address: str, cause: str, hint: str, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    error = refused(hub)
    assert cause in (error.cause or "") and hint in (error.hint or "")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_an_untrusted_certificate_is_reported(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", *made, "-keyout", key, "-out", certificate], check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"https://127.0.0.1:{server.server_port}")
    try:
        error = refused(hub)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert "cannot download" in error.message and "certificate" in (error.cause or "").lower()


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_repository_that_is_no_speech_model(hub: Hub, missing: str) -> None:
    hub.files = {path: content for path, content in hub.files.items() if not path.endswith(missing)}
    assert "cannot be used as a model" in refused(hub).message
    assert hub.asked_for("pytorch_model.bin") == []


def test_no_room(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - 5, 5))  # type: ignore[attr-defined]
    error = refused(hub)
    assert "not enough disk space" in error.message and "B are needed, 5 B are free" in (error.cause or "")


def test_a_cache_that_cannot_be_written(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "hub").write_text("a file where the cache should be")
    error = refused(hub)
    assert "cannot store" in error.message and "HF_HOME" in (error.hint or "")


def test_a_released_model_at_its_pinned_revision(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RELEASED, "0.6b-base", hub.released("0.6b-base"))
    found = find("0.6b", variant="base")
    assert found.name == "0.6b-base" and found.revision == hub.commit
    hub.asked.clear()
    assert find("0.6B-Base", offline=True) == found
    assert hub.asked == []


def test_a_released_model_whose_repository_went_on(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest commit serves as well: the weights are known by their SHA-256."""
    monkeypatch.setitem(RELEASED, "0.6b-base", hub.released("0.6b-base"))
    hub.commit = "f" * 40
    hub.fails("GET", "revision/0123456789ab", status=404, headers={"X-Error-Code": "RevisionNotFound"})
    found = find("0.6b-base")
    assert found.revision == "f" * 40
    assert find("0.6b-base", offline=True) == found


def test_a_released_model_with_other_weights(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RELEASED, "0.6b-base", hub.released("0.6b-base", sha256="0" * 64))
    error = refused(hub, HubName("0.6b-base", REPO, hub.commit[:12], RELEASED["0.6b-base"]))
    assert (
        error.message.startswith(("model.safetensors of", "speech_tokenizer"))
        and "not the released one" in error.message
    )
    assert hub.asked_for("model.safetensors") == [], "nothing of it is fetched"


def test_offline_opens_no_socket(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find(NAME)

    def connected(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", connected)
    monkeypatch.setattr(socket, "getaddrinfo", connected)
    assert find(NAME, offline=True) == find(NAME) == found
    for name in ("1.7b", "codec", "hf:no/body"):
        with pytest.raises(ModelError, match="--offline is set"):
            find(name, offline=True)


def test_offline_names_the_model_and_the_command(hub: Hub) -> None:
    with pytest.raises(ModelError) as caught:
        find("1.7b", offline=True)
    assert caught.value.message == "model '1.7b-customvoice' is not on this machine and --offline is set"
    assert "omnitts models pull 1.7b-customvoice   (4.2 GiB, once)" in (caught.value.hint or "")
    assert hub.asked == []


def test_the_hubs_own_switch_counts(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set"):
        find(NAME)
    assert hub.asked == []


def sharded(hub: Hub, index: bytes) -> None:
    """The model as three numbered parts with an index."""
    whole = hub.files.pop("model.safetensors")
    for part in range(3):
        hub.files[f"model-{part + 1:05d}-of-00003.safetensors"] = whole[part * 100_000 : (part + 1) * 100_000]
    hub.files["model.safetensors.index.json"] = index


INDEX = b"""{"weight_map": {
    "thinker.model.norm.weight": "model-00002-of-00003.safetensors",
    "thinker.model.embed_tokens.weight": "model-00001-of-00003.safetensors",
    "talker.model.norm.weight": "model-00003-of-00003.safetensors",
    "thinker.lm_head.weight": "model-00003-of-00003.safetensors"
}}"""


def test_of_a_large_repository_only_the_parts_that_speak(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TENSORS, REPO, TENSORS[ALIASES["omni"]])
    sharded(hub, INDEX)
    found = pull(WANTED)
    assert found.folder is not None
    weights = {path.name for path in found.folder.glob("*.safetensors")}
    assert weights == {"model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"}
    assert hub.asked_for("model-00002-of-00003.safetensors") == []
    hub.asked.clear()
    assert find(NAME).folder == found.folder and hub.asked == []


def test_the_thinker_comes_on_request_and_completes_an_earlier_download(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TENSORS, REPO, TENSORS[ALIASES["omni"]])
    monkeypatch.setitem(THINKER, REPO, THINKER[ALIASES["omni"]])
    sharded(hub, INDEX)
    for_speech = pull(WANTED)
    assert isinstance(here(NAME, thinker=True), HubName)
    hub.asked.clear()
    found = store.pull(NAME, thinker=True)
    assert found.folder == for_speech.folder
    assert len(list(found.folder.glob("model-*.safetensors"))) == 3
    assert hub.asked_for("model-00003-of-00003.safetensors") == []  # it was here already
    assert here(NAME, thinker=True) == here(NAME) == found
    with pytest.raises(UsageError, match=r"0\.6b has no thinker"):
        store.pull("0.6b", thinker=True)


def test_of_any_other_repository_every_part(hub: Hub) -> None:
    sharded(hub, INDEX)
    found = pull(WANTED)
    assert found.folder is not None and len(list(found.folder.glob("model-*.safetensors"))) == 3


@pytest.mark.parametrize("index", [b"no", b"[]", b"{}", b'{"weight_map": {"talker.a": [1]}}'])
def test_an_index_that_makes_no_sense(hub: Hub, monkeypatch: pytest.MonkeyPatch, index: bytes) -> None:
    monkeypatch.setitem(TENSORS, REPO, ("talker.*",))
    sharded(hub, index)
    assert "cannot be selected" in refused(hub).message
