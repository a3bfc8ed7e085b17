"""The checks of what an op computes: values, shapes, dtypes, and equal bits however it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import is_floating
from anabranch.core.op import Op
from anabranch.core.sample import is_close_to
from anabranch.errors import AnabranchError, DomainError
from anabranch.frontends.compiled import compile as compile_function
from anabranch.frontends.manual import Graph
from anabranch.frontends.tensor import Tensor
from anabranch.frontends.transforms import gradients, vjp
from anabranch.testing.cases import (
    DRAWS,
    Case,
    FaultError,
    cases,
    cotangents,
    floating,
    function,
    outputs_of,
    pulled,
    reference,
)

_KINDS = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool")


def is_complete(op: Op) -> None:
    """Every field that this suite needs is there, and no rule is missing in silence."""
    if not op.doc.strip():
        raise FaultError(f"{op.name} has no doc")
    if op.partials is None and op.vjp is None:
        raise FaultError(
            f"{op.name} says nothing of its derivative: rules, NO_GRADIENT or UNSUPPORTED"
        )
    if not op.samples:
        raise FaultError(f"{op.name} has no samples")
    made = list(cases(op, draws=1))
    smooth = any(case.smooth and floating(reference(case)) for case in made)
    if not any(sample.value is not None for sample in op.samples):
        raise FaultError(f"{op.name} has no sample with a value worked out by hand")
    golden = [g for sample in op.samples for g in sample.grads or () if g is not None]
    if smooth and not golden:
        raise FaultError(f"{op.name} has no sample with gradients worked out by hand")
    rules = op.partials if op.partials is not None else op.vjp
    for case in made:
        if isinstance(rules, tuple) and len(rules) != len(case.xs):
            raise case.fault(f"{len(case.xs)} inputs, but {len(rules)} derivative rules")
    arrays = [[*case.xs, *reference(case)] for case in made]
    if not any(a.size == 0 for row in arrays for a in row):
        raise FaultError(f"{op.name} has no sample with an empty array")
    if not any(1 in a.shape or a.shape == () for row in arrays for a in row):
        raise FaultError(f"{op.name} has no sample with a length of 1 or of shape ()")


def draws_differ(op: Op) -> None:
    """Random samples give at least three points, with operands that differ from each other."""
    for number, sample in enumerate(op.samples):
        drawn = [case for case in cases(op) if case.number == number]
        floats = [[x for x in case.xs if is_floating(x.dtype) and x.size] for case in drawn]
        if not sample.is_drawn or not floats[0]:
            continue
        if len(drawn) < DRAWS or len({x[0].tobytes() for x in floats}) < DRAWS:
            raise drawn[0].fault("the draws are not three different points")
        for xs in floats:
            if len({x.tobytes() for x in xs}) < len(xs):
                raise drawn[0].fault("two operands are equal")


def golden_values_are_met(op: Op) -> None:
    """Values and gradients worked out by hand, at kinks and special points too."""
    for case in cases(op, draws=1):
        sample = case.sample
        found = reference(case)
        wanted = sample.value if len(found) > 1 else (sample.value,)
        for got, want in zip(found, wanted, strict=True) if sample.value is not None else ():
            if not is_close_to(got, want) or _signs(got) != _signs(want, got):
                raise case.fault("the value is wrong", got, want)
        if sample.grads is not None and floating(found):
            _golden_gradients(case)


def _signs(value: Any, like: Any = None) -> list[bool]:
    """The signs of zeros."""
    values = np.asarray(value, np.float64)
    zeros = np.asarray(value if like is None else like, np.float64) == 0
    return np.signbit(values[zeros]).tolist()  # type: ignore[no-any-return]


def _golden_gradients(case: Case) -> None:
    ones = tuple(np.ones_like(y) for y in floating(reference(case)))
    found = dict(zip(case.smooth, pulled(case, case.smooth, ones), strict=True))
    for slot, want in enumerate(case.sample.grads or ()):
        if (want is None) != (slot not in found):
            raise case.fault(f"input {slot} {'has' if want is None else 'has no'} derivative")
        if want is not None and not is_close_to(found[slot], want):
            raise case.fault(f"the gradient by input {slot} is wrong", found[slot], want)


def avals_agree(op: Op) -> None:
    """The rule for shape and dtype foretells the reference, and refuses what it refuses."""
    for case in cases(op, draws=1):
        for xs in typed(case):
            _aval_agrees(case, xs)


def typed(case: Case) -> Iterator[tuple[Any, ...]]:
    """The inputs in every dtype, in mixtures of two, and with a Python number among arrays."""
    floats = [slot for slot, x in enumerate(case.xs) if is_floating(x.dtype)]
    yield case.values
    for kind in _KINDS if floats else ():
        every = [_cast(x, kind) if slot in floats else x for slot, x in enumerate(case.values)]
        yield tuple(every)
        if len(floats) > 1:
            last = floats[-1]
            for other in ("float32", "int64"):
                yield (*every[:last], _cast(case.values[last], other), *every[last + 1 :])
            if case.xs[last].shape == ():
                number = float(case.values[last])
                for weak in (number, 1):
                    yield (*every[:last], weak, *every[last + 1 :])


def _cast(x: Any, kind: str) -> Any:
    if kind == "bool":
        return np.asarray(x > 0)[()]
    with np.errstate(all="ignore"):
        rounded = np.copysign(np.ceil(np.abs(np.nan_to_num(x, posinf=9.0, neginf=-9.0))), x)
        if kind == "uint8":
            rounded = np.abs(rounded)
        return np.asarray(x if "float" in kind else rounded).astype(kind)[()]


def _aval_agrees(case: Case, xs: tuple[Any, ...]) -> None:
    op, attrs = case.op, case.attrs
    shown = ", ".join(f"{aval_of(x)}{'' if hasattr(x, 'dtype') else ' number'}" for x in xs)
    try:
        foretold = outputs_of(op.aval(*map(aval_of, xs), **attrs))
    except AnabranchError as error:
        foretold, refusal = None, error.sentence
    try:
        with np.errstate(all="ignore"):
            found = outputs_of(bind(op, *xs, **attrs))
    except DomainError:
        return  # a refusal of values, which no rule for dtypes can foretell
    except Exception as error:
        if foretold is not None:
            raise case.fault(
                f"on {shown} its aval says {foretold}, its reference {error}"
            ) from None
        return
    if foretold is None:
        raise case.fault(f"on {shown} its aval refuses ({refusal}), its reference does not")
    for aval, y in zip(foretold, found, strict=True):
        if aval.shape != np.shape(y) or aval.dtype != np.asarray(y).dtype:
            raise case.fault(f"on {shown} its aval says {aval}, its reference gives {aval_of(y)}")


def front_ends_agree(op: Op) -> None:
    """Eager, traced and by hand on the reference backend, with passes and without: equal bits."""
    for dtype in (np.float64, np.float32):
        for case in cases(op, dtype, draws=1):
            wanted = [_bits(y) for y in reference(case)]
            for name, run in _ways(case):
                with np.errstate(all="ignore"):
                    found = [_bits(y) for y in run()]
                if found != wanted:
                    raise case.fault(f"{name} gives other bits", found, wanted)
            if dtype == np.float64 and case.smooth and floating(reference(case)):
                _gradients_agree(case)


def _bits(value: Any) -> tuple[str, tuple[int, ...], bytes]:
    array = np.asarray(value.value if type(value) is Tensor else value)
    return array.dtype.name, array.shape, array.tobytes()


Ways = Iterator[tuple[str, Callable[[], Any]]]


def _ways(case: Case) -> Ways:
    def apply(*xs: Any) -> Any:
        return bind(case.op, *xs, **case.attrs)

    def eager() -> Any:
        return outputs_of(apply(*(_tensor(x) for x in case.xs)))

    yield "eager", eager
    for passes in ((), None):
        traced = compile_function(apply, backend="reference", passes=passes)
        yield f"traced, passes={passes}", partial(_listed, traced, case.values)
        graph, parameters = _graph(case)
        made = graph.add_node(case.op, parameters, **case.attrs)
        run = graph.compile(list(outputs_of(made)), passes=passes)
        yield f"by hand, passes={passes}", partial(run, *case.values)


def _listed(run: Callable[..., Any], xs: tuple[Any, ...]) -> tuple[Any, ...]:
    return outputs_of(run(*xs))


def _tensor(x: Any) -> Any:
    return Tensor(x, requires_grad=True) if is_floating(x.dtype) else x


def _graph(case: Case) -> tuple[Graph, list[Any]]:
    graph = Graph(case.op.name, backend="reference")
    return graph, [graph.parameter(f"x{i}", x.shape, x.dtype) for i, x in enumerate(case.xs)]


def _gradients_agree(case: Case) -> None:
    slots = case.smooth
    cts = cotangents(case, case.rng())
    wanted = [_bits(g) for g in pulled(case, slots, cts)]
    for name, run in _gradient_ways(case, slots, cts):
        with np.errstate(all="ignore"):
            found = [_bits(g) for g in run()]
        if found != wanted:
            raise case.fault(f"{name} gives a gradient of other bits", found, wanted)


def _gradient_ways(case: Case, slots: tuple[int, ...], cts: tuple[Any, ...]) -> Ways:
    def gradient(xs: Any, cts: Any) -> Any:
        return vjp(function(case, slots), *xs)[1](cts)

    for passes in ((), None):
        traced = compile_function(gradient, backend="reference", passes=passes)
        chosen = [case.values[slot] for slot in slots]
        yield f"traced, passes={passes}", partial(traced, chosen, cts)
        if len(cts) == 1:
            graph, parameters = _graph(case)
            made = graph.add_node(case.op, parameters, **case.attrs)
            seed = graph.parameter("ct", cts[0].shape, cts[0].dtype)
            nodes = gradients(made, [parameters[slot] for slot in slots], ct=seed)
            run = graph.compile(nodes, passes=passes)
            yield f"by hand, passes={passes}", partial(run, *case.values, cts[0][()])


def layouts_agree(op: Op) -> None:
    """Inputs that are strided or in column order give the same bits."""
    for case in cases(op, draws=1):
        with np.errstate(all="ignore"):
            wanted = [_bits(y) for y in outputs_of(bind(op, *case.values, **case.attrs))]
            for change in (_strided, np.asfortranarray):
                xs = [change(x) if x.ndim else x[()] for x in case.xs]
                found = [_bits(y) for y in outputs_of(bind(op, *xs, **case.attrs))]
                if found != wanted:
                    raise case.fault(f"{change.__name__.strip('_')} inputs give other bits")


def _strided(x: Any) -> Any:
    return np.repeat(x, 2, axis=-1)[..., ::2]


def inputs_stay(op: Op) -> None:
    """The reference writes into none of its inputs."""
    for case in cases(op, draws=1):
        before = [x.tobytes() for x in case.xs]
        reference(case)
        if [x.tobytes() for x in case.xs] != before:
            raise case.fault("the reference changed one of its inputs")
