"""The story as blocks of text: a title, a sentence, what is known, and what is delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from anabranch.inspection.parts import held
from anabranch.inspection.to_text.cells import brief, gradient, value
from anabranch.inspection.to_text.letters import width
from anabranch.inspection.to_text.page import Line, Page, Part, measure, padded, spread, stripped
from anabranch.inspection.trace import filled

if TYPE_CHECKING:
    from anabranch.inspection.parts import Path
    from anabranch.inspection.story import Block, Delivery, Partial, Row, Story

KEYS = "← → step   Home End   q quit"
_GAPS = ("", "   ", "   ", " ", "   ")  # before name, value, "gradient", gradient, pips
_STYLES = {"forward": "value", "seed": "grad", "backward": "grad", "end": "ok", "note": "mute"}


def lines(report: Story, page: Page) -> list[Line]:
    """Every block, one after another."""
    found: list[Line] = [page.line((report.title, "strong")), []]
    for at in range(len(report.blocks)):
        found += [*block_lines(report, at, page), []]
    return found[:-1]


def block_lines(report: Story, at: int, page: Page, keys: bool = False) -> list[Line]:
    """One block; `keys` adds the line that says what can be pressed."""
    block = report.blocks[at]
    style = _STYLES[block.kind]
    phase = (
        block.phase
        if block.kind in ("end", "note")
        else f"{block.phase} {block.part} of {block.of}"
    )
    head = page.line(("▍ ", style), (phase, style), "   ", (_title(report, block), "strong"))
    where: list[Part] = [] if block.line is None else [("  ".join(block.line), "mute")]
    found = [*spread(page, head, page.line(*where)), *_sentences(report, block, page), []]
    found += _rows(report, block, page)
    if block.kind == "end":
        found += _result(report, page)
    count = f"frame {at + 1} of {len(report.blocks)}"
    if keys:
        foot = page.line("  ", (KEYS, "mute"))
        found += [[], *spread(page, foot, page.line((count, "mute")))]
    return [stripped(line) for line in found]


def _title(report: Story, block: Block) -> str:
    if block.title:
        return block.title
    name = block.name
    if block.kind == "seed":
        return f"Start at {name}"
    if block.kind == "backward":
        return f"{name} passes its gradient on"
    if block.kind == "end":
        return "All gradients are known"
    if len(block.nodes) > 1:
        return f"{name} ran: {len(block.nodes)} nodes"
    if not block.formula:
        return f"{name} is given"
    return f"{name} = {block.written}"


def _filled(block: Block, texts: Sequence[str]) -> str:
    """The formula with these in the places of its inputs."""
    return filled(block.formula, dict(zip(map(str, block.inputs), texts, strict=True)))


def _sentences(report: Story, block: Block, page: Page) -> list[Line]:
    said = block.text or _SAYERS[block.kind](report, block, page)
    return page.prose(said, indent=2, style="mute") if said else []


def _forward(report: Story, block: Block, page: Page) -> str:
    rows = {(row.id, row.out or 0): row for row in block.rows}
    row = rows.get((block.nodes[0], 0)) if len(block.nodes) == 1 else None
    if row is None or row.value is None:
        return ""
    result = brief(page, row.value)[0]
    if not block.formula:
        return f"Its value is {result}. Nothing has to be computed before it."
    ports = block.ports or {}
    ends = [(node, ports.get(slot, 0)) for slot, node in block.inputs.items()]
    values = [rows[end].value if end in rows else None for end in ends]
    texts = [brief(page, one)[0] for one in values if one is not None]
    # Norms in the places of arrays would be a sum that nobody can follow.
    is_plain = len(texts) == len(values) and not any(text.startswith("‖") for text in texts)
    return f"Its inputs are ready: {_filled(block, texts) if is_plain else block.name} = {result}."


def _seed(report: Story, block: Block, page: Page) -> str:
    name = held(block.name)
    return f"Backward begins with d{name}/d{name} = 1 and walks the order in reverse."


def _backward(report: Story, block: Block, page: Page) -> str:
    if len(block.nodes) != 1:
        return ""
    arrived = ""
    if block.readers == 1:
        arrived = f"The only contribution to {block.name} is in. "
    elif block.readers > 1:
        count = "Both" if block.readers == 2 else f"All {block.readers}"
        arrived = f"{count} contributions to {block.name} are in, so its gradient is final. "
    if not block.deliveries:
        return f"{arrived}None of its inputs needs a gradient."
    joins = any(one.before is not None for one in block.deliveries)
    added = ", and what arrives is added." if joins else "."
    upstream = block.deliveries[0].upstream
    if upstream is None:  # one for each output
        return f"{arrived}Its rule makes one gradient for each input{added}"
    gets = brief(page, upstream)[0]
    return f"{arrived}Each input gets {gets} times the local derivative on its edge{added}"


def _end(report: Story, block: Block, page: Page) -> str:
    return "Every path to the result has brought its share."


def _note(report: Story, block: Block, page: Page) -> str:
    return ""


_SAYERS: dict[str, Callable[[Story, Block, Page], str]] = {
    "forward": _forward,
    "seed": _seed,
    "backward": _backward,
    "end": _end,
    "note": _note,
}


def _rows(report: Story, block: Block, page: Page) -> list[Line]:
    """What is known of each node, and beside it what this frame brings it."""
    beside: dict[tuple[int, int], list[tuple[Line, Line]]] = {}
    for partial in block.partials:
        one = page.line(*_partial(report, block, partial, page))
        beside.setdefault((partial.by, partial.out or 0), []).append((one, []))
    for delivery in block.deliveries:
        pair = page.line(*_product(delivery, page)), page.line(*_sum(delivery, page))
        beside.setdefault((delivery.to, delivery.out or 0), []).append(pair)
    cells = [_cells(row, block, page) for row in block.rows]
    widths = [max(measure(row[i]) for row in cells) for i in range(5)] if cells else []
    room = max((measure(first) for pairs in beside.values() for first, _ in pairs), default=0)
    found = []
    for row, parts in zip(block.rows, cells, strict=True):
        sign = "▸ " if row.id in block.nodes else "  "
        line = [("  ", ""), page.span((sign, _STYLES[block.kind]))]
        for i, part in enumerate(parts):
            line += [(_GAPS[i], ""), *padded(part, widths[i], right=i in (1, 3))]
        start = measure(line)
        for at, (first, second) in enumerate(beside.get((row.id, row.out or 0)) or [([], [])]):
            begin = line if at == 0 else [(" " * start, "")]
            rest = [("   ", ""), *padded(first, room), ("   ", ""), *second]
            found.append(page.fit([*begin, *rest], page.width))
    return found


def _partial(report: Story, block: Block, one: Partial, page: Page) -> list[Part]:
    """`∂p/∂x = y = 3`; of a rule that is no number, what the input will get."""
    local, name = one.local, report.names[one.by]
    if local.v is None and local.value is None:
        return [(f"{name} will get {local.text}", "mute")] if local.text else []
    parts: list[Part] = [(f"∂{held(block.name)}/∂{held(name)}", "mute")]
    if local.text:
        parts += [" = ", local.text]
    if local.v is not None:
        parts += [" = ", (page.number(local.v), "value")]
    elif local.value is not None:
        parts += [" = ", brief(page, local.value, "value")]
    return parts


def _cells(row: Row, block: Block, page: Page) -> list[Line]:
    pips = "●" * min(row.arrived, 8) + "○" * min(row.of - row.arrived, 8)
    if row.of > 8:
        pips = f"{row.arrived}/{row.of}"
    is_new = row.id in block.nodes and block.kind == "forward"
    shown = value(page, row.value) if row.is_known else ("·", "mute")
    return [
        page.line((page.fit([page.span(row.name)], 24)[0][0], "strong" if is_new else "")),
        page.line(shown),
        page.line(("gradient", "mute")),
        page.line(gradient(page, row.gradient, row.grad)),
        page.line((pips, "grad")),
    ]


def _product(one: Delivery, page: Page) -> list[Part]:
    """`16 × 3 = 48` of numbers; of arrays what went in, by which rule, and what came out."""
    if one.amount is None:
        return []
    amount, local = brief(page, one.amount, "grad"), one.local
    if one.upstream is None or local is None:
        return [amount]
    upstream = brief(page, one.upstream, "grad")
    if local.v is not None:
        return [upstream, " × ", page.number(local.v), " = ", amount]
    if local.value is not None:
        return [upstream, " × ", brief(page, local.value, "value"), " = ", amount]
    return [upstream, f" by {local.text} = " if local.text else " → ", amount]


def _sum(one: Delivery, page: Page) -> list[Part]:
    """`16 + 48 = 64`, where something was there before."""
    if one.before is None or one.after is None or one.amount is None:
        return []
    before, amount = brief(page, one.before, "grad"), brief(page, one.amount, "grad")
    sign = " + "
    if not isinstance(one.amount.v, list | None) and float(one.amount.v) < 0:
        sign, amount = " - ", (amount[0].removeprefix("-"), amount[1])
    return [before, sign, amount, " = ", brief(page, one.after, "grad")]


def _result(report: Story, page: Page) -> list[Line]:
    found: list[Line] = []
    for check in report.checks:
        name = report.names.get(check.node, f"#{check.node}")
        mark = ("✓ same", "ok") if check.ok else ("✗ differs", "bad")
        found.append(
            page.line(
                f"    by {name}: backward ", (page.number(check.analytic), "grad"),
                f", differences {check.numeric:.4f}  ", mark,
            )
        )  # fmt: skip
    names = [" → ".join(report.names[number] for number in path.nodes) for path in report.paths]
    room = max(map(width, names), default=0)
    for name, path in zip(names, report.paths, strict=True):
        gap = " " * (room - width(name) + 3)
        found.append(page.line("    ", name, gap, *path_product(page, path)))
    return [[], *found] if found else []


def path_product(page: Page, path: Path) -> list[Part]:
    """`  3 × 1 × (8 + 8) = 48` of a path of numbers."""
    if not path.factors or path.product is None:
        return []
    parts = [
        f"({' + '.join(map(page.number, one))})" if len(one) > 1 else page.number(one[0])
        for one in path.factors
    ]
    return [" × ".join(parts), " = ", (page.number(path.product), "grad")]
