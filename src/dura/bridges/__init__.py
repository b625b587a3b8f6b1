"""Bridges: ways into and out of other ecosystems. Nothing is here yet."""
