"""The vendor's interface, read from the files of a torch_npu wheel without installing or importing it.

`vendor.json` beside this file is its output for the oldest and the newest version we take, so that tests need no
network. To make it again: pip download --no-deps torch_npu==2.9.0 ..., then

    python tests/devices/npu/vendor_table.py WHEEL... > tests/devices/npu/vendor.json
"""

import ast
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

OPERATORS = (
    "npu_rms_norm", "npu_add_rms_norm", "npu_swiglu", "npu_rotary_mul", "npu_fused_infer_attention_score",
    "npu_scatter_nd_update_", "npu_top_k_top_p",
)  # fmt: skip

LIBRARY = "torch_npu/lib/libtorch_npu.so"

INTERFACE = {
    "torch_npu/npu/graphs.py": (
        "graph.__init__", "NPUGraph.replay", "NPUGraph.update", "graph_pool_handle", "is_current_stream_capturing",
    ),
    "torch_npu/npu/streams.py": (
        "Stream.__new__", "Stream.wait_event", "Stream.synchronize", "Event.__new__", "Event.record", "Event.query",
        "Event.synchronize",
    ),
    "torch_npu/npu/__init__.py": ("mem_get_info", "get_device_name", "device_count"),
    "torch_npu/npu/memory.py": ("max_memory_allocated",),
    "torch_npu/npu/utils.py": (
        "synchronize", "set_device", "stream", "current_stream", "get_cann_version", "is_bf16_supported",
        "set_sync_debug_mode", "get_sync_debug_mode",
    ),
}  # fmt: skip


def functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Every function by its name, methods as Class.method; of several the last, as Python has it."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}": part for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def signature(function: ast.FunctionDef) -> str:
    """Names, order and defaults, as in the source; without types."""
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    return ast.unparse(arguments)


def schema(library: bytes, operator: str) -> str:
    """The schema that the library registers; its text stands in the file as it is."""
    found = re.search(rb"(?<![\w.])" + operator.encode() + rb"\([^\0]*?\) -> [^\0]+", library)
    assert found, f"{operator} is not registered"
    return found[0].decode()


def table(wheel: Path) -> dict[str, Any]:
    """What our code and the tests' fake build on, of one wheel."""
    with zipfile.ZipFile(wheel) as files:
        library = files.read(LIBRARY)
        interface = {}
        for path, names in INTERFACE.items():
            known = functions(ast.parse(files.read(path)))
            interface[path] = {name: signature(known[name]) for name in names}
    return {
        "schemas": {name: schema(library, name) for name in OPERATORS},
        "interface": interface,
    }


if __name__ == "__main__":
    tables = {Path(name).name.split("-")[1]: table(Path(name)) for name in sys.argv[1:]}
    sys.stdout.write(json.dumps(tables, indent=1) + "\n")
