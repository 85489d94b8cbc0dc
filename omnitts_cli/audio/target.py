"""OutputTarget: the file of `-o`. A temporary file beside it that is renamed in one step, or a device in place."""

import errno
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from omnitts_cli.audio.outlet import Outlet, write_error
from omnitts_cli.errors import InputError, OutputError

LONGEST_NAME = 255  # bytes, on all file systems in common use
TEMPORARY = re.compile(r"\.(.+)\.part-(\d{1,9})(?:-\d+)?", re.DOTALL)  # name, process


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a FIFO or a device, which is written in place."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


class OutputTarget:
    """An open file for the bytes, and what becomes of it. `temporary` is None where it is written in place."""

    def __init__(self, path: Path, file: BinaryIO, temporary: Path | None, *, no_clobber: bool) -> None:
        self.path, self.file = path, file
        self._real = Path(os.path.realpath(path))
        self._temporary = temporary
        self._no_clobber = no_clobber

    @property
    def temporary(self) -> Path | None:
        """Where the bytes are for now; None if they are written in place."""
        return self._temporary

    def put_in_place(self) -> None:
        """Syncs and renames. The name holds the old file or the whole new one, never anything between."""
        try:
            self._sync()
            if self._temporary is not None:
                self._rename(self._temporary)
        except OSError as error:
            self.remove()
            raise write_error(str(self.path), error) from error

    def _rename(self, temporary: Path) -> None:
        if self._no_clobber and not self._claim(temporary):
            kept = self.keep_partial()
            raise exists_error(self.path, hint=f"another program created it meanwhile; this sound is in {kept}")
        if not self._no_clobber:
            os.replace(temporary, self._real)
        self._temporary = None
        sync_folder(self._real.parent)

    def claim(self) -> None:
        """The same as `put_in_place` if the name is still free; FileExistsError if it is not."""
        try:
            self._sync()
            if self._temporary is None or not self._claim(self._temporary):
                raise FileExistsError(errno.EEXIST, "the file exists", str(self.path))
        except FileExistsError:
            raise
        except OSError as error:
            raise write_error(str(self.path), error) from error
        self._temporary = None
        sync_folder(self._real.parent)

    def _claim(self, temporary: Path) -> bool:
        """Takes the name only if it is free: a hard link, because renaming would replace a file."""
        try:
            os.link(temporary, self._real)
        except FileExistsError:
            return False
        except OSError:  # a file system without links: an empty file holds the name meanwhile
            try:
                os.close(os.open(self._real, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            except FileExistsError:
                return False
            os.replace(temporary, self._real)
            return True
        temporary.unlink()
        return True

    def keep_partial(self) -> Path:
        """Keeps what was written as NAME.partial.SUFFIX; returns its path."""
        if self._temporary is None:
            self._sync()
            return self.path
        kept = self.path.with_name(f"{self.path.stem}.partial{self.path.suffix}")
        try:
            self._sync()
            os.replace(self._temporary, kept)
        except OSError as error:
            self.remove()
            raise write_error(str(kept), error) from error
        self._temporary = None
        return kept

    def remove(self) -> None:
        """Closes; a temporary file is removed."""
        with suppress(OSError):
            self.file.close()
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink()
            self._temporary = None

    def _sync(self) -> None:
        if self.file.closed:
            return
        try:
            os.fsync(self.file.fileno())
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # pipes and devices have nothing to sync
                raise
        self.file.close()


def open_target(path: Path, *, no_clobber: bool = False) -> OutputTarget:
    """Opens what `-o PATH` names, or raises an error that says why it cannot be written."""
    try:
        return _open(path, no_clobber)
    except OSError as error:
        raise write_error(str(path), error) from error
    except ValueError as error:  # a NUL in the name
        raise OutputError(f"cannot write {path!s:.80}: {error}") from error


def _open(path: Path, no_clobber: bool) -> OutputTarget:
    real = Path(os.path.realpath(path))
    mode = existing_mode(path)
    if mode is not None and stat.S_ISDIR(mode):
        raise OutputError(f"cannot write {path}: it is a folder", hint=f"-o {path / 'speech.wav'}")
    if mode is not None and no_clobber:
        raise exists_error(path, hint="choose another name or leave --no-clobber out")
    if mode is not None and not stat.S_ISREG(mode):
        return OutputTarget(path, open(path, "wb", buffering=0), None, no_clobber=False)
    if len(os.fsencode(real.name)) > LONGEST_NAME:
        raise OSError(errno.ENAMETOOLONG, "name too long")
    if mode is not None and not os.access(real, os.W_OK):
        raise OSError(errno.EACCES, "no permission")
    remove_stale(real)
    temporary, file = open_temporary(real, mode)
    return OutputTarget(path, file, temporary, no_clobber=no_clobber)


def put(path: Path, data: bytes, *, new: bool = False, private: bool = False) -> None:
    """A small file, whole or not at all. `new`: FileExistsError if the name is taken. `private`: for this user only."""
    target = open_target(path)
    try:
        if private and target.temporary is not None:
            os.chmod(target.temporary, 0o600)
        outlet = Outlet(target.file, str(path))
        outlet.write(data)
        outlet.check()
        if new:
            target.claim()
        else:
            target.put_in_place()
    finally:
        target.remove()


def existing_mode(path: Path) -> int | None:
    """The kind of the existing file; None if there is none. /dev/stdout leads to a pipe that has no path."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def open_temporary(real: Path, mode: int | None) -> tuple[Path, BinaryIO]:
    """A new file `.NAME.part-PID` beside the target, with the permissions of the file it will replace."""
    for attempt in range(100):
        ending = f".part-{os.getpid()}" + (f"-{attempt}" if attempt else "")
        name = os.fsencode(real.name)[: LONGEST_NAME - 1 - len(ending)]
        temporary = real.with_name("." + os.fsdecode(name) + ending)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        except FileExistsError:
            continue
        if mode is not None:
            with suppress(OSError):
                os.chmod(temporary, stat.S_IMODE(mode))
        return temporary, open(descriptor, "wb", buffering=0)
    raise OSError(errno.EEXIST, "too many temporary files of this name")


def remove_stale(real: Path) -> None:
    """Removes the temporary files that killed runs left for this target."""
    for entry in os.listdir(real.parent):
        found = TEMPORARY.fullmatch(entry)
        if found and found[1] == real.name and not alive(int(found[2])):
            with suppress(OSError):
                (real.parent / entry).unlink()


def alive(pid: int) -> bool:
    """Whether a process of that number runs."""
    if os.name == "nt":
        return True  # on Windows, os.kill would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Makes a rename survive a power failure, where folders can be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def exists_error(path: Path, hint: str) -> InputError:
    """The error of --no-clobber."""
    return InputError(f"{path} already exists and --no-clobber is set", hint=hint)


def free_name(folder: Path, suffix: str = ".wav") -> Path:
    """speech.wav, or the first of speech-2.wav, speech-3.wav ... that does not exist and is not being written."""
    number = 1
    while True:
        path = folder / (f"speech{suffix}" if number == 1 else f"speech-{number}{suffix}")
        if not os.path.lexists(path) and not being_written(path):
            return path
        number += 1


def without_separators(title: str) -> str:
    """A title as a part of a file name on any file system: at most 100 bytes, no characters with a meaning there."""
    plain = "".join(" " if one in '/\\:*?"<>|' or ord(one) < 32 or one == "\x7f" else one for one in title)
    return " ".join(plain.split()).encode()[:100].decode(errors="ignore").strip(" .")


def being_written(path: Path) -> bool:
    """Whether a run that is still alive will put its sound there."""
    found = (TEMPORARY.fullmatch(entry) for entry in os.listdir(path.parent))
    return any(match and match[1] == path.name and alive(int(match[2])) for match in found)
