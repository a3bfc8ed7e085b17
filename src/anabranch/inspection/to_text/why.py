"""Why a gradient is what it is: the place, the numbers that prove it, the way there, a way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.core.told import index_text
from anabranch.inspection.to_text.cells import bad_text, brief, ends
from anabranch.inspection.to_text.columns import Cell, Column, columns
from anabranch.inspection.to_text.letters import width
from anabranch.inspection.to_text.page import Line, Page, Part, measure, padded, spread
from anabranch.inspection.to_text.source import excerpt
from anabranch.inspection.to_text.story import path_product

if TYPE_CHECKING:
    from anabranch.inspection.explanation import Explanation
    from anabranch.inspection.parts import Evidence, Finding, Node, Path, Share, Step
    from anabranch.inspection.trace import Trace

_STEPS = 14  # stations of a way that are all shown; of more, those at its ends and at the fault
_NAMES = 9  # nodes of a path that are all shown
_WORDS = ("the", "no", "nothing", "backward", "every", "what")
_BAD = ("first-nan", "first-inf", "nan", "inf", "bad-gradient")


def lines(report: Explanation, page: Page) -> list[Line]:
    """The answer; where nothing in particular was asked, also what else was found."""
    found, trace = report.finding, report.trace
    if found.kind == "value":
        said = value(trace, found, page)
    elif found.kind == "gradient" or (found.element is not None and found.shares is not None):
        said = _arrived(trace, found, page)
    elif found.kind in _BAD:
        said = _bad(trace, found, page)
    else:
        said = _missing(trace, found, page)
    if found.hint:
        said += [[], *page.prose(f"Way out: {found.hint.rstrip('.')}.")]
    for one in report.others:
        said += [[], *page.prose(f"Also: {_sentence(trace, one)}", style="mute")]
    return said


def _sentence(trace: Trace, found: Finding) -> str:
    where = "" if found.node is None else _at(trace, found.node, found.text or "")
    reach = ", which does not reach the result"
    name = "" if found.about is None else f"{trace.label(found.about)}: "
    return f"{name}{found.text}{where}{reach if found.reaches_root is False else ''}."


def _at(trace: Trace, number: int, text: str) -> str:
    """The place of a node, where the text does not name it."""
    line = trace.line(trace.nodes[number])
    place = "" if line is None else f"{line[0]}:{line[1]}"
    return f" ({place})" if place and place not in text else ""


# A gradient that is there


def _arrived(trace: Trace, found: Finding, page: Page) -> list[Line]:
    if found.about is None or not (found.shares or found.element is not None):
        return page.prose(f"{(found.text or '').capitalize()}.")
    node = trace.nodes[found.about]
    name, single = trace.label(node.id), not node.shape
    head: list[Part] = [(name, "strong"), "   gradient ", *_gradients(page, node)]
    if found.element is not None:
        head, single = element_head(name, found, page), True
    amounts = [share.amount for share in found.shares or ()]
    single = single and not node.outputs
    if len(amounts) > 1 and single and len(amounts) <= 6:
        head.append(" = ")
        for i, amount in enumerate(amounts):
            head += [" + " if i else "", _amount(page, amount)]
    said = [page.line(*head), []]
    rows = [_share(trace, found, share, page) for share in found.shares or ()]
    said += aligned(page, rows)
    if found.kind != "gradient":
        said += [[], *page.prose(f"{_capital(found.text or '')}.")]
    if found.paths:
        said += [[], *_paths(trace, found, page)]
    return said


def element_head(name: str, found: Finding, page: Page) -> list[Part]:
    """`w[2, 0]   value 0.5   gradient 64`."""
    head: list[Part] = [(name + index_text(found.element or ()), "strong")]
    for one in found.proof or ():
        style = "grad" if one.label == "gradient" else "value"
        head += [f"   {one.label} ", (page.number(one.v), style)]
    return head


def value(trace: Trace, found: Finding, page: Page) -> list[Line]:
    """How a value was computed, and what went in."""
    if found.node is None:
        return page.prose(f"{_capital(found.text or '')}.")
    operands, own = (found.proof or [])[:-1], (found.proof or [])[-1]
    head: list[Part] = [(own.label, "strong"), "   value ", _known(own, page)]
    line = trace.line(trace.nodes[found.node])
    place = page.line((f"{line[0]}:{line[1]}   {line[2]}", "mute")) if line else []
    said = [*spread(page, page.line(*head), place, gap=3), []]
    rows: list[list[list[Part]]] = []
    for one in operands:
        kind = trace.nodes[one.node].type if one.node is not None else ""
        rows.append([[one.label], [_known(one, page)], [(kind, "mute")]])
    said += aligned(page, rows)
    return [*said, *([[]] if rows else []), *page.prose(found.text or "")]


def _known(one: Evidence, page: Page) -> Part:
    """The number of a fact, or its summary; a dot where neither was kept."""
    if one.v is not None:
        return page.number(one.v), "value"
    return ("·", "mute") if one.summary is None else brief(page, one.summary, "value")


def _gradients(page: Page, node: Node) -> list[Part]:
    """The gradient; of several outputs each one's."""
    if not node.outputs:
        return [_amount(page, node.grad)]
    said: list[Part] = []
    for out, port in enumerate(node.outputs[:4]):
        said += [", " if out else "", _amount(page, port.grad), (f" (output {out})", "mute")]
    return [*said, *([f", {len(node.outputs) - 4} more"] if len(node.outputs) > 4 else [])]


