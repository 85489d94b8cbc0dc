"""Buckets: objects by name, errors that say what to do, and who owns one."""

import json
import pickle
import threading
from pathlib import Path

import pytest

from omnitts_cli.errors import OutputError, UsageError
from omnitts_cli.fleet import bucket as buckets
from omnitts_cli.fleet.bucket import OWNER, Bucket, Owner, owner_is_dead, owner_of
from omnitts_cli.fleet.disk import this_process


@pytest.mark.parametrize("store", ["memory", "s3"])
def test_objects_by_name(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    folder, bucket = tmp_path, Bucket(request.getfixturevalue(store) + ("/deep/folder/" if store == "s3" else ""))
    assert bucket.get("a") is None and bucket.sizes() == {} and bucket.get("a", 0, 1) is None
    bucket.put("a", b"one")
    bucket.put("b/c", b"23456")
    assert bucket.sizes() == {"a": 3} and bucket.sizes("b") == {"c": 5} and bucket.sizes("none") == {}
    assert bucket.get("a") == b"one" and bucket.get("b/c", 1, 2) == b"34"
    assert bucket.get_all(["a", "none", "b/c"]) == {"a": b"one", "b/c": b"23456"} and bucket.get_all([]) == {}
    assert bucket.put_new("new", b"x") and not bucket.put_new("new", b"y") and bucket.get("new") == b"x"
    (folder / "one").write_bytes(b"1" * 1000)
    (folder / "two").write_bytes(b"2")
    bucket.put_files([(folder / "one", "files/1"), (folder / "two", "files/deep/2")])
    bucket.put_files([])
    assert bucket.sizes("files") == {"1": 1000} and bucket.get("files/deep/2") == b"2"
    bucket.fetch("files/1", folder / "copy")
    assert (folder / "copy").read_bytes() == b"1" * 1000
    with bucket.open("b/c") as file:
        file.seek(3)
        assert file.read() == b"56"
    bucket.remove(["a", "none", "new"])
    bucket.remove([])
    assert bucket.sizes() == {}
    again = pickle.loads(pickle.dumps(bucket))
    assert again.url == bucket.url and again.get("b/c") == b"23456"


def test_errors_say_what_to_do(s3: str) -> None:
    with pytest.raises(UsageError, match="Protocol not known") as unknown:
        Bucket("nothing://x")
    assert "s3://BUCKET" in str(unknown.value.hint)
    with pytest.raises(OutputError, match="cannot write s3://no-such-bucket/x") as missing:
        Bucket("s3://no-such-bucket/x").put("a", b"")
    assert "bucket does not exist" in str(missing.value.cause) and "aws configure" in str(missing.value.hint)


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec.core

    def missing(*given: object, **options: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(UsageError, match="s3:// needs a package") as caught:
        Bucket("s3://x")
    assert caught.value.hint == "pip install s3fs"


def owned_by(bucket: Bucket, **about: object) -> None:
    bucket.put(OWNER, json.dumps({**this_process(), "token": "theirs", "beat": 1, **about}).encode())


def test_a_bucket_has_one_owner(memory: str) -> None:
    bucket = Bucket(memory)
    owner = Owner(bucket, "1-mine")
    assert owner_of(bucket)["token"] == "1-mine"
    owner.release()
    assert bucket.get(OWNER) is None
    owner = Owner(bucket, "2-mine")
    owned_by(bucket)  # another run has taken over meanwhile
    owner.release()
    assert owner_of(bucket)["token"] == "theirs"


def test_an_owner_whose_process_is_gone_is_dead(memory: str) -> None:
    bucket = Bucket(memory)
    owned_by(bucket, pid=2**22 + 1)
    assert owner_is_dead(bucket)
    owned_by(bucket, boot="earlier", pid=1)
    assert owner_is_dead(bucket)
    bucket.put(OWNER, b"not JSON")
    assert owner_is_dead(bucket)


@pytest.mark.parametrize("alive", [True, False])
def test_an_owner_on_another_machine_is_watched(memory: str, monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    bucket, now = Bucket(memory), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if alive and now[0] >= 30:
            owned_by(bucket, host="other", beat=2)

    monkeypatch.setattr(buckets.time, "sleep", sleep)
    monkeypatch.setattr(buckets.time, "monotonic", lambda: now[0])
    owned_by(bucket, host="other")
    if alive:
        with pytest.raises(OutputError, match=r"memory://corpus is in use by process .* on other"):
            Owner(bucket, "1-mine")
        assert now[0] == 30
    else:
        Owner(bucket, "1-mine").release()
        assert now[0] >= buckets.SILENT_S


def test_a_living_owner_renews_its_object(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "BEAT_S", 0.001)
    bucket, beaten = Bucket(memory), threading.Event()
    put = Bucket.put

    def noted(self: Bucket, name: str, data: bytes) -> None:
        put(self, name, data)
        if json.loads(data)["beat"] == 3:
            beaten.set()

    monkeypatch.setattr(Bucket, "put", noted)
    owner = Owner(bucket, "1-mine")
    assert beaten.wait(30)
    owner.release()
