"""Checks for users' own functions and ops: gradients against differences, whole op suites."""

from anabranch.testing.differences import numerical_gradient as numerical_gradient
from anabranch.testing.gradients import check_gradients as check_gradients
