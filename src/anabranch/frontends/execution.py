"""Optimise a graph, hand it to a backend, and call the result with checked arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.backends.base import Backend, Executable, Wanted
from anabranch.backends.native import NativeBackend
from anabranch.backends.reference import ReferenceBackend, ReferenceExecutable
from anabranch.core.bind import NUMBERS, state
from anabranch.core.config import Options, options, when_changed
from anabranch.core.domain import is_watched
from anabranch.core.graph import Graph
from anabranch.core.late import LateModule
from anabranch.core.once import once
from anabranch.errors import ArgumentError

if TYPE_CHECKING:
    from anabranch.passes import pipeline
    from anabranch.passes.pipeline import PassReport
    from anabranch.passes.rewrite import Pass
else:
    pipeline = LateModule("anabranch.passes.pipeline")

BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (ReferenceBackend(), NativeBackend())
}
Passes = str | Sequence["str | Pass"] | None


def find_backend(name: str | None) -> Backend:
    """The backend of this name; for None the one that `ab.config(backend=...)` says.

    Raises:
        ArgumentError: `[unknown-backend]`.
    """
    name = options().backend if name is None else name
    if name not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise ArgumentError("unknown-backend", f"no backend is named {name!r}; known: {known}")
    return BACKENDS[name]


@contextmanager
def _known_backend(changed: Options) -> Iterator[None]:
    find_backend(changed.backend)
    yield


when_changed("backend", _known_backend)


class Program:
    """A graph made executable: as built, as optimised, what the passes did, how to run it."""

    def __init__(
        self,
        graph: Graph,
        backend: str | None,
        passes: Passes,
        without: str | Sequence[str] = (),
        donated: Sequence[int] = (),
        is_called: bool = False,
    ) -> None:
        self.graph = graph

        def optimise(built: Graph) -> tuple[Graph, tuple[PassReport, ...]]:
            return pipeline.run_passes(built, passes, without=without)

        self._wanted = Wanted(graph, optimise, _named(passes, without), donated, is_called)
        self.executable: Executable = find_backend(backend).compile(self._wanted)
        self.donated = self.executable.donated
        self.takes, self.gives = len(graph.parameters), len(graph.outputs)

    @property
    def optimised(self) -> Graph:
        """The graph that runs; it is made when somebody looks at it, or code must be written."""
        return self._wanted.optimised

    @property
    def reports(self) -> tuple[PassReport, ...]:
        """What the passes did."""
        found: tuple[PassReport, ...] = self._wanted.reports
        return found

    @once
    def reference(self) -> ReferenceExecutable:
        """The same graph on the reference backend."""
        made = self.executable
        return (
            made if isinstance(made, ReferenceExecutable) else ReferenceExecutable(self.optimised)
        )

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs for checked arguments; none shares memory with another or an argument.

        Only what takes a donated array is that array.
        """
        if state.onlooker is not None:
            state.onlooker.runs(self, arguments)
        taken = {id(argument) for argument in arguments}
        reusing = set(self.donated.values())
        results: list[Any] = []
        # Who looks at values or operands looks at node after node, which only one backend has; and
        # only NumPy takes integers of any length.
        is_free = state.guard is None and not is_watched() and all(map(_has_a_width, arguments))
        executable = self.executable if is_free else self.reference
        for i, out in enumerate(executable.run(arguments)):
            if i in reusing:
                results.append(out)
            elif type(out) in NUMBERS:
                results.append(np.asarray(out)[()])
            elif isinstance(out, np.ndarray) and (id(out) in taken or not _is_free(out)):
                results.append(out.copy())
            else:
                results.append(out)
            taken.add(id(out))
        _write_back(self.donated, arguments, results)
        return results

    def raw(self, captured: Sequence[Any] = ()) -> Any:
        """The C function of the program, which reads captured arrays where they lie.

        Raises:
            ArgumentError: `[no-machine-code]`.
        """
        made = self.executable.raw([np.ascontiguousarray(one) for one in captured])
        if made is None:
            way = 'backend="native" compiles it'
            fixed = not isinstance(self.executable, ReferenceExecutable)
            raise ArgumentError(
                "no-machine-code",
                "there is no C function of a result that is a fixed number"
                if fixed
                else f'graph "{self.graph.name}" runs in NumPy: there is no C function of it',
                hint=None if fixed else way,
            )
        return made


def _named(passes: Passes, without: str | Sequence[str]) -> str | None:
    """What says which passes run; None where one is a function, which its name does not tell."""
    given = (passes,) if passes is None or isinstance(passes, str) else tuple(passes)
    left_out = {without} if isinstance(without, str) else set(without)
    if not all(one is None or isinstance(one, str) for one in (*given, *left_out)):
        return None
    return repr((given, sorted(left_out)))


def _has_a_width(value: Any) -> bool:
    """Whether this is anything but one of Python's integers that are longer than any dtype."""
    return type(value) is not int or -(2**63) <= value < 2**63


def _is_free(array: np.ndarray[Any, Any]) -> bool:
    """Whether the array owns its memory and may be given away: no view and no constant."""
    return array.flags.owndata and array.flags.writeable


def _write_back(pairs: Mapping[int, int], arguments: Sequence[Any], results: list[Any]) -> None:
    """Put each result that takes an array into it, where the backend has not done so."""
    for parameter, output in pairs.items():
        target = arguments[parameter]
        if results[output] is not target:
            np.copyto(target, results[output])
            results[output] = target
