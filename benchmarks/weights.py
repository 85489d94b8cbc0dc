"""The weights of an open engine: every copy on the device, its size, and what reads it; then those in the memory of the
host, if that is another.

    python benchmarks/weights.py -m random:1.7b-customvoice --slots 64
    python benchmarks/weights.py -m random:1.7b-customvoice --dtype q8
    python benchmarks/weights.py -m random:toy -d cpu

"other" is what the rules below do not know, so a new copy shows up there. Slots, codes and the codec's state are not
weights and are not counted.
"""

from __future__ import annotations

import argparse
import functools
import re
import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import rig

from omnitts_cli.kernels.choose import named


def read_by(*operations: str) -> str:
    """The kernels that run these operations on a card, by their names in the table of kernels/choose.py."""
    variants = [one for name in operations for one in named(name).variants]
    return ", ".join(dict.fromkeys(one.name for one in variants if one.runs and one.device in ("", "cuda")))


STEP, FRAME = read_by("fuse_step"), read_by("fuse_predictor")
MANY = f"prompts, and more rows than {{}} take: {read_by('norm_linear', 'norm_swiglu', 'linear_add')}"
READERS = (  # a pattern of the path, the copy, its reader
    (r"talker\.fused\._lines\.layers", "talker, in the order of kernels", STEP),
    (r"talker\.fused\._lines\.down", "talker, `down` for one row", f"{STEP.partition(',')[0]}, one row"),
    (r"predictor\.fused\._lines\.layers", "predictor, in the order of kernels", FRAME),
    (
        r"predictor\.fused\._lines\.down",
        "predictor, `down` for one row",
        f"{FRAME.partition(',')[0]}, one row",
    ),
    (r"predictor\.fused\._heads", "predictor's heads, in the order of kernels", FRAME),
    (r"(talker|predictor)\.fused\.", "norms and buffers of persistent kernels", f"{STEP}, {FRAME}"),
    (r"(talker|predictor)\.stack\.fused", "stack, in the order of a fused one", "one operation a stack"),
    (r"talker\.", "talker, as stored", MANY.format(STEP)),
    (r"predictor\.heads", "predictor's heads, as stored", read_by("norm_linear")),
    (r"predictor\.(narrowed|ready)", "predictor's inputs, in its width", "every frame"),
    (r"predictor\.", "predictor, as stored", MANY.format(FRAME)),
    (r"embedder\.", "tables of codes", "the talker's next input, prompts"),
    (r"prompter\._text|prompter\._known", "text: table, MLP, known rows", "prompts"),
    (r"prompter\.", "prompts, the rest", "prompts"),
    (r"codec\.operands|decoder\._layout", "codec, as operands", "every call of the codec"),
    (r"packed", "codec, packed units and products", read_by("codec.product", "codec.residual_unit", "codec.close")),
    (r"decoder\.", "codec, the rest of a slot decoder", "every call of the codec"),
    (r"codec\.", "codec, as stored", "slot decoders are made from it, on the host; codec decode"),
    (r"cloner\.", "encoders of clips", "cloning"),
)
STATE = re.compile(r"decoder\.(_history|_frames|_keys|_values|_state|_fresh|_fused\..*(history|keys|values|frames))")


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--slots", type=int, default=4)
    return parser.parse_args()


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object of this package holds, with names."""
    import torch
    from torch.utils.weak import WeakTensorKeyDictionary

    if isinstance(value, dict | WeakTensorKeyDictionary):
        yield from ((str(number), one) for number, one in enumerate(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((str(number), one) for number, one in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from parts_of([*value.args, *value.keywords.values()])
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from ((str(number), cell.cell_contents) for number, cell in enumerate(value.__closure__ or ()))
    elif isinstance(value, torch.nn.Module):
        yield from [*value._parameters.items(), *value._buffers.items(), *value._modules.items(), *vars(value).items()]
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((one.name, getattr(value, one.name, None)) for one in fields(value))
    elif type(value).__module__.startswith("omnitts_cli") and not isinstance(value, type):
        yield from getattr(value, "__dict__", {}).items()


def held(roots: dict[str, Any], place: Any) -> dict[int, tuple[str, int, str]]:
    """Every storage on the device that the roots lead to, by its address: the first path, bytes, dtype."""
    import torch

    found: dict[int, tuple[str, int, str]] = {}
    seen: set[int] = set()
    queue = list(roots.items())
    for path, value in queue:  # grows: breadth first, so that short paths name what is shared
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            if value.device == place and storage.nbytes() and not value.is_meta:
                about = path, storage.nbytes(), str(value.dtype).removeprefix("torch.")
                found.setdefault(storage.data_ptr(), about)
        elif id(value) not in seen:
            seen.add(id(value))
            queue += [(f"{path}.{name}", part) for name, part in parts_of(value)]
    return found


def caches() -> list[Any]:
    """Layers that kernels have packed, kept beside the weights."""
    try:
        from omnitts_cli.kernels.cuda import codec_last, codec_tiles
    except ImportError:
        return []
    return [codec_tiles._packed, codec_last._prepared]


def copies(engine: Any, place: Any = None) -> list[dict[str, Any]]:
    """Rows of the table for an open engine: the largest first, and the sum. `place`: another than its device."""
    model = engine.model
    roots = {name: getattr(model, name) for name in ("talker", "predictor", "embedder", "codec", "cloner")}
    roots |= {"prompter": engine._admission._prompter, "packed": caches(), "decoder": engine._codec._steps._decoder}
    return rows_of(roots, place or engine._context.table.row.device)


def rows_of(roots: dict[str, Any], place: Any) -> list[dict[str, Any]]:
    """Rows of the table for what these roots lead to on a device."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for path, size, dtype in held(roots, place).values():
        if STATE.match(path):
            continue
        known = next(((copy, reader) for pattern, copy, reader in READERS if re.match(pattern, path)), None)
        copy, reader = known or ("other", path)
        row = rows.setdefault((copy, dtype), {"copy": copy, "dtype": dtype, "bytes": 0, "tensors": 0, "reader": reader})
        row["bytes"] += size
        row["tensors"] += 1
    found = sorted(rows.values(), key=lambda row: -row["bytes"])
    total = {"copy": "all", "dtype": "", "bytes": sum(row["bytes"] for row in found), "reader": ""}
    return [*found, total | {"tensors": sum(row["tensors"] for row in found)}]


def main() -> None:
    import torch

    from omnitts_cli.speech import load as build

    options = arguments()
    settings = rig.settings_of(options, slots=options.slots)
    model, device, _ = rig.load_model(options, settings)
    loaded = sum(size for _, size, _ in held({"model": model}, model.device).values())
    engine = build.start(model, device, build.plan_for(model, device, settings))
    device.synchronize()
    found = copies(engine)
    head = ["copy", "dtype", "GiB", "tensors", "reader"]
    rig.table(head, [[r["copy"], r["dtype"], r["bytes"] / 2**30, r["tensors"], r["reader"]] for r in found])
    if device.name != "cpu":
        print("in the memory of the host:")
        rest = copies(engine, torch.device("cpu"))
        rig.table(head, [[r["copy"], r["dtype"], r["bytes"] / 2**30, r["tensors"], r["reader"]] for r in rest])
    print(f"before the engine is made: {loaded / 2**30:.3f} GiB")
    about = rig.about("weights", options, model) | {"slots": options.slots, "loaded_bytes": loaded}
    rig.keep("weights", [{**about, "copies": found, **rig.machine(options, device)}], options)


if __name__ == "__main__":
    main()
