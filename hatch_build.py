"""Installing compiles the CPU library where there is a C compiler ($CC, or cc, gcc, clang), and does without otherwise.

A wheel with the library is for one platform and any Python 3: the library does not use Python's interface.
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags  # a dependency of hatchling

FOLDER = "omnitts_cli/kernels/cpu"


class CPULibrary(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build = runpy.run_path(str(Path(self.root, FOLDER, "build.py")))
        try:
            made, compiler = build["library"](), os.environ.get("CC")
            if compiler or not made.exists():
                made = build["build"](compiler)
        except (build["BuildError"], OSError) as error:
            self.app.display_warning(f"The CPU library is left out; Python does its work, slower: {error}")
            return
        if version == "editable":  # it is used where it lies
            return
        build_data["force_include"][str(made)] = f"{FOLDER}/native/{made.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform()}"


def platform() -> str:
    """A tag that installers accept on this machine: linux_x86_64, macosx_14_0_arm64."""
    # a manylinux tag would promise that the library was audited for old systems, which it was not
    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
