"""Distributed: the seam for several processes (a world of ranks, entity rows per rank).

Nothing is here yet; one process needs nothing.
"""
