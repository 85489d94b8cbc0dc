# Shortcuts for development. `just` lists them.

_list:
    @just --list

# quick tests, on the CPU
test *args:
    pytest {{args}}

# style, import layers, types, house rules
lint:
    ruff check .
    ruff format --check .
    lint-imports
    mypy
    pytest -q tests/test_house.py

# fix what can be fixed automatically
fix:
    ruff check --fix .
    ruff format .

# speed on this machine
bench *args:
    omnitts bench {{args}}

# run the README examples; check that every command has help
docs:
    pytest -q tests/test_docs.py
