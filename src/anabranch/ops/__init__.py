"""What there is to compute: one record an op, in families.

Records register themselves when their module is imported; importing this package imports them all.
"""

from anabranch.ops import elementwise, index, layout, linalg, reduce, select

__all__ = ["elementwise", "index", "layout", "linalg", "reduce", "select"]
