"""Confine: takes away what a process of this server does not need, where the system can: Landlock and seccomp on Linux.

What is taken can never be had again, neither by the process nor by programs that it starts.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable

EXECUTE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
FILES = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Rights to files, by the version of Landlock that knows them."""
TCP_VERSION, TCP = 4, 0b11
SCOPE_VERSION, SCOPES = 6, 0b11  # abstract Unix sockets, and signals to other processes
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
GET_VERSION = PATH_BENEATH = 1
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2

PROGRAMS = ("/usr", "/bin", "/lib", "/lib64", "/opt", "/nix/store")
SYSTEM = ("/etc/ld.so.cache", "/dev/null", "/dev/urandom", "/proc/cpuinfo", "/sys/devices/system/cpu")
MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""Of seccomp: the name of the machine -> its number, and that of socket()."""
IO_URING, OTHER_NUMBERS = 425, 0x40000000  # io_uring also makes sockets; x86-64 has a second set of numbers
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # EPERM


def confine() -> tuple[bool, bool]:
    """From now on only programs and libraries can be read, nothing can be written, and there is no network. Returns
    whether files, and whether sockets, are out of reach.
    """
    if sys.platform != "linux":
        return False, False
    system = ctypes.CDLL(None, use_errno=True)
    if system.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False, False
    libraries = [entry for entry in (sys.prefix, sys.base_prefix, *sys.path) if os.path.isabs(entry)]
    return only_files(system, {*PROGRAMS, *SYSTEM, *libraries}), without_sockets(system)


def only_files(system: ctypes.CDLL, paths: Iterable[str]) -> bool:
    """Restricts the process to reading and running what lies below the paths."""
    version = system.syscall(CREATE_RULESET, None, 0, GET_VERSION)
    if version < 1:
        return False
    handled = sum(rights for since, rights in FILES.items() if since <= version)
    rules = struct.pack("QQQ", handled, TCP * (version >= TCP_VERSION), SCOPES * (version >= SCOPE_VERSION))
    size = 8 + 8 * (version >= TCP_VERSION) + 8 * (version >= SCOPE_VERSION)
    ruleset = system.syscall(CREATE_RULESET, rules, size, 0)
    if ruleset < 0:
        return False
    try:
        for path in paths:
            allow(system, ruleset, path)
        return not system.syscall(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def allow(system: ctypes.CDLL, ruleset: int, path: str) -> None:
    """Lets the process read a path, if it exists, and run what is below it."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = EXECUTE | READ_FILE | READ_FOLDER * os.path.isdir(path)
        system.syscall(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def without_sockets(system: ctypes.CDLL) -> bool:
    """Makes socket() fail."""
    if platform.machine() not in MACHINES:
        return False
    machine, number = MACHINES[platform.machine()]
    steps = [  # operation, steps to skip if true and if false, value
        (LOAD, 0, 0, 4), (EQUAL, 0, 4, machine),  # made for this machine
        (LOAD, 0, 0, 0), (AT_LEAST, 2, 0, OTHER_NUMBERS), (EQUAL, 1, 0, number), (EQUAL, 0, 1, IO_URING),
        (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW),
    ]  # fmt: skip
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program)))
    return not system.prctl(SET_SECCOMP, FILTER, filters, 0, 0)
