"""`python -m anabranch`: the commands, where the script is not on the path."""

import sys

from anabranch.cli import main

if __name__ == "__main__":
    sys.exit(main())
