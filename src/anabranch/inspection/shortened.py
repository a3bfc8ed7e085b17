"""Short names for what a script declares: the same program in fewer letters.

All places of a spelling change together, to a spelling that the script does not use, so no scope
has to be understood.  Properties, strings and what is not declared here stay; names at top level
stay too, so that an error in the page still says where it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import count, product
from string import ascii_letters

from anabranch.inspection.script import Part, parts, pieces

_RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
    arguments as async await break case catch class const continue debugger default delete do else
    enum export extends false finally for function get if implements import in instanceof interface
    let new null of package private protected public return set static super switch this throw true
    try typeof undefined var void while with yield""",
    )
)
_BLOCKS = (")", "=>", ";", "}", "", "else", "do", "try", "finally")
_EDGE = "edge"  # a bracket around what stands in a template, which is not written


def shortened(script: str) -> str:
    """A squeezed script with short names for what it declares within functions.

    Example:
        >>> from anabranch.inspection.shortened import shortened
        >>> shortened("let twice=(number)=>{let {text,at:place=0}=number;return {text,place}};")
        'let twice=(a)=>{let {text:c,at:b=0}=a;return {text:c,place:b}};'
    """
    found = _Names(script)
    names = [i for i in found.before if found.is_name(i)]
    often = Counter(found.text(i) for i in names)
    within, top = found.declared()
    chosen = sorted((within - top) & often.keys(), key=lambda name: (-often[name], name))
    taken = _RESERVED | (often.keys() - set(chosen))
    fresh = (name for name in _spellings() if name not in taken)
    new = dict(zip(chosen, fresh, strict=False))
    for i in names:
        old = found.text(i)
        if old in new:
            key = f"{old}:" if found.is_shorthand(i) else ""
            found.parts[i] = Part("word", key + new[old])
    return "".join(part.text for part in found.parts if part.kind != _EDGE)


def free(script: str) -> set[str]:
    """The names that a script uses and does not declare.

    Example:
        >>> from anabranch.inspection.shortened import free
        >>> sorted(free("let f=(a)=>Math.max(a,b);"))
        ['Math', 'b']
    """
    found = _Names(script)
    within, top = found.declared()
    return {found.text(i) for i in found.before if found.is_name(i)} - within - top


def _spellings() -> Iterator[str]:
    for length in count(1):
        yield from map("".join, product(ascii_letters, repeat=length))


class _Names:
    """The parts of a script, and of each word whether it is a name, a key or a property."""

    def __init__(self, script: str) -> None:
        self.parts = [*_flat(script), Part("space", "")]
        self.none = len(self.parts) - 1
        solid = [i for i, part in enumerate(self.parts) if part.kind != "space"]
        self.before = dict(zip(solid, [self.none, *solid], strict=False))
        self.after = dict(zip(solid, [*solid[1:], self.none], strict=True))
        self.pair: dict[int, int] = {}  # where the other bracket is
        self.blocks: dict[int, bool] = {}  # of each brace, whether statements stand in it
        self.around: dict[int, int] = {}  # the bracket around each part
        opened = [self.none]
        for i in solid:
            if self.text(i) in ("}", ")", "]"):
                start = opened.pop()
                self.pair[i], self.pair[start] = start, i
            self.around[i] = opened[-1]
            if self.text(i) in ("{", "(", "["):
                self.blocks[i] = self.text(i) == "{" and self._opens_block(i)
                opened.append(i)

    def text(self, i: int) -> str:
        """A part, where it is no string."""
        part = self.parts[i]
        return "''" if part.kind in ("text", "rule") else part.text

    def _opens_block(self, i: int) -> bool:
        last = self.before[i]
        text = self.text(last)
        if text == ">" and self.text(self.before[last]) == "=":
            text = "=>"
        return text in _BLOCKS or self.blocks.get(last, False)

    def _is_member(self, i: int) -> bool:
        """Whether a part begins a member of an object or of a pattern."""
        brace = self.around[i]
        holds = self.text(brace) == "{" and not self.blocks[brace]
        return holds and self.text(self.before[i]) in ("{", ",")

    def is_name(self, i: int) -> bool:
        """Whether a word stands for what it names: no property, no key, no word of the language."""
        word = self.text(i)
        if self.parts[i].kind != "word" or word in _RESERVED or word[0].isdigit():
            return False
        last = self.before[i]
        if self.text(last) == "." != self.text(self.before[last]):
            return False  # of three dots the second is before the third
        return not (self._is_member(i) and self.text(self.after[i]) in (":", "("))

    def is_shorthand(self, i: int) -> bool:
        """Whether a name is its own key: `{a}`, `{a=1}`."""
        return self._is_member(i) and self.text(self.after[i]) in ("}", ",", "=")

    def declared(self) -> tuple[set[str], set[str]]:
        """The names that the script declares within functions or blocks, and at top level."""
        within: set[str] = set()
        top: set[str] = set()
        for i, then in self.after.items():
            mine = top if self.around[i] == self.none else within
            if self.text(i) == "let":
                mine.update(self._listed(then))
            elif self.text(i) == "function":
                named = self.is_name(then)
                mine.update([self.text(then)] if named else [])
                within.update(self._pattern(self.after[then] if named else then))
            elif self.text(i) == "=" and self.text(then) == ">":
                last = self.before[i]
                within.update(self._pattern(self.pair.get(last, last)))
            elif self.text(then) == "(" and self._is_member(i):
                within.update(self._pattern(then))
        return within, top

    def _pattern(self, start: int) -> Iterator[str]:
        """The names that a pattern, or a list of parameters, binds."""
        for i in range(start, self.pair.get(start, start) + 1):
            binds = i == start or self.text(self.before[i]) in ("{", "(", "[", ",", ":", ".")
            if self.parts[i].kind != "space" and binds and self.is_name(i):
                yield self.text(i)

    def _listed(self, i: int) -> Iterator[str]:
        """The names of a declaration, whose first begins at a part."""
        level = self.around[i]
        while True:
            yield from self._pattern(i)
            while self.around.get(i) == level and self.text(i) not in (",", ";"):
                i = self.after[self.pair.get(i, i)]
            if self.text(i) != "," or self.around[i] != level:
                return
            i = self.after[i]


def _flat(script: str) -> Iterator[Part]:
    """The parts of a script, with what stands inside templates among them."""
    for part in parts(script):
        if part.kind != "template":
            yield part
            continue
        for k, piece in enumerate(pieces(part.text)):
            if k % 2:
                yield Part(_EDGE, "(")
                yield from _flat(piece)
                yield Part(_EDGE, ")")
            else:
                yield Part("text", piece)
