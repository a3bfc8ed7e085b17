"""`anabranch demo`, written as a user would write it: with `import anabranch as ab` and NumPy.

One training step (loss, gradient and the update of the weights) is one function, and compiled it is
one graph.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import zipfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import anabranch as ab

HELP = "a small neural network learns to read handwritten digits while you watch"
EPOCHS, BACKEND = 25, "native"
DEFAULT_FILE = Path("anabranch-demo.npz")  # where an interrupted run is kept
HELD_OUT = 0.2
RATE, COOLING = 0.002, 0.9  # the step size, and its factor from epoch to epoch
COUNTS, PARTS = ("epoch", "best_epoch", "best_right"), ("weights", "mean", "spread")  # in a file
NOISE = 0.1  # added to the pixels while learning, so that none of them is learnt by heart
NEXT = {
    "anabranch demo --hidden 16": "a much smaller network",
    "anabranch demo --seed 1 --output digits.npz": "other digits held out, the weights kept",
    "python -c 'import anabranch as ab; print(ab.trace(ab.grad(lambda x: x**3), 2.0))'": (
        "a derivative is a graph too"
    ),
    "python -m pydoc anabranch.grad": "how to get one",
}

Array = npt.NDArray[np.float64]
Weights = dict[str, Any]


class DemoError(Exception):
    """What was asked for cannot be done; the message is one line."""


@dataclass(frozen=True)
class Settings:
    """What a run is made of: with it, every number of the run is settled."""

    seed: int = 0
    batch: int = 32
    hidden: tuple[int, ...] = (128, 64, 32)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of each layer, from the pixels to the ten digits."""
        return (64, *self.hidden, 10)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight by name."""
        pairs = enumerate(zip(self.sizes, self.sizes[1:], strict=False))
        return {k: s for i, (a, b) in pairs for k, s in ((f"w{i}", (a, b)), (f"b{i}", (b,)))}


@dataclass(frozen=True)
class State:
    """What a training step takes and returns: the weights, and what Adam remembers of each."""

    weights: Weights
    mean: Weights
    spread: Weights
    steps: Any


@dataclass(frozen=True)
class Progress:
    """A run after a whole number of epochs, and the best weights that it has had."""

    settings: Settings
    state: State
    best: Weights
    epoch: int = 0
    best_epoch: int = 0
    best_right: int = 0


@dataclass(frozen=True)
class Data:
    """Digits to learn from, and digits held out to test with."""

    images: Array
    labels: npt.NDArray[np.int64]
    held_images: Array
    held_labels: npt.NDArray[np.int64]


# The network and one step of its training: all of the mathematics is here.


def logits(weights: Weights, images: Any) -> Any:
    """What the network says to each image: one score for each digit."""
    depth = len(weights) // 2
    x = images @ weights["w0"] + weights["b0"]
    for i in range(1, depth):
        x = ab.relu(x) @ weights[f"w{i}"] + weights[f"b{i}"]
    return x


def loss_of(weights: Weights, images: Any, labels: Any) -> Any:
    """How surprised the network is by the labels, on average."""
    return ab.cross_entropy(logits(weights, images), labels)


def train_step(state: State, images: Any, labels: Any, rate: Any) -> tuple[State, Any]:
    """One step of Adam: running means of each gradient and of its square set the step's size."""
    loss, grads = ab.value_and_grad(loss_of)(state.weights, images, labels)
    steps = state.steps + 1
    mean = {k: 0.9 * m + 0.1 * grads[k] for k, m in state.mean.items()}
    spread = {k: 0.999 * v + 0.001 * ab.square(grads[k]) for k, v in state.spread.items()}
    # Both means start from 0; dividing by these takes that out again.
    mean_part, spread_part = 1 - 0.9**steps, 1 - 0.999**steps
    weights = {
        k: w - rate * (mean[k] / mean_part) / (ab.sqrt(spread[k] / spread_part) + 1e-8)
        for k, w in state.weights.items()
    }
    return State(weights, mean, spread, steps), loss


# Data, start, epochs


