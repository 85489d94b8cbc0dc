"""Counts lines, doubled names, readers, runners and circles, here and elsewhere: python benchmarks/house.py [FOLDER...]

Each folder is a checkout, such as one that `git worktree add ../before COMMIT` made.

`--since 6b951fa` lists the lines of each room at that commit and at HEAD instead, and the sums without what other
issues have added: house.toml names their files and commits.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
MUST = (56_000, 43_000)  # lines of the package and of the tests, without what other issues add
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


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=HERE, capture_output=True, check=True, encoding="utf-8").stdout


def counted(path: str) -> bool:
    """Whether the lines of a file count: sources that a wheel contains, and tests in Python."""
    if path.startswith("omnitts_cli/"):
        return path.endswith((".py", *COMPILED)) and not path.startswith("omnitts_cli/training/")
    return path.startswith("tests/") and path.endswith(".py")


def lines_at(commit: str) -> dict[str, int]:
    """The lines of each file that counts."""
    names = [name for name in git("ls-tree", "-r", "--name-only", commit).splitlines() if counted(name)]
    return {name: git("show", f"{commit}:{name}").count("\n") for name in names}


def grown(commit: str) -> dict[str, int]:
    """By how many lines a commit made each file longer."""
    rows = git("show", "--format=", "--numstat", "--no-renames", commit).splitlines()
    changes = [row.split("\t") for row in rows if not row.startswith("-")]
    return {path: int(added) - int(removed) for added, removed, path in changes if counted(path)}


def room_of(path: str) -> str:
    """The folder of the package or of the tests; a file that is in none of them is its own room."""
    return "/".join(Path(path).parts[:2])


def sums(files: dict[str, int]) -> list[int]:
    """The lines of the package and those of the tests."""
    return [sum(n for path, n in files.items() if path.startswith(top)) for top in ("omnitts_cli/", "tests/")]


def row(name: str, *numbers: int) -> str:
    return f"{name:<84}" + "".join(f"{number:>10,}" for number in numbers)


def account(since: str) -> Iterator[str]:
    """The lines of each room then and now, what other issues have added, and the sums without it."""
    before, now = lines_at(since), lines_at("HEAD")
    issues = tomllib.loads((HERE / "benchmarks" / "house.toml").read_text("utf-8"))
    rooms = {issue: tuple(named["rooms"]) for issue, named in issues.items()}
    new = {
        issue: {path: n for path, n in now.items() if path not in before and path.startswith(rooms[issue])}
        for issue in issues
    }
    added = {path: n for files in new.values() for path, n in files.items()}
    grew = {issue: Counter[str]() for issue in issues}
    for issue, named in issues.items():
        for commit in named["commits"]:
            grew[issue].update({path: n for path, n in grown(commit).items() if path not in added})

    without = Counter({path: n for path, n in now.items() if path not in added})
    for changes in grew.values():
        without.subtract(changes)
    yield f"{'room':<84}{since[:9]:>10}{'HEAD':>10}{'without':>10}"
    for room in sorted({room_of(path) for path in {**before, **now}}):
        yield row(room, *(sum(n for path, n in one.items() if room_of(path) == room) for one in (before, now, without)))

    yield f"\n{'added by other issues':<84}{'package':>10}{'tests':>10}"
    for issue, files in new.items():
        yield row(f"{issue}: {len(files)} new files", *sums(files))
    for issue, changes in grew.items():
        yield row(f"{issue}: other files, {len(issues[issue]['commits'])} commits", *sums(changes))

    yield f"\n{'sums':<84}{'package':>10}{'tests':>10}"
    yield row(f"at {since[:9]}, without training/", *sums(before))
    yield row("now", *sums(now))
    yield row("now, without the new files", *sums({path: n for path, n in now.items() if path not in added}))
    yield row("now, without the new files and those commits", *sums(without))
    yield row("must", *MUST)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[HERE])
    parser.add_argument("--since", metavar="COMMIT", help="account for the lines since then, in this checkout")
    given = parser.parse_args()
    print("\n".join(account(given.since) if given.since else rows([folder.resolve() for folder in given.folders])))
