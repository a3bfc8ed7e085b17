"""The demo: its mathematics, its files, what it says, and how it ends."""

import re
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab
from anabranch import cli, demo

SMALL = demo.Settings(seed=3, batch=200, hidden=(8,))
SMALL_OPTIONS = ["--seed", "3", "--batch", "200", "--hidden", "8"]


def trained(progress, until):
    """The progress and the lines after this many epochs."""
    data = demo.split(progress.settings.seed)
    results = list(demo.epochs(progress, data, until, "reference"))
    return results[-1][0], [line for _, line in results]


def arrays(progress):
    parts = [progress.best, *(getattr(progress.state, part) for part in demo.PARTS)]
    return [group[name] for group in parts for name in sorted(group)]


def run(*arguments):
    return cli.main(["demo", *map(str, arguments)])


def same_bits(left, right):
    return all(np.array_equal(a, b) for a, b in zip(arrays(left), arrays(right), strict=True))


# Mathematics


@pytest.mark.proves("S0-81")
def test_the_compiled_step_agrees_with_an_adam_of_its_own():
    data = demo.split(0)
    state = demo.start(demo.Settings(hidden=(6,))).state
    weights = dict(state.weights)
    mean = {name: np.zeros_like(w) for name, w in weights.items()}
    spread = {name: np.zeros_like(w) for name, w in weights.items()}
    step, slopes = ab.compile(demo.train_step), ab.compile(ab.grad(demo.loss_of))
    for t in range(1, 101):
        images, labels = data.images[t : t + 16], data.labels[t : t + 16]
        grads = slopes(weights, images, labels)
        for name, g in grads.items():
            mean[name] += 0.1 * (g - mean[name])
            spread[name] += 0.001 * (g**2 - spread[name])
            mean_hat, spread_hat = mean[name] / (1 - 0.9**t), spread[name] / (1 - 0.999**t)
            weights[name] = weights[name] - 0.01 * mean_hat / (np.sqrt(spread_hat) + 1e-8)
        state, _ = step(state, images, labels, 0.01)
    assert int(state.steps) == 100
    for name, w in weights.items():
        np.testing.assert_allclose(state.weights[name], w, rtol=0, atol=1e-12)


def test_the_split_holds_a_fifth_out_and_loses_no_digit():
    data, digits = demo.split(5), ab.datasets.digits()
    assert len(data.held_labels) == 359
    assert len(data.labels) == 1438
    rows = np.concatenate([data.held_images, data.images])
    assert sorted(map(bytes, rows)) == sorted(map(bytes, digits.images / 16))
    assert np.array_equal(data.labels, demo.split(5).labels)
    assert not np.array_equal(data.labels, demo.split(6).labels)


@pytest.mark.slow
def test_the_usual_run_reads_97_percent_and_prints_the_same_twice(capsys):
    assert run() == 0
    first = capsys.readouterr().out
    assert run() == 0
    assert capsys.readouterr().out == first
    last = float(re.search(r"^ +25 .* ([0-9.]+)%$", first, re.MULTILINE)[1])
    best = float(re.search(r"read right \(([0-9.]+)%\)", first)[1])
    assert best >= last >= 97
    assert first.count(" pass\n") == 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_other_seeds_read_96_and_a_half_percent(seed):
    progress, _ = trained(demo.start(demo.Settings(seed=seed)), demo.EPOCHS)
    assert progress.best_right / 359 >= 0.965


# Files


def test_a_run_that_was_kept_goes_on_as_if_it_had_not_stopped(tmp_path):
    whole, lines = trained(demo.start(SMALL), 4)
    half, first = trained(demo.start(SMALL), 2)
    demo.save(half, tmp_path / "half.npz")
    loaded = demo.load(tmp_path / "half.npz")
    assert loaded.settings == SMALL
    assert same_bits(loaded, half)
    rest, second = trained(loaded, 4)
    assert first + second == lines
    assert same_bits(rest, whole)
    assert (rest.best_epoch, rest.best_right) == (whole.best_epoch, whole.best_right)


