"""The story on a terminal: keys step, the block is redrawn in place, the terminal is given back."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.commands import keys as keys_module
from anabranch.commands.keys import keys

pytestmark = pytest.mark.slow  # each starts a program of its own

LIMIT = 60  # seconds that a child may take on a busy machine
MAIN = "import sys; from anabranch.cli import main; sys.exit(main(sys.argv[1:]))"
WORDS = ["story", "(x*y + x)**2", "x=2", "y=3"]


class Terminal:
    """A child on a terminal of its own."""

    def __init__(self, words, rows=30, columns=90, **env):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.slave = slave
        self.before = termios.tcgetattr(slave)
        self.seen = ""
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(
                signal.SIGINT, signal.SIG_DFL
            )  # ignored where tests run in the background
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            named = {
                k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")
            }
            named |= {"PYTHONPATH": str(Path(ab.__file__).parents[1]), "TERM": "xterm-256color"}
            os.execve(sys.executable, [sys.executable, "-c", MAIN, *words], {**named, **env})

    def until(self, text):
        """What was written up to this text."""
        start, deadline = len(self.seen), time.monotonic() + LIMIT
        while text not in self.seen[start:]:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen[start:]!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65_536).decode("utf-8", "replace")
        return self.seen[start:]

    def press(self, key, text):
        os.write(self.master, key)
        return self.until(text)

    def end(self):
        """The exit status; what was written on the way out is seen, too."""
        deadline = time.monotonic() + LIMIT
        while True:
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65_536).decode("utf-8", "replace")
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                break
            assert time.monotonic() < deadline
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65_536).decode("utf-8", "replace")
        return os.waitstatus_to_exitcode(status)

    @property
    def is_as_before(self):
        after = termios.tcgetattr(self.slave)
        return after[:6] == self.before[:6] and self.seen.rstrip().endswith("\x1b[?25h")

    def close(self):
        for fd in (self.master, self.slave):
            os.close(fd)


@pytest.fixture
def terminal():
    made = []

    def start(words=WORDS, **more):
        made.append(Terminal(words, **more))
        return made[-1]

    yield start
    for one in made:
        one.close()


RIGHT, LEFT, HOME, END = b"\x1b[C", b"\x1b[D", b"\x1b[H", b"\x1bOF"


def test_arrow_keys_step_through_the_story_in_place(terminal):
    child = terminal()
    assert "Forward 1 of 5" in child.until("frame 1 of 10")
    assert "Forward 2 of 5" in child.press(RIGHT, "frame 2 of 10")
    assert "Result" in child.press(END, "frame 10 of 10")
    shown = child.press(LEFT, "frame 9 of 10")
    assert "\x1b[1A" in shown  # the cursor went up: nothing scrolls
    assert "16\x1b[0m + \x1b[38;5;166m48\x1b[0m = \x1b[38;5;166m64" in shown
    assert "Forward 1 of 5" in child.press(HOME, "frame 1 of 10")
    assert "frame 1 of 10" in child.press(LEFT, "frame 1 of 10")  # there is nothing before it
    os.write(child.master, b"q")
    assert child.end() == 0
    assert child.is_as_before


@pytest.mark.parametrize(("key", "status"), [(b"\x03", 130), (b"\x04", 0), (b"\x1b", 0)])
def test_ways_out_give_the_terminal_back(terminal, key, status):
    child = terminal()
    child.until("frame 1 of 10")
    os.write(child.master, key)
    assert child.end() == status
    if status == 130:
        assert child.seen.endswith("anabranch story: stopped\r\n")
        assert termios.tcgetattr(child.slave)[3] == child.before[3]
        assert "\x1b[?25h" in child.seen
    else:
        assert child.is_as_before


def test_a_signal_gives_the_terminal_back(terminal):
    child = terminal()
    child.until("frame 1 of 10")
    os.kill(child.pid, signal.SIGINT)
    assert child.end() == 130
    assert termios.tcgetattr(child.slave)[3] == child.before[3]


def test_frame_and_colour_are_as_asked(terminal):
    child = terminal([*WORDS, "--frame", "9", "--color", "never"])
    shown = child.until("frame 9 of 10")
    assert "Backward 4 of 4" in shown
    assert "\x1b[38" not in shown
    os.write(child.master, b"q")
    assert child.end() == 0


def test_a_low_terminal_shows_what_fits_and_the_keys(terminal):
    child = terminal(rows=9)
    shown = child.until("frame 1 of 10")
    assert shown.count("\n") < 9
    assert "  ..." in shown
    os.write(child.master, b"q")
    assert child.end() == 0


@pytest.mark.parametrize(
    ("words", "env"), [([*WORDS, "--text"], {}), (WORDS, {"TERM": "dumb"})]
)  # fmt: skip
def test_without_keys_every_frame_is_printed(terminal, words, env):
    child = terminal(words, **env)
    assert child.end() == 0
    assert "Forward 1 of 5" in child.seen
    assert "Result" in child.seen
    assert "\x1b[1A" not in child.seen
    if env:  # a terminal that knows no colours, and perhaps few letters
        assert "\x1b" not in child.seen
        assert child.seen.isascii()


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (b"\x1b[C", "next"), (b"\x1bOC", "next"), (b" ", "next"), (b"\r", "next"), (b"l", "next"),
        (b"\x1b[D", "back"), (b"\x7f", "back"), (b"\x1b[1~", "first"), (b"\x1b[4~", "last"),
        (b"\x1b[F", "last"), (b"q", "quit"), (b"\x1b", "quit"), (b"\x04", "quit"), (b"z", ""),
        (b"\x1b[1;5C", ""), (b"\x1b[99~", ""), ("é".encode()[:1], ""),
    ],
)  # fmt: skip
def test_keys_by_their_bytes(sent, wanted):
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    with open(slave, closefd=False) as file, keys(file) as read:
        os.write(master, sent)
        assert read() == wanted
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)


def test_the_terminal_is_given_back_after_an_error():
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    with (
        pytest.raises(ZeroDivisionError),
        open(slave, closefd=False) as file,
        keys(file),
    ):
        assert termios.tcgetattr(slave) != before
        raise ZeroDivisionError
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)


def test_a_terminal_that_is_gone_quits():
    master, slave = pty.openpty()
    with open(slave, closefd=False) as file, keys(file) as read:
        os.close(master)
        assert read() == "quit"
    os.close(slave)


def test_both_tables_of_keys_know_the_same_meanings():
    wanted = {"next", "back", "first", "last", "quit"}
    assert set(keys_module._POSIX.values()) == set(keys_module._WINDOWS.values()) == wanted
    assert not [key for key in keys_module._WINDOWS if re.search("\x03", key)]
