"""Old names: modules of version 0.1 that have moved, importable under their documented names, with a DeprecationWarning.

Nothing new comes here, and no room imports it.
"""

import warnings


def moved(old: str, new: str) -> None:
    """Warn the module that imports `old`."""
    warnings.warn(f"{old} has moved to {new}", DeprecationWarning, stacklevel=3)
