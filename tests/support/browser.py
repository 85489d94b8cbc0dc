"""A headless Chromium for the tests of the page. Without Chromium and its driver those tests are skipped."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # it cannot start as root otherwise, and opens our own page only
    "--disable-dev-shm-usage",
    "--disable-gpu",  # there is none, and drawing as if there were takes longer than all else
    "--disable-background-networking",
    "--disable-component-update",
    "--window-size=1200,900",
    "--force-device-scale-factor=1",
    "--use-fake-device-for-media-stream",  # a microphone that beeps
    "--use-fake-ui-for-media-stream",
    "--host-resolver-rules=MAP lan.test 127.0.0.1",  # a name that is not loopback, as in a local network
)


@contextmanager
def chromium(downloads: Path) -> Iterator[Any]:
    """A WebDriver of a fresh profile, whose downloads go to a folder."""
    webdriver = pytest.importorskip("selenium.webdriver")
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for option in OPTIONS:
        options.add_argument(option)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    try:
        yield driver
    finally:
        driver.quit()


def until(true: Callable[[], Any], what: str, limit_s: float = 120.0) -> Any:
    """Waits for a condition and returns its value."""
    end = time.monotonic() + limit_s
    while not (value := true()):
        assert time.monotonic() < end, f"not within {limit_s} s: {what}"
        time.sleep(0.05)
    return value


class Page:
    """The page as a user meets it: elements by their id, keys, and what it shows."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver = driver
        driver.get("about:blank")
        self.console()  # what earlier pages wrote
        driver.get(url)

    def ready(self) -> "Page":
        until(lambda: self["server"].text not in ("", "connecting …"), "the page is connected")
        return self

    def __getitem__(self, name: str) -> Any:
        return self.driver.find_element("id", name)

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def click(self, name: str) -> None:
        self[name].click()

    def choose(self, kind: str) -> None:
        self.driver.find_element("css selector", f"[value={kind}]").click()

    def write(self, name: str, text: str) -> None:
        self.run("const field = document.getElementById(arguments[0]); field.value = ''; field.focus()", name)
        self[name].send_keys(text)

    def press(self, *keys: str) -> None:
        """Keys at whatever has the focus."""
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.driver, duration=0)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def chord(self, held: str, key: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver, duration=0).key_down(held).send_keys(key).key_up(held).perform()

    @property
    def state(self) -> str:
        return str(self.run("return document.body.dataset.state"))

    @property
    def position(self) -> float:
        return float(self.run("return Number(document.getElementById('position').value)"))

    @property
    def seconds(self) -> float:
        return float(self.run("return Number(document.getElementById('position').max)"))

    @property
    def focused(self) -> str:
        return str(self.run("return document.activeElement.id || document.activeElement.tagName.toLowerCase()"))

    def speak(self, text: str) -> None:
        """Speaks it and waits until all is made."""
        self.write("text", text)
        self.click("speak")
        self.made()

    def made(self) -> None:
        until(lambda: "of speech made" in self["status"].text or self["error"].text, "the speech is made")
        assert not self["error"].text

    def console(self) -> list[str]:
        """The errors and warnings of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]
