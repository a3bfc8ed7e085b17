"""Code on disk: found again, bounded, whole or absent, and nobody else's."""

import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import disk
from anabranch.backends.native.disk import Store
from anabranch.core.digest import key_of
from anabranch.core.registry import temporary_ops

KEY, OTHER = key_of("a", "b"), key_of("ab", "")
X = np.linspace(0.5, 2.0, 6)
PATHS = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    ab.compile(lambda x: x + 1.0)(X)  # what a process makes once is made before
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.code"))


def emitted(work: object) -> int:
    """How many modules LLVM compiles meanwhile."""
    before = ab.cache.counts().emitted
    work()  # type: ignore[operator]
    return ab.cache.counts().emitted - before


def slope(f: object = None) -> object:
    return ab.compile(
        ab.value_and_grad(f or (lambda x: ab.sum(ab.sort(ab.exp(x))))), backend="native"
    )


# The store


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "one", 10_000)
    assert store.read(KEY) is None
    assert not store.directory.exists()  # reading makes nothing
    store.write(KEY, [b"", b"code", bytes(range(256))])
    assert store.read(KEY) == [b"", b"code", bytes(range(256))]
    assert store.read(OTHER) is None
    assert store.size() == sum(path.stat().st_size for path in entries(store.directory))
    assert store.clear() == 1
    assert (store.read(KEY), store.size()) == (None, 0)


def test_keys_keep_their_parts_apart() -> None:
    assert len({key_of("ab", ""), key_of("a", "b"), key_of("", "ab"), key_of("ab")}) == 4


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "longer", "another's"])
def test_a_damaged_entry_counts_as_none_and_goes(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path, 10_000)
    store.write(KEY, [b"code" * 10])
    (path,) = entries(tmp_path)
    data = path.read_bytes()
    changed = {
        "cut": data[:-1],
        "flipped": data[:-1] + bytes([data[-1] ^ 1]),
        "empty": b"",
        "longer": data + b"\0",
        "another's": data,
    }
    path.write_bytes(changed[damage])
    if damage == "another's":  # a whole entry under the wrong name
        path.rename(path.with_name(f"{OTHER}.code"))
        assert store.read(OTHER) is None
    else:
        assert store.read(KEY) is None
    assert entries(tmp_path) == []


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path, 4_200)
    keys = [key_of(str(i)) for i in range(4)]
    for age, key in enumerate(keys[:3]):
        store.write(key, [bytes(1_100)])
        os.utime(tmp_path / f"{key}.code", (age, age))
    assert store.read(keys[0]) is not None  # used: now it is the youngest
    store.write(keys[3], [bytes(1_100)])
    assert [store.read(key) is not None for key in keys] == [True, False, False, True]
    assert store.size() <= 4_200


def test_what_would_fill_the_cache_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", 1_000)
    store.write(KEY, [bytes(600)])
    assert not store.directory.exists()


def test_what_nobody_will_finish_goes(tmp_path: Path) -> None:
    for name, age in (("old", 10_000), ("new", 0)):
        path = tmp_path / f"{name}.part"
        path.write_bytes(b"half")
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    Store(tmp_path, 10_000).write(KEY, [b"code"])
    assert [path.name for path in tmp_path.glob("*.part")] == ["new.part"]


def test_a_directory_that_cannot_be_made_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "cache", 10_000)
    with pytest.warns(RuntimeWarning, match=r"file.cache, cannot be used .* compiled anew"):
        store.write(KEY, [b"code"])
    store.write(OTHER, [b"code"])  # a second warning would be an error
    assert store.read(KEY) is None


def test_a_directory_that_cannot_be_written_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def full(*_: object) -> None:
        tried.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    store = Store(tmp_path, 10_000)
    with pytest.warns(RuntimeWarning, match="cannot be written .No space left on device"):
        store.write(KEY, [b"code"])
    store.write(KEY, [b"code"])
    assert (len(tried), list(tmp_path.iterdir())) == (1, [])


