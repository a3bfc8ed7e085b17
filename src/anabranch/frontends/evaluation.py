"""One evaluation of a user's function on values that derivatives are wanted for.

Each wanted input enters as an alias, a value of its own: only what flows through the alias counts,
so a derivative inside a derivative never confuses its variable with another of equal value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.attention import attention
from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS, bind, state
from anabranch.core.dtype import is_floating, is_supported, is_swapped, refused
from anabranch.core.late import LateModule
from anabranch.core.leaves import PARAMETER
from anabranch.core.node import Edge
from anabranch.core.values import ARRAYS, plain, settled
from anabranch.diff.forward import forward
from anabranch.diff.region import ancestors, dependents, key_of, node_steps
from anabranch.diff.reverse import reverse
from anabranch.errors import AnabranchError, ArgumentError, DTypeError
from anabranch.frontends import engine
from anabranch.frontends.containers import (
    argument_names,
    flatten,
    leaf_names,
    map_leaves,
    unflatten,
)
from anabranch.frontends.tensor import Tensor, make_tensor

if TYPE_CHECKING:
    from anabranch.passes import restate as stable
else:
    stable = LateModule("anabranch.passes.restate")

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
        copies: bool = False,
    ) -> None:
        """Call `function`, with the arguments at the positions or names in `wanted` aliased.

        `wanted` maps each to what errors call it; `refuse` makes the error for a leaf that has no
        tangent space. `copies` is for walks that come later, when the caller's arrays may have
        changed.
        """
        self._copies = copies
        leaves = flatten((tuple(args), kwargs))[0]
        self.is_nested = state.transforms > 0
        self.is_symbolic = state.trace is not None or any(isinstance(v, Edge) for v in leaves)
        self.gives_tensors = self.is_nested or any(type(v) is Tensor for v in leaves)
        tracked = any(type(v) is Tensor and v.is_tracked for v in leaves)
        self.is_recorded = state.recording and (self.is_nested or tracked)
        self.aliases: list[Any] = []
        self.names: list[str] = []
        self.restated: list[str] = []  # what the stability rows did
        self.structures: list[tuple[int | str, Any]] = []
        if not self.is_nested:
            state.aliases = set()
        # A compiled function may have captured a variable: then its call has to be recorded.
        with attention(), state.changed(recording=True, transforms=state.transforms + 1):
            new_args = [
                self._aliased(i, value, wanted[i], refuse) if i in wanted else self._held(value)
                for i, value in enumerate(args)
            ]
            new_kwargs = {
                key: self._aliased(key, value, wanted[key], refuse)
                if key in wanted
                else self._held(value)
                for key, value in kwargs.items()
            }
            self.out = self._stable(function(*new_args, **new_kwargs))
        if state.recording and not (self.is_symbolic or self.is_recorded) and self._captures():
            self.is_recorded = self.gives_tensors = True

    def _captures(self) -> bool:
        """Whether the result depends on a tracked tensor from outside: its history goes on."""
        edges = [e for e in self.edges() if type(e) is Tensor and e.is_tracked]
        return any(
            t.node.op is PARAMETER and t.node.id not in state.aliases
            for t in ancestors(edges).values()
        )

    def _stable(self, out: Any) -> Any:
        """The result with naive spellings written as the stability rows say."""
        leaves, structure = flatten(out)
        places = [i for i, leaf in enumerate(leaves) if is_recorded(leaf) and leaf.node.inputs]
        with np.errstate(all="ignore"):
            found, self.restated = stable.restated([leaves[i] for i in places], after=self.aliases)
        if not self.restated:
            return out
        for i, new in zip(places, found, strict=True):
            leaves[i] = new
        return unflatten(structure, leaves)

    def _aliased(self, key: int | str, tree: Any, name: str, refuse: Refusal) -> Any:
        leaves, structure = flatten(tree)
        names = leaf_names(structure, name)
        made = [self._alias(leaf, n, refuse) for leaf, n in zip(leaves, names, strict=True)]
        self.aliases += made
        self.names += names
        self.structures.append((key, structure))
        return unflatten(structure, made)

    def _held(self, tree: Any) -> Any:
        """An argument that is not differentiated, with tensors for arrays: one kind inside f."""
        return tree if self.is_symbolic else map_leaves(self._as_tensor, tree)

    def _as_tensor(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or not is_supported(value.dtype):
            return value
        return make_tensor(settled(np.array(value) if self._copies else plain(value)))

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
        value = settled(np.array(value) if self._copies else plain(value))
        fresh = make_tensor(value)
        fresh.requires_grad = True
        fresh.name = name
        state.aliases.add(fresh.node.id)
        return fresh

    def edges(self) -> list[Any]:
        """The output's leaves."""
        return flatten(self.out)[0]

    def pull(self, outputs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the aliases for these of the outputs; None is a structural zero."""
        cts = self._admitted(cts)
        start: dict[Any, Any] = {}
        for edge, ct in zip(outputs, cts, strict=True):
            if is_recorded(edge) and ct is not None:
                key = key_of(edge)
                start[key] = start[key] + ct if key in start else ct
        if state.onlooker is not None and not (self.is_nested or self.is_symbolic):
            state.onlooker.pulled(outputs, start, self.aliases)
        region, within = self._region(outputs)
        if self.is_symbolic:
            found = reverse(node_steps(region.values(), within), start, within)
        else:
            found = engine.pulled(region.values(), start, within, self.is_recorded)
        return [found.get(key_of(alias)) for alias in self.aliases]

    def push(self, outputs: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """The tangents of the outputs for these of the aliases; None is a structural zero."""
        ts = self._admitted(ts)
        start = {key_of(a): t for a, t in zip(self.aliases, ts, strict=True) if t is not None}
        region, within = self._region(outputs)
        if self.is_symbolic:
            steps = node_steps(region.values(), within)
            found = forward([s for s in steps if s.node.id not in start], start)
        else:
            found = engine.pushed(region.values(), start, within, self.is_recorded)
        return [found.get(key_of(edge)) if is_recorded(edge) else None for edge in outputs]

    def _admitted(self, given: Sequence[Any]) -> Sequence[Any]:
        """Cotangents and tangents may be tensors too, with a history that must go on."""
        tensors = [value for value in given if type(value) is Tensor]
        self.gives_tensors = self.gives_tensors or bool(tensors)
        tracked = any(value.is_tracked for value in tensors)
        self.is_recorded = self.is_recorded or (state.recording and tracked)
        if self.is_symbolic or self.is_recorded:
            return given
        return [value.value if type(value) is Tensor else value for value in given]

    def _region(self, outputs: Sequence[Any]) -> tuple[dict[Any, Any], set[int]]:
        region = ancestors([e for e in outputs if is_recorded(e)])
        return region, dependents(region.values(), self.aliases)

    def given_back(self, tree: Any) -> Any:
        """A result in the kind the user called with: NumPy for NumPy, tensors for tensors."""
        return tree if self.is_symbolic else map_leaves(self._leaf_back, tree)

    def _leaf_back(self, value: Any) -> Any:
        if self.gives_tensors:
            return make_tensor(settled(value)) if isinstance(value, ARRAYS) else value
        if type(value) is Tensor:
            value = value.value
        # Arrays of the pass may be shared with one another and with the arguments.
        return settled(value.copy()) if isinstance(value, np.ndarray) else value

    def grouped(self, leaves: list[Any]) -> dict[int | str, Any]:
        """One container for each wanted argument from one value for each alias."""
        result, position = {}, 0
        for key, structure in self.structures:
            end = position + structure.num_leaves
            result[key] = unflatten(structure, leaves[position:end])
            position = end
        return result


def is_recorded(value: Any) -> bool:
    """Whether a result can depend on an alias: a node or a tensor."""
    return isinstance(value, Edge | Tensor)


def refusal(what: str, function: Callable[..., Any], args: Sequence[Any]) -> Refusal:
    """The error maker for arguments of `what` (grad, vjp, jvp) that have no tangent space."""
    names = argument_names(function, len(args))
    smooth = [n for n, value in zip(names, args, strict=True) if _is_smooth(value)]

    def refuse(name: str, value: Any) -> AnabranchError:
        root = name.split("[", maxsplit=1)[0].split(".", maxsplit=1)[0]
        place = f"argument {names.index(root)}" if root in names else "an argument"
        others = [n for n in smooth if n != root]
        also = f'; "{others[0]}" is differentiable' if others else ""
        facts = (f'"{name}" is {place} of {_defined_at(function)}{also}',)
        if not hasattr(value, "dtype"):
            kind = type(value).__name__
            return ArgumentError(
                "not-differentiable", f'{what} cannot differentiate "{name}", a {kind}', facts=facts
            )
        if is_swapped(value.dtype):
            return refused(value.dtype, facts)
        call = (
            f'ab.grad({getattr(function, "__name__", "f")}, argnums="{others[0]}")'
            if others
            else ""
        )
        return DTypeError(
            "integer-gradient",
            f'{what} has no meaning for "{name}", which is {aval_of(value)};'
            " only floats have tangents",
            facts=facts,
            hint=call if call and what == "grad" else f"{name}.astype(float)",
            argument=name,
        )

    return refuse


def _is_smooth(value: Any) -> bool:
    leaves = flatten(value)[0]
    return bool(leaves) and all(
        type(leaf) in (int, float) or is_floating(getattr(leaf, "dtype", None)) for leaf in leaves
    )


def _defined_at(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if code is None:
        return str(name)
    return f"{name} ({code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno})"
