"""The cache of compiled kernels. Compiling itself needs a GPU's driver: test_predictor.py."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from omnitts_cli.kernels.cuda import nvrtc


def test_a_kernel_is_compiled_once_and_a_damaged_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "cache_folder", lambda: tmp_path / "kernels")
    made = []

    def compiled() -> bytes:
        made.append(1)
        return b"cubin"

    file = tmp_path / "kernels" / "x.cubin"
    assert [nvrtc.cached("x.cubin", compiled) for _ in range(2)] == [b"cubin", b"cubin"]
    assert len(made) == 1
    assert file.parent.stat().st_mode & 0o077 == 0
    for damaged in (b"", file.read_bytes()[:-1], file.read_bytes() + b"x"):
        file.write_bytes(damaged)
        assert nvrtc.cached("x.cubin", compiled) == b"cubin"
    assert len(made) == 4
    assert nvrtc.cached("x.cubin", compiled) == b"cubin"
    assert len(made) == 4


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(nvrtc, "cache_folder", lambda: tmp_path / "file" / "kernels")
    assert nvrtc.cached("x.cubin", lambda: b"cubin") == b"cubin"


class Driver:
    """A driver on which everything succeeds, with room for so many clusters."""

    def __init__(self, clusters: int) -> None:
        self.clusters = clusters

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, fits: Any, *_: object) -> int:
        fits._obj.value = 1
        return 0

    def cuOccupancyMaxActiveClusters(self, found: Any, _function: object, config: Any) -> int:
        launch = config._obj
        gc.collect()  # the attributes live as long as the launch
        assert launch.attribute_count == 2 and launch.grid[0] == launch.attributes[1].value[0] == 2
        assert launch.attributes[1].id == nvrtc.CLUSTER
        found._obj.value = self.clusters
        return 0


@pytest.mark.parametrize(("clusters", "cluster", "loads"), [(1, 2, True), (0, 2, False), (0, 1, True)])
def test_a_kernel_whose_cluster_does_not_fit_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, clusters: int, cluster: int, loads: bool
) -> None:
    """So its callers use their other kernels, as where it cannot be compiled."""
    driver = Driver(clusters)
    monkeypatch.setattr(nvrtc, "_libraries", lambda: (driver, driver))
    monkeypatch.setattr(nvrtc, "cached", lambda name, make: b"cubin")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))

    def made() -> nvrtc.Kernel:
        source = Path(nvrtc.__file__).parent / "codec_last.cu"
        return nvrtc.Kernel(source, "last", {}, "sm_90a", 0, 512, 1024, early=True, cluster=cluster)

    if loads:
        made()
    else:
        with pytest.raises(nvrtc.CompileError, match="do not fit into a cluster"):
            made()
