"""Words: plain words from the names and labels of entities and relations, for a text encoder."""

from __future__ import annotations

import re

PARTS = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}
"""Parts of speech by their letter in the name of a synset."""
_SYNSET = re.compile(r"(?P<lemma>\S+)\.(?P<part>[nvasr])\.(?P<sense>\d+)")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def words(name: str) -> str:
    """The words of a name or a label.

    - A WordNet synset becomes its lemma, its part of speech and the number of its sense. Of several synsets (`a | b`), all count.
    - A path of Freebase becomes the last two parts of each of its steps (`/a/b/c./d/e/f`).
    - Underscores become spaces, and `camelCase` is cut into words. Angle brackets at the ends go.

    >>> words("dinner_jacket.n.01"), words("_member_meronym"), words("<isLocatedIn>")
    ('dinner jacket, noun 1', 'member meronym', 'is located in')
    >>> words("/people/person/spouse_s./people/marriage/location_of_ceremony")
    'person spouse s, marriage location of ceremony'
    >>> words("Mad Men"), words("able.a.01 | entity.n.01")
    ('Mad Men', 'able, adjective 1; entity, noun 1')
    """
    found = "; ".join(_one(part) for part in name.split(" | "))
    return found or name


def _one(name: str) -> str:
    if match := _SYNSET.fullmatch(name):
        return f"{_spaced(match['lemma'])}, {PARTS[match['part']]} {int(match['sense'])}"
    if name.startswith("/"):
        steps = (step.strip("/").split("/")[-2:] for step in name.split("./"))
        return ", ".join(_spaced(" ".join(step)) for step in steps)
    bare = name[1:-1] if name.startswith("<") and name.endswith(">") else name
    cut = _HUMP.sub(" ", bare) if " " not in bare else bare
    return _spaced(cut.lower() if cut != bare else bare)


def _spaced(text: str) -> str:
    return " ".join(text.replace("_", " ").split())