def _amount(page: Page, summary: object) -> Part:
    return ("none", "mute") if summary is None else brief(page, summary, "grad")


def _share(trace: Trace, found: Finding, share: Share, page: Page) -> list[list[Part]]:
    """`through s | 16 × 1 = 16 | story.py:4 | s = p + x`."""
    upstream, amount, local = (
        _amount(page, share.upstream),
        _amount(page, share.amount),
        share.local,
    )
    if local is not None and local.v is not None:
        product = [upstream, " × ", page.number(local.v), " = ", amount]
    elif local is not None and local.value is not None:
        product = [upstream, " × ", brief(page, local.value, "value"), " = ", amount]
    else:
        rule = "" if local is None or not local.text else f"by {local.text}"
        product = [upstream, " ", rule, " = ", amount] if share.upstream else [rule, " = ", amount]
        product = [part for part in product if part]
    line = trace.line(trace.nodes[share.through])
    place: list[list[Part]] = [[], []] if line is None else [
        [(f"{line[0]}:{line[1]}", "mute")], [(line[2], "mute")]
    ]  # fmt: skip
    through: list[Part] = [f"through {trace.label(share.through)}"]
    if found.about is not None and trace.nodes[found.about].outputs:
        through.append((f" to output {share.out or 0}", "mute"))
    return [through, product, *place]


