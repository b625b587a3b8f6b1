"""Runs: an experiment becomes a run folder and a trained model. Here all parts meet.

Holds the Python functions (`api`), the settings that a user chose (`choices`, `presets`), live objects from settings (`build`,
`auto`), training and resuming (`run`, `work`), the run folder's graph and settings (`store`), the trained model (`trained`),
evaluations (`evaluations`), small copies (`export`, `smaller`), tables for other programs (`vectors`), new entities (`folding`),
the index of a run (`indexing`), what training costs (`cost`), worker processes (`workers`) and trackers (`trackers`). May touch
every room below. Rooms that make many runs (sweeps, reproduction, studies) and the faces (cli, web) call this one.

To add a preset, write a TOML file in `dura/presets/<graph>/`. To add a tracker, write a `Tracker` and a row in `TRACKERS`, or an
entry point of the group `dura.trackers` in your own package.
"""
