"""Parts for dura that live outside of it: two models, a loss and a regularizer.

dura finds them by the entry points in pyproject.toml. Nothing here has to be imported by hand.
"""
