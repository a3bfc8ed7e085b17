"""The functions of a program, divided into modules: what LLVM makes machine code of one by one.

What several programs have, tiles of products and long functions of numbers, is a module of its own
each, with what only that calls, whose text and name do not depend on the program.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

# Lines of a module. Each costs something by itself, so short ones are not cut; what LLVM needs in
# memory is a multiple of a module's length. In between they grow with the program, so that there
# are enough for several threads.
LEAST, MOST = 500, 10_000
SHARE = 16  # of what was written before, at least

_NAME = re.compile(r"(@[\w.]+|!\d+)")  # of a function or a constant, or the number of a remark
_HEAD = re.compile(r"define (?:internal )?(.+?) (@[\w.]+)\((.*)\)[\w ]*\{")
_PARAMETER = re.compile(r" %[\w.]+")
_DEFINED = re.compile(r"^define [^@]*(@[\w.]+)\(", re.MULTILINE)


class Division:
    """Modules that grow as functions are written.

    What a function needs are lines that declare, constants, and definitions of functions that it
    shares with other programs. Each module is told to `closed` when nothing more comes into it.

    Attributes:
        modules: those that are closed.
    """

    def __init__(self, closed: Callable[[str], None] = lambda _: None) -> None:
        self._closed = closed
        self.modules: list[str] = []
        self._functions: dict[str, str] = {}  # shared ones, by name
        self._known: dict[str, str] = {}  # what else is needed anywhere, by name
        self._texts: list[str] = []
        self._needs: set[str] = set()
        self._lines = self._before = 0

    def add(self, text: str, needs: Iterable[str]) -> None:
        """Put a function into the module that is open, behind which this may be closed."""
        self._texts.append(text)
        self._needs.update(needs)
        self._lines += text.count("\n")
        if self._lines > max(LEAST, min(MOST, self._before // SHARE)):
            self.close()

    def close(self) -> None:
        """Begin another module, if there is something in the one that is open."""
        if not self._texts:
            return
        own = {found[1] for text in self._texts for found in _DEFINED.finditer(text)}
        heads = [self._head(need) for need in sorted(self._needs) if _name(need) not in own]
        self.modules.append("\n".join([*heads, *self._texts, ""]))
        self._closed(self.modules[-1])
        self._before += self._lines
        self._texts, self._needs, self._lines = [], set(), 0

    def _head(self, need: str) -> str:
        """What a module holds that needs this."""
        name = _name(need)
        if not need.startswith("define"):
            return self._known.setdefault(name, need)
        self._functions[name] = need
        return _declared(need)

    def shared(self) -> list[str]:
        """The modules that other programs may have, too."""
        return [self._shared(name) for name in sorted(self._functions)]

    def _shared(self, name: str) -> str:
        text = self._functions[name]
        needs = []
        for other in sorted(set(_NAME.findall(text)) - set(_DEFINED.findall(text))):
            function = self._functions.get(other)
            needs.append(self._known[other] if function is None else _declared(function))
        return "\n".join([*needs, text.replace("define internal", "define", 1), ""])


def _name(need: str) -> str:
    """What a declaration, a definition, a constant or a remark is called."""
    found = _NAME.search(need)
    assert found is not None
    return found[1]


@functools.lru_cache(maxsize=256)
def _declared(function: str) -> str:
    """The declaration of a function that another module defines."""
    found = _HEAD.match(function)
    assert found is not None
    result, name, parameters = found.groups()
    return f"declare {result} {name}({_PARAMETER.sub('', parameters)})"
