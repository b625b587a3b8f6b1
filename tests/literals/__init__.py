"""Literal formulas of the models that are not semantic matching, by family. Importing this fills the tables of `oracles`."""

from literals import distance as distance
from literals import textual as textual
