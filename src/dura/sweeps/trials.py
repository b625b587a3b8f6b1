"""Trials: the folder of a sweep, and who works on which trial of it.

```
DIR/
  sweep.toml            the settings with what is varied; it makes a sweep
  sweep.sqlite          Optuna's study: trials, their values, valid MRR by epoch
  runs/trial-N/         a run folder each
  claims/trial-N.lock   held by the process that trains it
```
A trial is claimed by a file lock, which the kernel releases however a process dies. So a trial that the study calls running and
nobody holds was left by a dead process, and whoever looks for work next takes it up where its run folder stopped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dura.records import RunFolder, curve, disk_error, write_atomic
from dura.sweeps.space import Choice, Sweep
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

STARTUP, WARMUP = 5, 0.2
"""Pruning begins after so many whole trials, and in each trial after this share of its epochs."""
SECONDS = 60
"""How long a process waits for another one's writing into the database."""
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}

Row = dict[str, Any]
"""A trial as plain values: trial, state, valid_mrr, best_epoch, epochs, seconds, failure, run, and `values` by path."""


class SweepFolder:
    """The folder of one sweep; several processes may work in it at once.

    >>> folder = SweepFolder.create(Path("sweeps/umls"), plan)  # doctest: +SKIP
    >>> with folder.take() as trial:  # doctest: +SKIP
    ...     print(trial and trial.params)
    """

    def __init__(self, path: Path, plan: Sweep) -> None:
        self.path, self.plan = path, plan

    @classmethod
    def create(cls, path: Path, plan: Sweep) -> SweepFolder:
        """Make a new sweep's folder."""
        check_free(path)
        try:
            (path / "runs").mkdir(parents=True)
            (path / "claims").mkdir()
        except OSError as error:
            raise disk_error(error, path, "name another folder with --out") from error
        write_atomic(path / "sweep.toml", plan.to_toml().encode())
        return cls(path, plan)

    @classmethod
    def open(cls, path: Path) -> SweepFolder:
        """The folder of a sweep that was begun."""
        if not (path / "sweep.toml").is_file():
            raise BadInput(f"there is no sweep in {path}: it has no sweep.toml")
        return cls(path, Sweep.from_toml(path / "sweep.toml"))

    def change(self, plan: Sweep) -> None:
        """Go on by another plan: more trials, or other tables to keep."""
        self.plan = plan
        write_atomic(self.path / "sweep.toml", self.plan.to_toml().encode())

    def run(self, number: int) -> Path:
        """The run folder of a trial."""
        return self.path / "runs" / f"trial-{number}"

    @cached_property
    def study(self) -> Study:
        """Optuna's study of this sweep."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)  # it tells of each study and trial otherwise
        epochs = self.plan.experiment.training.epochs
        pruner = optuna.pruners.MedianPruner(STARTUP, n_warmup_steps=max(1, int(WARMUP * epochs)))
        with self.database(), self._lock("database"):
            return optuna.create_study(
                storage=optuna.storages.RDBStorage(
                    f"sqlite:///{self.path / 'sweep.sqlite'}",
                    engine_kwargs={"connect_args": {"timeout": SECONDS}},
                ),
                study_name="sweep",
                direction="maximize",
                pruner=pruner if self.plan.prune else optuna.pruners.NopPruner(),
                load_if_exists=True,
            )

    @contextlib.contextmanager
    def database(self) -> Iterator[None]:
        """Whoever uses the study: a database that fails, on a full disk for instance, is one sentence."""
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (SQLAlchemyError, StorageInternalError) as error:
            cause = error.__cause__ if isinstance(error, StorageInternalError) else error
            reason = str(getattr(cause, "orig", None) or cause or error).splitlines()[0]
            raise DuraError(
                f"the sweep's database {self.path / 'sweep.sqlite'} cannot be used: {reason}; when that is mended, continue "
                f"with: dura sweep --resume {self.path}"
            ) from None

    def check_graph(self, digest: str) -> None:
        """Refuse to continue on facts other than those the sweep began with: their figures do not compare."""
        known = self.study.user_attrs.get("graph")
        if known is None:
            self.study.set_user_attr("graph", digest)
        elif known != digest:
            raise BadInput(f"the graph has changed since the sweep {self.path} began; begin a new one with --out")

    # -- who works on what ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def take(self) -> Iterator[Trial | None]:
        """A trial to work on, held until the block ends: one that a dead process left, else a new one; None when all are made."""
        with contextlib.ExitStack() as held:
            with self._lock("sweep"):
                trial = self._left_behind(held) or self._new(held)
            yield trial

    def _left_behind(self, held: contextlib.ExitStack) -> Trial | None:
        import optuna

        for known in self._trials("RUNNING"):
            with contextlib.suppress(TimeoutError):
                held.enter_context(self._lock(f"trial-{known.number}", wait=0))
                self._seed(known.number)
                return self._chosen(optuna.Trial(self.study, known._trial_id))
        return None

    def _new(self, held: contextlib.ExitStack) -> Trial | None:
        trials = self.study.get_trials(deepcopy=False)
        waiting = self._trials("WAITING")
        number = waiting[0].number if waiting else len(trials)
        if number >= self.plan.budget:
            return None
        held.enter_context(self._lock(f"trial-{number}", wait=0))
        if self.plan.method != "tpe" and not waiting:
            self.study.enqueue_trial(self.plan.points()[number])
        self._seed(number)
        return self._chosen(self.study.ask())

    def _seed(self, number: int) -> None:
        """A sampler for this trial: what it draws depends on the seed, the number and the history, not on who asks when."""
        import optuna

        seed = int(np.random.SeedSequence([self.plan.seed, number]).generate_state(1)[0])
        tpe = self.plan.method == "tpe"
        self.study.sampler = optuna.samplers.TPESampler(seed=seed) if tpe else optuna.samplers.RandomSampler(seed)

    def _chosen(self, trial: Trial) -> Trial:
        """The trial with a value for every setting that is varied."""
        finite = self.plan.points() if self.plan.method != "tpe" else []
        for path, axis in self.plan.space.items():
            if finite:
                trial.suggest_categorical(path, list(dict.fromkeys(point[path] for point in finite)))
            elif isinstance(axis, Choice):
                trial.suggest_categorical(path, axis.values)
            elif axis.whole:
                trial.suggest_int(path, int(axis.low), int(axis.high), step=int(axis.step or 1), log=axis.log)
            else:
                trial.suggest_float(path, axis.low, axis.high, step=axis.step, log=axis.log)
        return trial

    @contextlib.contextmanager
    def _lock(self, name: str, wait: float = -1) -> Iterator[None]:
        """Hold `name` alone; after `wait` seconds (-1: for ever) it is a TimeoutError."""
        import filelock

        lock = filelock.FileLock(self.path / "claims" / f"{name}.lock", timeout=wait, thread_local=False)
        try:
            lock.acquire()
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise disk_error(error, self.path / "claims") from error
        try:
            yield
        finally:
            lock.release()

    # -- how a trial ends -------------------------------------------------------------------------------------------

    def tell(self, trial: Trial, state: str, failure: str = "") -> Row:
        """Write down how a trial ended (complete, pruned, failed) and remove tables that are wanted no more."""
        from optuna.trial import TrialState

        told = {word: TrialState[name] for name, word in _STATES.items()}[state]
        if failure:
            trial.set_user_attr("failure", failure)
        mrr, _ = best_epoch(self.run(trial.number))
        with self._lock("sweep"):
            self.study.tell(trial, mrr if state == "complete" else None, told)
            self._tidy()
        return self._row(next(t for t in self._trials(*_STATES) if t.number == trial.number))

    def _tidy(self) -> None:
        """Remove the tables of finished trials but for the best ones that the plan keeps; settings and records stay."""
        if not self.plan.keep:
            return
        ranked = sorted(self._trials("COMPLETE"), key=lambda t: (-(t.value or 0.0), t.number))
        best = [t.number for t in ranked[: self.plan.keep]]
        for trial in self._trials("COMPLETE", "PRUNED", "FAIL"):
            if trial.number not in best:
                for file in (self.run(trial.number) / "checkpoints").glob("*"):
                    file.unlink(missing_ok=True)

    # -- what came out ----------------------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """All trials, the best whole ones first, then those that were pruned, failed or still run."""
        order = list(_STATES.values())
        rows = [self._row(trial) for trial in self._trials(*_STATES)]
        return sorted(rows, key=lambda r: (order.index(r["state"]), -(r["valid_mrr"] or 0.0), r["trial"]))

    def done(self) -> int:
        """How many trials are finished, well or not."""
        return len(self._trials("COMPLETE", "PRUNED", "FAIL"))

    def importance(self) -> dict[str, float]:
        """The share of each setting in the variance of valid MRR over the whole trials (fANOVA), the largest first.

        Nothing where there is too little to tell: fewer than four whole trials, one setting only, or one at a time.
        """
        import optuna

        whole = self._trials("COMPLETE")
        varied = [path for path in self.plan.space if len({t.params.get(path) for t in whole}) > 1]
        if self.plan.method == "each" or len(whole) < 4 or len({t.value for t in whole}) < 2 or len(varied) < 2:
            return {}
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=self.plan.seed)
        shares = optuna.importance.get_param_importances(self.study, evaluator=evaluator, params=varied)
        return {path: float(share) for path, share in shares.items()}

    def _row(self, trial: FrozenTrial) -> Row:
        run, values = self.run(trial.number), {path: trial.params.get(path) for path in self.plan.space}
        mrr, best = best_epoch(run)
        epochs = curve(RunFolder(run).records())
        return {
            "trial": trial.number,
            "state": _STATES[trial.state.name],
            "valid_mrr": trial.value if mrr is None else mrr,  # the study knows it, should the run be gone
            "best_epoch": best,
            "epochs": len(epochs),
            "seconds": epochs[-1]["seconds"] if epochs else 0.0,
            "values": values,
            "run": str(run),
            "failure": trial.user_attrs.get("failure"),
        }

    def _trials(self, *states: str) -> list[FrozenTrial]:
        return [t for t in self.study.get_trials(deepcopy=False) if t.state.name in states]


def check_free(path: Path) -> None:
    """Refuse to begin a sweep where there is one, or in a folder with other things in it."""
    if (path / "sweep.toml").exists():
        raise BadInput(
            f"{path} already holds a sweep; continue it with --resume {path} or name a new folder with --out"
        )
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadInput(f"{path} is not an empty folder; name a new one with --out")


def best_epoch(run: Path) -> tuple[float | None, int | None]:
    """The best valid MRR of a run by its records, and the epoch that had it; nothing where no epoch was validated."""
    validated = [
        record for record in curve(RunFolder(run).records()) if (record.get("valid") or {}).get("mrr") is not None
    ]
    best = max(validated, key=lambda record: record["valid"]["mrr"], default=None)
    return (best["valid"]["mrr"], best["epoch"]) if best else (None, None)
