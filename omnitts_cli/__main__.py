"""python -m omnitts_cli, and the installed command: ready for Ctrl-C before anything is imported."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    if sys.path and sys.path[0] == os.getcwd() != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
        del sys.path[0]  # python -m puts the current folder first; it may hold other people's files
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Python's handler would print a traceback in the first 100 ms; the command installs its own soon.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    from omnitts_cli.cli import app

    app.main()


if __name__ == "__main__":
    main()
