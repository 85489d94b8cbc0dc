"""Child: the command that starts a process of this package. It imports what this process would, and nothing from the
folder that the command was started in, which may hold other people's files.
"""

import os
import sys


def command(module: str, *words: str) -> list[str]:
    """Runs `main` of a module, which finds the words in sys.argv[1:]."""
    return python(f"from {module} import main; main()", *words)


def python(code: str, *words: str) -> list[str]:
    """Runs these statements."""
    # with -c alone, Python would begin with the current folder on its path
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {trusted()!r}\n{code}", *words]


def trusted() -> list[str]:
    """The import path without relative entries, which mean the current folder."""
    return [entry for entry in sys.path if os.path.isabs(entry)]
