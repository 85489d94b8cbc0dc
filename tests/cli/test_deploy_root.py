"""The RUN lines of the Dockerfile in a clean root, where Debian's debootstrap, root rights and a network are there.

python:3.12-slim is Debian with a Python of its own; here, Debian's Python has its place. No image is built. Variables:
OMNITTS_TEST_ROOT, an empty folder, which stays; OMNITTS_TEST_MOUNTS, folders of this machine that are visible in it.
Variables of pip, such as PIP_CONSTRAINT, are passed on.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from omnitts_cli.cli import deploy

HOUSE = Path(__file__).parent.parent.parent
SUITE, PACKAGES = "bookworm", "python3,python3-venv,ca-certificates"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
ROOT = os.environ.get("OMNITTS_TEST_ROOT", "")
LONGEST_S = 3000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(LONGEST_S),
    pytest.mark.skipif(not (ROOT and shutil.which("debootstrap") and os.geteuid() == 0), reason="needs a clean root"),
]


def steps_of(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile: name and value."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    found = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, value) for name, _, value in found]


def inside(root: Path, command: str, folder: str, variables: dict[str, str]) -> str:
    """Runs a command in the root, with nothing of this machine but its devices and the folders to be seen."""
    seen = [one for one in os.environ.get("OMNITTS_TEST_MOUNTS", "").split(":") if one]
    mounts = [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
    mounts += [f"mkdir -p {root}{one} && mount --bind {one} {root}{one}" for one in seen]
    given = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    given |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")} | variables
    wanted = f"cd {shlex.quote(folder)} && {command}"
    script = " && ".join([*mounts, f"exec chroot {root} /bin/sh -c {shlex.quote(wanted)}"])
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        env=given, capture_output=True, timeout=LONGEST_S, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-3000:])
    return done.stdout


def clean_root(root: Path) -> Path:
    """Debian with Python, and what it needs to reach the network from here."""
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)],
        check=True, timeout=LONGEST_S, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    for name in (CERTIFICATES, "etc/resolv.conf", "etc/pip.conf"):
        if Path("/", name).exists():
            shutil.copy(Path("/", name), root / name)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    return root


class Build:
    """What a builder of images does with the instructions that matter here."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder, self.user, self.variables = root, "/", "root", dict[str, str]()

    def step(self, name: str, value: str) -> None:
        """One instruction."""
        if name == "FROM":
            self.folder, self.variables = "/", {}
        elif name == "ARG":
            key, _, usual = value.partition("=")
            self.variables[key] = os.environ.get(f"OMNITTS_TEST_{key}", usual)
        elif name == "WORKDIR":
            self.folder = value
            (self.root / value[1:]).mkdir(parents=True, exist_ok=True)
        elif name == "COPY" and not value.startswith("--from"):
            *sources, target = value.split()
            for one in sources:
                copy(HOUSE / one, self.root / self.folder[1:] / target, several=len(sources) > 1)
        elif name == "USER":
            self.user = value
        elif name == "RUN":
            inside(self.root, value, self.folder, self.variables)


def test_every_command_of_the_image_runs_in_a_clean_root() -> None:
    build = Build(clean_root(Path(ROOT).absolute()))
    for name, value in steps_of((deploy.FILES / deploy.DOCKERFILE).read_text("utf-8")):
        build.step(name, value)
    command = "PATH=/opt/omnitts/bin:$PATH HOME=/data omnitts say 'Hello there.' -d cpu -o /data/spoken.wav"
    inside(build.root, f"su -s /bin/sh {build.user} -c {shlex.quote(command)}", "/data", {})
    assert (build.root / "data/spoken.wav").read_bytes()[:4] == b"RIFF" and build.user != "root"
    library = inside(build.root, "ls /opt/omnitts/lib/python3*/site-packages/omnitts_cli/kernels/cpu/native", "/", {})
    assert "native-" in library  # the compiler of the image was used
    assert "--wyoming" in inside(build.root, "/opt/omnitts/bin/omnitts serve --help", "/", {})


def copy(source: Path, target: Path, *, several: bool) -> None:
    """COPY, without what git ignores."""
    if source.is_file():
        target = target / source.name if several or target.is_dir() else target
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    else:
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "native-*.so"))
