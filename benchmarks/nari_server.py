"""nari-qwen3-tts's own server on a card other than an H100: its `serve` refuses any other, by a setting that it fixes.

    PYTHONPATH=REPOSITORY/src python benchmarks/nari_server.py --model FOLDER --host 127.0.0.1 --port 8001 ...

Takes the options of `python -m nari_qwen3_tts.serve`. Nothing else is changed.
"""

from __future__ import annotations

from typing import Any

from nari_qwen3_tts import config, serve  # type: ignore[import-not-found]

settings = config.ModelAssetConfig


def any_card(**given: Any) -> Any:
    """Its settings of the model, for any card."""
    return settings(**given | {"require_h100": False})


if __name__ == "__main__":
    config.ModelAssetConfig = any_card
    serve.main()
