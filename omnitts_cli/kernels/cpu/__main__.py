"""`python -m omnitts_cli.kernels.cpu`: compile the CPU library of a source checkout."""

import sys

from omnitts_cli.kernels.cpu.build import main

sys.exit(main())
