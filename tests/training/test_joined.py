"""Weights that are slices of one tensor compute, learn and are saved as they did before."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from omnitts_cli.training import recipe
from omnitts_cli.training.channels_last import channels_last, evened, from_silence
from omnitts_cli.training.discriminators import Discriminators
from omnitts_cli.training.joined import JoinedWeights
from omnitts_cli.training.shapes import build_codec


def decoder_and_input() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    decoder = build_codec(recipe.read(None, miniature=True).codec).decoder
    channels_last(decoder)
    from_silence(decoder, compiled=False)
    return decoder, torch.randn(2, 4, 16)


def test_gradients_are_those_of_each_weight() -> None:
    plain, latent = decoder_and_input()
    other = deepcopy(plain)
    plain.sound(latent).square().mean().backward()
    joined = JoinedWeights((other,), skip=("books",))
    with joined.used(joined.parts()):
        loss = other.sound(latent).square().mean()
    joined.learn(loss)
    of = dict(plain.named_parameters())
    names = {id(weight): name for name, weight in other.named_parameters()}
    for place, slope in zip(joined.places, joined.split(joined.gradients), strict=True):
        wanted = of[names[id(place.weight)]].grad
        wanted = torch.zeros_like(place.weight) if wanted is None else wanted
        assert torch.allclose(slope, wanted, rtol=1e-3, atol=1e-5)


def test_a_module_keeps_its_weights_their_names_and_their_order() -> None:
    decoder, latent = decoder_and_input()
    before, sound = {name: t.clone() for name, t in decoder.state_dict().items()}, decoder.sound(latent)
    joined = JoinedWeights((decoder,), torch.bfloat16, whole=(decoder.quantiser,), skip=("books",))
    with joined.used(joined.parts()):
        assert decoder.closing.conv.weight.dtype == torch.bfloat16
        assert decoder.quantiser.leading.out.weight.dtype == torch.float32
        assert decoder.snake.alpha.dtype == torch.float32
    assert list(before) == list(decoder.state_dict())
    assert all(torch.equal(t, before[name]) for name, t in decoder.state_dict().items())
    assert torch.allclose(decoder.sound(latent), sound, atol=1e-5)
    with torch.no_grad():
        joined.values.mul_(2.0)
    assert torch.equal(decoder.closing.conv.weight, 2 * before["closing.conv.weight"])
    decoder.load_state_dict(before)  # into the same tensor
    assert torch.equal(joined.values, torch.cat([place.flat() for place in joined.places]))
    assert torch.allclose(decoder.sound(latent), sound, atol=1e-5)


def test_half_precision_is_that_of_the_products_alone() -> None:
    """The gradient of what is used in half precision is summed up in the precision of the weights."""
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    joined = JoinedWeights((layer,), torch.bfloat16)
    with joined.used(joined.parts()):
        assert layer.weight.dtype == layer.bias.dtype == torch.bfloat16
        loss = layer(torch.ones(1, 3, dtype=torch.bfloat16)).float().sum()
    joined.learn(loss)
    weight, bias = joined.split(joined.gradients)
    assert weight.dtype == torch.float32 and weight.tolist() == [[1.0] * 3] * 2 and bias.tolist() == [1.0] * 2
    assert joined.gradients.sum() == 8
    assert torch.equal(layer.weight, before)


def test_weights_in_half_precision_are_aligned() -> None:
    """cuDNN has fast kernels only for addresses that are multiples of 16 bytes; the codec and its
    discriminators have odd widths."""
    made = recipe.read()
    codec, plan = build_codec(made.codec), made.polish
    discriminators = Discriminators(plan.discriminator_width, plan.periods, plan.period_width)
    assert any(weight.numel() % 8 for weight in codec.encoder.parameters())
    for modules in ((codec.encoder, codec.decoder), (discriminators,)):
        joined = JoinedWeights(modules, torch.bfloat16, skip=("books",))
        parts = joined.parts()
        assert all(part.storage_offset() * part.element_size() % 16 == 0 for part in parts)
        assert [part.shape for part in parts] == [place.weight.shape for place in joined.places]


def test_evened_weights_compute_the_same() -> None:
    torch.manual_seed(0)
    encoder = build_codec(recipe.read(None, miniature=True).codec).encoder
    channels_last(encoder, padded=True)
    sound = torch.randn(2, 4 * 1920)
    wanted = encoder.latent(sound)
    joined = JoinedWeights((encoder,), skip=("quantiser",))
    parts = [evened(place.owner, part) for place, part in zip(joined.places, joined.parts(), strict=True)]
    assert any(part.shape != place.weight.shape for place, part in zip(joined.places, parts, strict=True))
    with joined.used(parts):
        assert torch.allclose(encoder.latent(sound), wanted, atol=1e-5)
