"""The polish: codes stay what they are, and the codec's speaking half alone goes on, under critics.

Critics trade a little clarity for voices that sound less dull. They come last, because codes that move while critics
judge the sound cost more clarity than they give. What gives the clarity back is the codec's own hearing: it has learned
to tell phones apart, and must hear in the sound that is made what it heard in the clip (see benchmarks/LOG.md).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.devices.device import Device
from omnitts_cli.training.codec_stage import CodecStage
from omnitts_cli.training.critics import Critics, critic_loss, maker_losses
from omnitts_cli.training.learning import half
from omnitts_cli.training.pool import SoundPool
from omnitts_cli.training.recipe import Polish, Recipe
from omnitts_cli.training.teacher import SAMPLE_RATE
from omnitts_cli.training.team import Team, joined_slopes

BAND, TAPS = 8000.0, 63
"""Hz, and samples of the filter. Above the band no word is, and a decoder would whisper to its encoder there."""


def low(sound: Tensor) -> Tensor:
    """Sound [B, n] without what lies above the band."""
    n = torch.arange(TAPS, device=sound.device) - TAPS // 2
    taps = torch.sinc(n * (2 * BAND / SAMPLE_RATE)) * torch.hann_window(TAPS, periodic=False, device=sound.device)
    return F.conv1d(sound[:, None], (taps / taps.sum())[None, None], padding=TAPS // 2)[:, 0]


class PolishStage(CodecStage):
    """The codec, of which only the decoder learns, and its critics."""

    NAME = "polish"
    LOSSES = ("mel", "wave", "critics", "fooled", "feature", "heard")

    def __init__(self, recipe: Recipe, device: Device, pool: SoundPool, team: Team) -> None:
        plan = recipe.polish
        self.critics = Critics(plan.critic_width, plan.periods, plan.period_width).to(device.torch_device)
        super().__init__(recipe, device, pool, team)
        for module in (self.encoder, self.quantiser, self.phones):
            module.eval().requires_grad_(False)
        judges = list(self.critics.parameters())
        self.critic_slopes, self.critic_optimiser = joined_slopes(judges), self.optimiser_of(judges)

    @property
    def schedule(self) -> Polish:
        return self.recipe.polish

    def learners(self) -> tuple[nn.Module, ...]:
        return (self.decoder,)

    def modules(self) -> dict[str, nn.Module]:
        return super().modules() | {"critics": self.critics}

    def learn(self, bypass: bool) -> None:
        """One batch of examples, to the slopes of the decoder and of its critics."""
        plan, polish = self.plan, self.schedule
        true, _ = self.pool.draw(plan.batch, plan.frames)
        with torch.no_grad():
            meant = self.heard(true)
            wanted = self.heard(low(true))
        made, _, _ = self.repeat(meant, bypass)
        mel, wave = self.mel(made, true), (made - true).abs().mean()
        heard = (self.heard(low(made)) - wanted).float().abs().mean() / wanted.float().abs().mean()
        shown = plan.batch // polish.judged
        own, fooled, feature = self._judge(made[:shown], true[:shown])
        self.slopes.zero_()
        close = plan.mel * mel + plan.wave * wave + polish.heard * heard
        (close + polish.adversary * fooled + polish.feature * feature).backward()
        self.critic_slopes.zero_()  # of what the decoder asked them
        own.backward()
        self.losses += torch.stack([mel, wave, own, fooled, feature, heard]).detach()

    def _judge(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Ask the critics: (their own loss, how badly they were fooled, how far features are apart)."""
        with half(self.device):
            true_opinions, true_features = self.critics(true)
            known_opinions, _ = self.critics(made.detach())
            opinions, features = self.critics(made)
        return critic_loss(true_opinions, known_opinions), *maker_losses(opinions, features, true_features)

    def exchange(self) -> None:
        self.team.average(self.slopes)
        self.team.average(self.critic_slopes)

    def update(self) -> None:
        nn.utils.clip_grad_norm_(self.learned, 100.0)
        self.optimiser.step()
        self.critic_optimiser.step()
