"""Words: what the names of columns say about them, such as from_id, edge_type and to_id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

HEADERS = (
    ("head", "relation", "tail"),
    ("h", "r", "t"),
    ("subject", "predicate", "object"),
    ("subject", "relation", "object"),
    ("s", "p", "o"),
    ("source", "relation", "target"),
)
"""The well-known names of head, relation and tail. Single letters mean something only together."""
FILLERS = frozenset(
    ("id", "ids", "uri", "iri", "url", "name", "entity", "node", "key", "code", "identifier", "concept", "ref")
)
FILLERS |= {"vertex", "idx", "qid", "event", "valid", "column", "e", "arg"}
"""Words that say nothing about the role of a column."""
SHOWN_ONLY = frozenset(["label", "title", "text"])
"""Words of columns for people. Such a column has a role only if no other column has it."""
HEAD = {"head": 3, "subject": 3, "source": 3, "subj": 2, "src": 2, "from": 2, "origin": 2, "1": 2, "start": 1}
TAIL = {
    "tail": 3,
    "object": 3,
    "target": 3,
    "obj": 2,
    "tgt": 2,
    "dst": 2,
    "dest": 2,
    "destination": 2,
    "to": 2,
    "2": 2,
    "end": 1,
}
RELATION = {"relation": 3, "predicate": 3, "relationship": 3, "rel": 3, "pred": 3, "edge": 2, "type": 2, "link": 2}
RELATION |= {"property": 2, "verb": 2, "interaction": 2, "action": 2, "kind": 2, "label": 1}
SURE = 4
"""Words from this strength on (2 in the tables above) mean only one thing."""
TIME = frozenset(["time", "date", "day", "timestamp", "year", "month", "datetime", "when", "ts", "week", "hour"])
BEGIN = frozenset(["begin", "start", "since", "from", "first"])
END = frozenset(["end", "until", "to", "last", "stop"])


@dataclass(frozen=True)
class Named:
    """The positions of head, relation and tail, and of the time or of begin and end, if columns are named after them.

    `others` are further columns that may be the relation, the likeliest first.
    """

    head: int
    relation: int
    tail: int
    times: tuple[int, ...] = ()
    others: tuple[int, ...] = ()

    @property
    def positions(self) -> tuple[int, ...]:
        """All positions: head, relation, tail and times."""
        return (self.head, self.relation, self.tail, *self.times)


def named(titles: Sequence[str]) -> Named | None:
    """What the names of columns say, or None if they do not name head, relation and tail.

    >>> named(["predicate", "object", "subject"])
    Named(head=2, relation=0, tail=1, times=(), others=())
    >>> named([":START_ID(Person)", "since", ":END_ID(City)", ":TYPE"]).positions
    (0, 3, 2)
    >>> named(["Berlin", "located_in", "Germany"]) is None
    True
    """
    words = [tokens(title) for title in titles]
    exact = _exact(titles)
    heads, tails = _ranked(words, HEAD), _ranked(words, TAIL)
    relations = _ranked(words, RELATION)
    if exact is None:
        best = [_best(heads), _best(relations), _best(tails)]
        if None in best or len(set(best)) < 3:
            return None
        exact = (best[0] or 0, best[1] or 0, best[2] or 0)
    head, relation, tail = exact
    others = tuple(at for _, at in relations if at not in exact)
    return Named(head, relation, tail, _times(words, exact), others)


def without_relation(titles: Sequence[str]) -> tuple[int, int] | None:
    """Where head and tail are, if columns are surely named after them and none after the relation.

    >>> without_relation(["source", "target", "weight"]), without_relation(["a", "b", "c"])
    ((0, 1), None)
    """
    words = [tokens(title) for title in titles]
    heads, tails, relations = (_ranked(words, known) for known in (HEAD, TAIL, RELATION))
    head, tail = _best(heads), _best(tails)
    if head is None or tail is None or head == tail or relations or min(heads[0][0], tails[0][0]) < SURE:
        return None
    return head, tail


def tokens(title: str) -> tuple[str, ...]:
    """The words of a title in lower case, without a group in parentheses.

    >>> tokens(":START_ID(Person)"), tokens("edgeType"), tokens("entity1")
    (('start', 'id'), ('edge', 'type'), ('entity', '1'))
    """
    plain = re.sub(r"\(.*\)", "", title[:200])
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)", " ", plain)
    return tuple(re.findall(r"[a-z]+|\d+", apart.lower()))


def _exact(titles: Sequence[str]) -> tuple[int, int, int] | None:
    """Where one of HEADERS is, in any order and case."""
    plain = [title.strip().casefold() for title in titles]
    for names in HEADERS:
        if all(plain.count(name) == 1 for name in names):
            return plain.index(names[0]), plain.index(names[1]), plain.index(names[2])
    return None


def _ranked(words: list[tuple[str, ...]], known: dict[str, int]) -> list[tuple[int, int]]:
    """The columns that may have a role with how sure that is, the surest first."""
    found = []
    for at, title in enumerate(words):
        left = [word for word in title if word not in FILLERS]
        telling = [word for word in left if word not in SHOWN_ONLY] or left
        if telling and all(word in known for word in telling):
            sure = max(known[word] for word in telling)
            found.append((1 if len(telling) < len(left) else 2 * sure + (len(title) == 1), at))
    return sorted(found, key=lambda each: (-each[0], each[1]))


def _best(ranked: list[tuple[int, int]]) -> int | None:
    """The surest column, or None if there is none or two are equally sure."""
    if not ranked or (len(ranked) > 1 and ranked[0][0] == ranked[1][0]):
        return None
    return ranked[0][1]


def _times(words: list[tuple[str, ...]], taken: tuple[int, ...]) -> tuple[int, ...]:
    """The column of the time, or those of begin and end. With two candidates for one of them there is none."""
    free = {at: set(title) - FILLERS for at, title in enumerate(words) if at not in taken and title}
    point = [at for at, left in free.items() if left and left <= TIME]
    begin = [at for at, left in free.items() if left and left <= TIME | BEGIN and left & BEGIN]
    end = [at for at, left in free.items() if left and left <= TIME | END and left & END]
    if len(begin) == len(end) == 1:
        return (begin[0], end[0])
    return (point[0],) if len(point) == 1 else ()
