"""Functions made of ops alone. In pictures and listings each is one named scope.

They register themselves when their module is imported; importing this package imports them all.
"""

from anabranch.core.registry import gather

gather(__name__, __path__)
