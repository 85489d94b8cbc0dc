"""The house rules that neither ruff nor import-linter can say. The contracts themselves are in pyproject.toml."""

import ast
import functools
import re
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
PACKAGE = HOUSE / "omnitts_cli"

TOP_LEVEL = {
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "justfile", "omnitts_cli", "presets",
    "tests", "samples", "benchmarks",
}  # fmt: skip

# Spelled in pieces so that this file obeys its own rules.
DEVICE_WORDS = re.compile(
    "|".join(
        [
            r"torch\.cuda\b", r"torch\.npu\b", r"torch" + r"_npu\b", r"\bnpu" + r"_\w*\(", r"\.cuda" + r"\(",
            r"\.is_" + r"cuda\b", r"""[=!]=\s*["']""" + r"cuda", r"""["']""" + r"""cuda["']\s*[=!]=""",
            r"""["']""" + r"""cuda["']\s+in\b""", r"""startswith\(["']""" + r"cuda",
        ]
    )
)  # fmt: skip

# A path on somebody's own machine, or the address of a package registry.
STRANGE_PLACES = re.compile(
    r"(?<![\w./~-])/(?:work|home|root|Users)/"
    + "|"
    + "|".join(["pypi" + r"\.org", "python" + "hosted", "npm" + r"js\."])
)

# Proofs about a room as a whole have no file to mirror: equality, random histories, long runs, a family
# through the engine.
ROOM_PROOFS = {"test_embedded.py", "test_equal.py", "test_machine.py", "test_endurance.py", "test_engine.py",
               "test_conformance.py", "test_clients.py", "test_attacks.py", "test_chaos.py",
               "test_everyday.py", "test_exact.py"}  # fmt: skip

# Families read the published files; training/files.py writes them. Nobody else knows how they spell things.
SPELLING = {PACKAGE / "families", PACKAGE / "training" / "files.py"}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """A file of Python, parsed once for all tests."""
    return ast.parse(path.read_text("utf-8"))


def tracked(*patterns: str, added: bool = True) -> list[Path]:
    """Files that git knows, and with `added` those that it would add; stray build folders do not matter."""
    new = ["--others", "--exclude-standard"] if added else []
    command = ["git", "ls-files", "--cached", *new, "-z", "--", *patterns]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this is not a git checkout")
    return [path for name in done.stdout.decode().split("\0") if name and (path := HOUSE / name).is_file()]


def text_lines(paths: list[Path]) -> Iterator[tuple[Path, int, str]]:
    for path in paths:
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            yield path.relative_to(HOUSE), number, line


def found(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:120]}" for path, number, line in text_lines(paths) if pattern.search(line)
    ]


def test_top_level_holds_exactly_the_agreed_names() -> None:
    """What git tracks: the README's examples leave files here that nobody has added."""
    names = {path.relative_to(HOUSE).parts[0] for path in tracked(added=False)}
    assert {name for name in names if not name.startswith(".")} == TOP_LEVEL


NPU_CALLS = re.compile("|".join([r"torch\.npu\b", r"torch" + r"_npu\b", r"\bnpu" + r"_\w*\("]))


def test_only_the_npu_room_speaks_to_its_vendor() -> None:
    """Its tests may too, and the documents. Plain operators under the vendor's names belong to the tests alone."""
    room = PACKAGE / "devices" / "npu"
    files = tracked("omnitts_cli/*.py", "benchmarks/*.py", "tests/*.py")
    outside = [path for path in files if not {room, HOUSE / "tests" / "devices"} & set(path.parents)]
    assert found(NPU_CALLS, [path for path in outside if path.name != "test_house.py"]) == []
    assert found(re.compile(r"^\s*def npu" + r"_\w+\("), tracked("omnitts_cli/devices/npu/*.py")) == []


def test_only_devices_speaks_of_accelerators() -> None:
    """And kernels/cuda, which launches through the CUDA driver."""
    rooms = {PACKAGE / "devices", PACKAGE / "kernels" / "cuda"}
    files = [path for path in tracked("omnitts_cli/*.py") if not rooms & set(path.parents)]
    assert found(DEVICE_WORDS, files) == []