@pytest.mark.skipif(sys.platform == "win32", reason="profiles are closed there")
def test_what_others_can_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Store(tmp_path / "made", 10_000)
    made.write(KEY, [b"code"])
    assert stat.S_IMODE(made.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(entries(made.directory)[0].stat().st_mode) == 0o600

    entries(made.directory)[0].chmod(0o622)  # this file only: made anew
    assert made.read(KEY) is None
    made.write(KEY, [b"code"])
    assert made.read(KEY) == [b"code"]

    made.directory.chmod(0o722)
    with pytest.warns(RuntimeWarning, match="can be written to by others; code is compiled anew"):
        assert made.read(KEY) is None
    assert made.read(KEY) is None

    store = Store(tmp_path / "theirs", 10_000)
    store.directory.mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: store.directory.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        store.write(KEY, [b"code"])
    assert entries(store.directory) == []


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_in_the_place_of_an_entry_is_not_followed(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "one", 10_000), Store(tmp_path / "other", 10_000)
    for each in (store, other):
        each.write(KEY, [b"code"])
    (path,) = entries(store.directory)
    path.unlink()
    path.symlink_to(entries(other.directory)[0])
    assert store.read(KEY) is None


def test_the_environment_says_where_and_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", "")
    assert ab.cache.directory() is None
    assert (ab.cache.size(), ab.cache.bound(), ab.cache.clear()) == (0, 0, 0)
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ANABRANCH_CACHE_BYTES", "1000")
    assert (ab.cache.directory(), ab.cache.bound()) == (tmp_path, 1_000)
    monkeypatch.setenv("ANABRANCH_CACHE_BYTES", "0")
    assert ab.cache.directory() is None
    monkeypatch.setenv("ANABRANCH_CACHE_BYTES", "plenty")
    monkeypatch.setattr(disk, "_told", set())
    with pytest.warns(RuntimeWarning, match="must be a number of bytes, not 'plenty'"):
        assert ab.cache.bound() == 256 * 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="each system has its own place")
def test_without_a_word_it_lies_among_the_users_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANABRANCH_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert ab.cache.directory() == tmp_path / ".cache" / "anabranch"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert ab.cache.directory() == tmp_path / "caches" / "anabranch"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert ab.cache.directory() == tmp_path / ".cache" / "anabranch"


# Programs


def test_a_known_graph_is_not_compiled_again(here: Path) -> None:
    results = []
    assert emitted(lambda: results.append(slope()(X))) == 2  # the program, and the way into it
    assert emitted(lambda: results.append(slope()(X))) == 0
    for mine, its in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, its)
    assert len(entries(here)) == 2


def test_call_backs_and_constants_of_a_found_program_are_its_own(here: Path) -> None:
    def f(x, i):
        y = ab.linalg.inv(ab.diag(x)[::-1])  # runs in the reference, on a view
        return ab.take(x[::-1] * np.arange(6.0), i) + 1.0, y

    run = lambda: ab.compile(f, backend="native")  # noqa: E731
    wanted = ab.compile(f, backend="reference")(X, np.array([4, 0]))
    for _ in range(2):
        for mine, its in zip(run()(X, np.array([4, 0])), wanted, strict=True):
            np.testing.assert_array_equal(mine, its)
    with pytest.raises(ab.OutOfRangeError) as caught:
        run()(X, np.array([9, 0]))
    assert "running" in str(caught.value)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: ab.sum(x * 3.0),
        lambda x: ab.sum(x * -2.0),
        lambda x: ab.sum(2.0 + x),
        lambda x: ab.sum(x * 2.0) + 0.0,
    ],
)
def test_another_graph_is_another_entry(here: Path, other: object) -> None:
    one = lambda x: ab.sum(x * 2.0)  # noqa: E731
    assert ab.compile(one, backend="native", passes=())(X) == one(X)
    assert ab.compile(other, backend="native", passes=())(X) == other(X)  # type: ignore[operator]


def test_shape_dtype_and_options_are_part_of_the_key(here: Path) -> None:
    def count(x: np.ndarray) -> int:
        return emitted(lambda: ab.compile(lambda x: x + 1.0, backend="native").program(x))

    for x in (X, X.astype(np.float32), X[:4], X.reshape(2, 3)):
        assert count(x) >= 1  # two of them share their entry, where dtypes are no constants
        assert count(x) == 0
    with ab.config(absorb_zero=False):
        assert count(X) >= 1


