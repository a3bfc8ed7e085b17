"""A real browser that opens pages from disk, and the graphs whose pages are opened.

Without a browser these tests are skipped; `ANABRANCH_BROWSER=required` makes that a failure.
"""

import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab
from anabranch.inspection import to_html
from anabranch.inspection.watching import watching

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
REQUIRED = os.environ.get("ANABRANCH_BROWSER") == "required"


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


def absent(what):
    if REQUIRED:
        pytest.fail(f"a browser is required here, but there is no {what}")
    pytest.skip(f"no {what}: see Tests in CONTRIBUTING.md")


@pytest.fixture(scope="session")
def chromium():
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  # an extra
    except ImportError:
        absent("playwright")
    path = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
    )
    if not path:
        absent("Chromium")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Opened:
    """A page on the screen, with what it asked for and what it complained about.

    `page` is Playwright's; `asked` the addresses, `said` the console, `ran` what must not happen.
    """

    def __init__(self, browser, file, hash_, width, height, **options):
        self.file = file
        self.context = browser.new_context(viewport={"width": width, "height": height}, **options)
        self.page = self.context.new_page()
        self.asked, self.said = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.goto(file.as_uri() + (f"#{hash_}" if hash_ else ""))
        if options.get("java_script_enabled", True):
            self.page.wait_for_function(
                "document.querySelector('#panel > *, main > .empty, iframe')"
            )

    def text(self, selector):
        return self.page.locator(selector).inner_text()

    def node(self, name):
        """What the card of a node says to those who cannot see it."""
        return self.page.locator(f'.node[aria-label^="{name},"]').get_attribute("aria-label")

    def chips(self):
        return sorted(self.page.locator(".chips .chip").all_text_contents())

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def quiet(self):
        """Nothing was asked for but the file, and nothing was said."""
        start = self.file.as_uri()
        return self.said == [] and all(url.partition("#")[0] == start for url in self.asked)


@pytest.fixture
def show(chromium, tmp_path):
    """Opens the page of a trace or report, or a page as text."""
    opened = []

    def open_(what, hash_="", *, width=1360, height=800, views=to_html.ALL, **options):
        file = tmp_path / f"page{len(opened)}.html"
        plain = what.trace.to_dict() if isinstance(what, ab.Report) else what
        text = plain if isinstance(plain, str) else to_html.page(plain, views)
        file.write_text(text, encoding="utf-8")
        opened.append(Opened(chromium, file, hash_, width, height, **options))
        return opened[-1]

    yield open_
    for one in opened:
        one.context.close()


def story():
    x = ab.tensor(2.0, requires_grad=True, name="x")
    y = ab.tensor(3.0, requires_grad=True, name="y")
    p = x * y
    s = p + x
    z = s * s
    p.name, s.name, z.name = "p", "s", "z"
    z.backward()
    return ab.inspect(z)


def perceptron():
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(32, 2)), rng.normal(size=(32, 1))
    sizes, h = [2, 16, 16, 1], ab.tensor(x, name="x")
    for k, (a, b) in enumerate(itertools.pairwise(sizes), 1):
        w = ab.tensor(rng.normal(size=(a, b)), requires_grad=True, name=f"layer{k}.W")
        c = ab.tensor(np.zeros(b), requires_grad=True, name=f"layer{k}.b")
        h = h @ w + c
        h = ab.tanh(h) if k < 3 else h
    loss = ((h - t) ** 2).mean()
    loss.name = "loss"
    loss.backward()
    return ab.inspect(loss)


def overflow():
    h = ab.tensor([[1.0, 2.0], [812.3, 2.0]], requires_grad=True, name="h")
    with np.errstate(all="ignore"):
        e = ab.exp(h)
        p = e / e.sum(axis=1, keepdims=True)
        loss = -ab.log(p).mean()
        e.name, p.name, loss.name = "e", "p", "loss"
        loss.backward()
        return ab.inspect(loss)


def signs():
    a = ab.tensor(1.5, requires_grad=True, name="a")
    b = ab.tensor(-2.25, requires_grad=True, name="b")
    d = a * b - a
    out = d * d - 3 * a
    out.backward()
    return ab.inspect(out)


def chain(n):
    """A chain of n nodes as plain data."""
    nodes = [
        {
            "id": i,
            "op": "negative" if i else "input",
            "name": f"n{i}",
            "scope": 0,
            "shape": [],
            "dtype": "float64",
            "formula": "-{0}" if i else "",
            "value": {"v": 1},
            "grad": {"v": 1},
        }
        for i in range(n)
    ]
    edges = [
        {"from": i, "to": i + 1, "slot": 0, "local": {"v": -1}, "contribution": {"v": -1}}
        for i in range(n - 1)
    ]
    return {
        "format": "anabranch-trace",
        "version": 1,
        "title": f"a chain of {n}",
        "root": n - 1,
        "seed": {"v": 1},
        "nodes": nodes,
        "edges": edges,
        "order": {"forward": list(range(n)), "backward": list(range(n - 1, 0, -1))},
    }


def outputs():
    x = ab.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True, name="x")
    _, log = ab.linalg.slogdet(x)
    y = log * 2.0 + log * log
    y.name = "y"
    return ab.inspect(y)


def dead():
    w = ab.tensor([0.5, -1.0], requires_grad=True, name="w")
    loss = ab.sum(ab.relu(w * 2.0 - 9.0))
    return ab.inspect(loss)


def steps():
    """The last of four passes, each of which makes the gradient of w smaller."""
    w = ab.tensor([8.0, 0.0], requires_grad=True, name="layer.w")
    b = ab.tensor(0.0, requires_grad=True, name="layer.b")
    c = ab.tensor(0.0, requires_grad=True, name="c")
    with watching() as seen:
        for _ in range(4):
            w.zero_grad()
            ((w * w).sum() + b + c).backward()
            w.data -= 0.25 * w.grad
    return seen.report


def elements():
    x = ab.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], requires_grad=True, name="x")
    w = ab.tensor([2.0, 0.5, -1.0], requires_grad=True, name="w")
    p = x * w
    s = p * p + x
    p.name, s.name = "p", "s"
    loss = (s * p).sum()
    loss.name = "loss"
    return ab.inspect(loss)


GRAPHS = {
    "steps": steps,
    "elements": elements,
    "story": story,
    "perceptron": perceptron,
    "overflow": overflow,
    "signs": signs,
    "outputs": outputs,
    "dead": dead,
}


@pytest.fixture(scope="session")
def graphs():
    return {name: make() for name, make in GRAPHS.items()} | {"chain": chain}
