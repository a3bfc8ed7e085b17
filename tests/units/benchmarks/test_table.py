"""The page of results: losses as plain as wins, and why a figure is missing."""

import pytest

import table

PEERS = {
    "anabranch": {"median": 2e-6, "low": 1.9e-6, "high": 2.2e-6, "rounds": 5},
    "torch": {
        "median": 50e-6,
        "low": 40e-6,
        "high": 60e-6,
        "rounds": 5,
        "ratio": {"median": 25.0, "low": 20.0, "high": 30.0},
    },
    "casadi": {
        "median": 1e-6,
        "low": 1e-6,
        "high": 1e-6,
        "rounds": 5,
        "ratio": {"median": 0.5, "low": 0.4, "high": 0.6},
    },
    "micrograd": {"reason": "recursion limit"},
}
MEASURED = {
    "date": "2026-01-02",
    "command": "python benchmarks/run.py all --json",
    "commit": "abc",
    "machine": {"processor": "P", "cores": "2"},
    "versions": {"numpy": "2.2"},
    "workloads": {
        "scalar": {
            "title": "Scalars",
            "date": "2026-01-01",
            "commit": "abd",
            "cases": {
                "z": {"unit": "us", "peers": PEERS},
                "Rosenbrock 2": {"unit": "us", "peers": {"anabranch": PEERS["anabranch"]}},
            },
        }
    },
}
BARS = [
    {"workload": "scalar", "case": "z", "peer": "torch", "least": 20},
    {"workload": "scalar", "case": "z", "peer": ["torch", "casadi"], "least": 1},
    {"workload": "scalar", "case": "z", "most": 1e-6, "unit": "us"},
    {"workload": "scalar", "case": ["z", "Rosenbrock 2"], "peer": "torch", "least": 20},
    {"workload": "affine", "case": "all", "peer": "jax", "least": 7},
]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123"), (1.0, "1"), (45.67, "45.7"), (123.4, "123"), (45678.9, "45,679")],
)
def test_three_digits(value, text):
    assert table.number(value) == text


def test_the_page():
    lines = table.page(MEASURED, BARS).splitlines()
    assert lines[0] == "# Results"
    assert "Measured on 2026-01-02 by `python benchmarks/run.py all --json`" in lines[2]
    assert "Machine: processor P, cores 2." in lines
    assert "Versions: anabranch abc, numpy 2.2." in lines
    # bars: met, missed with the factor, not measured with the reason
    assert "2 met, 2 missed, 1 not measured" in "\n".join(lines)
    assert "| scalar: z | PyTorch | 20 times | 25 | 20 to 30 | met, 1.25 |" in lines
    both = "the fastest of PyTorch, CasADi"
    assert f"| scalar: z | {both} | 1 times | 0.5 | 0.4 to 0.6 | **missed**, 0.50 |" in lines
    assert "| scalar: z | – | at most 1 µs | 2 | 1.9 to 2.2 | **missed**, 0.50 |" in lines
    of_two = "met, 1.25 at z; 1 of 1 meet it"
    assert f"| scalar: z to Rosenbrock 2 | PyTorch | 20 times | 25 | 20 to 30 | {of_two} |" in lines
    assert "| affine: all | jax.jit | 7 times | – | – | not measured: not run |" in lines
    # a table for each workload: a loss is bold, who has no figure has no column but a reason
    assert "## Scalars" in lines
    assert "`python benchmarks/run.py scalar` (on 2026-01-01, anabranch abd)" in lines
    assert "| case | anabranch | PyTorch | CasADi |" in lines
    assert "| z, µs | 2 | 50 (25) | **1 (0.5)** |" in lines
    assert "| Rosenbrock 2, µs | 2 | – | – |" in lines
    assert "- micrograd: recursion limit (z)" in lines


def test_memory_has_no_scale():
    found = {"median": 512.0, "ratio": {"median": 2.0}}
    assert table.cell(found, "MiB") == "512 (2)"
