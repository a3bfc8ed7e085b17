"""What there is to compute: one record an op, in families.

Records register themselves when their module is imported; importing this package imports them all.
"""

from anabranch.core.registry import gather

gather(__name__, __path__)
