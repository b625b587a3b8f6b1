"""Experiments: the only place where all parts meet.

Holds the run of an experiment (graph, model, objective, regularizer, optimizer, training, evaluation, run folder), the trained
model that comes out of it, and how both stand in a run folder. May touch every room below. Sweeps and reproductions of whole
tables come here.
"""
