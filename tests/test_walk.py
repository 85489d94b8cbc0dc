"""How far a reader walks: what one `omnitts say "Hello"` runs, by default, until its first sound is in the file.

Two walks, as tests/support/tracer.py defines them: *say*, from the command to the first sound in the sink, and *open*,
from the model's name to an engine. `pytest -s -n 0 tests/test_walk.py` prints both, and the imports of our own code
that do not stand at the top of a file. `python tests/support/tracer.py ROOT` prints the walks of another checkout.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
PACKAGE = HOUSE / "omnitts_cli"
LEAVES = ("text/", "weights/", "audio/", "kernels/arrays.py", "errors.py", "parse.py")
"""Left out of the totals: what runs there is read by itself. kernels/arrays.py has names for calls of NumPy and of
PyTorch, such as `join` for np.concatenate or torch.cat; it did not exist at 6b951fa.
"""

BASELINE = {"say": (36, 1136, 166), "open": (32, 1121, 273)}
"""Files, lines and switches at 6b951fa, where this count began."""
MOST = {"say": (0.81, 1.01, 0.61), "open": (0.88, 0.92, 0.53)}

DECIDES, STEPS, ENGINES = 1, 1, {"Loop", "ProcessEngine", "RemoteEngine"}
"""Places that decide which request gets a slot next, functions that step an engine, and the classes that are a
SpeechEngine. The model that writes text has a queue of its own and is stepped by whoever waits for it; see TEXT.
"""
TEXT = {"engine/answer_loop.py", "speech/assistant.py", "bench/answers.py"}

LATE_IMPORTS, TYPING_IMPORTS = 90, 45
"""The most of each. At 6b951fa there were 264 and 110."""


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    home = str(tmp_path_factory.mktemp("home"))  # no settings and no server
    environment = {"PATH": os.environ["PATH"], "HOME": home, "XDG_RUNTIME_DIR": home, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HOUSE / "tests" / "support" / "tracer.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    walks: dict[str, dict[str, object]] = json.loads(done.stdout)
    if "kernels/cpu/networks.py" not in walks["say"]["lines"]:  # type: ignore[operator]
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


ROOMS = ("bench", "books", "cli", "engine", "fleet", "server", "speech")
QUEUE = re.compile(r"(deque|SimpleQueue|OrderedDict)\[(str, )?(deque\[)?(Record|Request|TextRecord)\b|^FairQueue\(\)")


def functions() -> Iterator[tuple[str, ast.ClassDef | None, ast.FunctionDef]]:
    """Each function of the rooms where requests are: its file, its class, itself."""
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            file = path.relative_to(PACKAGE).as_posix()
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield from ((file, node, one) for one in node.body if isinstance(one, ast.FunctionDef))
                elif isinstance(node, ast.Module):
                    yield from ((file, None, one) for one in node.body if isinstance(one, ast.FunctionDef))


def queues(function: ast.FunctionDef) -> Iterator[str]:
    """The attributes of a class that are queues of requests, from its `__init__`."""
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign | ast.Assign):
            held = ast.unparse(node.annotation if isinstance(node, ast.AnnAssign) else node.value)
            if QUEUE.search(held):
                yield ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])


def calls(function: ast.FunctionDef) -> Iterator[str]:
    """What it calls, with "()" behind it if nothing is given."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func) + "()" * (not node.args)


def shown(title: str, found: set[str]) -> int:
    """Prints what was found; how many of it are about speech."""
    print(f"{title}: {', '.join(sorted(found))}")
    return sum(name.split(":")[0] not in TEXT for name in found)


def test_one_place_decides_who_gets_a_slot() -> None:
    """What takes the next request from a queue of them."""
    owned = [(f"{file}:{owner.name}", one) for file, owner, one in functions() if owner]
    waiting = {name: [*queues(one)] for name, one in owned if one.name == "__init__"}
    deciding = set[str]()
    for name, function in owned:
        takes = {f"{queue}.{take}()" for queue in waiting.get(name, ()) for take in ("pop", "popleft", "get")}
        deciding |= {f"{name}.{function.name}"} if takes & {*calls(function)} else set()
    assert shown("who is next", deciding) == DECIDES


def test_one_place_steps_an_engine() -> None:
    """The step of a network has arguments; that of an engine has none."""
    steps = {f"{file}:{owner.name if owner else ''}.{one.name}" for file, owner, one in functions()
             if any(call.endswith(".step()") and call != "self.step()" for call in calls(one))}  # fmt: skip
    assert shown("steps", steps) == STEPS


def test_what_acts_as_an_engine_is_one() -> None:
    """tests/speech/test_loop.py compares these classes with the protocol."""
    acting = {owner.name for file, owner, one in functions()
              if owner and one.name == "submit" and not file.startswith("engine/")}  # fmt: skip
    shown("acts as an engine", acting)
    assert acting == ENGINES | {"SpeechEngine"}
    made_up = [path for path in PACKAGE.rglob("*.py") if "SimpleNamespace(" in path.read_text("utf-8")]
    assert [path.parent.name for path in made_up] == ["training"], "a stand-in of no class"
