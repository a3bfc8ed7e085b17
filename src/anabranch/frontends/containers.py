"""Nested containers of values: dict, list, tuple, named tuple and dataclass, through optree."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import optree

_NAMESPACE = "anabranch"
_registered: set[type] = set()


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves in order and the structure that `unflatten` takes; None is no leaf."""
    while True:
        leaves, structure = optree.tree_flatten(tree, namespace=_NAMESPACE)
        if not _register_dataclasses(leaves):
            return leaves, structure


def unflatten(structure: Any, leaves: list[Any]) -> Any:
    """The container of this structure with these leaves."""
    return optree.tree_unflatten(structure, leaves)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same container with `function` applied to each leaf."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [function(leaf) for leaf in leaves])


def leaf_names(structure: Any, root: str) -> list[str]:
    """How a user would write each leaf of a container called `root`: `params['w'][0]`."""
    return [accessor.codify(root) for accessor in structure.accessors()]


def _register_dataclasses(leaves: list[Any]) -> bool:
    """Teach optree the dataclasses among the leaves; True if there was a new one."""
    found = {
        type(leaf)
        for leaf in leaves
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)
    } - _registered
    for cls in found:
        _register(cls, [field.name for field in dataclasses.fields(cls)])
        _registered.add(cls)
    return bool(found)


def _register(cls: Any, names: list[str]) -> None:
    def parts(value: Any) -> Any:
        return [getattr(value, name) for name in names], None, names

    def rebuilt(_: Any, children: Any) -> Any:
        # Not through __init__, which may check or convert what is a node or a gradient here.
        value = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(value, name, child)
        return value

    optree.register_pytree_node(
        cls, parts, rebuilt, path_entry_type=optree.DataclassEntry, namespace=_NAMESPACE
    )


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the first `count` positional arguments, as far as the signature tells."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "argument")
    return [names[i] if i < len(names) else f"{rest}{i - len(names)}" for i in range(count)]


def positional_names(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that take an argument by position."""
    return [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