def split(seed: int) -> Data:
    """The digits in an order that the seed settles; the first fifth is held out."""
    digits = ab.datasets.digits()
    order = np.random.default_rng(seed).permutation(len(digits.labels))
    images, labels = digits.images[order] / 16, digits.labels[order]
    held = round(HELD_OUT * len(labels))
    return Data(images[held:], labels[held:], images[:held], labels[:held])


def start(settings: Settings) -> Progress:
    """Random weights, scaled so that signals keep their size from layer to layer."""
    rng = np.random.default_rng([settings.seed, 0])
    weights = {
        name: rng.normal(0, (2 / shape[0]) ** 0.5, shape) if len(shape) == 2 else np.zeros(shape)
        for name, shape in settings.shapes.items()
    }
    zeros = {name: np.zeros(shape) for name, shape in settings.shapes.items()}
    return Progress(settings, State(weights, zeros, zeros, np.float64(0)), weights)


def epochs(progress: Progress, data: Data, until: int, backend: str) -> Iterator[Any]:
    """Train, and give (progress, line to print) after each epoch."""
    step, scores = (ab.compile(f, backend=backend) for f in (train_step, logits))
    batch, known, held = progress.settings.batch, len(data.labels), len(data.held_labels)
    for epoch in range(progress.epoch + 1, until + 1):
        # Chance depends on seed and epoch alone: a run that was stopped goes on as if it was not.
        rng = np.random.default_rng([progress.settings.seed, epoch])
        images = data.images + rng.normal(0, NOISE, data.images.shape)
        order = rng.permutation(known)
        rate = RATE * COOLING ** (epoch - 1)
        state, loss = progress.state, 0.0
        for first in range(0, known, batch):
            chosen = order[first : first + batch]
            state, mean = step(state, images[chosen], data.labels[chosen], rate)
            loss += float(mean) * len(chosen) / known
        learnt, right = (
            int(np.sum(np.argmax(scores(state.weights, x), axis=1) == y))
            for x, y in ((data.images, data.labels), (data.held_images, data.held_labels))
        )
        progress = replace(progress, state=state, epoch=epoch)
        if right > progress.best_right:
            progress = replace(progress, best=state.weights, best_epoch=epoch, best_right=right)
        yield progress, f"{epoch:5}  {loss:8.4f}  {learnt / known:9.2%}  {right / held:9.2%}"


# Files


