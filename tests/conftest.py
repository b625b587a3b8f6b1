"""What holds for all tests."""

from __future__ import annotations

import importlib
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

import literals  # noqa: F401  (fills the tables of formulas)
from pages import browser, dated_page, page_runs, strange_page, umls_page  # noqa: F401  (fixtures of the tests of the page)

# Modules of other packages that add their literal formulas to the tables of `oracles`, so that the laws hold for them too.
for module in os.environ.get("DURA_TEST_LITERALS", "").split():
    importlib.import_module(module)

# Property tests judge results, not time: on a busy machine any example may take long.
settings.register_profile("dura", deadline=None)
settings.load_profile("dura")


# A shell that starts the tests in the background has them ignore Ctrl-C, and the programs they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def umls_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs of UMLS (complex-none, complex-dura, again in a folder of the same name, rescal) and one of nations."""
    import dura

    folder = tmp_path_factory.mktemp("studies")
    umls = dura.load("umls")
    for name, model, regularizer in (
        ("none", "complex", "none"),
        ("dura", "complex", "dura"),
        ("again", "complex", "dura"),
        ("below/again", "complex", "dura"),
        ("rescal", "rescal", "dura-i"),
    ):
        trained = dura.fit(umls, model=model, rank=8, regularizer=regularizer, epochs=2, progress=False)
        trained.save(folder / name)
    dura.fit(dura.load("nations"), model="cp", rank=4, epochs=1, progress=False).save(folder / "nations")
    return folder
