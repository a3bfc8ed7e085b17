"""A script of the page as a row of parts: words, signs, strings, templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Comments, strings and regular expressions (those follow an opening sign) are taken whole.
_PART = re.compile(
    r"(?P<note>//[^\n]*|/\*.*?\*/)"
    r"|(?P<text>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<rule>(?<=[(,=:!&|?>{;[])\s*/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*)"
    r"|(?P<template>`)|(?P<space>\s+)|(?P<word>[\w$]+)|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Part:
    """A part of a script.

    Attributes:
        kind: `"note"`, `"text"`, `"rule"`, `"template"`, `"space"`, `"word"` or `"other"`.
        text: its letters.
    """

    kind: str
    text: str


def parts(script: str) -> Iterator[Part]:
    """The parts of a script in order; a template literal is one of them.

    Example:
        >>> from anabranch.inspection.script import parts
        >>> [part.text for part in parts("f(`${a} b`, 'c d')")]
        ['f', '(', '`${a} b`', ',', ' ', "'c d'", ')']
    """
    at = 0
    while at < len(script):
        found = _PART.match(script, at)
        assert found is not None
        start, at = at, found.end()
        kind = str(found.lastgroup)
        if kind == "template":
            at = _end(script, at)
        yield Part(kind, script[start:at])


def pieces(template: str) -> list[str]:
    """A template literal in turns of text and of expressions, text first and last.

    Example:
        >>> from anabranch.inspection.script import pieces
        >>> pieces("`${a} b`")
        ['`${', 'a', '} b`']
    """
    out, at, look = [], 0, 0
    while (start := template.find("${", look)) >= 0:
        if template[start - 1] == "\\":
            look = start + 2
            continue
        end, depth = start + 2, 1
        while depth:
            c = template[end]
            depth += (c == "{") - (c == "}")
            end = _end(template, end + 1) if c == "`" else end + 1
        out += [template[at : start + 2], template[start + 2 : end - 1]]
        at = look = end - 1
    return [*out, template[at:]]


def _end(script: str, at: int) -> int:
    """The end of a template literal that begins before `at`, with those inside it."""
    depth = 0
    while at < len(script):
        c = script[at]
        if c == "\\":
            at += 1
        elif depth == 0 and c == "`":
            return at + 1
        elif c == "`":
            at = _end(script, at + 1) - 1
        elif script.startswith("${", at):
            depth += 1
            at += 1
        elif c == "{" and depth:
            depth += 1
        elif c == "}" and depth:
            depth -= 1
        at += 1
    return at
