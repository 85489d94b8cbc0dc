"""Counts lines, doubled names, readers, runners and circles, here and elsewhere: python benchmarks/house.py [FOLDER...]

Each folder is a checkout, such as one that `git worktree add ../before COMMIT` made.
"""

from __future__ import annotations

import ast
import fnmatch
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

COMPILED = (".c", ".h", ".cu", ".cuh")
PARSERS = {"json.load", "json.loads", "DECODER.decode", "tomllib.load", "tomllib.loads"}
CHECKPOINTS = ("fleet/journal.py", "fleet/segments.py", "books/cache.py")


@cache
def tracked(root: Path, *patterns: str) -> list[Path]:
    """The files that git tracks, as paths below `root`."""
    found = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=root, capture_output=True, check=True)
    return [path for name in found.stdout.decode().split("\0") if name and (root / (path := Path(name))).is_file()]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]


def lines(root: Path, paths: list[Path]) -> int:
    return sum((root / path).read_bytes().count(b"\n") for path in paths)


def shipped(root: Path) -> list[Path]:
    """The source files of the package that the wheel contains."""
    left_out = project(root)["hatch"]["build"]["targets"]["wheel"].get("exclude", [])
    return [
        path
        for path in tracked(root, "omnitts_cli")
        if path.suffix in (".py", *COMPILED)
        and not any(fnmatch.fnmatch(str(path), f"{one.strip('/')}*") for one in left_out)
    ]


def modules(root: Path) -> list[Path]:
    return [path for path in tracked(root, "omnitts_cli") if path.suffix == ".py"]


def classes(root: Path) -> dict[str, list[str]]:
    """The names of classes, and the files that define one of that name."""
    found = defaultdict(list)
    for path in modules(root):
        for node in ast.walk(tree(root / path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append("/".join(path.parts[1:]))
    return found


def doubled(root: Path) -> dict[str, list[str]]:
    """The class names that more than one file of the package defines."""
    return {name: files for name, files in sorted(classes(root).items()) if len(files) > 1}


def readers(root: Path) -> set[str]:
    """The functions that parse JSON or TOML and check it in a way of their own: they handle deep nesting, or give the
    parser a function."""
    found = set()
    for path in modules(root):
        for node in ast.walk(tree(root / path)):
            if isinstance(node, ast.FunctionDef):
                calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
                parsed = [call for call in calls if ast.unparse(call.func) in PARSERS]
                if parsed and ("RecursionError" in ast.unparse(node) or any(call.keywords for call in parsed)):
                    found.add(f"{path.relative_to('omnitts_cli')}:{node.name}")
    return found


def runners(root: Path) -> set[str]:
    """The classes of batch and books that run many texts in threads, and shorten the time between turns of threads."""
    found = set()
    for path in modules(root):
        for node in ast.walk(tree(root / path)) if path.parts[1] in ("fleet", "books", "corpus") else ():
            if isinstance(node, ast.ClassDef) and "sys.setswitchinterval" in ast.unparse(node):
                found.add(f"{path.relative_to('omnitts_cli')}:{node.name}")
    return found


def checkpoints(root: Path) -> list[str]:
    """The files that hold how far a long run is: for folders, for object stores and for books."""
    return [name for name in CHECKPOINTS if (root / "omnitts_cli" / name).exists()]


def circles(root: Path) -> list[list[str]]:
    """Groups of modules of one room that import each other; late imports and those for types count too."""
    names = {".".join(path.with_suffix("").parts): path for path in modules(root)}
    edges: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(tree(root / path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                edges[name] |= {one for one in wanted if one in names and one.split(".")[1] == name.split(".")[1]}
    reached = {name: reach(name, edges) for name in names}
    groups = {tuple(sorted(b for b in reached[a] if a in reached[b])) for a in names if a in reached[a]}
    return [list(group) for group in sorted(groups)]


def reach(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def without_types(root: Path) -> list[Path]:
    """The files of the package that mypy leaves out."""
    checked = project(root)["mypy"]
    rooms = [Path(*name.split(".")) for name in checked.get("packages", [])]
    files = {Path(*name.split(".")).with_suffix(".py") for name in checked.get("modules", [])}
    passed_over = {
        Path(*name.split(".")).with_suffix(".py")
        for one in checked.get("overrides", [])
        if one.get("ignore_errors")
        for name in one["module"]
    }
    return [
        path
        for path in modules(root)
        if path in passed_over or (path not in files and not any(path.is_relative_to(room) for room in rooms))
    ]


FIGURES: dict[str, Callable[[Path], Any]] = {
    "package in the wheel, lines of Python, C, CUDA": lambda root: lines(root, shipped(root)),
    "lines of tests": lambda root: lines(root, tracked(root, "tests/*.py")),
    "class names with two meanings": doubled,
    "strict readers of JSON and TOML": readers,
    "checkpoints of long runs": checkpoints,
    "runners of many texts": runners,
    "import circles": circles,
    "lines that mypy leaves out": lambda root: lines(root, without_types(root)),
}


def rows(roots: list[Path]) -> Iterator[str]:
    found = {name: [count(root) for root in roots] for name, count in FIGURES.items()}
    for name, values in found.items():
        yield f"{name:<48}" + "".join(f"{value if isinstance(value, int) else len(value):>10,}" for value in values)
    for name, values in found.items():
        if not isinstance(values[0], int) and values[0]:
            yield f"\n{name}:"
            yield from ("  " + shown(one, values[0]) for one in sorted(values[0]))


def shown(one: Any, found: Any) -> str:
    """One of the things that were found, and where."""
    return f"{one}: {', '.join(found[one])}" if isinstance(found, dict) else str(one)


if __name__ == "__main__":
    print("\n".join(rows([Path(name).resolve() for name in sys.argv[1:]] or [Path(__file__).parents[1]])))
