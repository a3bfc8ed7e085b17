"""What there is to compute: one record an op, in families.

Records register themselves when their module is imported. Each module is imported when somebody
asks for what it makes (see `core.registry`), or for the module by name.
"""

from anabranch.contents import CONTENTS as _CONTENTS
from anabranch.core.late import Modules as _Modules
from anabranch.core.late import late_names as _late_names
from anabranch.core.registry import expect as _expect

_modules = _Modules(__name__, __path__)
_expect(_CONTENTS, _modules)
_late_names(globals(), {}, _modules)
