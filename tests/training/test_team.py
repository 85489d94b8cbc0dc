"""Members of a team end every update with the same weights; one learner alone needs no team."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from training_kit import as_team_of_two, two_members

from omnitts_cli.training.team import Team, joined_gradients

MEMBER = """
from pathlib import Path
import torch
from torch import nn
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.training.team import Team, joined_gradients

team = Team()
torch.manual_seed(team.rank)
layer = nn.Linear(2, 2)
team.start_alike(layer.parameters())
first = layer.weight.sum().item()
gradients = joined_gradients(list(layer.parameters()))
layer(torch.full((1, 2), float(team.rank + 1))).sum().backward()
team.average(gradients)
word = team.agree(0.25 + team.rank, CPUDevice(1))
gradients = (layer.weight.grad.tolist(), layer.bias.grad.tolist())
lines = (team.size, first, *gradients, word, team.device("cuda"), team.device("cpu"))
Path(__file__).with_name(f"said.{team.rank}").write_text(" ".join(str(line) for line in lines))
team.close()
"""


@pytest.mark.parametrize("start", [two_members, pytest.param(as_team_of_two, marks=pytest.mark.slow)])
def test_two_members_take_the_same_step(start: Callable[[Path, str], object], tmp_path: Path) -> None:
    start(tmp_path, MEMBER)
    # a file for each: what two processes print at once may be mixed up
    said = sorted(tmp_path.glob("said.*"))
    assert len(said) == 2
    first, second = (path.read_text().replace("cuda:1", "cuda:0") for path in said)
    # gradients 1 and 2 of the two members, and their mean; the leader's word
    assert first == second
    assert first.startswith("2 ") and "[[1.5, 1.5], [1.5, 1.5]] [1.0, 1.0] 0.25 cuda:0 cpu" in first


def test_each_member_takes_an_accelerator_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    team = Team()
    team.size, team.rank = 2, 1
    monkeypatch.setattr("omnitts_cli.training.team.choose", lambda name: SimpleNamespace(name="cuda:0"))
    assert [team.device(name) for name in ("auto", "npu", "cuda:0", "cpu")] == ["cuda:1", "npu:1", "cuda:0", "cpu"]


def test_alone_nothing_is_exchanged() -> None:
    team, layer = Team(), nn.Linear(2, 2)
    gradients = joined_gradients(list(layer.parameters()))
    layer(torch.ones(1, 2)).sum().backward()
    team.average(gradients)
    assert (team.size, team.leads, team.device("cuda")) == (1, True, "cuda")
    assert gradients.tolist() == [1.0] * 6
