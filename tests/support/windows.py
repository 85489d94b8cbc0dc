"""This process without what Windows lacks, as far as Linux can pretend it. Libraries stay as they are: they have
code of their own for Windows, and decide at their import.
"""

import asyncio
import importlib
import mmap
import os
import signal
import socket
import sys
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

LIBRARIES = ("torch", "numpy", "soundfile", "soxr", "tokenizers", "safetensors.torch", "filelock", "multiprocessing",
             "concurrent.futures", "uvicorn", "starlette.applications", "httptools", "websockets", "huggingface_hub",
             "anyio", "anyio._backends._asyncio", "subprocess", "tempfile", "ssl", "http.client", "typer", "rich",
             "platformdirs", "platformdirs.unix", "sounddevice", "tqdm", "getpass")  # fmt: skip
MODULES = ("fcntl", "resource", "termios", "tty", "pwd", "grp", "uvloop", "readline", "syslog")
NAMES: dict[ModuleType | type, tuple[str, ...]] = {
    os: ("fork", "forkpty", "getuid", "geteuid", "getgid", "getpgid", "setsid", "killpg", "mkfifo", "getloadavg",
         "pread", "pwrite", "posix_fallocate", "sched_getaffinity", "statvfs", "O_NONBLOCK", "O_NOFOLLOW",
         "O_DIRECTORY", "O_CLOEXEC", "O_NOCTTY", "O_PATH", "fchmod", "chown", "nice", "sysconf"),
    socket: ("AF_UNIX", "send_fds", "recv_fds", "SO_PEERCRED", "SO_REUSEPORT", "MSG_DONTWAIT", "TCP_USER_TIMEOUT"),
    signal: ("SIGHUP", "SIGALRM", "SIGPIPE", "SIGSTOP", "SIGCONT", "SIGUSR1", "SIGUSR2", "SIGTSTP", "SIGQUIT",
             "setitimer", "pthread_sigmask", "sigwait", "alarm"),
    mmap: ("MAP_PRIVATE", "MAP_ANONYMOUS"),
}  # fmt: skip


def pretend() -> None:
    """From now on, in this process. Children are as usual."""
    for name in LIBRARIES:
        importlib.import_module(name)
    socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)  # Windows has one of its own, for event loops
    for module in MODULES:
        sys.modules[module] = None  # type: ignore[assignment]
    for place, names in NAMES.items():
        for name in names:
            if hasattr(place, name):
                delattr(place, name)

    def no_handlers(*_: Any) -> NoReturn:
        raise NotImplementedError

    asyncio.SelectorEventLoop.add_signal_handler = no_handlers  # type: ignore[method-assign]
    asyncio.SelectorEventLoop.remove_signal_handler = no_handlers  # type: ignore[method-assign]
