"""The page in a headless Chromium: speaking, stopping, cloning, downloads; keys, screen readers, zoom, colours."""

import io
import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from browser import Page, chromium, until
from patience import LONG_S
from served import Inside, Served, serving

from omnitts_cli.errors import GuardError, Notice
from omnitts_cli.server.page import page as answer_of_the_page

TEXT = "One two three. Four five six."
LONG = "Four score and seven years ago. " * 600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with serving(tmp_path_factory.mktemp("serve"), allowed_host=("lan.test",)) as served:
        yield served


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def driver(downloads: Path) -> Iterator[Any]:
    with chromium(downloads) as driver:
        yield driver


@pytest.fixture
def open_page(driver: Any, server: Served) -> Iterator[Callable[..., Page]]:
    """Opens the page; at the end nothing may have been written to the console."""
    pages: list[Page] = []

    def opened(url: str = server.url) -> Page:
        pages.append(Page(driver, url).ready())
        pages[-1].run("document.getElementById('seed').value = '7'")  # how long the speech is does not depend on chance
        return pages[-1]

    yield opened
    assert pages[-1].console() == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


def pcm_of(server: Served, **fields: Any) -> bytes:
    """The same speech as a plain client gets it."""
    body = json.dumps({"response_format": "pcm", **fields}).encode()
    request = urllib.request.Request(f"{server.url}/v1/audio/speech", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LONG_S) as answer:
        return bytes(answer.read())


def downloaded(page: Page, downloads: Path, name: str) -> bytes:
    for old in downloads.iterdir():
        old.unlink()
    page.click("download")
    path = downloads / name
    until(lambda: path.exists() and not list(downloads.glob("*.crdownload")), f"{name} is downloaded")
    return path.read_bytes()


# ---- the file


def test_the_page_is_one_file_and_every_answer_has_its_own_nonce() -> None:
    body, headers = answer_of_the_page()
    html = body.decode()
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert re.findall(r"(?:src|href)=[\"']?(?!data:)[^\"' >]+", html) == []
    assert re.findall(r"(?<!xmlns=')https?://", html) == []
    assert not re.search(r"\son\w+=|style=\"", html), "inline handlers and styles are what the policy refuses"
    assert "innerHTML" not in html
    answers = [answer_of_the_page() for _ in range(2)]
    nonces = [re.findall(r'nonce="([^"]+)"', body.decode()) for body, _ in answers]
    assert len(set(nonces[0])) == 1 and nonces[0][0] != nonces[1][0]
    policy = answers[0][1]["Content-Security-Policy"]
    assert f"script-src 'nonce-{nonces[0][0]}'" in policy
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy


def test_the_server_sends_the_page_with_its_policy(server: Served) -> None:
    with urllib.request.urlopen(f"{server.url}/") as answer:
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert b"<title>omnitts</title>" in answer.read()


def test_a_script_without_the_nonce_does_not_run(driver: Any, server: Served) -> None:
    page = Page(driver, server.url).ready()
    page.run(
        "const script = document.createElement('script'); script.textContent = 'window.intruder = 1';"
        "document.body.append(script)"
    )
    assert page.run("return window.intruder ?? null") is None
    assert any("Content Security Policy" in line for line in page.console())


# ---- speaking


def test_it_plays_the_speech_that_a_plain_client_gets(page: Page, server: Served, downloads: Path) -> None:
    page.speak(TEXT)
    status = page["status"].text
    assert "first sound after" in status and "seed 7" in status
    voice = page.run("return document.getElementById('voice').value")
    wav = downloaded(page, downloads, "speech.wav")
    assert wav[44:] == pcm_of(server, input=TEXT, voice=voice, seed=7, speed=1)
    sound, rate = soundfile.read(io.BytesIO(wav), dtype="int16")
    assert rate == 8000 and np.abs(sound).max() > 100
    assert page.seconds == pytest.approx(len(sound) / rate, abs=0.01)


def test_the_sound_moves_along_and_ends(page: Page) -> None:
    page.run(
        "window.positions = new Set();"
        "setInterval(() => positions.add(Number(document.getElementById('position').value)), 20)"
    )
    page.speak("Go.")
    until(lambda: page.position and page.state == "idle", "the speech ends")
    passed = page.run("return [...positions]")
    assert len(passed) > 3 and passed == sorted(passed), "the position moves along"
    assert page.position == pytest.approx(page.seconds, abs=0.11)
    assert page["play"].text == "Play"


