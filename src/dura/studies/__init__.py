"""Studies: the paper's figures, computed from trained runs.

Every study is one module with the same four parts:

- `compute(...)` opens runs and returns what was found as plain values, ready for JSON;
- `sheets(found)` are its printed tables by the stem of their files, the main one first;
- `draw(found, path)` writes its figure;
- `command(...)` has the options of `dura study NAME`, computes, and leaves sheets and figure in a folder.

`study` holds what they share. This room may touch runs and everything below, but not sweeps, reports or the faces: what only a face
has (a progress bar, the training of several runs) is passed to `command` by name. Nothing heavy is imported before a study begins.
To add a study, write such a module and add a row to `STUDIES`: the command line and the tests find it. Numerical work that knows no
run belongs in `analysis`.
"""

from dura.studies import categories, projection, sensitivity, sparsity, theory
from dura.studies.study import Study

STUDIES: dict[str, Study] = {
    "sensitivity": sensitivity,
    "sparsity": sparsity,
    "categories": categories,
    "projection": projection,
    "theory": theory,
}

__all__ = ["STUDIES", "Study"]