@pytest.mark.parametrize("line", [
    "x = x." + "cuda()", "if x.is_" + "cuda:", 'if device.type == "' + 'cuda":', "if 'cu" + "da' == kind:",
    "import torch" + "_npu", "torch_npu.npu" + "_rms_norm(x)", "# torch.cu" + "da.synchronize() is slow",
    'name.startswith("' + 'cuda")',
])  # fmt: skip
def test_the_device_words_are_recognised(line: str) -> None:
    assert DEVICE_WORDS.search(line)


def test_every_file_says_what_it_owns() -> None:
    silent = [
        str(path.relative_to(HOUSE))
        for path in tracked("omnitts_cli/*.py", "tests/*.py", "benchmarks/*.py")
        if not ast.get_docstring(tree_of(path))
    ]
    assert silent == []


def test_benchmarks_run_from_a_source_tree() -> None:
    """Before a script imports the package, it or a script that it imports puts the source tree on the path."""
    texts = {path.stem: path.read_text("utf-8") for path in tracked("benchmarks/*.py")}
    adding = {name for name, text in texts.items() if "sys.path.insert(0" in text}
    for name, text in texts.items():
        before, imports, _ = re.split(r"^((?:import|from) omnitts_cli\b)|\Z", text, maxsplit=1, flags=re.MULTILINE)
        siblings = set(re.findall(r"^(?:import|from) (\w+)", before, re.MULTILINE))
        assert not imports or "sys.path.insert(0" in before or siblings & adding, name


def mirrored(test: Path) -> bool:
    """tests/x/test_y.py speaks for omnitts_cli/x/y.py, or for the whole room omnitts_cli/x/y/.

    A file that holds several things may have a test file for each: test_y_quantiser.py.
    """
    room = PACKAGE / test.relative_to(HOUSE / "tests").parent
    words = test.stem.removeprefix("test_").split("_")
    subjects = [room / "_".join(words[:count]) for count in range(1, len(words) + 1)]
    return any(one.with_suffix(".py").exists() or (one / "__init__.py").exists() for one in subjects)


def test_every_test_file_has_its_file() -> None:
    # test_promises.py holds what users found excellent; it is about the tests themselves
    about_the_house = {
        "test_faults.py", "test_promises.py", "test_house.py", "test_docs.py", "test_walk.py", "test_messages.py",
        "test_wheels.py", "test_upgrade.py", "test_windows.py", "test_small_card.py",
    }  # fmt: skip
    strays = [
        str(test.relative_to(HOUSE))
        for test in tracked("tests/**/test_*.py", "tests/test_*.py")
        if test.name not in about_the_house | ROOM_PROOFS and not mirrored(test)
    ]
    assert strays == []


def test_no_init_files_in_tests() -> None:
    assert [str(path) for path in tracked("tests/**/__init__.py", "tests/__init__.py")] == []


def test_nothing_names_a_place_outside() -> None:
    assert found(STRANGE_PLACES, tracked()) == []


def module_level_imports(tree: ast.Module) -> Iterator[str]:
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):  # what a function imports is late enough
            nodes += ast.iter_child_nodes(node)


def test_transformers_is_imported_late_everywhere() -> None:
    """It costs seconds, and the default path never needs it."""
    early = [
        str(path.relative_to(HOUSE))
        for path in tracked("omnitts_cli/*.py")
        for name in module_level_imports(tree_of(path))
        if name.split(".")[0] == "transformers"
    ]
    assert early == []


UPSTREAM_WORDS = re.compile(r"code_" + r"predictor\b|sub" + r"talker_|talker\.model" + r"\.layers")


def test_upstream_names_stay_in_the_families() -> None:
    files = [path for path in tracked("omnitts_cli/*.py") if not SPELLING & {path, *path.parents}]
    assert found(UPSTREAM_WORDS, files) == []


