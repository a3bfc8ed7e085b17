"""Graph to graph: each pass says what stands for each old node in the graph that it gives.

That is a new one, or the very same where a pass finds nothing to do.

`PASSES` by name, `DEFAULT` for `ab.compile`; `Rule` and `rewritten`, or `copied`, to write one.
"""

from anabranch.passes.algebra import algebra as algebra
from anabranch.passes.fold import fold as fold
from anabranch.passes.merge import merge as merge
from anabranch.passes.pipeline import DEFAULT as DEFAULT
from anabranch.passes.pipeline import PASSES as PASSES
from anabranch.passes.pipeline import PassReport as PassReport
from anabranch.passes.pipeline import run_passes as run_passes
from anabranch.passes.prune import prune as prune
from anabranch.passes.restate import restated as restated
from anabranch.passes.rewrite import Pass as Pass
from anabranch.passes.rewrite import Rewrite as Rewrite
from anabranch.passes.rewrite import copied as copied
from anabranch.passes.rewrite import place as place
from anabranch.passes.rules import Rule as Rule
from anabranch.passes.rules import rewritten as rewritten
from anabranch.passes.stability import stabilise as stabilise
