"""Studies: the paper's figures, computed from trained runs.

Every study is one module with the same four parts:

- `compute(...)` opens runs and returns what was found as plain values, ready for JSON;
- `sheets(found)` are its printed tables by the stem of their files, the main one first;
- `draw(found, path)` writes its figure;
- `command(...)` has the options of `dura study NAME`, computes, and leaves sheets and figure in a folder.

`study` holds what they share, and `varied_runs` what sensitivity reads from runs. This room may touch runs and everything below,
but not sweeps, reports or the faces: what only a face has (a progress bar, the training of several runs) is passed to `command` by
name. Nothing heavy is imported before a study begins. Numerical work that knows no run belongs in `analysis`. To add a study, write
such a module and add a row to `OWN`: the command line and the tests find it. Another package adds one with an entry point of the
group `dura.studies`, which names the module.
"""

from dura.registry import Modules
from dura.studies import categories, duality, projection, sensitivity, sparsity, theory
from dura.studies.study import PARTS, Study

OWN: dict[str, Study] = {
    "sensitivity": sensitivity,
    "sparsity": sparsity,
    "categories": categories,
    "projection": projection,
    "duality": duality,
    "theory": theory,
}
"""The studies of this package."""
STUDIES: Modules[Study] = Modules("study", "dura.studies", OWN, PARTS)
"""All studies: ours, and those that other packages add."""

__all__ = ["OWN", "STUDIES", "Study"]
