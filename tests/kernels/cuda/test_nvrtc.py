"""The cache of compiled kernels. Compiling itself needs a GPU's driver: test_predictor.py."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("present", "step"), [((), "nvidia-smi"), (("libcuda.so.1",), "pip install nvidia-cuda-nvrtc")]
)
def test_what_is_missing_is_said_with_a_next_step(
    monkeypatch: pytest.MonkeyPatch, present: tuple[str, ...], step: str
) -> None:
    def library(name: str) -> str:
        if name not in present:
            raise OSError(f"{name}: cannot open shared object file")
        return name

    monkeypatch.setattr("ctypes.CDLL", library)
    with pytest.raises(nvrtc.CompileError, match=step):
        nvrtc._libraries.__wrapped__()