def test_the_way_into_a_function_is_known_too_whatever_the_objects_are_called(here: Path) -> None:
    def build(array: np.ndarray):
        return ab.compile(lambda x: x + array, backend="native")

    one, other = np.ones(6), np.full(6, 5.0)
    np.testing.assert_array_equal(build(one)(X), X + 1.0)
    assert emitted(lambda: np.testing.assert_array_equal(build(other)(X), X + 5.0)) == 0


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:-9] + b"garbage!!"])
def test_a_damaged_program_is_made_anew_silently(here: Path, damage: object) -> None:
    wanted = slope()(X)
    for path in entries(here):
        path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = []
        assert emitted(lambda: found.extend(slope()(X))) == 2
    np.testing.assert_array_equal(found[1], wanted[1])
    assert emitted(lambda: slope()(X)) == 0  # and kept again


def test_an_operation_of_a_users_own_is_filed_by_its_code(here: Path) -> None:
    def run(factor: float) -> float:
        with temporary_ops():
            scaled = ab.elementwise(
                "scaled",
                lambda x: x * factor,
                doc="Scaled.",
                partials=(factor,),
                scalar=lambda e, x: e.multiply(x, e.number(factor, x.dtype)),
            )
            return float(ab.compile(lambda x: ab.sum(scaled(x)), backend="native")(np.ones(3)))

    assert [run(2.0), run(3.0), run(2.0)] == [6.0, 9.0, 6.0]
    assert emitted(lambda: run(3.0)) == 0


def test_looking_at_a_found_program_writes_its_text(here: Path) -> None:
    def f(x):
        return ab.linalg.cholesky(x @ x.T)

    x = np.eye(3)
    ab.compile(f, backend="native")(x)
    again = ab.compile(f, backend="native")
    again(x)
    program = again.program(x).executable.program
    assert [island.node.op.name for island in program.islands] == ["linalg.cholesky"]
    assert "define" in program.ir


STEP = """
import numpy as np, anabranch as ab

@ab.compile(backend="native")
def step(w1, w2, x, y):
    def loss(w1, w2):
        h = ab.tanh(x @ w1)
        return ab.mean((h @ w2 - y) ** 2)
    value, (g1, g2) = ab.value_and_grad(loss, argnums=(0, 1))(w1, w2)
    return value, w1 - 0.1 * g1, w2 - 0.1 * g2

rng = np.random.default_rng(0)
shapes = [(8, 16), (16, 3), (5, 8), (5, 3)]
value, *_ = step(*(rng.normal(size=shape) for shape in shapes))
print(value.hex(), ab.cache.counts().emitted, ab.cache.counts().found)
"""


def start(here: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", STEP],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "ANABRANCH_CACHE_DIR": str(here),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )
    return done.stdout.split()


@pytest.mark.proves("F-89")
@pytest.mark.slow
def test_the_second_start_of_a_training_step_generates_nothing(here: Path) -> None:
    value, made, found = start(here)
    assert (int(made) > 0, int(found)) == (True, 0)
    again, emitted_again, found = start(here)
    assert (again, emitted_again) == (value, "0")
    assert 0 < int(found) < int(made)  # all modules of a program are found as one


@pytest.mark.slow
def test_processes_at_once_share_one_directory(here: Path) -> None:
    code = "\n".join(
        [
            "import os, sys, random",
            "from pathlib import Path",
            "from anabranch.backends.native.disk import Store",
            "from anabranch.core.digest import key_of",
            "store = Store(Path(sys.argv[1]), 60_000)",
            "rng = random.Random(int(sys.argv[2]))",
            "for _ in range(400):",
            "    i = rng.randrange(40)",
            "    wanted = [bytes([i]) * 3_000]",
            "    found = store.read(key_of(str(i)))",
            "    assert found is None or found == wanted, found",
            "    if found is None: store.write(key_of(str(i)), wanted)",
            "assert store.size() < 60_000 + 4 * 3_200",
        ]
    )
    command = [sys.executable, "-W", "error", "-c", code, str(here)]
    running = [subprocess.Popen([*command, str(i)], env=PATHS) for i in range(4)]
    assert [one.wait(60) for one in running] == [0] * 4
    assert list(here.glob("*.part")) == []
