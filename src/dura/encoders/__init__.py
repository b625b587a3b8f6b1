"""Encoders: turn names and labels into text vectors, once, and keep them in a file.

`words` makes plain words of names, `bert` is an encoder that is read from a folder of sentence-transformers, and `vectors` is the
file that holds the vectors with the names they belong to. The room knows texts and names, but no graph and no model. It may touch
text and types. To add another kind of encoder, write a class with `width` and `encode`, and choose it in `bert.read_encoder`.
"""
