"""Which rows of tests/requirements.toml are proved, and by how many tests.

    python scripts/requirements.py [--missing] [--strict]

A test names what it proves with `@pytest.mark.proves("S0-24")`.  The names are read from the
source, so no test is imported, and an id has to be written out as a string.
"""

import argparse
import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent.parent / "tests"


class Row(NamedTuple):
    """One thing that must hold, and the change to the product that its tests must notice."""

    id: str
    text: str
    mutation: str


def rows(file: Path = TESTS / "requirements.toml") -> list[Row]:
    """The rows in the order of the file; a field too many or too few is a TypeError."""
    return [Row(**table) for table in tomllib.loads(file.read_text(encoding="utf-8"))["row"]]


def claims(tests: Path = TESTS) -> dict[str, list[str]]:
    """id -> the places ("units/test_graph.py:12") that say they prove it."""
    found = defaultdict(list)
    for file in sorted(tests.rglob("*.py")):
        for id, line in marks(ast.parse(file.read_text(encoding="utf-8"), str(file))):
            found[id].append(f"{file.relative_to(tests).as_posix()}:{line}")
    return dict(found)


def marks(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every `mark.proves(...)`: a decorator, a `pytestmark`, or among the marks of a parameter."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    attr="proves", value=ast.Attribute(attr="mark") | ast.Name("mark")
                )
            ):
                for argument in node.args:
                    if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                        raise SyntaxError(f"line {node.lineno}: proves() needs ids written out")
                    yield argument.value, node.lineno


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Which requirements are proved by which tests.")
    parser.add_argument("--missing", action="store_true", help="list only rows without a test")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a row has no test")
    options = parser.parse_args(arguments)

    wanted, proved = rows(), claims()
    missing = [row for row in wanted if row.id not in proved]
    unknown = proved.keys() - {row.id for row in wanted}
    for row in missing:
        print(f"{row.id:6}  no test  {row.text}")
    if not options.missing:
        for row in wanted:
            if row.id in proved:
                places = proved[row.id]
                print(f"{row.id:6}  {len(places):7}  {places[0]}{', …' if places[1:] else ''}")
    print(
        f"{len(wanted) - len(missing)} of {len(wanted)} rows proved, {len(missing)} without a test"
    )
    for id in sorted(unknown):
        print(f"{id}: not in tests/requirements.toml ({', '.join(proved[id])})", file=sys.stderr)
    return 2 if unknown else int(options.strict and bool(missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
