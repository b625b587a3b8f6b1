"""Calibrations: fit the probabilities of a run on its valid facts, measure them on test, and keep them in the run folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from dura.records import Damage, Missing, RunFolder, disk_error
from dura.types import BadInput, Notice

if TYPE_CHECKING:
    from dura.inference.calibration import Calibration
    from dura.inference.reliability import Compared, Measured
    from dura.runs.trained import Trained

Progress = Callable[[int, int], None]
ENDINGS = (".png", ".svg", ".pdf")
FEW = 10
"""Bins with fewer entries are not drawn: their shares say nothing."""


@dataclass(frozen=True)
class Calibrated:
    """What `dura calibrate` found."""

    calibration: Calibration
    measured: Measured | None
    """None if the graph has no test facts."""
    path: Path | None = None
    """The file that holds the calibration; None if the model has no run folder."""
    figure: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        fitted = {"temperature": self.calibration.temperature, **self.calibration.counts}
        return {
            "file": None if self.path is None else str(self.path),
            "figure": None if self.figure is None else str(self.figure),
            "fitted": fitted,
            "test": None if self.measured is None else self.measured.to_dict(),
        }

    def __str__(self) -> str:
        counts = self.calibration.counts
        groups = "1 group" if counts["groups"] == 1 else f"{counts['groups']:,} groups"
        answers = "1 answer" if counts["answers"] == 1 else f"{counts['answers']:,} answers"
        fitted = f"fitted on {answers} of valid, in {groups} of relations"
        lines = [f"{fitted}; temperature {self.calibration.temperature:.3g}"]
        lines += _shown(self.measured) if self.measured else ["there are no test facts, so nothing was measured"]
        kept = [(self.path, "probabilities"), (self.figure, "figure")]
        return "\n".join([*lines, *(f"{what} in {path}" for path, what in kept if path is not None)])


def _shown(measured: Measured) -> list[str]:
    rows: dict[str, Compared] = {
        "best 10 answers": measured.top10,
        "best answer": measured.top1,
        "facts": measured.facts,
    }
    lines = ["", f"{'on test':<18}{'count':>9}{'in test':>9}{'Brier':>16}{'ECE':>18}"]
    for name, one in rows.items():
        before, after = one.before, one.after
        lines.append(
            f"{name:<18}{after.count:>9,}{after.share:>9.3f}   {before.brier:.4f} → {after.brier:.4f}"
            f"   {before.ece:.4f} → {after.ece:.4f}"
        )
    lines += ["", f"{'coverage asked':<18}{'measured':>9}{'mean size':>12}{'median':>9}"]
    for one_set in measured.sets:
        lines.append(
            f"{one_set.asked:<18}{one_set.measured:>9.3f}{one_set.mean_size:>12.1f}{one_set.median_size:>9.0f}"
        )
    return [*lines, "", "An answer that is not in test counts as wrong, though it may be true."]


def calibrate(trained: Trained, *, figure: str | Path | None = None, progress: Progress | None = None) -> Calibrated:
    """Fit on valid, measure on test, write calibration.json into the run folder and the diagram into `figure`."""
    from dura import world
    from dura.inference.calibrating import calibrate as fit
    from dura.inference.reliability import measure

    world.alone("calibrate")
    drawn = None if figure is None else _check_figure(Path(figure))
    model, graph = trained.model, trained.graph
    if drawn is not None and not len(graph.test):
        raise BadInput("the graph has no test facts, so there is nothing to draw; leave the figure out")
    calibration = fit(model, graph, checkpoint=trained.checkpoint, progress=progress)
    measured = measure(model, graph, calibration, progress=progress) if len(graph.test) else None
    if drawn is not None and measured is not None:
        draw(measured, drawn)
    path = None if trained.path is None else calibration.write(trained.path)
    trained.calibration = calibration
    return Calibrated(calibration, measured, path, drawn)


def calibrate_run(
    path: Path, *, figure: Path | None = None, device: str = "cpu", progress: Progress | None = None
) -> Calibrated:
    """Open a run and calibrate it; see `calibrate`."""
    from dura.runs.trained import open_run

    return calibrate(open_run(path, device), figure=figure, progress=progress)


def _check_figure(path: Path) -> Path:
    """Refuse a figure that cannot be written before the work begins."""
    from dura.sheets.figures import figure

    if path.suffix not in ENDINGS:
        raise BadInput(f"a figure can be written as {', '.join(ENDINGS)}, not as {str(path)!r}")
    if path.exists():
        raise BadInput(f"the file {path} exists already; name another file for the figure")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} for the figure {path.name}")
    try:
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise disk_error(error, path, "name another file for the figure") from None
    with figure():  # says which package is missing
        return path


def read_calibration(path: Path, checkpoint: str) -> Calibration | None:
    """The calibration of a run. None if it has none, or one for other tables; then a `Notice` says so."""
    from dura.inference.calibration import FILE, Calibration

    try:
        found = Calibration.read(path)
    except Missing:
        return None
    about = RunFolder.open(path).about()["graph"]
    if found.checkpoint != checkpoint or len(found.second) != 2 * about["relations"]:
        warnings.warn(
            f"{path / FILE} was made for other tables than those of this run, so answers have no probabilities; "
            f"make it again with: dura calibrate {path}",
            Notice,
            stacklevel=2,
        )
        return None
    return found


def carry(trained: Trained, out: Path) -> None:
    """Keep the calibration of a run in a copy of it that has the same tables. A damaged one is left behind."""
    from dura.training.checkpoint import Checkpoints

    with suppress(Damage):
        if (found := trained.calibration) is not None:
            replace(found, checkpoint=Checkpoints(out / "checkpoints").digest()).write(out)


def again(trained: Trained, out: Path | None) -> str | None:
    """The sentence for a new run that was made from a calibrated one. None if there is nothing to say."""
    from dura.inference.calibration import FILE

    kept = trained.path is not None and (trained.path / FILE).exists()
    if not kept and vars(trained).get("calibration") is None:
        return None
    if out is not None and (out / FILE).exists():
        return None
    how = "call its calibrate()" if out is None else f"run: dura calibrate {out}"
    return f"the run is calibrated, but the new one is not, so its answers have no probabilities yet; {how}"


def draw(measured: Measured, path: Path) -> Path:
    """The reliability diagram: the share in test by probability, before and after, for answers and for facts."""
    from dura.sheets.figures import GREY, curves, legend_below, panels, save

    shown = {"best 10 answers": measured.top10, "best answer": measured.top1, "facts": measured.facts}
    with panels(len(shown)) as (drawn, places):
        for panel, (title, one) in zip(places, shown.items(), strict=True):
            panel.plot([0, 1], [0, 1], color=GREY, linewidth=1)
            lines = {
                name: ([p for p, _, n in found.bins if n >= FEW], [share for _, share, n in found.bins if n >= FEW])
                for name, found in (("before", one.before), ("after", one.after))
            }
            caption = f"{title}\nECE {one.before.ece:.3f} before, {one.after.ece:.3f} after"
            curves(panel, lines, x="probability", y="share in test", title=caption)
            panel.set_xlim(-0.02, 1.02)
            panel.set_ylim(-0.02, 1.02)
        legend_below(drawn, *places)
        return save(drawn, path)
