"""Finding, downloading and verifying checkpoints, and loading them into modules."""
