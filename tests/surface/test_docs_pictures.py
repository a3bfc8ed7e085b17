"""The pictures of the docs are what the library draws today, byte for byte."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load():
    spec = importlib.util.spec_from_file_location("docs_pictures", ROOT / "scripts" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pictures = load()


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_fresh(name):
    """Otherwise run `python scripts/pictures.py`, and look at what it drew."""
    assert (pictures.FOLDER / name).read_text(encoding="utf-8") == pictures.PICTURES[name]()


def test_every_picture_is_made_and_shown():
    files = {file.name for file in pictures.FOLDER.glob("*")}
    assert files == set(pictures.PICTURES)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    shown = {m for page in pages for m in re.findall(r"pictures/([\w-]+\.svg)\)", page.read_text())}
    assert shown <= files
