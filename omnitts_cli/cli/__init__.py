"""Commands: sentences that hold no logic."""
