"""The colours of every picture, light and dark: blue is value, orange is gradient, everywhere."""

from __future__ import annotations

# name: (light, dark).  Text pairs have a contrast of at least 4.5 : 1, which a test asserts.
TOKENS: dict[str, tuple[str, str]] = {
    "bg": ("#faf8f4", "#13171c"),  # the page
    "card": ("#ffffff", "#1b2128"),
    "soft": ("#f1ede5", "#222a33"),  # quiet fills
    "ink": ("#1d2127", "#e9edf2"),
    "mute": ("#5d6570", "#9ca8b6"),  # secondary text
    "line": ("#ddd8ce", "#313b46"),
    "v": ("#1c5db8", "#86b6ff"),  # values, forward
    "v-tint": ("#e5eefb", "#1d2f49"),
    "g": ("#b0470c", "#ffac6b"),  # gradients, backward
    "g-tint": ("#fdebdc", "#3b2819"),
    "g-flow": ("#f0a367", "#a4602f"),  # bands
    "ok": ("#1b7742", "#6fd59d"),
    "bad": ("#a3195b", "#ff7fb5"),  # always with a hatch and a word
}
SANS = 'Inter, system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif'
MONO = 'ui-monospace, "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'


def css() -> str:
    """The tokens as custom properties; the page's `color-scheme` picks the side.

    Example:
        >>> from anabranch.inspection.theme import css
        >>> css().splitlines()[0]
        '--bg: light-dark(#faf8f4, #13171c);'
    """
    pairs = [f"--{name}: light-dark({day}, {night});" for name, (day, night) in TOKENS.items()]
    return "\n".join([*pairs, f"--sans: {SANS};", f"--mono: {MONO};"])
