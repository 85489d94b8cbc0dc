"""`--exact` on a GPU: a request has the same codes and samples alone and in any batch."""

import random

from company import spoken_among
from hopper import NEEDS_HOPPER

from omnitts_cli.request import Request
from omnitts_cli.voices import Designed, Named

pytestmark = NEEDS_HOPPER
TEXTS = ("Short.", "The kettle is on, and the bread is still warm from the oven.", "One, two, three, four. " * 4)


def test_alone_and_among_others() -> None:
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.settings.engine import EngineSettings
    from omnitts_cli.speech import load

    settings = EngineSettings(device="cuda", slots=33, seconds=20, offline=True, exact=True)
    device = load.device_for("random:0.6b-customvoice", settings)
    model = load.load_model("random:0.6b-customvoice", device, settings=settings)
    engine = Engine(model, device, load.plan_for(model, device, settings))
    voice = Named(next(iter(model.speakers), "")) if "named" in model.kinds else Designed("a calm voice")
    lengths = random.Random(1)
    requests = [
        Request(
            TEXTS[index % 3], voice, seed=index, id=str(index), max_frames=lengths.randint(5, 40), ignore_end=True,
            text_mode=("streamed", "whole")[index % 2],
        )
        for index in range(40)
    ]  # fmt: skip

    alone = spoken_among(engine, requests, 1, 0)
    assert len({codes for codes, _ in alone.values()}) == len(requests)
    for level in (2, 7, 16, 33):
        together = spoken_among(engine, requests, level, level)
        assert [name for name in alone if alone[name][0] != together[name][0]] == [], level
        assert [name for name in alone if alone[name][1] != together[name][1]] == [], level
