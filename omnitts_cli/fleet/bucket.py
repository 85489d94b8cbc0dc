"""Bucket: the output folder in an object store, by its URL. Also which run owns it.

An object is there complete, or not at all; nothing can be appended. Names are paths below the URL.
"""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from omnitts_cli.audio.target import alive
from omnitts_cli.errors import OmniError, OutputError, UsageError
from omnitts_cli.fleet.disk import in_use, this_process
from omnitts_cli.parse import ParseError, json_object

PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs",
}  # fmt: skip
LOGINS = {
    "s3fs": "aws configure   or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; AWS_ENDPOINT_URL for other servers",
    "gcsfs": "gcloud auth application-default login",
    "adlfs": "az login   or set AZURE_STORAGE_CONNECTION_STRING",
}
OWNER = ".omnitts/run"  # object with the token of the run that may commit
BEAT_S = 30.0  # the owner writes its object again
SILENT_S = 90.0  # an owner on another machine is considered dead after this time without a write
LOOK_S = 5.0


def is_url(name: str | None) -> bool:
    return name is not None and "://" in name


class Bucket:
    """A folder of objects. The methods may be called from several threads; they raise OutputError."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        scheme = url.partition("://")[0]
        self._hint = LOGINS.get(PACKAGES.get(scheme, ""))
        try:
            from fsspec.core import url_to_fs

            self._store, self._root = url_to_fs(self.url, use_listings_cache=False)
        except ImportError as error:
            package = PACKAGES.get(scheme)
            hint = f"pip install {package}" if package else None
            raise UsageError(f"{scheme}:// needs a package that is not installed", cause=str(error)[:200],
                             hint=hint) from None  # fmt: skip
        except ValueError as error:
            raise UsageError(f"-O {url}: {str(error)[:160]}", hint="-O s3://BUCKET/FOLDER   or gs://, az://") from None
        except Exception as error:  # each store has errors of its own
            raise self._failed("open", error) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Bucket, (self.url,)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _failed(self, what: str, error: Exception) -> OutputError:
        words = (str(error).strip().splitlines() or [""])[0][:200]
        return OutputError(f"cannot {what} {self.url}", cause=words or type(error).__name__, hint=self._hint)

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OmniError:
            raise
        except Exception as error:  # each store has errors of its own
            raise self._failed(what, error) from None

    def put(self, name: str, data: bytes) -> None:
        with self._doing("write"):
            self._store.pipe_file(self._path(name), data)

    def put_new(self, name: str, data: bytes) -> bool:
        """False if there is such an object."""
        with self._doing("write"):
            try:
                self._store.pipe_file(self._path(name), data, mode="create")
            except FileExistsError:
                return False
            except TypeError:  # a store that does not know `mode`
                if self._store.exists(self._path(name)):
                    return False
                self._store.pipe_file(self._path(name), data)
        return self.get(name) == data  # where a store cannot refuse, the later of two writers has it

    def put_files(self, pairs: Sequence[tuple[Path, str]]) -> None:
        """Uploads files, side by side."""
        if pairs:
            with self._doing("write"):
                self._store.put([str(path) for path, _ in pairs], [self._path(name) for _, name in pairs])

    def get(self, name: str, start: int | None = None, length: int = 0) -> bytes | None:
        """The bytes of an object, or some of them; None if there is none."""
        end = None if start is None else start + length
        with self._doing("read"):
            try:
                data: bytes = self._store.cat_file(self._path(name), start=start, end=end)
            except FileNotFoundError:
                return None
        return data

    def get_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of objects, side by side; one that is gone is left out."""
        if not names:
            return {}
        with self._doing("read"):
            found = self._store.cat([self._path(name) for name in names], on_error="return")
        data = {path: one for path, one in found.items() if isinstance(one, bytes)}
        wrong = [one for one in found.values() if isinstance(one, Exception) and not isinstance(one, FileNotFoundError)]
        if wrong:
            raise self._failed("read", wrong[0])
        return {name: data[path] for name in names if (path := self._path(name)) in data}

    def fetch(self, name: str, path: Path) -> None:
        """Copies an object to a file."""
        with self._doing("read"):
            self._store.get_file(self._path(name), str(path))

    def open(self, name: str) -> BinaryIO:
        """An object, for reading at any place."""
        with self._doing("read"):
            file: BinaryIO = self._store.open(self._path(name), "rb")
        return file

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Name and size of the objects of one folder; names without the folder."""
        with self._doing("list"):
            try:
                found = self._store.ls(self._path(folder).rstrip("/"), detail=True)
            except FileNotFoundError:
                return {}
        return {
            str(one["name"]).rstrip("/").rpartition("/")[2]: int(one["size"] or 0)
            for one in found
            if one["type"] == "file"
        }

    def remove(self, names: Sequence[str]) -> None:
        """Removes objects; one that is gone already does no harm."""
        paths = [self._path(name) for name in names]
        with self._doing("remove from"):
            try:
                if paths:
                    self._store.rm(paths)
            except FileNotFoundError:
                for path in paths:
                    with suppress(FileNotFoundError):
                        self._store.rm([path])


class Owner:
    """The run that owns a bucket, until `release`. The object is written again and again while the run is alive."""

    def __init__(self, bucket: Bucket, token: str) -> None:
        self.token, self._bucket, self._beats = token, bucket, 0
        self._ended = threading.Event()
        if not owner_is_dead(bucket):
            raise in_use(bucket.url, owner_of(bucket))
        self._beat()
        threading.Thread(target=self._keep, name="omnitts owner", daemon=True).start()

    def _beat(self) -> None:
        self._beats += 1
        about = {**this_process(), "token": self.token, "beat": self._beats}
        self._bucket.put(OWNER, json.dumps(about).encode())

    def _keep(self) -> None:
        while not self._ended.wait(BEAT_S):
            with suppress(OutputError):  # the network may come back before the object counts as silent
                if owner_of(self._bucket).get("token") != self.token:
                    return
                self._beat()

    def release(self) -> None:
        self._ended.set()
        with suppress(OutputError):
            if owner_of(self._bucket).get("token") == self.token:
                self._bucket.remove([OWNER])


def owner_of(bucket: Bucket) -> dict[str, Any]:
    """What the owner has written; nothing if there is none."""
    try:
        return json_object(bucket.get(OWNER) or b"")
    except ParseError:
        return {}


def owner_is_dead(bucket: Bucket) -> bool:
    """Whether no run is alive. Where the process cannot be looked up, its object must stay the same for a while."""
    owner, here = owner_of(bucket), this_process()
    if not owner.get("token"):
        return True
    if owner.get("host") == here["host"]:
        pid = int(owner.get("pid", 0))
        if owner.get("boot") != here["boot"] or pid == here["pid"] or not alive(pid):
            return True
    until = time.monotonic() + SILENT_S
    while time.monotonic() < until:
        time.sleep(LOOK_S)
        now = owner_of(bucket)
        if now != owner:
            return not now.get("token")
    return True
