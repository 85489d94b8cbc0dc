"""What is in an object store after `omnitts batch`, read without the code under test where that can be."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from fsspec.core import url_to_fs

from omnitts_cli.fleet.bucket import Bucket


def lines_of(url: str) -> dict[str, dict[str, Any]]:
    data = Bucket(url).get("manifest.jsonl")
    assert data is not None
    return {row["id"]: row for row in map(json.loads, data.splitlines())}


def stored(url: str) -> list[str]:
    """The SHA-256 of every sound in the store."""
    store, root = url_to_fs(url, use_listings_cache=False)
    found: list[bytes] = []
    for name in store.find(root):
        if name.endswith(".flac"):
            found.append(store.cat_file(name))
        elif name.endswith(".tar"):
            with tarfile.open(fileobj=io.BytesIO(store.cat_file(name))) as tar:
                found += [tar.extractfile(one).read() for one in tar if one.name.endswith(".flac")]  # type: ignore[union-attr]
        elif name.endswith(".parquet"):
            data = io.BytesIO(store.cat_file(name))
            found += pytest.importorskip("pyarrow.parquet").read_table(data)["audio"].to_pylist()
    return sorted(hashlib.sha256(sound).hexdigest() for sound in found)


def sums(url: str) -> dict[str, str]:
    rows = lines_of(url)
    assert {row["status"] for row in rows.values()} == {"ok"}
    return {id: row["sha256"] for id, row in rows.items()}


def sums_of_folder(out: str) -> dict[str, str]:
    return {row["id"]: row["sha256"] for row in map(json.loads, Path(out, "manifest.jsonl").read_text().splitlines())}
