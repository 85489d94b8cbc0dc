"""Loading a thinker: the memory it takes on the way."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import golden_set
import omni_recipe
import pytest
from patience import LONG_S

MEASURE = """
import gc, sys
from pathlib import Path
from omnitts_cli.devices.choose import choose
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load_thinker import load_thinker

def kib(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])

device, settings = choose("cpu", 1), EngineSettings(device="cpu")
load_thinker(sys.argv[1], device, settings)  # libraries are in memory afterwards
gc.collect()
before = kib("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
model = load_thinker(sys.argv[2], device, settings, sound=True)
parts = [*model.thinker.parameters(), *model.tower.parameters()]
print(sum(one.numel() * one.element_size() for one in parts) // 1024, kib("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_loading_never_holds_two_copies(tmp_path: Path) -> None:
    recipe = golden_set.thinker_golden() / "recipe"
    config = json.loads((recipe / "config.json").read_text("utf-8"))
    text = config["thinker_config"]["text_config"]
    inner, text["moe_intermediate_size"] = text["moe_intermediate_size"], 2048
    shapes = {
        name: [2048 if "thinker" in name and ".experts." in name and size == inner else size for size in shape]
        for name, shape in omni_recipe.read(recipe)["shapes"].items()
    }
    folder = shutil.copytree(recipe, tmp_path / "large", ignore=shutil.ignore_patterns(omni_recipe.RECIPE))
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    omni_recipe.write_parts(omni_recipe.draw(shapes, 1), folder)
    command = [sys.executable, "-c", MEASURE, str(golden_set.thinker_folder()), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 0, done.stderr
    weights, peak = map(int, done.stdout.split())
    assert weights > 50_000
    assert weights < peak < 1.6 * weights
