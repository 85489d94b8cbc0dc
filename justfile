# The team's verbs. `just` alone lists them.

_list:
    @just --list

# quick tests, on the CPU
test *args:
    pytest {{args}}

# style, import rows, types, house rules
lint:
    ruff check .
    ruff format --check .
    lint-imports
    mypy
    pytest -q tests/test_house.py

# what can be fixed by machine
fix:
    ruff check --fix .
    ruff format .

# speed on this machine
bench *args:
    omnitts bench {{args}}

# the examples of the README, and that every command has help
docs:
    pytest -q tests/test_docs.py
