"""What holds for all tests."""

from __future__ import annotations

import importlib
import os

from hypothesis import settings

# Modules of other packages that add their literal formulas to the tables of `oracles`, so that the laws hold for them too.
for module in os.environ.get("DURA_TEST_LITERALS", "").split():
    importlib.import_module(module)

# Property tests judge results, not time: on a busy machine any example may take long.
settings.register_profile("dura", deadline=None)
settings.load_profile("dura")
