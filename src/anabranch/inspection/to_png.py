"""Pictures as pixels, through the library of the extra `png`."""

from __future__ import annotations

import importlib
from typing import Any

from anabranch.errors import ArgumentError, MissingExtraError
from anabranch.inspection.theme import TOKENS

LARGEST_SCALE = 20


def png(picture: str, scale: float = 2.0, *, theme: str = "light") -> bytes:
    """An SVG as PNG on the page's colour.

    Args:
        picture: the SVG.
        scale: pixels for each of its units.
        theme: `"light"` or `"dark"`, for the ground; draw the SVG with the same one.

    Raises:
        MissingExtraError [missing-extra]: the library for it is not installed.
        ArgumentError [bad-argument]: a scale that is not above 0, or above 20.

    Example:
        >>> from anabranch.inspection.to_png import png
        >>> png('<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>')[1:4]
        b'PNG'
    """
    if not 0 < scale <= LARGEST_SCALE:
        raise ArgumentError("bad-argument", f"scale is above 0 and at most {LARGEST_SCALE}")
    ground = TOKENS["bg"][theme == "dark"]
    made = rasteriser().svg_to_bytes(svg_string=picture, zoom=scale, background=ground)
    return bytes(made)


def rasteriser(name: str = "resvg_py") -> Any:
    """The library that turns SVG into pixels."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            "missing-extra",
            f"a PNG needs the library {name}, which is not installed",
            facts=("SVG and DOT need nothing",),
            hint='pip install "anabranch[png]"',
        ) from error
