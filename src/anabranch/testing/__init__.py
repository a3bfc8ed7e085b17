"""Checks for users' own functions and ops: gradients against differences, whole op suites."""

from anabranch.core.registry import temporary_ops as temporary_ops
from anabranch.core.sample import at as at
from anabranch.core.sample import booleans as booleans
from anabranch.core.sample import integers as integers
from anabranch.core.sample import normal as normal
from anabranch.core.sample import sample as sample
from anabranch.testing.conformance import check_op as check_op
from anabranch.testing.differences import numerical_gradient as numerical_gradient
from anabranch.testing.gradients import check_gradients as check_gradients
