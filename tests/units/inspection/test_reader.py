"""Traces read from files: as they were written, or refused in words; never more than data."""

import base64
import copy
import json
import zlib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch import inspection
from anabranch.inspection import reader, validate
from anabranch.inspection.explanation import Explanation
from anabranch.inspection.why import why

SCHEMA = json.loads((Path(inspection.__file__).parent / "schema.json").read_text("utf-8"))
VALID = jsonschema.Draft202012Validator(SCHEMA)


def made():
    """A trace with a bit of everything: scopes, findings, numbers that JSON does not have."""
    rng = np.random.default_rng(0)
    w = ab.tensor(rng.normal(size=(4, 30)), requires_grad=True)
    x = ab.tensor([[1.0, np.inf, 0.0, -1.0]] * 4, requires_grad=True)
    unused = ab.tensor(1.0, requires_grad=True)
    with ab.scope("layer"):
        h = ab.relu(x @ w)
    return ab.inspect(ab.sum(ab.log(h)), unused)


with np.errstate(all="ignore"):
    TEXT = made().trace.to_json()
DATA = json.loads(TEXT)


N = int(np.prod(DATA["nodes"][0]["shape"]))


def changed(path, value):
    data = copy.deepcopy(DATA)
    here = data
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return json.dumps(data)


def test_what_is_written_is_read_back():
    trace = reader.parsed(TEXT)
    assert trace.to_json() == TEXT
    assert reader.parsed(json.dumps(trace.to_dict())).to_json() == TEXT
    VALID.validate(trace.to_dict())
    assert trace.findings
    assert any(node.value.inf for node in trace.nodes if node.value.n)


def test_a_file_and_a_page_are_read(tmp_path):
    with np.errstate(all="ignore"):
        file = made().save(tmp_path / "a.trace.json")
    assert ab.Report.load(file).trace.to_json() == TEXT
    for name, body in {
        "plain": f'id="trace">{TEXT.replace("<", chr(92) + "u003c")}',
        "packed": 'id="trace" data-packed="deflate">'
        + base64.b64encode(zlib.compress(TEXT.encode())).decode(),
    }.items():
        page = tmp_path / f"{name}.html"
        page.write_text(
            f'<!doctype html><script type="application/json" {body}</script><p>', "utf-8"
        )
        assert ab.Report.load(page).trace.to_json() == TEXT


def test_unknown_members_are_ignored():
    data = {**DATA, "colour": "blue"}
    data["nodes"] = [{**node, "mood": {"deep": [1]}} for node in data["nodes"]]
    assert reader.parsed(json.dumps(data)).to_json() == TEXT


def test_a_newer_version_is_refused_with_both_versions():
    with pytest.raises(ab.TraceFileError, match=r"version 2.*reads up to 1") as caught:
        reader.parsed(json.dumps({**DATA, "version": 2}))
    assert caught.value.code == "newer-trace"


BROKEN = {
    "empty": "",
    "no JSON": "{",
    "no object": "[1, 2]",
    "another format": '{"format": "other", "version": 1}',
    "nothing else": '{"format": "anabranch-trace", "version": 1}',
    "a page without": "<!doctype html><p>nothing</p>",
    "a page with rubbish": '<script type="application/json" id="trace" data-packed="deflate">%%%',
    "NaN as a word": TEXT.replace('"root":', '"root":NaN,"old":'),
    "a number beyond floats": changed(["nodes", 0, "bytes"], 1).replace(
        '"bytes": 1', '"bytes": 1e999'
    ),
    "a million digits": changed(["root"], 7).replace('"root": 7', f'"root": {"9" * 1_000_000}'),
    "a long word": changed(["nodes", 0, "name"], "x" * 10_000_000),
    "deep lists": changed(["nodes", 0, "value"], {"v": 0}).replace(
        '"v": 0', '"v": ' + "[" * 100_000 + "]" * 100_000
    ),
    "lists deeper than any shape": changed(
        ["nodes", 0, "value"], {"v": json.loads("[" * 90 + "]" * 90)}
    ),
    "a root that is not there": changed(["root"], 1000),
    "a negative root": changed(["root"], -1),
    "an edge to nowhere": changed(["edges", 0, "to"], 1000),
    "a circle": changed(["edges", 0, "from"], DATA["edges"][0]["to"]),
    "an id out of place": changed(["nodes", 1, "id"], 0),
    "a scope inside itself": changed(["scopes", 1, "parent"], 1),
    "a scope that is not there": changed(["nodes", 1, "scope"], 99),
    "a line that is not there": changed(["nodes", 0, "at"], [0, 100_000]),
    "a source that is not there": changed(["nodes", 0, "at"], [9, 1]),
    "a step that is not there": changed(["findings", 0, "node"], 99),
    "an edge that is not there": changed(["findings", 0, "edge"], 10_000),
    "an order with a guest": changed(["order", "backward"], [99]),
    "an order that repeats": changed(["order", "backward"], [1, 1]),
    "a shape of words": changed(["nodes", 0, "shape"], ["a"]),
    "a number of words": changed(["nodes", 0, "value"], {"v": "many"}),
    "a kind that nobody knows": changed(["findings", 0, "kind"], "rm -rf"),
    "true as a version": changed(["version"], True),
    "nodes without number": changed(["nodes"], []),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=list(BROKEN))
