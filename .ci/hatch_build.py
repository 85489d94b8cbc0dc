"""Installing compiles the CPU library where there is a C compiler ($CC, or cc, gcc, clang), and does without otherwise.

A wheel with the library is for one platform and any Python 3: the library does not use Python's interface. For wheels
that are published, `.ci/wheels` sets OMNITTS_WHEEL to the platform tag, or to "any" for the wheel without the library.
"""

from __future__ import annotations

import os
import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags  # a dependency of hatchling

FOLDER = "omnitts_cli/kernels/cpu"


class CPULibrary(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build, wanted = runpy.run_path(str(Path(self.root, FOLDER, "build.py"))), os.environ.get("OMNITTS_WHEEL")
        if wanted == "any":
            return
        if wanted:  # compiled now, whatever lies in the folder; an error ends the build
            self.made_in = tempfile.mkdtemp()
            return self.include(build["build_for"](wanted, Path(self.made_in)), wanted, build_data)
        try:
            made, compiler = build["library"](), os.environ.get("CC")
            if compiler or not made.exists():
                made = build["build"](compiler)
        except (build["BuildError"], OSError) as error:
            self.app.display_warning(f"The CPU library is left out; Python does its work, slower: {error}")
            return
        if version != "editable":  # there it is used where it lies
            self.include(made, platform(), build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if folder := getattr(self, "made_in", None):
            shutil.rmtree(folder)

    def include(self, made: Path, tag: str, build_data: dict[str, Any]) -> None:
        build_data["force_include"][str(made)] = f"{FOLDER}/native/{made.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag}"


def platform() -> str:
    """A tag that installers accept on this machine: linux_x86_64, macosx_14_0_arm64."""
    # a manylinux tag would promise that the library runs on old systems; it was linked with this system's
    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
