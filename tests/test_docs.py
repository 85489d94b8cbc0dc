"""The README: its examples run as they stand, and every command helps. The map of CONTRIBUTING is true."""

import ast
import html
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm

import omnitts_cli
from omnitts_cli.errors import OmniError

HOUSE = Path(__file__).parent.parent
README = (HOUSE / "README.md").read_text("utf-8")
FENCES = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def examples() -> list[str]:
    """Every line of a fence marked sh, but the installing, which .ci/run does."""
    lines = [line for kind, text in FENCES if kind == "sh" for line in text.splitlines() if line.strip()]
    return [line for line in lines if not line.startswith("pip install")]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """An empty folder, a home, and an `omnitts` on the path, as after installing."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "here").mkdir()
    command = tmp_path / "bin" / "omnitts"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMNITTS_", "XDG_"))}
    path = f"{command.parent}:{kept.get('PATH', '')}"
    ours = str(Path(omnitts_cli.__file__).parent.parent)  # the package under test, installed or not
    kept |= {"PATH": path, "PYTHONPATH": ours, "HOME": str(tmp_path), "OMNITTS_THREADS": "1"}
    kept["XDG_RUNTIME_DIR"] = str(tmp_path)  # where nobody's server listens
    with warm.program(command, sys.executable, "-m", "omnitts_cli"):
        yield tmp_path / "here", kept


@pytest.mark.parametrize("line", examples())
def test_an_example_runs_as_written(line: str, elsewhere: tuple[Path, dict[str, str]]) -> None:
    folder, environment = elsewhere
    done = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (HOUSE / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "omnitts_cli/help/python.md"])
def test_the_python_of_a_page_runs_as_written(page: str, elsewhere: tuple[Path, dict[str, str]]) -> None:
    """All of its blocks, as one program."""
    folder, environment = elsewhere
    blocks = [block for block in python_blocks(page) if "openai" not in block]
    program = [sys.executable, "-c", "\n".join(blocks)]
    done = warm.run(program, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert blocks and done.returncode == 0, done.stderr
    assert (folder / "chapter.flac").stat().st_size > 10_000


def test_the_client_of_the_front_page_speaks(elsewhere: tuple[Path, dict[str, str]]) -> None:
    """The block as written, except for the port."""
    folder, environment = elsewhere
    block = next(block for block in python_blocks("README.md") if "openai" in block)
    serve = [sys.executable, "-m", "omnitts_cli", "serve", "--port", "0"]
    server = warm.Process(serve, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        program = [sys.executable, "-c", block.replace("http://127.0.0.1:8000", url)]
        done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert done.returncode == 0, done.stderr
    assert (folder / "served.mp3").stat().st_size > 1000 and server.returncode == 0


def test_the_front_page_is_short() -> None:
    assert len(README.splitlines()) <= 200


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 10
    assert [link for link in links if not (HOUSE / link).exists()] == []


def test_the_picture_shows_the_commands_of_its_script() -> None:
    """`python samples/terminal.py` draws it again."""
    session = re.search(r"^SESSION = (\(.*?^\))", (HOUSE / "samples" / "terminal.py").read_text("utf-8"), re.M | re.S)
    assert session
    picture = (HOUSE / "samples" / "terminal.svg").read_text("utf-8")
    drawn = re.sub(r"\s|\u00a0", "", html.unescape(re.sub(r"<[^>]+>", "", picture)))
    missing = [command for command in ast.literal_eval(session[1]) if re.sub(r"\s", "", command) not in drawn]
    assert missing == []


def test_every_fence_says_whether_it_is_run() -> None:
    assert FENCES
    assert {kind for kind, _ in FENCES} <= {"sh", "text", "python"}
    assert README.count("```") == 2 * len(FENCES)


def test_the_two_commands_of_the_set_up_are_there() -> None:
    lines = [line for _, text in FENCES for line in text.splitlines()]
    assert any(line.startswith("pip install . && omnitts say ") for line in lines)
    assert 'pip install ".[test]" && pytest' in lines


def test_the_log_shows_the_newest_figures() -> None:
    """`python benchmarks/figures.py --write` draws its table from the results that are kept."""
    log = (HOUSE / "benchmarks" / "LOG.md").read_text("utf-8")
    assert runpy.run_path(str(HOUSE / "benchmarks" / "figures.py"))["drawn"](log) == log
    assert {f"log/{path.name}" for path in (HOUSE / "benchmarks" / "log").glob("*.md")} == set(
        re.findall(r"\]\((log/[^)]*)\)", log)
    )


def test_the_map_is_true() -> None:
    """Every place of the map exists, and every room is in it."""
    guide = (HOUSE / "CONTRIBUTING.md").read_text("utf-8")
    mapped = set(re.findall(r"^\| `([\w./]+)` \|", guide, re.MULTILINE))
    assert [place for place in mapped if not (HOUSE / place).exists()] == []
    package = HOUSE / "omnitts_cli"
    rooms = {f"omnitts_cli/{p.name}/" for p in package.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    files = {f"omnitts_cli/{p.name}" for p in package.glob("*.py") if not p.name.startswith("__")}
    assert (rooms | files) - mapped == set()


def test_the_exit_codes_are_those_of_the_errors() -> None:
    page = (HOUSE / "omnitts_cli" / "help" / "exit-codes.md").read_text("utf-8")
    table = dict(re.findall(r"^\| (\d) \| (\w+) \|", page, re.MULTILINE))
    children = [kind for kind in every(OmniError) if kind.code]
    assert {str(kind.exit_code): kind.code for kind in children} == {k: v for k, v in table.items() if k != "0"}


def every(kind: type[OmniError]) -> list[type[OmniError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in every(child))]


def test_every_command_and_option_has_a_line_of_help() -> None:
    from typer.main import get_command

    from omnitts_cli.cli.declare import NAMES, app_of

    silent: list[str] = []

    def look(command: object, path: str) -> None:
        if not (getattr(command, "help", None) or "").strip():
            silent.append(path)
        for param in getattr(command, "params", []):
            if param.param_type_name == "option" and not (param.help or "").strip():
                silent.append(f"{path} {param.opts[0]}")
        for name, child in getattr(command, "commands", {}).items():
            look(child, f"{path} {name}")

    look(get_command(app_of(NAMES)), "omnitts")
    assert silent == []


LIFE = HOUSE / ".github" / "life-of-a-request.md"


def names_of(path: Path) -> set[str]:
    """What a file of the package defines: functions, classes, values, and `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else []
        for one in (node, *inside):
            owner = f"{node.name}." if isinstance(node, ast.ClassDef) and one is not node else ""
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(owner + one.name)
            elif isinstance(one, ast.Assign):
                found |= {owner + target.id for target in one.targets if isinstance(target, ast.Name)}
            elif isinstance(one, ast.AnnAssign):
                found.add(owner + ast.unparse(one.target))
    return found


def test_the_life_of_a_request_names_what_is_there() -> None:
    text = LIFE.read_text("utf-8")
    package = HOUSE / "omnitts_cli"
    files = set(re.findall(r"\b((?:\w+/)+\w+\.py)\b", text)) - {"tests/test_walk.py"}
    assert len(files) > 25 and [name for name in files if not (package / name).is_file()] == []
    named = re.findall(r"\b((?:\w+/)*\w+\.py):([\w.]*\w)", text)
    assert len(named) > 35
    assert [f"{file}:{name}" for file, name in named if name not in names_of(package / file)] == []
    # in the drawing, a method without its file is of the class named last, or of one that stands on the page
    drawing = text.split("```")[1]
    known = {name for file in files for name in names_of(package / file)}
    assert [name for name in re.findall(r"\b([A-Z]\w+\.\w+)\b", drawing) if name not in known] == []


def test_each_answer_is_a_line_of_the_code() -> None:
    _, questions = LIFE.read_text("utf-8").split("## Three questions")
    answers = re.findall(r"^- `((?:\w+/)*\w+\.py)`:\s+`([^`]+)`", questions, re.MULTILINE)
    assert len(answers) >= 12
    for file, line in answers:
        lines = [one.strip() for one in (HOUSE / "omnitts_cli" / file).read_text("utf-8").splitlines()]
        assert any(one.startswith(line) for one in lines), f"{file}: {line}"
