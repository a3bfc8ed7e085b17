"""Plain modules joined into one script: what the page needs of a bundler, and no more.

Rules that make it safe, which a test checks: one-line imports of names from modules beside;
exports only of const and function; names at top level unique across modules.  Comments and needless
spaces are left out: the readable page is the folder `page/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from anabranch.inspection.script import parts, pieces

IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=const|function|async|class)", re.MULTILINE)
_SHORTER = {"const": "let", "true": "!0", "false": "!1", "undefined": "void 0", "Infinity": "1/0"}
_CLOSING = re.compile(r";\n?\}")
_ONE = re.compile(r"(?<![\w$])\((\w+)\)=>")


@cache
def source(name: str) -> str:
    """A file of the page."""
    return files("anabranch.inspection").joinpath("page", name).read_text("utf-8")


def linked(modules: Iterable[str]) -> str:
    """Modules and all that they import as one script, each once, what is needed first.

    Example:
        >>> from anabranch.inspection.linker import linked
        >>> linked(["dom"]).count("function el(")
        1
    """
    done: set[str] = set()
    out: list[str] = []

    def take(name: str) -> None:
        if name in done:
            return
        done.add(name)
        text = source(f"{name}.js")
        for needed in IMPORT.findall(text):
            take(needed)
        out.append(squeezed(EXPORT.sub("", IMPORT.sub("", text))))

    for module in modules:
        take(module)
    return "\n".join(out)


def squeezed(script: str) -> str:
    """A script without comments and without the spaces that nothing needs.

    Example:
        >>> from anabranch.inspection.linker import squeezed
        >>> squeezed('const a = [1, 2];  // two\\nif (a) { f(`${a + 1} b`, "c  d"); }')
        'let a=[1,2];if(a){f(`${a+1} b`,"c  d")}'
    """
    out: list[str] = []
    for part in parts(script):
        text = part.text
        if part.kind == "note":
            continue
        if part.kind == "template":
            turns = pieces(text)
            text = "".join(squeezed(one) if k % 2 else one for k, one in enumerate(turns))
        elif part.kind == "space":
            text = "\n" if "\n" in text else " "
        elif part.kind == "rule":
            text = text.lstrip()
        elif part.kind == "word" and (not out or out[-1] != "."):
            text = _SHORTER.get(text, text)
        out.append(text)
    return _joined(_gathered(out))


def _gathered(parts: list[str]) -> list[str]:
    """Declarations that follow each other as one: `let a=1;let b=2` is `let a=1,b=2`."""
    out: list[str] = []
    declares = [False]  # at each depth of brackets: is the statement a declaration
    last = ""  # what stood before, spaces aside
    end: int | None = None  # where the declaration before ended, if one did just now
    for part in parts:
        if not part.strip():
            if not (out and out[-1] == ","):
                out.append(part)
            continue
        starts = last in ("", ";", "{", "}")
        if part == "let" and starts and end is not None:
            del out[end:]
            out.append(",")
            declares[-1] = True
        else:
            if part == "let" and starts:
                declares[-1] = True
            elif starts and part not in ("}", ";") and (last != "}" or part.isidentifier()):
                declares[-1] = False  # a sign after a brace goes on with what the brace closed
            out.append(part)
        end = None
        if part in ("{", "(", "["):
            declares.append(False)
        elif part in ("}", ")", "]"):
            declares.pop()
        elif part == ";":
            end = len(out) - 1 if declares[-1] else None
        last = part
    return out


def _joined(parts: list[str]) -> str:
    """The parts with a space only between two words, and no empty lines."""
    out: list[str] = []
    for i, part in enumerate(parts):
        if part in (" ", "\n"):
            last = out[-1][-1:] if out else "\n"
            after = next((p[0] for p in parts[i + 1 :] if p not in (" ", "\n")), "")
            if last in ("\n", ""):
                continue
            if part == "\n":
                if last not in ";{,(" and after not in "})" and not _ends_block(last, after):
                    out.append("\n")
            elif _needed(last, after):
                out.append(" ")
        else:
            out.append(part)
    script = "".join(out).strip()
    return _CLOSING.sub("}", _ONE.sub(r"\1=>", script))


def _ends_block(last: str, after: str) -> bool:
    """Whether a brace closes a block: after an expression there would be a semicolon."""
    return last == "}" and (after.isalnum() or after in "_$")


def _needed(a: str, b: str) -> bool:
    words = re.compile(r"[\w$]")
    return bool(words.match(a) and words.match(b)) or (a == b and a in "+-")


def styled(sheets: Iterable[str]) -> str:
    """Style sheets as one, without comments and needless spaces.

    Example:
        >>> from anabranch.inspection.linker import styled
        >>> "\\n}" in styled(["style.css"])
        False
    """
    text = "\n".join(source(name) for name in sheets)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r"\s*([{};,>~]|(?<=\S) \+ (?=\S))\s*", lambda m: m[1].strip(), text)
    text = re.sub(r"\(([\w-]+): ", r"(\1:", text)
    text = text.replace(" !important", "!important")
    text = re.sub(r"(?<=[\w-]): (?=[^{}]*[;}])", ":", text)
    return re.sub(r";\}", "}", text).strip()
