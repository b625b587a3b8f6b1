"""Experiments: the only place where all parts meet.

Holds the run of an experiment (graph, model, objective, regularizer, optimizer, training, evaluation, run folder), the trained
model that comes out of it, and how both stand in a run folder; what makes many runs of one: sweeps, reproductions of whole
tables, studies; and trackers. May touch every room below.
"""
