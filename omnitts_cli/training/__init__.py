"""Learning: data, codec, talker and speaker training, evaluation, export."""
