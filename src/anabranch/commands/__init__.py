"""The verbs of the command line, one module each, and what they share.

A verb is a module with HELP (a line), GROUP (its heading in the help), SYNTAX and ABOUT,
`add_arguments(parser)` and `run(options) -> exit status`.
"""