def test_the_best_weights_are_kept_not_the_last(monkeypatch):
    good, _ = trained(demo.start(SMALL), 1)
    spoilt = {name: np.zeros_like(w) for name, w in good.state.weights.items()}
    monkeypatch.setattr(demo, "RATE", 0.0)  # the zeros stay zeros
    state = demo.replace(good.state, weights=spoilt)
    later, _ = trained(demo.replace(good, state=state), 3)
    assert (later.epoch, later.best_epoch, later.best_right) == (3, 1, good.best_right)
    assert all(np.array_equal(later.best[name], w) for name, w in good.best.items())


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_the_old_file_whole(monkeypatch, tmp_path, failure):
    file = tmp_path / "kept.npz"
    demo.save(demo.start(SMALL), file)
    before = file.read_bytes()

    def half(stream, **arrays):
        stream.write(b"half")
        raise failure

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises((demo.DemoError, KeyboardInterrupt)):
        demo.save(demo.start(SMALL), file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def damaged(tmp_path, **changes):
    """A kept run with some entries replaced, or with None removed."""
    file = tmp_path / "run.npz"
    demo.save(demo.start(SMALL), file)
    with np.load(file) as found:
        entries = {**found, **changes}
    np.savez(file, **{name: value for name, value in entries.items() if value is not None})
    return file


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"weights/w0": np.zeros((3, 8))}, "weights/w0 is float64 of shape (3, 8)"),
        ({"best/b1": np.zeros(10, np.float32)}, "best/b1 is float32"),
        ({"mean/w1": None}, "mean/w1 is not a file"),
        ({"seed": None}, "seed is not a file"),
        ({"hidden": np.array(["x"])}, "invalid literal"),
        ({"hidden": np.array(3)}, "0-d array"),
        ({"batch": np.array(0)}, "too small"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_its_cause(tmp_path, capsys, changes, cause):
    assert run("--resume", damaged(tmp_path, **changes)) == 2
    error = capsys.readouterr().err
    assert error.startswith("anabranch demo: ")
    assert error.count("\n") == 1
    assert cause in error
    assert "run.npz" in error


# The command


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def interrupt_after(monkeypatch, count):
    """Let Ctrl-C come after this many epochs."""
    real = demo.epochs

    def stopped(*arguments):
        for done, result in enumerate(real(*arguments)):
            if done == count:
                raise KeyboardInterrupt
            yield result

    monkeypatch.setattr(demo, "epochs", stopped)
    return real


def table(text):
    """The lines of epochs in what was printed."""
    return re.findall(r"^ +\d+ +[0-9.]+ +[0-9.]+% +[0-9.]+%$", text, re.MULTILINE)


def test_an_interrupted_run_is_kept_and_goes_on_as_it_says(here, monkeypatch, capsys):
    assert run(*SMALL_OPTIONS, "--epochs", 4) == 0
    whole = capsys.readouterr().out
    real = interrupt_after(monkeypatch, 2)
    assert run(*SMALL_OPTIONS, "--epochs", 4) == 130
    out = capsys.readouterr().out
    assert table(out) == table(whole)[:2]
    words = re.search(r"To go on: \S+ demo (.*)$", out, re.MULTILINE)[1].split()
    assert words == ["--resume", "anabranch-demo.npz", "--epochs", "4"]
    monkeypatch.setattr(demo, "epochs", real)
    assert run(*words) == 0
    rest = capsys.readouterr().out
    assert table(rest) == table(whole)[2:]
    assert rest.split("Best:")[1].split("Its weights")[0].strip() in " ".join(whole.split("Best:"))


@pytest.mark.slow
def test_an_interrupted_run_overwrites_no_other(here, monkeypatch, capsys):
    interrupt_after(monkeypatch, 1)
    for _ in range(2):
        assert run(*SMALL_OPTIONS) == 130
    assert {file.name for file in here.iterdir()} == {"anabranch-demo.npz", "anabranch-demo-2.npz"}
    assert "in anabranch-demo-2.npz" in capsys.readouterr().out


@pytest.mark.slow
def test_a_second_interrupt_loses_nothing(here, monkeypatch, capsys):
    interrupt_after(monkeypatch, 1)
    real, calls = np.savez, []

    def interrupted(*arguments, **arrays):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        real(*arguments, **arrays)

    monkeypatch.setattr(np, "savez", interrupted)
    assert run(*SMALL_OPTIONS) == 130
    assert demo.load(Path("anabranch-demo.npz")).epoch == 1
    assert "anabranch-demo.npz" in capsys.readouterr().out


def test_a_run_that_is_stopped_at_once_leaves_nothing(here, monkeypatch, capsys):
    interrupt_after(monkeypatch, 0)
    assert run(*SMALL_OPTIONS) == 130
    assert "nothing to keep yet" in capsys.readouterr().out
    assert not list(here.iterdir())


def test_output_is_written_and_read_back(here, capsys):
    assert run(*SMALL_OPTIONS, "--epochs", 1, "--output", "out.npz") == 0
    assert "Its weights are in out.npz." in capsys.readouterr().out
    assert demo.load(Path("out.npz")).epoch == 1


@pytest.mark.slow
def test_two_runs_print_the_same_and_leave_nothing(here, capsys):
    outs = []
    for _ in range(2):
        assert run(*SMALL_OPTIONS, "--epochs", 2) == 0
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1]
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["--epochs", "0"], "--epochs"),
        (["--epochs", "many"], "'many'"),
        (["--seed", "-1"], "--seed"),
        (["--batch", "0"], "--batch"),
        (["--hidden", "8", "0"], "--hidden"),
        (["--hidden"], "--hidden"),
        (["--backend", "quantum"], "'quantum'"),
        (["--resume", "missing.npz"], "missing.npz: No such file"),
        (["--resume", "text.npz"], "text.npz was not saved by this demo"),
        (["--resume", "."], "cannot read ."),
        (["--output", "missing/x.npz"], "missing/x.npz"),
        (["--output", "."], "cannot write ."),
        (["--resume", "run.npz", "--seed", "4"], "--seed 3"),
        (["--resume", "run.npz", "--hidden", "4", "4"], "--hidden 8"),
        (["--resume", "done.npz", "--epochs", "2"], "3 epochs already"),
        (["--frobnicate"], "--frobnicate"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(here, capsys, arguments, cause):
    Path("text.npz").write_text("hello")
    progress = demo.start(SMALL)
    demo.save(progress, Path("run.npz"))
    demo.save(demo.replace(progress, epoch=3), Path("done.npz"))
    assert run(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert cause in shown.err


def test_help_names_every_option(capsys):
    assert run("--help") == 0
    text = capsys.readouterr().out
    for option in ("epochs", "seed", "backend", "batch", "hidden", "output", "resume"):
        assert f"--{option}" in text


def test_what_to_try_next_can_be_typed():
    assert 3 <= len(demo.NEXT) <= 5
    for line in demo.NEXT:
        program, *words = demo.shlex.split(line)
        if program == "anabranch":
            assert words[0] == "demo"
            assert cli.parser("demo").parse_args(words[1:])
        elif words[0] == "-c":
            exec(words[1], {})
        else:
            assert words[:2] == ["-m", "pydoc"]
            assert getattr(ab, words[2].removeprefix("anabranch.")).__doc__