def test_what_is_broken_is_refused_in_a_sentence(text):
    with pytest.raises(ab.TraceFileError) as caught:
        reader.parsed(text, "x.trace.json")
    assert caught.value.code == "bad-trace"
    assert len(str(caught.value)) < 400


def test_a_file_that_is_no_text_is_refused(tmp_path):
    file = tmp_path / "x.trace.json"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ab.TraceFileError, match="UTF-8"):
        ab.Report.load(file)


def test_a_packed_trace_is_not_unpacked_without_end(monkeypatch):
    monkeypatch.setattr(reader, "LARGEST", 10_000)
    bomb = base64.b64encode(zlib.compress(b" " * 1_000_000)).decode()
    page = f'<script type="application/json" id="trace" data-packed="deflate">{bomb}</script>'
    with pytest.raises(ab.TraceFileError, match="larger"):
        reader.parsed(page)


def test_hostile_names_are_only_names():
    name = '</script><img src=x onerror=alert(1)>" {0} \u202e \ud800 %s'
    x = ab.tensor(2.0, requires_grad=True, name=name)
    text = ab.inspect(x * x).trace.to_json()
    text.encode("utf-8")
    trace = reader.parsed(text)
    assert trace.nodes[0].name == name
    assert trace.to_json() == text


def lists_and_objects(inner):
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)


# Whole floats count as integers in JSON Schema, not here: an index must be one.
FLOATS = st.floats().filter(lambda one: not one.is_integer())
WORDS = st.none() | st.booleans() | st.integers(-3, 10**20) | FLOATS | st.text(max_size=8)
JSON = st.recursive(WORDS, lists_and_objects, max_leaves=6)


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from places(one, (*path, key))
    elif isinstance(value, list):
        for key, one in enumerate(value):
            yield from places(one, (*path, key))


PLACES = [path for path in places(DATA) if path and path[0] != "sources"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=3))
@settings(max_examples=400)
def test_whatever_is_put_anywhere_is_read_or_refused(changes):
    data = copy.deepcopy(DATA)
    for path, value in changes:
        here = data
        try:
            for key in path[:-1]:
                here = here[key]
            here[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue
    assert (validate.problem(data) is None) == VALID.is_valid(data)
    try:
        trace = reader.parsed(json.dumps(data))
    except ab.TraceFileError:
        return
    trace.to_json()
    for node in trace.nodes:
        trace.written(node), trace.line(node), trace.arrivals(node.id)
        str(Explanation(trace, why(trace, node)))


@given(st.text(max_size=200))
@settings(max_examples=50)
def test_any_text_is_refused_in_words(text):
    with pytest.raises(ab.TraceFileError):
        reader.parsed(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("nodes", 0, "value", "norm"), "9" * 5_000),
        (("nodes", 0, "shape"), [10**18, 1]),
        (("nodes", 0, "steps"), [1]),
        (("nodes", 0, "steps"), [1] * 33),
        (("nodes", 0, "steps"), ["much", 1]),
        (("edges", 0, "slot"), 2**60),
        (("nodes", 0, "value"), {"v": [1.0]}),
        (("nodes", 0, "value"), {}),
        (("nodes", 0, "grad"), {"n": 5}),
        (("nodes", 0, "value"), {"n": N, "zero": N + 1}),
        (("nodes", 0, "value"), {"n": N, "grid": {"rows": 2, "cols": 2, "mean": [1, 2, 3]}}),
        (("nodes", 0, "value"), {"n": N, "hist": {"lo": 0, "hi": 1, "bins": []}}),
        (("edges", 0, "contribution"), {"v": 1}),
        (("edges", 0, "local"), {"value": {"v": [[1, 2], [3]]}}),
        (("seed",), {"v": [1]}),
    ],
)
def test_what_no_run_says_is_refused(path, value):
    with pytest.raises(ab.TraceFileError, match="bad-trace"):
        reader.parsed(changed(path, value))
    assert reader.parsed(changed(("nodes", 0, "steps"), ["nan", 1])).nodes[0].steps[1] == 1
    assert reader.parsed(changed(("nodes", 0, "value"), {"n": N, "zero": N})).nodes[0].value.n == N
