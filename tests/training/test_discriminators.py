"""Discriminators learn to tell true sound from generated sound, and give gradients."""

import torch

from omnitts_cli.training.discriminators import (
    POWER,
    Discriminators,
    SpectrumDiscriminator,
    discriminator_loss,
    generator_losses,
)


def test_discriminators_learn_to_tell_and_the_generator_to_fool() -> None:
    torch.manual_seed(0)
    discriminators = Discriminators(4, (2, 3), 4)
    true, made = 0.1 * torch.randn(2, 5760), torch.zeros(2, 5760, requires_grad=True)
    steps = torch.optim.Adam(discriminators.parameters(), 1e-2)
    losses = []
    for _ in range(8):
        loss = discriminator_loss(discriminators(true)[0], discriminators(made.detach())[0])
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    opinions, features = discriminators(made)
    adversarial, apart = generator_losses(opinions, features, discriminators(true)[1])
    (adversarial + apart).backward()
    assert made.grad is not None and made.grad.abs().sum() > 0


def test_quiet_sound_is_nearly_as_visible_as_loud_sound() -> None:
    torch.manual_seed(0)
    discriminator, sound = SpectrumDiscriminator(512, 4), 0.3 * torch.randn(1, 5760)
    for layer in discriminator.layers:
        layer.bias.data.zero_()
    loud, quiet = (discriminator(sound * level)[1][0].abs().mean() for level in (1.0, 0.1))
    assert torch.isclose(quiet / loud, torch.tensor(0.1**POWER), rtol=0.05)