def test_it_plays_while_the_rest_is_made_and_stop_frees_the_slot(page: Page, server: Served) -> None:
    page.run("document.getElementById('text').value = arguments[0]", LONG)
    page.click("speak")
    until(lambda: page.state == "making" and page.position > 0.1, "sound while the rest is made")
    assert page["speak"].get_attribute("aria-disabled") == "true"
    until(lambda: server.live() > 0, "the server speaks")  # it is 0 for a moment between two sentences
    page.click("stop")
    until(lambda: page["status"].text == "Stopped." and page.state == "idle", "it has stopped")
    until(lambda: server.idle(0), "the server has freed the slot")


def test_the_waveform_is_drawn_and_a_click_in_it_seeks(page: Page) -> None:
    page.speak(TEXT)
    page.click("play")  # pause
    coloured = page.run(
        "const canvas = document.querySelector('canvas');"
        "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        "let n = 0; for (let i = 3; i < data.length; i += 4) n += data[i] > 0; return n / (data.length / 4)"
    )
    assert coloured > 0.02
    page.click("position")  # a click hits the middle
    assert page.position == pytest.approx(page.seconds / 2, rel=0.1)


@pytest.mark.parametrize(("format", "magic"), [("mp3", b"\xff"), ("flac", b"fLaC"), ("opus", b"OggS")])
def test_it_downloads_other_formats(page: Page, downloads: Path, format: str, magic: bytes) -> None:
    page.speak("Go.")
    page.run("document.getElementById('format').value = arguments[0]", format)
    data = downloaded(page, downloads, f"speech.{format}")
    assert data[:4].lstrip(b"ID3").startswith(magic[:1])
    assert soundfile.info(io.BytesIO(data)).duration == pytest.approx(page.seconds, abs=0.15)


def test_it_speaks_in_a_described_voice(page: Page) -> None:
    page.choose("described")
    page.write("description", "a deep, slow man")
    page.speak("Go.")
    assert page.seconds > 0


def clip(path: Path, seconds: float = 3.0) -> Path:
    """A stereo clip at 44.1 kHz, which the page makes mono at 24 kHz."""
    time = np.arange(int(44100 * seconds)) / 44100
    tone = 0.3 * np.sin(2 * np.pi * 220 * time) * (1 + np.sin(2 * np.pi * 3 * time)) / 2
    soundfile.write(path, np.stack([tone, tone], 1), 44100, subtype="PCM_16")
    return path


def test_it_clones_an_uploaded_clip_only_with_consent(page: Page, tmp_path: Path) -> None:
    page.choose("clip")
    page.write("text", "Go.")
    page.click("speak")
    assert page["error"].text == "Record or choose a clip first."
    page["file"].send_keys(str(clip(tmp_path / "me.flac").absolute()))
    until(lambda: page["clip"].text == "Clip of 3.0 s.", "the clip is read")
    page.click("speak")
    assert "allows you" in page["error"].text and page.focused == "consent"
    page.click("consent")
    page.write("transcript", "la la la")
    page.speak("Go.")
    assert page.seconds > 0


def test_it_records_a_clip(page: Page) -> None:
    page.choose("clip")
    page.click("record")
    until(lambda: page["clip"].text.startswith("Recording, 1."), "a second is recorded")
    assert page["record"].text == "Stop recording" and page["record"].get_attribute("aria-pressed") == "true"
    page.click("record")
    until(lambda: page["clip"].text.startswith("Clip of"), "the clip is read")
    page.click("listen")
    until(lambda: page.position > 0.1, "the clip is played")
    page.click("stop")
    page.click("consent")
    page.speak("Go.")
    assert page.seconds > 0


def test_a_cloned_voice_can_be_saved_used_and_deleted(page: Page, tmp_path: Path) -> None:
    page.choose("clip")
    page["file"].send_keys(str(clip(tmp_path / "me.wav").absolute()))
    until(lambda: page["clip"].text.startswith("Clip of"), "the clip is read")
    page.click("consent")
    page["keep"].find_element("tag name", "summary").click()
    page.write("name", "friend")
    page.click("save")
    until(lambda: page["status"].text == "Saved the voice friend." or page["error"].text, "the voice is saved")
    assert page["error"].text == ""
    assert page.run("return document.getElementById('voice').value") == "friend" and page.focused == "voice"
    page.speak("Go.")
    assert "voice friend" in page["status"].text
    page.click("remove")
    page.driver.switch_to.alert.accept()
    until(lambda: page["status"].text == "Deleted the voice friend.", "the voice is deleted")
    assert "friend" not in page["voice"].text