def test_presets_stay_in_step_with_the_tables_in_pyproject() -> None:
    """The wheel packs presets/ as package data under the name that presets.py looks for."""
    lines = (HOUSE / "pyproject.toml").read_text("utf-8").splitlines()
    assert 'presets = "omnitts_cli/presets_data"' in lines


def test_what_the_server_extends_has_an_upper_bound() -> None:
    """server/protocol.py subclasses protocols of uvicorn that are not part of its interface."""
    (line,) = [one for one in (HOUSE / "pyproject.toml").read_text("utf-8").splitlines() if '"uvicorn' in one]
    assert re.search(r'"uvicorn>=[\d.]+,<[\d.]+"', line), line


def undocumented(path: Path) -> Iterator[str]:
    """Public functions, and methods of public classes, without a docstring; protocols with one-line stubs included."""
    for node in (body := tree_of(path)).body:
        inside = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else []
        owner = f"{node.name}." if inside else ""
        for one in [*inside, *([node] if node in body.body else [])]:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not one.name.startswith("_"):
                overload = any(ast.unparse(mark) == "overload" for mark in one.decorator_list)  # signatures only
                if not ast.get_docstring(one) and not overload:
                    yield f"{path.relative_to(HOUSE)}: {owner if one is not node else ''}{one.name}"


def test_public_functions_say_what_they_return() -> None:
    files = tracked("omnitts_cli/engine/*.py", "omnitts_cli/models/*.py", "omnitts_cli/speech/*.py")
    assert [line for path in [*files, PACKAGE / "kernels" / "ops.py"] for line in undocumented(path)] == []


def test_every_requirement_is_imported() -> None:
    required = re.search(r"^dependencies = \[\n(.*?)^\]", (HOUSE / "pyproject.toml").read_text("utf-8"), re.M | re.S)
    assert required
    spelled = {"markdown-it-py": "markdown_it"}
    names = [spelled.get(name, name) for name in re.findall(r'"([\w-]+)', required[1])]
    imported = {
        name.split(".")[0]
        for path in tracked("omnitts_cli/*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    }
    assert [name for name in names if name not in imported] == []


def test_fewer_class_names_have_two_meanings() -> None:
    """`python benchmarks/house.py` lists them. Lower the number with every renamed class; the plan is 30."""
    assert len(runpy.run_path(str(HOUSE / "benchmarks" / "house.py"))["doubled"](HOUSE)) <= 24


def names_in(body: list[ast.stmt]) -> Iterator[str]:
    """What a module defines at its top, in any branch of it."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                stored = (part for target in targets for part in ast.walk(target))
                yield from (part.id for part in stored if isinstance(part, ast.Name))
            case _:  # if, try, with
                for field in ("body", "orelse", "finalbody"):
                    yield from names_in(getattr(node, field, []))
                for handler in getattr(node, "handlers", []):
                    yield from names_in(handler.body)


@functools.cache
def defined(module: str) -> frozenset[str] | None:
    """The names in a module of the package, with the modules beside it; None if it does not exist."""
    path = HOUSE.joinpath(*module.split("."))
    file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    if not file.exists():
        return None
    beside = [one.stem for one in path.glob("*.py")] + [one.name for one in path.glob("*/")] if path.is_dir() else []
    return frozenset([*names_in(tree_of(file).body), *beside])


def test_every_name_imported_from_the_package_exists() -> None:
    """Also in functions of tests that are skipped here, because they need Triton, a card or weights."""
    wrong = []
    for path in tracked("omnitts_cli/*.py", "tests/*.py", "benchmarks/*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import):
                wanted = [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                wanted = [(node.module or "", alias.name) for alias in node.names]
            else:
                continue
            for module, name in wanted:
                if module.split(".")[0] == PACKAGE.name and module != PACKAGE.name:  # that one loads its names late
                    names = defined(module)
                    if names is None or (name and name not in names):
                        wrong.append(f"{path.relative_to(HOUSE)}:{node.lineno}: {module} {name}".rstrip())
    assert wrong == []
