"""Child processes that need not import torch: forks of a process that has imported it, and nothing of ours.

A new interpreter spends most of a short command on that import. What is about the beginning of a process, its
interpreter, its locale or what it imports starts a new one.
"""

import contextlib
import ctypes
import importlib
import os
import pickle
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2): orphans among our descendants become our children
MOST = 150_000  # bytes of a request
LIBRARIES = ("torch", "numpy", "safetensors.torch", "soundfile", "soxr", "tokenizers")
_lock, _links = threading.Lock(), list[socket.socket]()


class Process(subprocess.Popen[Any]):
    """`subprocess.Popen([sys.executable, "-m", MODULE or "-c", CODE or SCRIPT, ...])` as a fork of the warm process.

    A child of this process like any other; elsewhere than on Linux, a new interpreter. Pipes, `env`, `cwd`, `pass_fds`
    and `start_new_session` are as usual.
    """

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any,
                       env: Any, startupinfo: Any, creationflags: Any, shell: Any, *rest: Any) -> None:  # fmt: skip
        if sys.platform != "linux":
            how = (executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell)
            super()._execute_child(args, *how, *rest)  # type: ignore[misc]
            return
        assert args[0] == sys.executable and not shell and preexec_fn is None
        pipes = rest[:6]
        streams = [given if given >= 0 else own for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        asked = {
            "words": [os.fspath(word) for word in args[1:]], "environment": dict(os.environ if env is None else env),
            "folder": os.fspath(cwd or os.getcwd()), "session": rest[11], "files": list(pass_fds),
        }  # fmt: skip
        self.pid = begin(asked, [*streams, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with a warm process; `capture_output`, `text`, `timeout` and what `Process` takes."""
    timeout = options.pop("timeout", None)
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Process(command, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


PROGRAM = """#!{python} -IS
import os, pickle, socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect({address!r})
asked = {{"words": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}
socket.send_fds(link, [pickle.dumps(asked)], [0, 1, 2])
sys.exit(int(link.recv(100)))
"""


@contextlib.contextmanager
def program(path: Path, *beginning: str) -> Iterator[None]:
    """A program at `path`, for shells: `beginning` with the words after its name, as a warm process."""
    if sys.platform != "linux":
        path.write_text(f'#!/bin/sh\nexec {shlex.join(beginning)} "$@"\n')
        path.chmod(0o755)
        yield
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(f"\0{path}"[:100] + f" {os.getpid()}")  # of no file system: a path may be too long
        listening.listen()
        path.write_text(PROGRAM.format(python=sys.executable, address=listening.getsockname()))
        path.chmod(0o755)
        threading.Thread(target=serve_program, args=(listening, beginning), daemon=True).start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def serve_program(listening: socket.socket, beginning: tuple[str, ...]) -> None:
    with contextlib.suppress(OSError):  # closed
        while True:
            link, _ = listening.accept()
            threading.Thread(target=call, args=(link, beginning), daemon=True).start()


def call(link: socket.socket, beginning: tuple[str, ...]) -> None:
    """One call of the program; its streams are those of the caller."""
    data, files, _, _ = socket.recv_fds(link, MOST, 3)
    asked = pickle.loads(data)
    words, streams = [*beginning, *asked.pop("words")], dict(zip(("stdin", "stdout", "stderr"), files, strict=True))
    process = Process(words, **asked, **streams)
    for file in files:
        os.close(file)
    with link:
        link.send(str(process.wait() & 0xFF).encode())


def begin(asked: dict[str, Any], files: list[int]) -> int:
    """Forks the warm process twice: the one between ends at once, so that its child becomes ours. The id of that."""
    data = pickle.dumps(asked)
    assert len(data) < MOST
    libc = ctypes.CDLL(None)
    with _lock:
        if not _links:
            _links.append(started())
        libc.prctl(SUBREAPER, 1)
        try:
            socket.send_fds(_links[0], [data], files)
            answer = _links[0].recv(100)
        finally:
            libc.prctl(SUBREAPER, 0)
    assert answer, "the warm process has ended"
    return int(answer)


def started() -> socket.socket:
    """The link to a new warm process, which ends when the link is closed, as it is when this process ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMNITTS_", "PYTHONPATH"))}
    kept |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    kept |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # as the command has it
    with theirs:
        subprocess.Popen([sys.executable, "-P", __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=kept,
                         stdin=subprocess.DEVNULL, cwd="/", start_new_session=True)  # fmt: skip
    return ours


# ---- in the warm process


def serve(link: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Forks for every request. Returns in each child, with what it is to do and its files."""
    while True:
        data, files, _, _ = socket.recv_fds(link, MOST, 16)
        if not data:
            os._exit(0)
        reading, writing = os.pipe()
        if (between := os.fork()) == 0:
            if child := os.fork():
                os.write(writing, str(child).encode())
                os._exit(0)
            return pickle.loads(data), files
        os.waitpid(between, 0)
        link.send(os.read(reading, 100))
        for file in (reading, writing, *files):
            os.close(file)


def become(asked: dict[str, Any], files: list[int]) -> None:
    """Streams, files, folder and environment of the process that was asked for."""
    if asked["session"]:
        os.setsid()
    wanted = [0, 1, 2, *asked["files"]]
    apart = [os.dup2(file, 500 + at) for at, file in enumerate(files)]  # no number is taken before it is free
    os.closerange(3, 500)
    for file, number in zip(apart, wanted, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.stdin, sys.stdout = open(0, errors="surrogateescape"), open(1, "w")
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """The rest of the child's life is that of an interpreter with these words; it ends as one."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a shell's background jobs ignore some of them
        signal.signal(number, signal.SIG_DFL)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork has one thread only"
    asked, files = serve(socket.socket(fileno=int(sys.argv[1])))
    become(asked, files)
    first, *words = asked["words"]
    if first == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *words[1:]]
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        exec(compile(words[0], "<string>", "exec"), vars(module))
    else:
        sys.argv = [first, *words]
        sys.path.insert(0, os.path.dirname(os.path.abspath(first)))
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main()
