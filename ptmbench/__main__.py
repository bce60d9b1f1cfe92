"""Runs the command line as `python -m ptmbench`."""

import sys

from ptmbench.bench.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
