"""What is asked of a report in pictures: SVG, DOT, PNG, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anabranch.core.entry import boundary
from anabranch.errors import ArgumentError
from anabranch.inspection import to_dot, to_html, to_png, to_svg
from anabranch.inspection.traced import Traced

PAGES = {"all": to_html.ALL, "story": to_html.STORY}


class Pictures(Traced):
    """The pictures of a report, all made from its trace."""

    @boundary
    def svg(
        self,
        frame: int | None = None,
        *,
        direction: str = "auto",
        depth: int = 1,
        theme: str = "auto",
    ) -> str:
        """The graph after a frame of its story, as SVG; equal graphs give equal bytes.

        Args:
            frame: its number from 0; negative ones count from the end; None is the last.
            direction: `"right"`, `"down"`, or `"auto"`: right unless that is too wide.
            depth: how many levels of scopes are open; with more than 200 items, as many as fit.
            theme: `"light"`, `"dark"`, or `"auto"`: as the reader prefers.

        Raises:
            ArgumentError: `[bad-argument]` for a value that is none of these.

        Example:
            >>> import anabranch as ab
            >>> ab.inspect(lambda x: x * x, 3.0).svg().startswith("<svg ")
            True
        """
        plain = self.trace.to_dict()
        return to_svg.svg(plain, frame, direction=direction, depth=depth, theme=theme)

    @boundary
    def strip(
        self, *, direction: str = "auto", depth: int = 1, theme: str = "auto", columns: int = 0
    ) -> str:
        """The whole story as one SVG, a picture and a caption for each frame.

        Args:
            direction, depth, theme: as for `svg`.
            columns: how many frames stand beside each other; 0 leaves it to the graph.

        Raises:
            ArgumentError: `[bad-argument]`.

        Example:
            >>> import anabranch as ab
            >>> "Backward 1 of 2" in ab.inspect(lambda x: x * x, 3.0).strip()
            True
        """
        plain = self.trace.to_dict()
        return to_svg.strip(plain, direction=direction, depth=depth, theme=theme, columns=columns)

    @boundary
    def dot(self) -> str:
        """The graph in the language of Graphviz, which nothing here needs.

        Example:
            >>> import anabranch as ab
            >>> ab.inspect(lambda x: x * x, 3.0).dot().count("->")
            2
        """
        return to_dot.dot(self.trace.to_dict())

    @boundary
    def png(self, frame: int | None = None, *, scale: float = 2.0, **options: Any) -> bytes:
        """The picture of `svg` as PNG; needs `pip install "anabranch[png]"`.

        Args:
            frame, options: as for `svg`; the theme is light unless it is `"dark"`.
            scale: pixels for each unit of the SVG.

        Raises:
            MissingExtraError: `[missing-extra]` without that extra.
            ArgumentError: `[bad-argument]`.

        Example:
            >>> import anabranch as ab
            >>> ab.inspect(lambda x: x * x, 3.0).png()[1:4]
            b'PNG'
        """
        theme = "dark" if options.get("theme") == "dark" else "light"
        picture = to_svg.svg(self.trace.to_dict(), frame, **{**options, "theme": theme})
        return to_png.png(picture, scale, theme=theme)

    @boundary
    def html(self, path: str | Path, *, views: str = "all") -> Path:
        """Write the page: one file that needs nothing else, neither a server nor the network.

        Args:
            path: where to.
            views: `"all"`, or `"story"` for a smaller page with the story and its table.

        Raises:
            ArgumentError: `[bad-argument]`.

        Example:
            >>> import anabranch as ab, tempfile, pathlib
            >>> where = pathlib.Path(tempfile.mkdtemp(), "square.html")
            >>> ab.inspect(lambda x: x * x, 3.0).html(where).name
            'square.html'
        """
        if views not in PAGES:
            raise ArgumentError("bad-argument", f"views is {', '.join(PAGES)}, not {views!r}")
        target = Path(path)
        target.write_text(to_html.page(self.trace.to_dict(), PAGES[views]), encoding="utf-8")
        return target