# ---- errors


def begin_to_speak(page: Page) -> None:
    """A long text, up to its first sound."""
    page.run("document.getElementById('text').value = arguments[0]", LONG)
    page.click("speak")
    until(lambda: page.position > 0.1, "it speaks")


def test_errors_of_the_server_are_shown_in_its_own_words(driver: Any, server: Served) -> None:
    page = Page(driver, server.url).ready()
    page.run("document.getElementById('text').value = arguments[0]", "word " * 5000)
    page.click("speak")
    until(lambda: page["error"].text, "an error")
    assert "20000" in page["error"].text or "20,000" in page["error"].text
    assert page["error"].get_attribute("role") == "alert"
    page.speak("Go.")
    assert not page["error"].is_displayed()
    assert all("400" in line for line in page.console())  # Chromium writes down every status of 400 and above


def test_notices_about_the_text_are_shown_until_the_next_one(page: Page) -> None:
    page.speak("Wait. [pause:90s] Go.")
    assert page["notices"].text.startswith("Notice: [pause:90s] is cut to 60 s, the longest pause")
    page.speak("Go.")
    assert not page["notices"].is_displayed()


def test_notices_that_come_after_the_first_sound_are_shown_at_the_end(page: Page, server: Inside) -> None:
    begin_to_speak(page)
    assert not page["notices"].is_displayed()
    for call in server.server.state.calls:
        call.raised.append(Notice("sentence 2 got stuck after 3 s; it was cut there"))
    page.made()
    assert page["notices"].text == "Notice: sentence 2 got stuck after 3 s; it was cut there"


def test_an_error_after_the_first_sound_is_shown_in_the_servers_words(page: Page, server: Inside) -> None:
    begin_to_speak(page)
    for call in server.server.state.calls:
        call.problem = GuardError("the model does not stop")
    until(lambda: page["error"].text, "an error")
    assert page["error"].text == "This speech is incomplete: the model does not stop"
    assert page.state != "making" and page.seconds > 0


def test_an_empty_text_is_refused_where_it_is_typed(page: Page) -> None:
    page.run("document.getElementById('text').value = ' '")
    page.click("speak")
    assert page["error"].text == "Type some text first." and page.focused == "text"


def test_a_server_with_a_key_asks_for_it(driver: Any, tmp_path: Path) -> None:
    with serving(tmp_path, keys={"me": "s3cret"}) as served:
        page = Page(driver, served.url).ready()
        assert page["server"].text == "not connected"
        assert page["key"].is_displayed() and page.focused == "key"
        page.write("key", "s3cret")
        page.press("\ue007")  # Enter
        until(lambda: page["server"].text == "random:toy", "the key is accepted")
        assert not page["key"].is_displayed() and not page["error"].is_displayed()
        page.speak("Go.")
        assert "s3cret" not in page.driver.current_url
        page.console()


def test_a_page_over_plain_http_from_another_machine_plays_and_says_why_it_cannot_record(
    open_page: Callable[..., Page], server: Served
) -> None:
    page = open_page(server.url.replace("127.0.0.1", "lan.test"))
    assert page.run("return isSecureContext") is False
    page.choose("clip")
    assert page["record"].text == "Record (needs HTTPS or localhost)"
    page.click("record")
    assert "microphone" in page["status"].text
    page.choose("named")
    page.speak("Go.")
    until(lambda: page.position > 0, "it plays")


# ---- keys, screen readers, eyes

TAB, ENTER, ESCAPE, CONTROL, SPACE = "\ue004", "\ue007", "\ue00c", "\ue009", " "


def test_the_focus_follows_the_page_from_top_to_bottom(page: Page) -> None:
    page.run("document.body.focus()")
    seen = []
    for _ in range(12):
        page.press(TAB)
        seen.append(page.focused)
    assert seen == [
        "summary", "text", "input", "voice", "summary", "speak",
        "stop", "play", "download", "format", "position", "body",
    ]  # fmt: skip
    assert page.run("return [...document.querySelectorAll('[tabindex]')].length") == 0


