"""How far a reader walks: what one `omnitts say "Hello"` runs, by default, until its first sound is in the file.

Two walks, as tests/support/tracer.py defines them: *say*, from the command to the first sound in the sink, and *open*,
from the model's name to an engine. `pytest -s -n 0 tests/test_walk.py` prints both, and the imports of our own code
that do not stand at the top of a file. `python tests/support/tracer.py ROOT` prints the walks of another checkout.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
PACKAGE = HOUSE / "omnitts_cli"
LEAVES = ("text/", "weights/", "audio/", "errors.py")
"""Left out of the totals: what runs there is read by itself."""

BASELINE = {"say": (36, 1142, 166), "open": (32, 1121, 273)}
"""Files, lines and switches at 6b951fa, where this count began."""
MOST = {"say": (1.15, 1.15, 1.1), "open": (1.07, 1.07, 1.03)}
"""The most that either walk may take, as shares of that. Only a step that makes a walk shorter changes these."""

LATE_IMPORTS, TYPING_IMPORTS = 270, 112
"""The most of each. At 6b951fa there were 264 and 110."""


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    home = str(tmp_path_factory.mktemp("home"))  # no settings and no server
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"HOME": home, "XDG_RUNTIME_DIR": home, "OMP_NUM_THREADS": "1"}.items():
            patch.setenv(name, value)
        command = [sys.executable, str(HOUSE / "tests" / "support" / "tracer.py")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    walks: dict[str, dict[str, object]] = json.loads(done.stdout)
    if "kernels/cpu/language.py" not in walks["say"]["lines"]:  # type: ignore[operator]
        pytest.skip("the CPU's library is not compiled: the walk would not be the usual one")
    return walks


@pytest.mark.parametrize("name", ["say", "open"])
def test_neither_walk_gets_longer(walks: dict[str, dict[str, object]], name: str) -> None:
    walk = walks[name]
    lines: dict[str, int] = {file: n for file, n in walk["lines"].items() if not file.startswith(LEAVES)}  # type: ignore[attr-defined]
    switches = [pair for pair in walk["switches"] if not any(file.startswith(LEAVES) for file in pair)]  # type: ignore[attr-defined]
    for file, count in lines.items():
        print(f"{count:5} {file}")
    figures = len(lines), sum(lines.values()), len(switches)
    shares = [now / before for now, before in zip(figures, BASELINE[name], strict=True)]
    print(f"{name}: files, lines, switches {figures}; of the baseline {', '.join(f'{one:.2f}' for one in shares)}")
    assert "engine/engine.py" in lines
    assert all(share <= most for share, most in zip(shares, MOST[name], strict=True)), shares


def own_imports(node: ast.AST, late: bool = False, typing: bool = False) -> Iterator[str]:
    """Imports of our own code: "late" for each statement in a function, and for each call of `import_module` there
    unless it names another package; "typing" for each statement under TYPE_CHECKING.
    """
    for child in ast.iter_child_nodes(node):
        if late and is_ours(child):
            yield "late"
        if typing and isinstance(child, ast.Import | ast.ImportFrom) and is_ours(child):
            yield "typing"
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        checking = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        yield from own_imports(child, late or inside, typing or checking)


def is_ours(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] == PACKAGE.name
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == PACKAGE.name for alias in node.names)
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "import_module":
        named = node.args[0]
        return not isinstance(named, ast.Constant) or str(named.value).split(".")[0] == PACKAGE.name
    return False


def test_imports_that_are_not_at_the_top_of_a_file() -> None:
    rooms: dict[str, Counter[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0]
        rooms.setdefault(room, Counter()).update(own_imports(ast.parse(path.read_text("utf-8"))))
    for room, found in rooms.items():
        print(f"{found['late']:5} {found['typing']:5} {room}")
    total = sum(rooms.values(), Counter())
    print(f"{total['late']} imports of our own code in functions, {total['typing']} under TYPE_CHECKING")
    assert total["late"] <= LATE_IMPORTS
    assert total["typing"] <= TYPING_IMPORTS


def test_what_counts_as_a_late_import() -> None:
    source = """
    from omnitts_cli import a
    if TYPE_CHECKING:
        from omnitts_cli.b import c, d
        import numpy
    def f(name):
        from omnitts_cli.e import g
        import omnitts_cli.h, numpy
        import_module(f"{name}.i"), importlib.import_module("omnitts_cli.j"), import_module("kokoro.model")
    """
    assert Counter(own_imports(ast.parse(textwrap.dedent(source)))) == {"late": 4, "typing": 1}
