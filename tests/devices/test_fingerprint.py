"""The fingerprint changes with whatever the bits of a sound depend on, and with nothing else."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from omnitts_cli import kernels
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.devices.fingerprint import depends_on, fingerprint, kernels_digest
from omnitts_cli.settings import environment


def test_the_same_machine_has_the_same() -> None:
    one, other = CPUDevice(1), CPUDevice(1)
    assert fingerprint(one) == fingerprint(other)
    assert len(fingerprint(one)) == 12


def test_the_library_and_the_threads_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    with_library = CPUDevice(1)
    monkeypatch.setenv(environment.NATIVE, "0")
    without = CPUDevice(1)
    assert "no compiled library" in depends_on(without)
    found = {fingerprint(without), fingerprint(CPUDevice(2)), fingerprint(with_library)}
    assert len(found) == (3 if with_library.versions() != without.versions() else 2)


@pytest.mark.parametrize(
    "place", ["kernels/cuda/talker.cu", "kernels/triton/codec_products.py", "models/slot_decoder.py"]
)
def test_the_kernels_matter(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the models, which prepare the weights of the codec for them."""
    source, notes = tmp_path / place, tmp_path / "kernels" / "README.md"
    for folder in (source.parent, notes.parent):
        folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "kernels" / "__init__.py"))

    def digest() -> str:
        kernels_digest.cache_clear()
        return kernels_digest()

    source.write_text("one")
    first = digest()
    notes.write_text("a document")
    assert digest() == first
    source.write_text("two")
    second = digest()
    source.rename(source.with_stem("step"))
    assert len({first, second, digest()}) == 3
    kernels_digest.cache_clear()


def test_versions_matter() -> None:
    cards = [SimpleNamespace(versions=lambda card=card: [card, "torch 2.11"]) for card in ("H100", "H200")]
    assert fingerprint(cards[0]) != fingerprint(cards[1])
