"""Literal formulas of the models that are not semantic matching, by family. Importing this fills the tables of `oracles`."""

from literals import distance as distance
from literals import hyperbolic as hyperbolic
from literals import neural as neural
from literals import projected as projected
from literals import temporal as temporal
from literals import temporal_stages as temporal_stages
from literals import textual as textual
