"""One evaluation of a user's function on values that derivatives are wanted for.

Each wanted input enters as an alias, a value of its own: only what flows through the alias counts,
so a derivative inside a derivative never confuses its variable with another of equal value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import ARRAYS, NUMBERS, bind, located, state
from anabranch.core.dtype import is_floating
from anabranch.core.node import Edge
from anabranch.diff.forward import forward
from anabranch.diff.region import Step, ancestors, dependents, key_of, node_steps
from anabranch.diff.reverse import reverse
from anabranch.errors import AnabranchError, ArgumentError, DTypeError
from anabranch.frontends import engine
from anabranch.frontends.containers import flatten, leaf_names, map_leaves, unflatten
from anabranch.frontends.tensor import Tensor, make_tensor

Refusal = Callable[[str, Any], AnabranchError]


class Evaluation:
    """The aliases, the output, and the walks over what was recorded between them."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        wanted: dict[int | str, str],
        refuse: Refusal,
    ) -> None:
        """Call `function`, with the arguments at the positions or names in `wanted` aliased.

        `wanted` maps each to what errors call it; `refuse` makes the error for a leaf that has no
        tangent space.
        """
        leaves = flatten((tuple(args), kwargs))[0]
        self.is_nested = state.transforms > 0
        self.is_symbolic = state.trace is not None or any(isinstance(v, Edge) for v in leaves)
        self.gives_tensors = self.is_nested or any(type(v) is Tensor for v in leaves)
        tracked = any(type(v) is Tensor and v.is_tracked for v in leaves)
        self.is_recorded = state.recording and (self.is_nested or tracked)
        self.aliases: list[Any] = []
        self.names: list[str] = []
        self.structures: list[tuple[Any, int]] = []
        before = state.recording, state.transforms
        state.recording, state.transforms = True, state.transforms + 1
        try:
            new_args = [
                self._aliased(value, wanted[i], refuse) if i in wanted else value
                for i, value in enumerate(args)
            ]
            new_kwargs = {
                key: self._aliased(value, wanted[key], refuse) if key in wanted else value
                for key, value in kwargs.items()
            }
            self.out = function(*new_args, **new_kwargs)
        finally:
            state.recording, state.transforms = before

    def _aliased(self, tree: Any, name: str, refuse: Refusal) -> Any:
        leaves, structure = flatten(tree)
        names = leaf_names(structure, name)
        made = [self._alias(leaf, n, refuse) for leaf, n in zip(leaves, names, strict=True)]
        self.aliases += made
        self.names += names
        self.structures.append((structure, len(made)))
        return unflatten(structure, made)

    def _alias(self, value: Any, name: str, refuse: Refusal) -> Any:
        kind = type(value)
        if kind in NUMBERS and kind is not complex:
            value = np.float64(value)
        elif isinstance(value, Edge) and value.aval.weak:
            value = bind("astype", value, dtype=np.dtype(np.float64))
        elif not isinstance(value, (*ARRAYS, Tensor, Edge)) or not is_floating(value.dtype):
            raise refuse(name, value)
        if self.is_symbolic:
            return bind("identity", value)
        if type(value) is Tensor:
            if value.is_tracked:
                alias = bind("identity", value)
                return make_tensor(alias.value, alias.node, requires_grad=True)
            value = value.value
        fresh = make_tensor(np.asarray(value, order="C")[()], requires_grad=True)
        fresh.requires_grad = True
        fresh.name = name
        return fresh

    def edges(self) -> list[Any]:
        """The output's leaves."""
        return flatten(self.out)[0]

    def pull(self, outputs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the aliases for these of the outputs; None is a structural zero."""
        start: dict[Any, Any] = {}
        for edge, ct in zip(outputs, cts, strict=True):
            if isinstance(edge, Edge | Tensor) and ct is not None:
                key = key_of(edge)
                start[key] = start[key] + ct if key in start else ct
        steps, within = self._steps(outputs)
        found = self._walk(lambda: reverse(steps, start, within))
        return [found.get(key_of(alias)) for alias in self.aliases]

    def push(self, outputs: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """The tangents of the outputs for these of the aliases; None is a structural zero."""
        start = {key_of(a): t for a, t in zip(self.aliases, ts, strict=True) if t is not None}
        steps, _ = self._steps(outputs)
        given = set(start)
        found = self._walk(lambda: forward([s for s in steps if s.node.id not in given], start))
        return [
            found.get(key_of(edge)) if isinstance(edge, Edge | Tensor) else None for edge in outputs
        ]

    def _steps(self, outputs: Sequence[Any]) -> tuple[list[Step], set[int]]:
        region = ancestors([e for e in outputs if isinstance(e, Edge | Tensor)])
        within = dependents(region.values(), self.aliases)
        if self.is_symbolic:
            return node_steps(region.values(), within), within
        return engine.steps(region.values(), within, self.is_recorded), within

    def _walk(self, walk: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
        if self.is_symbolic:
            return walk()
        before = state.recording, state.transforms
        state.recording = self.is_recorded
        try:
            with np.errstate(all="ignore"):
                return walk()
        finally:
            state.recording, state.transforms = before

    def given_back(self, tree: Any) -> Any:
        """A result in the kind the user called with: NumPy for NumPy, tensors for tensors."""
        return tree if self.is_symbolic else map_leaves(self._leaf_back, tree)

    def _leaf_back(self, value: Any) -> Any:
        if self.gives_tensors:
            return make_tensor(np.asarray(value)[()]) if isinstance(value, ARRAYS) else value
        if type(value) is Tensor:
            value = value.value
        # Arrays of the pass may be shared with one another and with the arguments.
        return np.array(value)[()] if isinstance(value, np.ndarray) else value

    def grouped(self, leaves: list[Any]) -> list[Any]:
        """One container for each wanted argument from one value for each alias."""
        result, position = [], 0
        for structure, size in self.structures:
            result.append(unflatten(structure, leaves[position : position + size]))
            position += size
        return result


def refusal(what: str, function: Callable[..., Any], others: Sequence[str]) -> Refusal:
    """The error maker for arguments of `what` (grad, vjp, jvp) that have no tangent space."""

    def refuse(name: str, value: Any) -> AnabranchError:
        where = _defined_at(function)
        facts = (f'"{name}" is an argument of {where}',)
        if not hasattr(value, "dtype"):
            return located(
                ArgumentError(
                    "not-differentiable",
                    f'{what} cannot differentiate "{name}", a {type(value).__name__}',
                    facts=facts,
                )
            )
        choice = next((o for o in others if o != name), None)
        return located(
            DTypeError(
                "integer-gradient",
                f'{what} has no meaning for "{name}", which is {aval_of(value)};'
                " only floats have tangents",
                facts=facts,
                hint=f'argnums="{choice}" differentiates another argument'
                if choice
                else f"{name.split('[', maxsplit=1)[0]}.astype(float)",
                argument=name,
            )
        )

    return refuse


def _defined_at(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if code is None:
        return str(name)
    return f"{name} ({code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno})"
