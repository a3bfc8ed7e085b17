"""Functions made of ops alone. In pictures and listings each is one named scope.

They register themselves when their module is imported, as ops do, and are loaded in the same way.
"""

from anabranch.contents import CONTENTS as _CONTENTS
from anabranch.core.late import Modules as _Modules
from anabranch.core.late import late_names as _late_names
from anabranch.core.registry import expect as _expect

_modules = _Modules(__name__, __path__)
_expect(_CONTENTS, _modules)
_late_names(globals(), {}, _modules)