def test_keys_alone_speak_pause_and_stop(page: Page) -> None:
    page.run("document.getElementById('text').value = ''; document.getElementById('text').focus()")
    page.press("A long way home. " * 20)
    page.chord(CONTROL, ENTER)
    until(lambda: page.position > 0.1, "it speaks")
    assert page["text"].get_attribute("value").endswith("home. ")
    page.press(*[TAB] * 9)
    assert page.focused == "position"
    page.press(SPACE)
    until(lambda: page["play"].text == "Play", "it is paused")
    at = page.position
    page.press(SPACE)
    until(lambda: page.position > at, "it goes on")
    page.press(ESCAPE)
    until(lambda: page.state == "idle" and page.position == 0, "it has stopped")
    assert page["status"].text == "Stopped."


def test_a_button_that_does_nothing_keeps_the_focus(page: Page) -> None:
    page.run("document.getElementById('stop').focus()")
    page.press(ENTER)
    assert page.focused == "stop" and page["stop"].get_attribute("aria-disabled") == "true"
    assert page["error"].text == "" and page["status"].text == ""


def test_everything_that_takes_the_focus_has_a_name(page: Page) -> None:
    page.choose("clip")
    page.run("for (const box of document.querySelectorAll('details')) box.open = true")
    tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    value = {node["nodeId"]: node for node in tree if not node.get("ignored")}.values()
    focusable = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in value
        if any(p["name"] == "focusable" and p["value"].get("value") for p in node.get("properties", []))
        and node["role"]["value"] != "RootWebArea"
    ]
    assert len(focusable) > 20
    assert [role for role, name in focusable if not name] == []
    assert ("textbox", "Text") in focusable and ("slider", "Position") in focusable
    assert ("checkbox", "The speaker allows me to use this voice.") in focusable
    roles = {node["role"]["value"] for node in value}
    assert {"status", "main", "banner", "heading", "radio", "progressbar"} <= roles
    assert page.run("return document.documentElement.lang") == "en"


@pytest.mark.parametrize("width", [600, 320])  # 200 % of a window of 1200 pixels; 400 % of 1280
def test_it_fits_when_zoomed_in(page: Page, width: int) -> None:
    size = {"width": width, "height": 700, "deviceScaleFactor": 2, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for kind in ("named", "described", "clip"):
            page.choose(kind)
            page.run("for (const box of document.querySelectorAll('details')) box.open = true")
            assert page.run("return document.documentElement.scrollWidth") <= width
            small = page.run(
                "return [...document.querySelectorAll('button, select, textarea, [type=text]')].filter((e) => "
                "e.offsetParent && (e.offsetHeight < 44 || e.getBoundingClientRect().right > innerWidth))"
                ".map((e) => e.id)"
            )
            assert small == []
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def preferring(driver: Any, name: str, value: str) -> Iterator[None]:
    """A person who has chosen this in their system."""
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": name, "value": value}]})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_light_and_dark(open_page: Callable[..., Page], driver: Any, scheme: str) -> None:
    with preferring(driver, "prefers-color-scheme", scheme):
        page = open_page()
        paper = page.run("return getComputedStyle(document.body).backgroundColor")
        assert (luminance(paper) < 0.1) == (scheme == "dark")
        page.run("document.getElementById('error').hidden = false; document.getElementById('error').textContent = 'x'")
        shown = page.run(
            "const solid = (e) => { for (; e; e = e.parentElement) {"
            " const c = getComputedStyle(e).backgroundColor; if (!c.endsWith(', 0)')) return c } };"
            "return [...document.querySelectorAll('body *')].filter((e) => e.offsetParent && e.childNodes.length &&"
            " !e.closest('[aria-disabled=true]') && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))"
            ".map((e) => [e.tagName + ' ' + e.textContent.slice(0, 20), getComputedStyle(e).color, solid(e)])"
        )
        assert len(shown) > 15
        assert [
            (name, round(contrast(ink, ground), 1)) for name, ink, ground in shown if contrast(ink, ground) < 4.5
        ] == []


def test_reduced_motion_moves_the_waveform_twice_a_second(page: Page) -> None:
    with preferring(page.driver, "prefers-reduced-motion", "reduce"):
        page.speak(TEXT)
        page.run(
            "window.frames_drawn = 0; window.since = 0; const draw = CanvasRenderingContext2D.prototype.clearRect;"
            "CanvasRenderingContext2D.prototype.clearRect = function (...a) { frames_drawn++; draw.apply(this, a) }"
        )
        page.click("play")
        page.click("play")
        page.run("window.frames_drawn = 0; window.since = performance.now()")
        start = page.position
        until(lambda: page.position > start + 0.9, "a second of speech")
        drawn, lasted_ms = page.run("return [window.frames_drawn, performance.now() - window.since]")
        assert drawn <= lasted_ms / 500 + 2
