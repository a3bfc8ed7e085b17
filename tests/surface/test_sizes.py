"""A file that has grown past a few screens hides a room that wants its own name."""

from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "anabranch"
CEILING = 420


def test_no_file_has_grown_past_the_ceiling():
    lines = {
        file.relative_to(PACKAGE).as_posix(): len(file.read_text(encoding="utf-8").splitlines())
        for file in PACKAGE.rglob("*.py")
    }
    assert lines
    assert {name: count for name, count in lines.items() if count > CEILING} == {}
