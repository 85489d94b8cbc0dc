"""Networks as functions of their arguments; they know nothing of slots, devices, checkpoints or families."""
