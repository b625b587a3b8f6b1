"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# Property tests judge results, not time: on a busy machine any example may take long.
settings.register_profile("dura", deadline=None)
settings.load_profile("dura")
