"""The encoders for cloning: their shapes from the config files, and where their values are stored. Does not import
torch.
"""

from omnitts_cli.families.common.fields import RATE, RATES, WIDTH, Fields, transformer_shape
from omnitts_cli.families.common.names import book_names, conv_names, renamed
from omnitts_cli.models.shapes import TENSORS, EncoderShape, MelShape, SpeakerShape
from omnitts_cli.models.sources import Names, One

KERNEL, BOOKS = 64, 256


# ---- shapes, from the config files


def encoder_shape(codec: Fields, groups: int, codes: int, samples_per_frame: int) -> EncoderShape:
    """The shape of the codec's encoder."""
    at = codec.part("encoder_config")
    at.must_be(**_ENCODER_CHOICES)
    codec.agree("encoder_valid_num_quantizers", groups, "talker_config.num_code_groups")
    codec.agree("input_sample_rate", codec.whole("output_sample_rate", 192_000), "output_sample_rate")
    at.agree("codebook_size", codes, "talker_config.code_predictor_config.vocab_size")
    if (books := at.whole("num_quantizers", BOOKS)) < groups:
        raise at.problem("num_quantizers", f"{books} are fewer than the {groups} code groups")
    shape = EncoderShape(
        groups=groups,
        codes=codes,
        book_width=at.whole("codebook_dim", WIDTH),
        filters=at.whole("num_filters", WIDTH),
        falls=at.wholes("upsampling_ratios", RATE, RATES)[::-1],  # stored in the order of the way back
        transformer=transformer_shape(at, "norm_eps", least=0),  # convolutions alone are an encoder
        dilations=_dilations(at),
        kernel=at.whole("kernel_size", KERNEL),
        unit_kernel=at.whole("residual_kernel_size", KERNEL),
        closing_kernel=at.whole("last_kernel_size", KERNEL),
        squeeze=at.whole("compress", 64),
    )
    at.divides("compress", shape.squeeze, "num_filters", shape.filters)
    if shape.samples_per_frame != samples_per_frame:
        raise at.problem(
            "upsampling_ratios", f"make frames of {shape.samples_per_frame} samples, not {samples_per_frame}"
        )
    return shape


_ENCODER_CHOICES: dict[str, object] = {
    "hidden_act": "gelu", "attention_bias": False, "num_semantic_quantizers": 1, "audio_channels": 1,
    "pad_mode": "constant", "use_causal_conv": True, "use_conv_shortcut": False, "normalize": False,
}  # fmt: skip


def _dilations(at: Fields) -> tuple[int, ...]:
    growth = at.whole("dilation_growth_rate", 8)
    return tuple(growth**unit for unit in range(at.whole("num_residual_layers", 4)))


def speaker_shape(top: Fields, hidden: int, rate: int) -> SpeakerShape:
    """Published files name two values and leave the rest to these defaults.

    The vector is used as a row of the prompt, so its width is the talker's, whatever `enc_dim` says; the
    stored weights are compared with it.
    """
    at, usual = top.part("speaker_encoder_config"), SpeakerShape(hidden)
    blocks = len(usual.channels)
    shape = SpeakerShape(
        embedding=hidden,
        channels=at.wholes("enc_channels", WIDTH, blocks, usual.channels),
        kernels=at.wholes("enc_kernel_sizes", 64, blocks, usual.kernels),
        dilations=at.wholes("enc_dilations", 64, blocks, usual.dilations),
        parts=at.whole("enc_res2net_scale", 64, 2, usual.parts),
        gate=at.whole("enc_se_channels", WIDTH, 1, usual.gate),
        attention=at.whole("enc_attention_channels", WIDTH, 1, usual.attention),
        mel=MelShape(rate, bands=at.whole("mel_dim", 1024, 1, MelShape().bands), highest=rate / 2),
    )
    at.must_be(sample_rate=rate)
    if not len(shape.channels) == len(shape.kernels) == len(shape.dilations) == blocks:
        raise at.problem("enc_channels", f"with kernel sizes and dilations, must have {blocks} entries each")
    inside = shape.channels[:-1]
    if len(set(inside)) > 1:
        raise at.problem("enc_channels", f"{list(inside)} differ, but each block adds its output to its input")
    at.divides("enc_res2net_scale", shape.parts, "enc_channels", inside[0])
    return shape


# ---- where the values are stored


def encoder_names(shape: EncoderShape) -> Names:
    """Names of the codec's encoder, which is stored beside the decoder."""
    names: Names = {}
    for ours, theirs, count in (("leading", "semantic", 1), ("residual", "acoustic", shape.groups - 1)):
        root = f"encoder.quantizer.{theirs}_residual_vector_quantizer"
        codebooks = [f"{root}.layers.{i}.codebook" for i in range(count)]
        names |= book_names(ours, root, codebooks, "embed_sum")
    listening = "encoder.encoder.layers"
    names |= conv_names("opening.conv", f"{listening}.0.conv")
    place = 1
    for i in range(len(shape.falls)):
        for j in range(len(shape.dilations)):
            names |= conv_names(f"falls.{i}.units.{j}.wide.conv", f"{listening}.{place}.block.1.conv")
            names |= conv_names(f"falls.{i}.units.{j}.point.conv", f"{listening}.{place}.block.3.conv")
            place += 1
        names |= conv_names(f"falls.{i}.fall.conv", f"{listening}.{place + 1}.conv")  # after an activation
        place += 2
    names |= conv_names("closing.conv", f"{listening}.{place + 1}.conv")
    for i in range(shape.transformer.layers):
        names |= _clip_layer(f"transformer.layers.{i}", f"encoder.encoder_transformer.layers.{i}")
    names["last_fall.conv.weight"] = One("encoder.downsample.conv.weight")
    return names


def _clip_layer(ours: str, theirs: str) -> Names:
    alike = ("attention.qkv.weight", "attention.out.weight", "attention_scale", "mlp_scale")
    names = renamed({name: TENSORS["codec layer"][name] for name in alike}, f"{ours}.", f"{theirs}.")
    names |= conv_names(f"{ours}.attention_norm", f"{theirs}.input_layernorm")
    names |= conv_names(f"{ours}.mlp_norm", f"{theirs}.post_attention_layernorm")
    names[f"{ours}.up.weight"] = One(f"{theirs}.mlp.fc1.weight")
    names[f"{ours}.down.weight"] = One(f"{theirs}.mlp.fc2.weight")
    return names


def speaker_names(shape: SpeakerShape) -> Names:
    """Names of the speaker encoder, which Base checkpoints carry beside the talker."""
    pairs = {"opening": "blocks.0.conv", "join": "mfa.conv", "out": "fc"}
    pairs |= {"pool.into": "asp.tdnn.conv", "pool.out": "asp.conv"}
    for i in range(len(shape.channels) - 2):
        ours, theirs = f"blocks.{i}", f"blocks.{i + 1}"
        pairs |= {f"{ours}.before": f"{theirs}.tdnn1.conv", f"{ours}.after": f"{theirs}.tdnn2.conv"}
        pairs |= {f"{ours}.gate_in": f"{theirs}.se_block.conv1", f"{ours}.gate_out": f"{theirs}.se_block.conv2"}
        pairs |= {f"{ours}.parts.{j}": f"{theirs}.res2net_block.blocks.{j}.conv" for j in range(shape.parts - 1)}
    return {
        f"{ours}.{part}": One(f"speaker_encoder.{theirs}.{part}")
        for ours, theirs in pairs.items()
        for part in ("weight", "bias")
    }
