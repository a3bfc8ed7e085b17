"""The benchmarks are no package: their folder is where their modules are found."""

import sys
from pathlib import Path

FOLDER = str(Path(__file__).parents[3] / "benchmarks")
if FOLDER not in sys.path:
    sys.path.append(FOLDER)
