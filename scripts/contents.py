"""Write `src/anabranch/contents.py`: which module makes which ops and public functions.

The package looks there to load a module when something that it makes is first asked for. A test
compares the file with what this script would write.

    python scripts/contents.py
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

PACKAGE = Path(__file__).parents[1] / "src" / "anabranch"
ROOMS = ("ops", "composed", "diff", "frontends")
HEAD = '''"""Which module makes which ops and public functions: each is loaded when it is asked for.

Written by `scripts/contents.py` from the records; a test says when to write it again.
"""

CONTENTS = {
'''


class Made(dict[str, Any]):
    """A table of the registry that notes which module is run when something enters."""

    places: dict[str, str] = {}  # noqa: RUF012  # one for all tables

    def __setitem__(self, name: str, made: Any) -> None:
        frame: FrameType | None = sys._getframe()
        while frame is not None and not self._is_module_of_ours(frame):
            frame = frame.f_back
        assert frame is not None
        self.places.setdefault(name, frame.f_globals["__name__"])
        super().__setitem__(name, made)

    @staticmethod
    def _is_module_of_ours(frame: FrameType) -> bool:
        name = frame.f_globals["__name__"]
        return frame.f_code.co_name == "<module>" and name.startswith("anabranch.")


def contents() -> dict[str, list[str]]:
    """The names that each module makes."""
    bare = ModuleType("anabranch")  # without what its __init__ would load
    bare.__path__ = [str(PACKAGE)]
    sys.modules["anabranch"] = bare
    registry = importlib.import_module("anabranch.core.registry")
    registry._ops, registry._made = Made(), Made()  # type: ignore[attr-defined]
    for room in ROOMS:
        for found in pkgutil.walk_packages([str(PACKAGE / room)], f"anabranch.{room}."):
            importlib.import_module(found.name)
    by_module: dict[str, list[str]] = {}
    for name, module in sorted(Made.places.items()):
        if module.split(".")[1] in ROOMS:
            by_module.setdefault(module, []).append(name)
    return dict(sorted(by_module.items()))


def written(by_module: dict[str, list[str]], width: int = 90) -> str:
    """The text of the file."""
    lines = []
    for module, names in by_module.items():
        rows = [""]
        for name in names:
            if len(rows[-1]) + len(name) > width:
                rows.append("")
            rows[-1] += f"{name} "
        rows[-1] = rows[-1].rstrip()
        if len(rows) == 1 and len(module) + len(rows[0]) + 11 <= 100:
            lines.append(f'    "{module}": "{rows[0]}",')
        else:
            lines += [f'    "{module}": (', *(f'        "{row}"' for row in rows), "    ),"]
    return HEAD + "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    text = written(contents())
    if sys.argv[1:] == ["--print"]:
        print(text, end="")
    else:
        (PACKAGE / "contents.py").write_text(text, encoding="utf-8")