def aligned(page: Page, rows: Sequence[Sequence[Sequence[Part]]]) -> list[Line]:
    """Parts under one another, without headings."""
    cells = [[page.line(*part) for part in row] for row in rows]
    widths = [max(measure(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    found = []
    for row in cells:
        line: Line = [("  ", "")]
        for part, room in zip(row, widths, strict=True):
            line += [*padded(part, room), ("   ", "")]
        found.append(page.fit(line, page.width))
    return found


def _paths(trace: Trace, found: Finding, page: Page) -> list[Line]:
    paths = found.paths or []
    names = [_names(trace, path) for path in paths]
    rows: list[list[list[Part]]] = []
    for i, path in enumerate(paths):
        rows.append([["paths" if i == 0 else ""], [names[i]], path_product(page, path)])
    said = aligned(page, rows)
    if found.more_paths:
        said.append(page.line(f"          and {page.number(found.more_paths)} more paths"))
    return said


def _names(trace: Trace, path: Path) -> str:
    names = [trace.label(number) for number in path.nodes]
    if len(names) > _NAMES:
        names = [*names[:4], f"… {len(names) - 8} more …", *names[-4:]]
    return " → ".join(names)


# A value or gradient that is not finite


def _bad(trace: Trace, found: Finding, page: Page) -> list[Line]:
    said = [page.line((_headline(trace, found), "bad"))]
    if found.node is None:
        return [*said, [], *page.prose(f"{found.text}.")]
    proof = found.proof or []
    later = [one for one in proof if found.becomes is not None and one.node == found.becomes]
    first = [one for one in proof if one not in later]
    said += [[], *_place(trace, found.node, page), *_counts(trace, found, page)]
    reason = found.text or ""
    if found.kind == "bad-gradient":  # the sentence says first whose gradient it is
        reason = reason.split(": ", 1)[-1]
    said += _evidence(first, page, note=reason)
    if found.becomes is not None:
        said += [[], page.line("It becomes NaN further on:"), []]
        said += [*_place(trace, found.becomes, page), *_evidence(later, page)]
    if found.reaches or found.reaches_root is not None:
        said += [[], *page.prose(_reach(trace, found))]
    marks = {found.node: "here" if found.element else "first bad value"}
    if found.becomes is not None:
        marks[found.becomes] = "first NaN"
    return [*said, [], *excerpt(trace, marks, page)]


def _headline(trace: Trace, found: Finding) -> str:
    if found.kind == "bad-gradient" and found.about is not None:
        why = "" if found.phase == "backward" else ", because a value before it is not"
        return f"The gradient of {trace.label(found.about)} is not finite{why}"
    kind = "First value" if found.kind.startswith("first-") else "A value"
    if found.phase == "backward":
        kind = kind.replace("value", "gradient")
    where = ""
    if found.node is not None:
        where = f", node {found.node} of {len(trace.nodes)}"
    return f"{kind} that is not finite: {found.phase}{where}"


def _place(trace: Trace, number: int, page: Page) -> list[Line]:
    """The operation, how it is written, and where."""
    node = trace.nodes[number]
    written = trace.written(node)
    text = f"{trace.label(number)} = {written}" if written else trace.label(number)
    left = page.line("  ", (node.op, "strong"), "   ", text)
    line = trace.line(node)
    return spread(page, left, page.line((f"{line[0]}:{line[1]}", "mute")) if line else [])


def _counts(trace: Trace, found: Finding, page: Page) -> list[Line]:
    """`float64 (4, 3), 1 of 12 elements is inf, first at [2, 0]`."""
    node = trace.nodes[found.node or 0]
    parts: list[Part] = [f"     {node.type}"]
    if found.bad and found.of:
        told = "" if node.value is None or found.phase == "backward" else bad_text(node.value)
        kinds = [kind for kind in ("nan", "inf") if f" {kind}" in told]
        verb = "is" if found.bad == 1 else "are"
        many = f"{found.bad:,} of {found.of:,} elements {verb} {' or '.join(kinds) or 'not finite'}"
        parts += [
            ", ",
            (many if node.shape else f"it is {' or '.join(kinds) or 'not finite'}", "bad"),
        ]
    if found.index:
        parts.append(f", {'at' if found.element else 'first at'} {found.index}")
    return [page.line(*parts)]


def _evidence(proof: Sequence[Evidence], page: Page, note: str = "") -> list[Line]:
    """The numbers, each with what it means; the reason stands beside the first."""
    rows = []
    for i, one in enumerate(proof):
        value: list[Part] = []
        if one.v is not None:
            value = [" = ", (page.number(one.v), "value"), *_range(one, page)]
        elif one.summary is not None:
            value = ["   ", brief(page, one.summary, "value")]
        said = one.note or ""
        if i == 0 and note:
            said = note if not said else f"{said}: {note}"
        rows.append(([page.span(part) for part in ["   ", one.label, *value]], said))
    if not proof and note:
        return page.prose(note, indent=5, style="mute")
    return _beside(rows, page)


def _range(one: Evidence, page: Page) -> list[Part]:
    """Where the whole array lies that an element was taken from."""
    name, _, index = one.label.partition("[")
    if not index or one.summary is None:
        return []
    low, high = ends(one.summary)
    return [(f"   ({name} runs from {page.number(low)} to {page.number(high)})", "mute")]


def _beside(rows: Sequence[tuple[Line, str]], page: Page) -> list[Line]:
    """Facts with a remark each beside it; below it where there is no room."""
    room = max((measure(left) for left, _ in rows), default=0) + 5
    found = []
    for left, said in rows:
        line = [("  ", ""), *left]
        if not said:
            found.append(page.fit(line, page.width))
        elif room + width(page.clean(said)) <= page.width:
            found.append([*padded(line, room), page.span((said, "mute"))])
        else:
            found.append(page.fit(line, page.width))
            found += page.prose(said, indent=8, style="mute")
    return found


def _reach(trace: Trace, found: Finding) -> str:
    count, root = len(found.reaches or ()), trace.label(trace.root)
    if found.reaches_root is False:
        extra = "" if not count else f" It reaches {_several(count, 'other node')}."
        return f"It does not reach the result, {root}.{extra}"
    if found.node == trace.root:
        return f"It is {root} itself."
    said = f"It reaches {_several(count, 'more node')}, {root} among them"
    hit = [
        trace.label(n.id) for n in trace.nodes
        if n.is_leaf and n.grad is not None and bad_text(n.grad)
    ]  # fmt: skip
    if hit:
        shown = hit if len(hit) <= 6 else [*hit[:5], f"{len(hit) - 5} more"]
        named = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
        said += f", and the gradient{'s' * (len(hit) > 1)} of {named}"
    return said + "."


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# A gradient that is zero or not there, or fades or swells


def _missing(trace: Trace, found: Finding, page: Page) -> list[Line]:
    said: list[Line] = []
    if found.about is not None:
        node = trace.nodes[found.about]
        told = {
            "zero-gradient": f"the gradient is exactly 0{_all(found)}",
            "no-gradient": "no gradient arrived",
            "unused-parameter": "no gradient arrived",
        }.get(found.kind, f"gradient {_amount(page, node.grad)[0]}")
        name = (trace.label(node.id), "strong")
        head = page.line(name, "   ", node.type)
        said += [*spread(page, head, page.line((told, "bad")), gap=3), []]
    if found.steps:
        said += [*_way(trace, found.steps, page), []]
    said += page.prose(f"{_capital(found.text or found.kind)}.")
    if not found.steps and found.node is not None and found.node != found.about:
        said += [[], *_place(trace, found.node, page)]
    proof = found.proof or []
    if proof:
        said += [[], *_evidence(proof, page)]
    if found.answers:
        said += [[], *_answers(found, page)]
    return said


def _all(found: Finding) -> str:
    return f" in all {found.of} elements" if found.of and found.of > 1 else ""


def _capital(text: str) -> str:
    """A sentence as it begins, unless it begins with a name."""
    word = text.split(" ", 1)[0]
    return (
        text[:1].upper() + text[1:]
        if word in ("the", "no", "nothing", "backward", "every", "what")
        else text
    )


def _way(trace: Trace, steps: Sequence[Step], page: Page) -> list[Line]:
    """The stations from the root to the value, the one at fault marked."""
    heads = [
        Column("from the root", cut="right", keep=9),
        Column("|gradient|", right=True, keep=8),
        Column("", cut="left", keep=4),
        Column("", keep=7),
    ]
    fault = next((i for i, step in enumerate(steps) if step.at_fault), 0)
    rows: list[list[Cell]] = []
    marks = []
    skipped = 0
    for i, step in enumerate(steps):
        is_near = i < 3 or i >= len(steps) - 3 or abs(i - fault) <= 3
        if len(steps) > _STEPS and not is_near:
            skipped += 1
            continue
        if skipped:
            rows.append([f"… {skipped} more", "", "", ""])
            marks.append("")
            skipped = 0
        rows.append(_station(trace, step, page))
        marks.append("▸" if step.at_fault else "")
    return columns(page, heads, rows, marks=marks)[0]


def _station(trace: Trace, step: Step, page: Page) -> list[Cell]:
    node = trace.nodes[step.node]
    written, line = trace.written(node), trace.line(node)
    label = trace.label(step.node)
    style = "bad" if step.grad == 0 or step.grad is None else "grad"
    return [
        f"{label} = {written}" if written else label,
        ("none" if step.grad is None else page.number(step.grad), style),
        ("" if line is None else f"{line[0]}:{line[1]}", "mute"),
        ("← stops here", "bad") if step.at_fault else "",
    ]


def _answers(found: Finding, page: Page) -> list[Line]:
    said: list[Line] = []
    for one in found.answers or ():
        mark = page.span(("✓ ", "ok") if one.yes else ("✗ ", "bad"))
        answer = "Yes" if one.yes else "No"
        room = page.narrower(width(mark[0]))
        text = room.prose(f"{_question(one.question)} {answer}: {one.evidence}.")
        gap = (" " * width(mark[0]), "")
        said += [[gap if i else mark, *line] for i, line in enumerate(text)]
    return said


def _question(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else "?")
