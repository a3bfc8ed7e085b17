"""Everything runs on this machine alone; nothing asks a service for its opinion."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
NETWORK = {"socket", "ssl", "urllib", "http", "ftplib", "smtplib", "requests", "httpx", "aiohttp"}
NO_NETWORK = """
import socket

def refuse(*args, **kwargs):
    raise OSError("there is no network")

socket.socket = socket.create_connection = socket.getaddrinfo = refuse
"""


def output_of(program):
    """What a program prints on a machine without network."""
    ran = subprocess.run(
        [sys.executable, "-c", NO_NETWORK + program], capture_output=True, text=True, check=False
    )
    assert (ran.stderr, ran.returncode) == ("", 0)
    return ran.stdout


@pytest.mark.proves("S1-21")
def test_neither_the_library_nor_its_tests_speak_to_the_network():
    files = [
        file
        for folder in ("src", "tests", "examples")
        for file in sorted((ROOT / folder).rglob("*.py"))
        if file != Path(__file__)  # where the network is taken away
    ]
    assert len(files) > 80
    found = {
        str(file.relative_to(ROOT)): NETWORK & set(IMPORT.findall(file.read_text(encoding="utf-8")))
        for file in files
    }
    assert {name: used for name, used in found.items() if used} == {}


CHECKS = """
import anabranch as ab
from anabranch.testing import check_op

report = ab.check_gradients(lambda x, y: (x * y + x) ** 2, 2.0, 3.0)
check_op(ab.ops.elementwise.tanh)
print(report.verdict, len(ab.datasets.digits().labels))
"""


@pytest.mark.proves("S1-21")
def test_checks_of_gradients_and_ops_need_no_network():
    assert output_of(CHECKS) == "pass 1797\n"


@pytest.mark.proves("S0-07")
def test_the_tour_of_the_readme_is_one_script_that_shows_all_that_was_aimed_at():
    """The values it prints are held by the tests of the page; here it runs as a file."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tour = text.split("<!-- tour -->")[1].split("<!-- /tour -->")[0]
    lines = [line[4:] for line in tour.splitlines() if line.startswith((">>> ", "... "))]
    script = "\n".join(lines)
    for part in (
        "ab.tensor(",  # nodes
        ".backward()",  # forward and back
        "ab.graph(z)",  # their order
        "x * y + x",  # operations
        "def loss(",  # ordinary Python
        "0.3 * slopes[name]",  # a regression
        "ab.check_gradients(",  # and the proof by numbers
    ):
        assert part in script
    assert output_of(script).startswith('graph "eager": 5 nodes, 2 parameters\n')
