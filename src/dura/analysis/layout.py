"""Layout: rows of many dimensions in two, by PCA at once or by t-SNE in seconds to minutes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import numpy as np

from dura.types import BadInput, DuraError, FloatArray

BEFORE = 50
"""t-SNE sees this many principal components instead of the rows: neighbours stay, and finding them is cheaper."""
ROUNDS = 12
"""How often the guess of the principal components is improved. Each time reads all rows once."""
MORE = 14
"""How many components are followed besides the wanted ones, so that those converge."""
EARLY, LATE, EVERY = 250, 500, 10
"""Iterations of t-SNE: with exaggerated attraction, then without; and how often progress is told."""
SMALL = 5000
"""Fewer rows than this are placed by one thread and without interpolation, which would cost more than they save."""
Progress = Callable[[int, int], None]
Rows = Callable[[int, int], FloatArray]
"""Gives the rows from one position to another, in float64 or float32."""


def principal(rows: Rows, count: int, wanted: int, seed: int = 0, block: int = 4096) -> FloatArray:
    """The first principal components of `count` rows: [count, wanted]. Rows are read block by block, never all at once.

    Subspace iteration; the sign of a component is that of its largest entry. If there are fewer dimensions, the rest is zero.

    >>> table = np.outer(np.arange(9.0), [3.0, 4.0])
    >>> principal(lambda a, b: table[a:b], 9, 1)[:, 0].round(6).tolist()
    [-20.0, -15.0, -10.0, -5.0, 0.0, 5.0, 10.0, 15.0, 20.0]
    """
    spans = [(at, min(at + block, count)) for at in range(0, count, block)]
    mean = sum(rows(*span).sum(axis=0, dtype=np.float64) for span in spans) / count
    width = len(mean)
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((width, min(width, wanted + MORE))))[0]
    for _ in range(ROUNDS):
        product = np.zeros_like(basis)
        for span in spans:
            part = rows(*span) - mean
            product += part.T @ (part @ basis)
        basis = np.linalg.qr(product)[0]
    places = np.concatenate([(rows(*span) - mean) @ basis for span in spans])
    turn = np.linalg.svd(places, full_matrices=False)[2].T[:, :wanted]
    places = places @ turn
    largest = places[np.abs(places).argmax(axis=0), np.arange(places.shape[1])]
    found = np.zeros((count, wanted))
    found[:, : places.shape[1]] = places * np.where(largest < 0, -1.0, 1.0)
    return found


def neighbour_map(places: FloatArray, perplexity: float, seed: int = 0, progress: Progress | None = None) -> FloatArray:
    """t-SNE of principal components [n, d], which starts from the first two of them: [n, 2]."""
    try:
        from openTSNE import TSNE, initialization  # type: ignore[import-untyped]
    except ImportError:
        raise DuraError(
            "a map by t-SNE needs openTSNE: pip install 'dura-kge[map]'; --method pca needs nothing"
        ) from None
    if not perplexity > 0:
        raise BadInput(f"the perplexity is {perplexity:g}, but it is a number of neighbours above 0, such as 30")
    done = 0

    def tell(_iteration: int, _error: float, _places: object) -> None:
        nonlocal done
        done += EVERY
        if progress is not None:
            progress(min(done, EARLY + LATE), EARLY + LATE)

    start = initialization.rescale(places[:, :2].copy())
    work = TSNE(
        perplexity=min(perplexity, (len(places) - 1) / 3),
        initialization=start,
        early_exaggeration_iter=EARLY,
        n_iter=LATE,
        negative_gradient_method="bh" if len(places) < SMALL else "fft",
        n_jobs=1 if len(places) < SMALL else _cores(),
        random_state=seed,
        callbacks=tell,
        callbacks_every_iters=EVERY,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about perplexities of tiny graphs and versions of its own packages
        return np.asarray(work.fit(places), dtype=np.float64)


def framed(places: FloatArray) -> FloatArray:
    """The same picture between -1 and 1, both axes by the same factor.

    >>> framed(np.array([[0.0, 0.0], [4.0, 2.0]])).tolist()
    [[-1.0, -0.5], [1.0, 0.5]]
    """
    low, high = places.min(axis=0), places.max(axis=0)
    half = float((high - low).max()) / 2
    moved: FloatArray = (places - (low + high) / 2) / (half if half > 0 else 1.0)
    return moved


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
