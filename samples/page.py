"""Speaks on the page of `omnitts serve` in a headless Chromium and takes samples/page.png, the picture of it.

python samples/page.py            # with `omnitts-cli[serve]`, selenium, chromium and chromedriver installed
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from selenium import webdriver

PICTURE = Path(__file__).with_suffix(".png")
SERVE = [sys.executable, "-m", "omnitts_cli", "serve", "--port", "0", "--socket", "off", "-d", "cpu"]
TEXT = (
    "The kettle is on, and the bread is still warm from the oven. Come in, close the door, and tell us where you have "
    "been all day. We have waited for you, and the soup is getting cold."
)
SIZE = {"width": 1120, "height": 690, "deviceScaleFactor": 1.5, "mobile": False}
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars")


def main() -> None:
    server = subprocess.Popen(SERVE, stdout=subprocess.PIPE, text=True)
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in OPTIONS:
        options.add_argument(option)
    try:
        assert server.stdout
        url = server.stdout.readline().strip()
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        with webdriver.Chrome(options=options, service=service) as driver:
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", SIZE)
            driver.get(url)
            wait(lambda: driver.find_element("id", "voice").text)
            driver.execute_script("document.getElementById('text').value = arguments[0]", TEXT)
            driver.execute_script("document.getElementById('text').dispatchEvent(new Event('input'))")
            driver.find_element("id", "speak").click()
            wait(lambda: "speech made" in driver.find_element("id", "status").text)
            wait(lambda: driver.execute_script("return document.getElementById('position').value > 3.5"))
            driver.execute_script("document.activeElement.blur()")
            driver.save_screenshot(str(PICTURE))
    finally:
        server.terminate()
        server.wait()


def wait(true: Callable[[], object], limit_s: float = 60.0) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("the page does not do what it should")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
