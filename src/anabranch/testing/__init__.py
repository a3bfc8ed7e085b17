"""Checks for users' own functions and ops: gradients against differences, whole op suites."""
