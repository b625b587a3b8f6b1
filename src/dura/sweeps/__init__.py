"""Sweeps: search for the settings with the best valid MRR.

Holds what is searched (`space`: a sweep's file as frozen values), the folder of a sweep and its trials (`trials`: Optuna's
database, claims, what is kept), the search itself (`sweep`: new, continued, in one process or with workers) and a search without a
file of its own (`vary`: a study's variations of one experiment). A sweep of minutes chooses by itself what it searches: `timed` is
its door, `shape` what fits, `ranges` what varies, `rounds` the work, `journal` its file and `found` what came out.

A trial is a run like any other. The test split is never used.

May touch `runs` and the rooms below it; not reproduction, studies or reports, which show what a sweep found from plain rows.

To add a method of search: a name in `space.Method`, its trials in `Sweep.points` (or a sampler in `SweepFolder._seed` if later
trials depend on earlier ones), and a line in docs/how-to/sweep.md. A ready grid is a TOML file in `dura/grids/<graph>/`.
"""
