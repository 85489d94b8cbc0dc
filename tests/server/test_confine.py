"""What a confined process can still do, and what it cannot."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from omnitts_cli import child
from omnitts_cli.server import confine

TRIES = """
import json, os, socket, subprocess, sys
from omnitts_cli.server.confine import confine
found = {"able": confine()}
private, folder, other = sys.argv[1:]
def attempt(name, work):
    try:
        found[name] = str(work())[:40]
    except OSError as error:
        found[name] = type(error).__name__
attempt("read", lambda: open(private).read())
attempt("list", lambda: os.listdir(folder))
attempt("write", lambda: open(os.path.join(folder, "new"), "w"))
attempt("remove", lambda: os.remove(private))
attempt("connect", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
attempt("signal", lambda: os.kill(int(other), 0))
attempt("others", lambda: open(f"/proc/{other}/environ", "rb").read())
attempt("program", lambda: subprocess.run(["/bin/cat", private], capture_output=True).returncode)
print(json.dumps(found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are of Linux")
def test_files_network_and_other_processes_are_out_of_reach(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_text("secret")
    other = subprocess.Popen(["/bin/sleep", "60"])
    try:
        command = child.python(TRIES, str(private), str(tmp_path), str(other.pid))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        other.kill()
        other.wait()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    files, sockets = found.pop("able")
    if files:
        denied = {name: found[name] for name in ("read", "list", "write", "remove", "others")}
        assert set(denied.values()) == {"PermissionError"}, denied
        assert found["program"] == "1"  # it runs, and cannot read the file either
    if sockets:
        assert found["connect"] == "PermissionError"
    assert private.exists()
    if not files and not sockets:
        pytest.skip("this kernel has neither")


def test_a_system_without_either_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine.sys, "platform", "darwin")
    assert confine.confine() == (False, False)
