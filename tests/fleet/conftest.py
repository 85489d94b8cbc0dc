"""An object store for the tests of batch: a server that speaks S3, in a thread of the test process."""

import logging
import os
from collections.abc import Iterator

import pytest

from omnitts_cli.fleet import report, url_job


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server without buckets."""
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket, which child processes can reach too."""
    import fsspec

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    store = fsspec.filesystem("s3", use_listings_cache=False)
    name = f"bucket-{os.urandom(6).hex()}"
    store.mkdir(name)
    yield f"s3://{name}"
    store.rm(name, recursive=True)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A URL of this process's memory, without objects. The command refuses it: its corpora end with it."""
    from fsspec.implementations.memory import MemoryFileSystem

    monkeypatch.setattr(url_job, "LOST", ())
    yield "memory://corpus"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def picture() -> None:
    """For tests that want report.png."""


@pytest.fixture(autouse=True)
def no_picture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No report.png: drawing takes longer than speaking here."""
    if "picture" not in request.fixturenames:
        monkeypatch.setattr(report, "drawn", lambda *given: False)
