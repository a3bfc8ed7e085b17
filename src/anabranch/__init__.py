"""anabranch: computation graphs you can see through, differentiated and run fast.

Ops and composed functions (`ab.exp`, `ab.softmax`, ...) are gathered from their records; the other
public names are listed here. What not every program needs is loaded when it is first used.
"""

from typing import TYPE_CHECKING, Any

import ml_dtypes as _ml_dtypes
import numpy as _numpy

from anabranch import composed as _composed  # noqa: F401  # says what is gathered
from anabranch import errors as errors
from anabranch import ops as ops
from anabranch.core.bind import scope as scope
from anabranch.core.config import config as config
from anabranch.core.late import LateModule as _LateModule
from anabranch.core.late import late_names as _late_names
from anabranch.core.node import Node as Node
from anabranch.core.op import NO_GRADIENT as NO_GRADIENT
from anabranch.core.op import UNSUPPORTED as UNSUPPORTED
from anabranch.core.op import Op as Op
from anabranch.core.op import PublicFunctions as _PublicFunctions
from anabranch.core.op import elementwise as elementwise
from anabranch.core.operators import offer_namespace as _offer_namespace
from anabranch.core.sample import at as at
from anabranch.core.sample import sample as sample
from anabranch.errors import AnabranchError as AnabranchError
from anabranch.errors import ArgumentError as ArgumentError
from anabranch.errors import DomainError as DomainError
from anabranch.errors import DTypeError as DTypeError
from anabranch.errors import ExchangeError as ExchangeError
from anabranch.errors import FreedGraphError as FreedGraphError
from anabranch.errors import GradientCheckError as GradientCheckError
from anabranch.errors import GraphError as GraphError
from anabranch.errors import InternalError as InternalError
from anabranch.errors import MissingExtraError as MissingExtraError
from anabranch.errors import NoGradientError as NoGradientError
from anabranch.errors import NonFiniteError as NonFiniteError
from anabranch.errors import NoValueError as NoValueError
from anabranch.errors import OutOfRangeError as OutOfRangeError
from anabranch.errors import ShapeError as ShapeError
from anabranch.errors import StaleValueError as StaleValueError
from anabranch.errors import TraceError as TraceError
from anabranch.errors import TraceFileError as TraceFileError
from anabranch.frontends.compiled import compile as compile
from anabranch.frontends.eager import no_grad as no_grad
from anabranch.frontends.eager import tensor as tensor
from anabranch.frontends.tensor import Tensor as Tensor
from anabranch.frontends.transforms import grad as grad
from anabranch.frontends.transforms import gradients as gradients
from anabranch.frontends.transforms import jvp as jvp
from anabranch.frontends.transforms import value_and_grad as value_and_grad
from anabranch.frontends.transforms import vjp as vjp

__version__ = "0.1.0"

bool_ = _numpy.bool_
int32 = _numpy.int32
int64 = _numpy.int64
bfloat16 = _ml_dtypes.bfloat16
float16 = _numpy.float16
float32 = _numpy.float32
float64 = _numpy.float64

_xp = _LateModule("anabranch.xp")
_offer_namespace(lambda version: _xp._of_version(version))  # noqa: PLW0108  # not loaded yet
_late_names(
    globals(),
    {
        "get_num_threads": "anabranch.backends.native.threads",
        "set_num_threads": "anabranch.backends.native.threads",
        "cache": "anabranch.cache",
        "check": "anabranch.core.check",
        "structure_hash": "anabranch.core.identity",
        "set_spare_limit": "anabranch.core.spare",
        "trim": "anabranch.core.spare",
        "listing": "anabranch.core.text",
        "datasets": "anabranch.datasets",
        "asarray": "anabranch.frontends.array_api.exchange",
        "arange": "anabranch.frontends.creation",
        "empty": "anabranch.frontends.creation",
        "empty_like": "anabranch.frontends.creation",
        "eye": "anabranch.frontends.creation",
        "full": "anabranch.frontends.creation",
        "full_like": "anabranch.frontends.creation",
        "linspace": "anabranch.frontends.creation",
        "ones": "anabranch.frontends.creation",
        "ones_like": "anabranch.frontends.creation",
        "zeros": "anabranch.frontends.creation",
        "zeros_like": "anabranch.frontends.creation",
        "custom_derivative": "anabranch.frontends.custom",
        "hessian": "anabranch.frontends.derived",
        "hvp": "anabranch.frontends.derived",
        "jacobian": "anabranch.frontends.derived",
        "find": "anabranch.frontends.intermediates",
        "tangents": "anabranch.frontends.intermediates",
        "Graph": "anabranch.frontends.manual",
        "MemoryReport": "anabranch.frontends.memory",
        "memory_report": "anabranch.frontends.memory",
        "parse": "anabranch.frontends.parsed",
        "graph": "anabranch.frontends.recorded",
        "trace": "anabranch.frontends.trace",
        "inspect": "anabranch.inspection.looking",
        "why": "anabranch.inspection.looking",
        "Report": "anabranch.inspection.report",
        "linalg": "anabranch.linalg",
        "passes": "anabranch.passes",
        "random": "anabranch.random",
        "testing": "anabranch.testing",
        "check_gradients": "anabranch.testing.gradients",
        "xp": "anabranch.xp",
    },
    _PublicFunctions(),
)

if TYPE_CHECKING:
    from anabranch import cache as cache
    from anabranch import datasets as datasets
    from anabranch import linalg as linalg
    from anabranch import passes as passes
    from anabranch import random as random
    from anabranch import testing as testing
    from anabranch import xp as xp
    from anabranch.backends.native.threads import get_num_threads as get_num_threads
    from anabranch.backends.native.threads import set_num_threads as set_num_threads
    from anabranch.core.check import check as check
    from anabranch.core.identity import structure_hash as structure_hash
    from anabranch.core.spare import set_spare_limit as set_spare_limit
    from anabranch.core.spare import trim as trim
    from anabranch.core.text import listing as listing
    from anabranch.frontends.array_api.exchange import asarray as asarray
    from anabranch.frontends.creation import arange as arange
    from anabranch.frontends.creation import empty as empty
    from anabranch.frontends.creation import empty_like as empty_like
    from anabranch.frontends.creation import eye as eye
    from anabranch.frontends.creation import full as full
    from anabranch.frontends.creation import full_like as full_like
    from anabranch.frontends.creation import linspace as linspace
    from anabranch.frontends.creation import ones as ones
    from anabranch.frontends.creation import ones_like as ones_like
    from anabranch.frontends.creation import zeros as zeros
    from anabranch.frontends.creation import zeros_like as zeros_like
    from anabranch.frontends.custom import custom_derivative as custom_derivative
    from anabranch.frontends.derived import hessian as hessian
    from anabranch.frontends.derived import hvp as hvp
    from anabranch.frontends.derived import jacobian as jacobian
    from anabranch.frontends.intermediates import find as find
    from anabranch.frontends.intermediates import tangents as tangents
    from anabranch.frontends.manual import Graph as Graph
    from anabranch.frontends.memory import MemoryReport as MemoryReport
    from anabranch.frontends.memory import memory_report as memory_report
    from anabranch.frontends.parsed import parse as parse
    from anabranch.frontends.recorded import graph as graph
    from anabranch.frontends.trace import trace as trace
    from anabranch.inspection.looking import inspect as inspect
    from anabranch.inspection.looking import why as why
    from anabranch.inspection.report import Report as Report
    from anabranch.testing.gradients import check_gradients as check_gradients

    # So that type checkers let the gathered functions pass.
    def __getattr__(name: str) -> Any: ...
