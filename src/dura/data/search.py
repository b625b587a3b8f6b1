"""Search: entities by a part of their name or label, for people who type.

Four kinds of matches, in this order: the whole text (exact), its beginning (prefix), the beginnings of its words (word), and words
that look alike (fuzzy). Case, accents and blanks do not matter. Within a kind, entities with more facts come first. Everything is
looked up in sorted arrays, so a search takes milliseconds also if there are a million names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dura.data.vocabulary import Vocabulary
from dura.types import FloatArray, IntArray

Match = Literal["exact", "prefix", "word", "fuzzy"]
MOST_TEXT, MOST_WORDS = 200, 24
"""How many characters of a text and how many of its words can be found."""
MOST_ASKED = 8
"""How many words of a query count."""
BUCKETS = 1 << 18
"""Triples of letters are kept in this many lists."""
TRIED, ALIKE = 120, 0.7
"""How many similar words are compared letter by letter; and how alike they must be, from 0 to 1."""
_LAST = "\U0010ffff"
_WORD = r"[\p{L}\p{N}]+"


@dataclass(frozen=True)
class Hit:
    """An entity that was found, and how."""

    entity: int
    match: Match


def plain(texts: pl.Series) -> pl.Series:
    """Texts without case, accents and extra blanks.

    >>> plain(pl.Series(["  Zürich  HB", "STRASSE", "Straße"])).to_list()
    ['zurich hb', 'strasse', 'strasse']
    """
    cut = texts.str.slice(0, 4 * MOST_TEXT).str.normalize("NFKD").str.replace_all(r"\p{M}", "").str.to_lowercase()
    return cut.str.replace_all("ß", "ss").str.replace_all(r"\s+", " ").str.strip_chars().str.slice(0, MOST_TEXT)


class NameSearch:
    """Searches names and labels. `weight` is the number of facts of each entity."""

    def __init__(self, names: Vocabulary, labels: Mapping[str, str], weight: IntArray) -> None:
        self.weight = weight
        self._order = np.lexsort([np.arange(len(weight)), -weight])  # those with most facts first
        self._place = np.empty(len(weight), dtype=np.int64)
        self._place[self._order] = np.arange(len(weight))
        own = pl.DataFrame({"text": names.column(np.arange(len(names))), "id": np.arange(len(names), dtype=np.int32)})
        called = [(label, name) for name, label in labels.items() if name != label and name in names]
        if called:
            ids = names.ids(pl.Series([name for _, name in called], dtype=pl.String))
            own = pl.concat([own, pl.DataFrame({"text": [label for label, _ in called], "id": ids})])
        texts = own.with_columns(text=plain(own["text"])).sort("text")
        self._texts, self._ids = texts["text"], texts["id"].to_numpy()
        words = texts.select("id", word=pl.col("text").str.extract_all(_WORD).list.unique().list.head(MOST_WORDS))
        spread = words.explode("word").drop_nulls().sort("word")
        starts = spread["word"].rle_id().to_numpy() if len(spread) else np.zeros(0, np.uint32)
        self._offsets = np.searchsorted(starts, np.arange(int(starts[-1]) + 2 if len(starts) else 1))
        self._words = spread["word"].gather(self._offsets[:-1])
        self._having: IntArray = spread["id"].to_numpy()

    def find(self, query: str, limit: int) -> list[Hit]:
        """The best matches of a query. An empty query gives the entities with most facts."""
        text = str(plain(pl.Series([query.encode(errors="ignore").decode()], dtype=pl.String))[0])
        if not text:
            return [Hit(int(i), "prefix") for i in self._order[:limit]]
        asked = pl.Series([text]).str.extract_all(_WORD)[0].to_list()[:MOST_ASKED]
        found: dict[int, Match] = {}
        steps = (("exact", self._same), ("prefix", self._beginning), ("word", self._worded), ("fuzzy", self._alike))
        for match, step in steps:
            ids = step(text, asked, limit + len(found))
            for entity in ids.tolist():
                found.setdefault(entity, match)  # type: ignore[arg-type]
            if len(found) >= limit:
                break
        return [Hit(entity, match) for entity, match in found.items()][:limit]

    def _heaviest(self, ids: IntArray, limit: int) -> IntArray:
        """Those with most facts; of equal ones the first by name."""
        places = self._place[ids]
        if len(places) > limit:
            places = np.partition(places, limit - 1)[:limit]
        order: IntArray = self._order[np.unique(places)]
        return order

    def _between(self, texts: pl.Series, first: str, last: str) -> slice:
        return slice(int(texts.search_sorted(first, "left")), int(texts.search_sorted(last, "right")))

    def _same(self, text: str, _: list[str], limit: int) -> IntArray:
        return self._heaviest(self._ids[self._between(self._texts, text, text)], limit)

    def _beginning(self, text: str, _: list[str], limit: int) -> IntArray:
        return self._heaviest(self._ids[self._between(self._texts, text, text + _LAST)], 2 * limit)[:limit]

    def _worded(self, _: str, asked: list[str], limit: int) -> IntArray:
        """Entities of which every asked word begins a word."""
        if not asked:
            return np.zeros(0, np.int32)
        kept = np.ones(len(self.weight), dtype=bool)
        for word in set(asked):
            here = self._between(self._words, word, word + _LAST)
            having = np.zeros_like(kept)
            having[self._having[self._offsets[here.start] : self._offsets[here.stop]]] = True
            kept &= having
        return self._heaviest(np.flatnonzero(kept), limit)

    def _alike(self, _: str, asked: list[str], limit: int) -> IntArray:
        """Entities whose words look like the asked ones, the most alike first. Most of the asked words must be there."""
        total = np.zeros(len(self.weight), dtype=np.float32)
        for word in dict.fromkeys(asked):
            own = np.zeros_like(total)
            near = [(at, ratio) for at, ratio in self._near(word) if ratio >= ALIKE]
            for at, ratio in sorted(near, key=lambda pair: pair[1]):
                own[self._having[self._offsets[at] : self._offsets[at + 1]]] = ratio
            total += own
        ids = np.flatnonzero(total >= max(ALIKE, 0.6 * len(set(asked))))
        ids = ids[np.argsort(-total[ids], kind="stable")][: max(limit, 1_000)]
        order: IntArray = ids[np.lexsort([ids, -self.weight[ids], -total[ids].round(2)])][:limit]
        return order

    def _near(self, word: str) -> list[tuple[int, float]]:
        """The words that look like a word, with a number from 0 to 1."""
        if not len(self._words):
            return []
        starts, having = self._triples
        asked = np.unique(_codes([word])[0])
        lists = [having[starts[code] : starts[code + 1]] for code in asked]
        shared = np.bincount(np.concatenate(lists), minlength=len(self._words)).astype(np.float32)
        shared /= self._lengths + len(asked)
        best = np.argpartition(-shared, min(TRIED, len(shared) - 1))[:TRIED]
        best = best[shared[best] > 0]
        texts = self._words.gather(best).to_list()
        return [(int(at), SequenceMatcher(None, word, text).ratio()) for at, text in zip(best, texts, strict=True)]

    @cached_property
    def _lengths(self) -> FloatArray:
        lengths: FloatArray = self._words.str.len_chars().to_numpy().astype(np.float32)
        return lengths

    @cached_property
    def _triples(self) -> tuple[IntArray, IntArray]:
        """For each code of three letters where its list of words begins, and all lists."""
        codes, words = _codes(self._words.to_list())
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(BUCKETS + 1))
        return starts, words[order]

    def prepare(self) -> None:
        """Make what a fuzzy search needs, so that the first one is as fast as the next."""
        _ = self._triples, self._lengths


def _codes(words: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The code of every three letters of the words, and the word of each. A word begins and ends with a blank."""
    text = " " + " ".join(words) + " "
    letters = np.frombuffer(text.encode("utf-32-le", errors="replace"), np.uint32).astype(np.int64)
    codes = (letters[:-2] * 961 + letters[1:-1] * 31 + letters[2:]) % BUCKETS
    word = np.cumsum(letters == ord(" "))[1:-1] - 1  # by the letter in the middle
    inner = letters[1:-1] != ord(" ")
    return codes[inner].astype(np.int32), word[inner].astype(np.int32)
