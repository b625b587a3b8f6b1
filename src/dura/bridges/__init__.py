"""Bridges: dura's parts in other programs, and their models in dura.

Holds `pykeen` (the face of the bridge to PyKEEN), `penalty` (dura's regularizers in PyKEEN's training loop) and `copies` (which
weight of a model of dura is which weight of PyKEEN's). The other program is imported inside functions, and one sentence says so if
it is missing.

May touch `runs` and the rooms below it; not studies, sweeps, reproduction or reports. To cover another model of PyKEEN, add a
row to `copies.COPIES`; the tests find it.
"""
