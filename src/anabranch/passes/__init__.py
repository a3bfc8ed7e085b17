"""Graph to graph: each pass says what stands for each old node in the graph that it gives.

That is a new one, or the very same where a pass finds nothing to do.

`PASSES` by name, `DEFAULT` for `ab.compile`; `Rule` and `rewritten`, or `copied`, to write one.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from anabranch.core.late import late_names as _late_names

if _TYPE_CHECKING:
    from anabranch.passes.algebraic import algebra as algebra
    from anabranch.passes.folding import fold as fold
    from anabranch.passes.merging import merge as merge
    from anabranch.passes.pipeline import DEFAULT as DEFAULT
    from anabranch.passes.pipeline import PASSES as PASSES
    from anabranch.passes.pipeline import PassReport as PassReport
    from anabranch.passes.pipeline import run_passes as run_passes
    from anabranch.passes.pruning import prune as prune
    from anabranch.passes.restate import restated as restated
    from anabranch.passes.rewrite import Pass as Pass
    from anabranch.passes.rewrite import Rewrite as Rewrite
    from anabranch.passes.rewrite import copied as copied
    from anabranch.passes.rewrite import place as place
    from anabranch.passes.rules import Rule as Rule
    from anabranch.passes.rules import rewritten as rewritten
    from anabranch.passes.stability import stabilise as stabilise

_late_names(
    globals(),
    {
        "algebra": "anabranch.passes.algebraic",
        "fold": "anabranch.passes.folding",
        "merge": "anabranch.passes.merging",
        "DEFAULT": "anabranch.passes.pipeline",
        "PASSES": "anabranch.passes.pipeline",
        "PassReport": "anabranch.passes.pipeline",
        "run_passes": "anabranch.passes.pipeline",
        "prune": "anabranch.passes.pruning",
        "restated": "anabranch.passes.restate",
        "Pass": "anabranch.passes.rewrite",
        "Rewrite": "anabranch.passes.rewrite",
        "copied": "anabranch.passes.rewrite",
        "place": "anabranch.passes.rewrite",
        "Rule": "anabranch.passes.rules",
        "rewritten": "anabranch.passes.rules",
        "stabilise": "anabranch.passes.stability",
    },
)
