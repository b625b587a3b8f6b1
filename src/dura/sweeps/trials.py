"""Trials: the folder of a sweep, and which process works on which trial of it.

```
DIR/
  sweep.toml            the settings and what is varied; this file makes the folder a sweep
  sweep.sqlite          Optuna's database: trials, their values, valid MRR by epoch
  runs/trial-N/         one run folder per trial
  claims/trial-N.lock   held by the process that trains the trial
  logs/worker-N.log     what the workers printed; only with several jobs
```
A process claims a trial by a file lock. The kernel releases the lock, however the process dies. So if the database says that a
trial is running and nobody holds its lock, a dead process left it. The next process that looks for work continues its run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dura.data.sources.databases import without_secrets
from dura.records import RunFolder, best_epoch, curve, disk_error, write_atomic
from dura.sweeps.space import Choice, Sweep
from dura.types import BadInput, DuraError

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

STARTUP, WARMUP = 5, 0.2
"""Pruning begins after this many complete trials, and in each trial after this share of its epochs."""
SECONDS = 60
"""How long a process waits while another one writes into the database."""
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}

TrialRow = dict[str, Any]
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
        """Make the folder of a new sweep."""
        source = plan.experiment.graph.source
        if without_secrets(source) != source:
            raise BadInput(
                "graph.source holds a password, which the folder of the sweep would keep; leave it out and set PGPASSWORD, "
                "or import the graph first: dura data import"
            )
        check_free(path)
        plan = plan.anchored()
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
        """Continue with another plan: more trials, or another number of trials whose tables are kept."""
        self.plan = plan
        write_atomic(self.path / "sweep.toml", self.plan.to_toml().encode())

    def run(self, number: int) -> Path:
        """The run folder of a trial."""
        return self.path / "runs" / f"trial-{number}"

    @cached_property
    def history(self) -> Study:
        """Optuna's record of the trials, which it calls a study."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)  # otherwise it logs every trial
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
        """Turn an error of the database, such as one on a full disk, into one sentence."""
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (SQLAlchemyError, StorageInternalError) as error:
            cause = error.__cause__ if isinstance(error, StorageInternalError) else error
            reason = str(getattr(cause, "orig", None) or cause or error).splitlines()[0]
            raise DuraError(
                f"the sweep's database {self.path / 'sweep.sqlite'} cannot be used: {reason}; fix that and continue with: "
                f"dura sweep --resume {self.path}"
            ) from None

    def check_graph(self, digest: str) -> None:
        """Refuse to continue with other facts than those of the first trial: their results cannot be compared."""
        known = self.history.user_attrs.get("graph")
        if known is None:
            self.history.set_user_attr("graph", digest)
        elif known != digest:
            raise BadInput(f"the graph has changed since the sweep {self.path} was started; start a new one with --out")

    # -- who works on what ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def take(self) -> Iterator[Trial | None]:
        """A trial to work on, held until the block ends: one that a dead process left, or a new one; None if all are made."""
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
                return self._chosen(optuna.Trial(self.history, known._trial_id))
        return None

    def _new(self, held: contextlib.ExitStack) -> Trial | None:
        trials = self.history.get_trials(deepcopy=False)
        waiting = self._trials("WAITING")
        number = waiting[0].number if waiting else len(trials)
        if number >= self.plan.budget:
            return None
        held.enter_context(self._lock(f"trial-{number}", wait=0))
        if self.plan.method != "tpe" and not waiting:
            self.history.enqueue_trial(self.plan.points()[number])
        self._seed(number)
        return self._chosen(self.history.ask())

    def _seed(self, number: int) -> None:
        """Set a sampler for this trial: what it draws depends on the seed, the number and the trials before it only."""
        import optuna

        seed = int(np.random.SeedSequence([self.plan.seed, number]).generate_state(1)[0])
        tpe = self.plan.method == "tpe"
        self.history.sampler = optuna.samplers.TPESampler(seed=seed) if tpe else optuna.samplers.RandomSampler(seed)

    def _chosen(self, trial: Trial) -> Trial:
        """The trial with a value for every varied setting."""
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
        """Hold the lock `name`; after `wait` seconds (-1: no limit) raise TimeoutError."""
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

    def finish(self, trial: Trial, state: str, failure: str = "") -> TrialRow:
        """Record how a trial ended (complete, pruned, failed), and remove the tables that are no longer wanted."""
        from optuna.trial import TrialState

        ended = {word: TrialState[name] for name, word in _STATES.items()}[state]
        if failure:
            trial.set_user_attr("failure", failure)
        top = best_epoch(RunFolder(self.run(trial.number)).records())
        with self._lock("sweep"):
            self.history.tell(trial, top["valid"]["mrr"] if top and state == "complete" else None, ended)
            self._tidy()
        return self._row(next(t for t in self._trials(*_STATES) if t.number == trial.number))

    def _tidy(self) -> None:
        """Remove the tables of finished trials, except those of the best trials that the plan keeps; settings and records stay."""
        if not self.plan.keep:
            return
        ranked = sorted(self._trials("COMPLETE"), key=lambda t: (-(t.value or 0.0), t.number))
        kept = [t.number for t in ranked[: self.plan.keep]]
        for trial in self._trials("COMPLETE", "PRUNED", "FAIL"):
            if trial.number not in kept:
                for file in (self.run(trial.number) / "checkpoints").glob("*"):
                    file.unlink(missing_ok=True)

    # -- what came out ----------------------------------------------------------------------------------------------

    def rows(self) -> list[TrialRow]:
        """All trials: complete ones first, best to worst, then pruned, failed and running ones."""
        order = list(_STATES.values())
        rows = [self._row(trial) for trial in self._trials(*_STATES)]
        return sorted(rows, key=lambda r: (order.index(r["state"]), -(r["valid_mrr"] or 0.0), r["trial"]))

    def done(self) -> int:
        """How many trials are finished: complete, pruned or failed."""
        return len(self._trials("COMPLETE", "PRUNED", "FAIL"))

    def importance(self) -> dict[str, float]:
        """The share of each setting in the variance of valid MRR over the complete trials (fANOVA), largest first.

        Empty if there is too little to compute it from: fewer than four complete trials, one varied setting, or the method "each".
        """
        import optuna

        complete = self._trials("COMPLETE")
        varied = [path for path in self.plan.space if len({t.params.get(path) for t in complete}) > 1]
        if self.plan.method == "each" or len(complete) < 4 or len({t.value for t in complete}) < 2 or len(varied) < 2:
            return {}
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=self.plan.seed)
        shares = optuna.importance.get_param_importances(self.history, evaluator=evaluator, params=varied)
        return {path: float(share) for path, share in shares.items()}

    def _row(self, trial: FrozenTrial) -> TrialRow:
        run = self.run(trial.number)
        records = RunFolder(run).records()
        top, epochs = best_epoch(records), curve(records)
        return {
            "trial": trial.number,
            "state": _STATES[trial.state.name],
            "valid_mrr": top["valid"]["mrr"] if top else trial.value,  # the database has it if the run was deleted
            "best_epoch": top["epoch"] if top else None,
            "epochs": len(epochs),
            "seconds": epochs[-1]["seconds"] if epochs else 0.0,
            "values": {path: trial.params.get(path) for path in self.plan.space},
            "run": str(run),
            "failure": trial.user_attrs.get("failure"),
        }

    def _trials(self, *states: str) -> list[FrozenTrial]:
        return [t for t in self.history.get_trials(deepcopy=False) if t.state.name in states]


def check_free(path: Path) -> None:
    """Refuse to start a sweep in a folder that holds one, or that holds other files."""
    if (path / "sweep.toml").exists() or (path / "search.json").exists():
        raise BadInput(
            f"{path} already holds a sweep; continue it with --resume {path} or name a new folder with --out"
        )
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadInput(f"{path} is not an empty folder; name a new one with --out")
