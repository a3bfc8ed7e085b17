"""`anabranch cache`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import anabranch as ab

HELP = "compiled code on disk: where it is and how much"
SYNTAX = "[--clear]"
ABOUT = """Say where machine code is kept that was compiled before, and how much of it there is.
ANABRANCH_CACHE_DIR names another directory, an empty one switches the cache off;
ANABRANCH_CACHE_BYTES says how much it may hold."""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument("--clear", action="store_true", help="remove what it holds")


def run(options: Namespace) -> int:
    """Print where and how much, before and after."""
    directory = ab.cache.directory()
    if directory is None:
        print("the cache is switched off")
        return 0
    print(f"{directory}\n{ab.cache.size():,} of {ab.cache.bound():,} bytes")
    if options.clear:
        number = ab.cache.clear()
        print(f"removed {number} {'entry' if number == 1 else 'entries'}")
    return 0
