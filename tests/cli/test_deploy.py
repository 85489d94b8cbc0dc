"""Files for systemd and containers: systemd accepts the units; what the containers need is in them."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from command import Omnitts
from patience import LONG_S

from omnitts_cli.cli import deploy

HOUSE = Path(__file__).parent.parent.parent
DOCKERFILE = (deploy.FILES / deploy.DOCKERFILE).read_text("utf-8")


@pytest.mark.parametrize("unit", deploy.UNITS)
def test_a_unit_is_printed_and_systemd_accepts_it(omnitts: Omnitts, home: Path, unit: str) -> None:
    done = omnitts("serve", "--print-unit", unit)
    assert done.code == 0 and done.err == "" and deploy.PROGRAM not in done.out.decode()
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd is not installed")
    printed = {kind: omnitts("serve", "--print-unit", kind).out for kind in (unit, "user")}
    Path("omnitts.service").write_bytes(printed["user" if unit == "socket" else unit])
    Path("omnitts.socket").write_bytes(printed[unit])
    paths = ["./omnitts.socket", "./omnitts.service"] if unit == "socket" else ["./omnitts.service"]
    mode = ["--system"] if unit == "system" else ["--user"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(home), "SYSTEMD_LOG_LEVEL": "warning"}
    checked = subprocess.run(
        ["systemd-analyze", *mode, "verify", *paths], capture_output=True, timeout=LONG_S, env=environment, check=False,
    )  # fmt: skip
    said = [line for line in checked.stderr.decode().splitlines() if "omnitts" in line]
    assert checked.returncode == 0 and not said, checked.stderr.decode()


def test_a_command_line_is_not_changed_by_systemd() -> None:
    assert deploy.quoted('/a b/100%/$x"\\\n') == '"/a b/100%%/$$x\\"\\\\\\n"'
    assert shlex.split(deploy.program())


def started(printed: str) -> list[str]:
    """The words after `serve` in a unit."""
    found = re.search(r"^ExecStart=.* serve(.*)$", printed, re.MULTILINE)
    assert found
    return shlex.split(found[1].replace("%%", "%").replace("$$", "$"))


def test_a_unit_has_the_options_typed_beside_it(omnitts: Omnitts, home: Path) -> None:
    typed = [
        "-m", "tiny", "-m", "0.6b", "--port", "8080", "--voices-dir", "my voices", "--no-web", "--cors-origin", "$a%b",
    ]  # fmt: skip
    words = ["--model", "tiny", "--model", "0.6b", "--port", "8080", "--cors-origin", "$a%b", "--no-web"]
    words += ["--voices-dir", str(Path("my voices").absolute())]
    for kind, before in (("user", []), ("system", ["--socket", "off"])):
        found = started(omnitts("serve", *typed, "--print-unit", kind).out.decode())
        assert found[: len(before)] == before and sorted(found[len(before) :]) == sorted(words)
    assert started(omnitts("serve", "--print-unit", "user").out.decode()) == []
    socket = omnitts(
        "serve", "--print-unit", "socket", "--host", "::1", "--port", "8080", "--socket", "off"
    ).out.decode()
    assert re.findall("ListenStream=(.*)", socket) == ["[::1]:8080"]
    omnitts("serve", "--print-unit", "socket", "-m", "tiny").ended(2, "--model")


def test_compose_has_the_options_typed_beside_it(omnitts: Omnitts) -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load(omnitts("serve", "-m", "0.6b", "-t", "2", "--print-compose").out)["services"]
    more = ["--model", "0.6b", "--threads", "2"]
    assert services["omnitts"]["command"] == ["serve", "--host", "0.0.0.0", "--socket", "off", *more]
    assert services["omnitts-cuda"]["command"][-6:] == ["-m", "1.7b", *more]
    omnitts("serve", "--print-compose", "--port", "8080", "--voices-dir", "voices").ended(2, "--port", "--voices-dir")


def test_unknown_and_both_are_refused(omnitts: Omnitts) -> None:
    assert omnitts("serve", "--print-unit", "cron").code == 2
    assert omnitts("serve", "--print-unit", "user", "--print-compose").code == 2


def test_compose_is_printed_and_whole(omnitts: Omnitts) -> None:
    done = omnitts("serve", "--print-compose").ended(0)
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load(done.out)
    cpu, cuda = found["services"]["omnitts"], found["services"]["omnitts-cuda"]
    assert (HOUSE / cpu["build"]["dockerfile"]).is_file() and cuda["build"]["dockerfile"] == cpu["build"]["dockerfile"]
    for service in (cpu, cuda):
        assert service["ports"] == ["127.0.0.1:8000:8000"] and "OMNITTS_API_KEY" in service["environment"]
        assert service["volumes"] == ["data:/data"] and service["read_only"] and service["cap_drop"] == ["ALL"]
    arguments = set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))
    assert set(cuda["build"]["args"]) <= arguments and cuda["profiles"] == ["cuda"]


def test_the_image_has_what_it_copies_and_is_not_root() -> None:
    copied = [
        word for line in re.findall(r"^COPY (?!--from)(.*)", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]
    ]
    assert copied and all((HOUSE / word).exists() for word in copied)
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER omnitts$", last, re.MULTILINE) and "VOLUME /data" in last and "/ready" in last
    command = re.search(r"^CMD \[(.*)\]$", last, re.MULTILINE)
    assert command and "serve" in command[1]