def save(progress: Progress, file: Path) -> None:
    """Write the best weights, and all that is needed to go on; at no time is the file half new."""
    counts = {name: getattr(progress, name) for name in COUNTS}
    numbers = {**vars(progress.settings), **counts, "steps": progress.state.steps}
    parts = {"best": progress.best, **{part: getattr(progress.state, part) for part in PARTS}}
    arrays = {f"{part}/{name}": a for part, group in parts.items() for name, a in group.items()}
    unfinished = file.with_name(file.name + ".part")
    try:
        with unfinished.open("wb") as stream:
            np.savez(stream, **numbers, **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(file)
    except OSError as error:
        raise DemoError(f"cannot write {file}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def load(file: Path) -> Progress:
    """Read what `save` has written."""
    try:
        with file.open("rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise DemoError(f"{file} was not saved by this demo: it is no .npz file")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as found:
                return _read(found, file)
    except OSError as error:
        raise DemoError(f"cannot read {file}: {error.strerror or error}") from None
    except (LookupError, TypeError, ValueError, OverflowError, zipfile.BadZipFile) as error:
        problem = error.args[0] if error.args else type(error).__name__
        raise DemoError(f"{file} was not saved by this demo, or is damaged: {problem}") from None


def _read(found: Mapping[str, Any], file: Path) -> Progress:
    seed, batch, *counts = (int(found[name]) for name in ("seed", "batch", *COUNTS))
    settings = Settings(seed, batch, tuple(map(int, found["hidden"])))
    if min(seed, *counts) < 0 or min(batch, *settings.hidden) < 1:
        raise ValueError("a number in it is too small")
    best, weights, mean, spread = (
        _weights(found, part, settings, file) for part in ("best", *PARTS)
    )
    state = State(weights, mean, spread, np.float64(found["steps"]))
    return Progress(settings, state, best, *counts)


def _weights(found: Mapping[str, Any], part: str, settings: Settings, file: Path) -> Weights:
    result = {}
    for name, shape in settings.shapes.items():
        array = found[f"{part}/{name}"]
        if array.shape != shape or array.dtype != np.float64:
            raise DemoError(
                f"{file}: {part}/{name} is {array.dtype} of shape {array.shape},"
                f" the network needs float64 of shape {shape}"
            )
        result[name] = array
    return result


# The command


def add_arguments(parser: ArgumentParser) -> None:
    """The options of `anabranch demo`."""
    usual = Settings()
    units = " ".join(map(str, usual.hidden))
    parser.add_argument(
        "--hidden", type=_whole(1), nargs="+", metavar="N", help=f"units of hidden layers ({units})"
    )
    for flag, kind, value, text in (
        ("--epochs", _whole(1), "N", f"how often to go through the digits, in all ({EPOCHS})"),
        ("--seed", _whole(0), "N", f"settles all chance ({usual.seed})"),
        ("--batch", _whole(1), "N", f"digits in one step ({usual.batch})"),
        ("--backend", str, "NAME", f"what runs the graph ({BACKEND})"),
        ("--output", Path, "FILE", "keep the best weights in this .npz file, epoch by epoch"),
        ("--resume", Path, "FILE", "go on with a kept run, and keep it there"),
    ):
        parser.add_argument(flag, type=kind, metavar=value, help=text)
    parser.set_defaults(epochs=EPOCHS, backend=BACKEND)


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        most = 2**31 - 1
        number = int(text) if text.lstrip("+-").isdecimal() else None
        if number is None or not least <= number <= most:
            raise ArgumentTypeError(f"need a whole number from {least} to {most}, not {text!r}")
        return number

    return parse


def run(options: Namespace) -> int:
    """Train as asked, and say what happens; the result is the exit status.

    Raises:
        DemoError: for options that cannot be met.
    """
    progress = _resumed(options) if options.resume else start(_settings(options, Settings()))
    output = options.output or options.resume
    if output is not None and (output.is_dir() or not os.access(output.parent, os.W_OK)):
        raise DemoError(f"cannot write {output}: it is no file in a folder that can be written")
    try:
        ab.compile(logits, backend=options.backend)
    except ab.AnabranchError as error:
        raise DemoError(error.sentence) from None
    data = split(progress.settings.seed)
    _introduce(progress, data, options)
    begun = progress.epoch
    try:
        for progress, line in epochs(progress, data, options.epochs, options.backend):  # noqa: B020
            print(line, flush=True)
            if output is not None:
                save(progress, output)
    except KeyboardInterrupt:
        return _interrupted(progress, options, begun)
    _conclude(progress, data, output)
    return 0


def _settings(options: Namespace, default: Settings) -> Settings:
    hidden = default.hidden if options.hidden is None else tuple(options.hidden)
    seed = default.seed if options.seed is None else options.seed
    return Settings(seed, options.batch or default.batch, hidden)


def _resumed(options: Namespace) -> Progress:
    progress = load(options.resume)
    asked = _settings(options, progress.settings)
    for name in ("seed", "batch", "hidden"):
        if (had := getattr(progress.settings, name)) != getattr(asked, name):
            shown = " ".join(map(str, had)) if name == "hidden" else had
            raise DemoError(f"{options.resume} was made with --{name} {shown}: leave --{name} out")
    if options.epochs <= progress.epoch:
        raise DemoError(
            f"{options.resume} has had {progress.epoch} epochs already:"
            f" ask for more, --epochs {progress.epoch + 10}"
        )
    return progress


def _introduce(progress: Progress, data: Data, options: Namespace) -> None:
    settings, weights = progress.settings, progress.state.weights
    layers = ", ".join(map(str, settings.sizes))
    print("A neural network learns to read handwritten digits.")
    print(f"{len(data.labels):,} digits to learn from, {len(data.held_labels)} held out;", end=" ")
    print(f"layers of {layers} units; {sum(w.size for w in weights.values()):,} weights.\n")
    print("Is the gradient right? Along random directions, at 8 digits:\n")
    few = weights, data.images[:8], data.labels[:8]
    report = ab.check_gradients(
        loss_of, *few, argnums="weights", method="directions", directions=3, seed=settings.seed
    )
    print(f"  {'input':<14}{'shape':<14}{'gradient':>12}{'differences':>14}{'error':>10}")
    for row in report.rows:
        numbers = f"{row.analytic:12.8f}{row.numeric:14.8f}{row.relative:10.0e}"
        print(f"  {row.name:<14}{row.shape:<14}{numbers}   {row.verdict}")
    if report.verdict == "kink":
        print("\n  kink: a relu bends within the step; the gradient lies between its two slopes")
    step = ab.compile(train_step, backend=options.backend)
    graph = step.graph(progress.state, *few[1:], RATE)
    print(f"\nLoss, gradient and Adam's update are one graph of {len(graph)} nodes.\n")
    print("epoch      loss     learnt   held out", flush=True)


def _interrupted(progress: Progress, options: Namespace, begun: int) -> int:
    if progress.epoch == begun:
        kept = "nothing is lost" if begun else "there is nothing to keep yet"
        print(f"\nStopped before an epoch had ended: {kept}.")
        return 130
    file = options.output or options.resume or _unused(DEFAULT_FILE)
    saved = False
    while not saved:
        with suppress(KeyboardInterrupt):  # pressed twice, it means stop, not lose
            save(progress, file)
            saved = True
    same = f" --epochs {options.epochs}" if options.epochs != EPOCHS else ""
    same += f" --backend {options.backend}" if options.backend != BACKEND else ""
    print(f"\nStopped. The best weights so far (epoch {progress.best_epoch}) are in {file}.")
    print(f"To go on: {_typed(f'anabranch demo --resume {shlex.quote(str(file))}{same}')}")
    return 130


def _unused(file: Path) -> Path:
    """This file name, or the first with a number that no file has."""
    numbered = (file.with_stem(f"{file.stem}-{n}") for n in count(2))
    return next(one for one in chain([file], numbered) if not one.exists())


def _conclude(progress: Progress, data: Data, output: Path | None) -> None:
    held = len(data.held_labels)
    share = f"{progress.best_right} of {held} held-out digits read right"
    print(f"\nBest: {share} ({progress.best_right / held:.2%}), after epoch {progress.best_epoch}.")
    if output is not None:
        print(f"Its weights are in {output}.")
    print("\n".join(["", *_hardest(progress.best, data), "", "Try next:"]))
    for line, what in NEXT.items():
        print(f"  {_typed(line)}\n      {what}")


def _hardest(weights: Weights, data: Data) -> list[str]:
    """The held-out digit whose label surprises the network most, drawn, with its three guesses."""
    chances = ab.softmax(logits(weights, data.held_images))
    hardest = int(np.argmin(chances[np.arange(len(data.held_labels)), data.held_labels]))
    ink = np.clip(data.held_images[hardest].reshape(8, 8) * 4, 0, 3.99).astype(int)
    rows = ["".join(2 * " ░▒█"[pixel] for pixel in row) for row in ink]
    guesses = np.argsort(-chances[hardest], kind="stable")[:3]
    for i, guess in enumerate(guesses):
        share = chances[hardest][guess]
        rows[i + 2] += f"      {guess}  {share:5.1%}  {'━' * round(20 * share)}"
    title = f"The one that it reads worst, a {data.held_labels[hardest]} by its label:"
    return [title, "", *(f"  {row}".rstrip() for row in rows)]


def _typed(line: str) -> str:
    """A command line that starts with a program of this environment, as it can be typed here."""
    program, _, rest = line.partition(" ")
    path, found = Path(sys.executable).with_name(program), shutil.which(program)
    if path.exists() and (found is None or Path(found) != path):
        program = str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    return f"{shlex.quote(program)} {rest}"
