"""The CPU: operations for few rows, where call overhead dominates. README.md in this folder says how the pieces fit."""
