"""A label is accepted wherever a name is: names first, ambiguous labels are listed, unknown ones get suggestions."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dura
from dura.data.descriptions import Descriptions, find, folded, of_mappings, tidy
from dura.data.graph import Graph
from dura.data.vocabulary import Vocabulary
from dura.types import BadInput

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=6)


def described(**parts: Any) -> Graph:
    facts = [("Q64", "P17", "Q183"), ("Q821244", "P17", "Q30"), ("Q183", "P36", "Q64")]
    return dura.from_facts(facts, valid_share=0, test_share=0, **parts)


LABELS = {"Q64": "Berlin", "Q821244": "Berlin", "Q183": "Germany", "Q30": "United  States\tof America"}


@given(st.dictionaries(WORDS, WORDS, min_size=1, max_size=30))
def test_a_name_is_found_before_a_label_and_every_unique_label_is_found(labels: dict[str, str]) -> None:
    names, about = Vocabulary(labels), Descriptions(labels)
    for name in labels:
        assert find(names, about, name, "entity") == names.id(name)
    exact, cases = Counter(labels.values()), Counter(map(folded, labels.values()))
    for name, label in labels.items():
        if label in labels:
            continue
        if exact[label] == 1:
            assert find(names, about, label, "entity") == names.id(name)
        else:
            with pytest.raises(BadInput, match=rf"is that of {exact[label]} entities"):
                find(names, about, label, "entity")
        other = label.swapcase()
        if other not in labels and other not in exact and folded(other) == folded(label) and cases[folded(label)] == 1:
            assert find(names, about, other, "entity") == names.id(name)


@given(st.dictionaries(WORDS, WORDS, max_size=10), WORDS)
def test_what_is_neither_name_nor_label_is_one_sentence(labels: dict[str, str], given: str) -> None:
    names, about = Vocabulary({*labels, "x"}), Descriptions(labels)
    if given in names or about.called(given):
        return
    with pytest.raises(BadInput, match="is not in this graph"):
        find(names, about, given, "entity")


def test_an_ambiguous_label_lists_names_with_types_and_descriptions() -> None:
    graph = replace(
        described(labels=LABELS, entity_types={"Q64": ["city", "capital"]}),
        entity_descriptions={"Q821244": "a town in New Hampshire"},
    )
    with pytest.raises(BadInput) as error:
        graph.entity("berlin")
    assert str(error.value) == (
        "the label 'berlin' is that of 2 entities; give one of their names:\n"
        "  'Q64' (city, capital)\n  'Q821244' (a town in New Hampshire)"
    )
    assert graph.entity("Q64") == graph.entities.id("Q64")
    assert graph.entity("GERMANY") == graph.entity("Germany") == graph.entities.id("Q183")
    assert graph.entity("united states of america") == graph.entities.id("Q30")
    assert graph.types("Q64") == ("city", "capital") and graph.types("Q30") == ()


def test_a_long_list_of_names_is_cut() -> None:
    labels = {f"e{i:02d}": "same" for i in range(25)}
    with pytest.raises(BadInput, match="(?s)is that of 25 entities.*'e00'.*'e09'\n  and 15 more$") as error:
        find(Vocabulary(labels), Descriptions(labels), "same", "entity")
    assert "'e10'" not in str(error.value)


def test_an_exact_label_counts_before_one_in_another_case() -> None:
    labels = {"a": "Turkey", "b": "turkey"}
    names, about = Vocabulary(labels), Descriptions(labels)
    assert [find(names, about, label, "entity") for label in ("Turkey", "turkey")] == [0, 1]
    with pytest.raises(BadInput, match="the label 'TURKEY' is that of 2 entities"):
        find(names, about, "TURKEY", "entity")


def test_a_name_counts_before_the_label_of_another() -> None:
    labels = {"a": "b", "b": "a"}
    names, about = Vocabulary(labels), Descriptions(labels)
    assert [find(names, about, given, "entity") for given in ("a", "b", "A")] == [0, 1, 1]


def test_an_unknown_one_suggests_names_and_labels() -> None:
    graph = described(labels=LABELS, relation_labels={"P17": "country", "P36": "capital"})
    with pytest.raises(BadInput, match=r"the entity 'Germny' is not in this graph; did you mean 'Germany' \(Q183\)"):
        graph.entity("Germny")
    with pytest.raises(BadInput, match=r"the entity 'Q1833' is not in this graph; did you mean 'Q183' \(Germany\)"):
        graph.entity("Q1833")
    with pytest.raises(BadInput, match=r"the relation 'contry' is not in this graph; did you mean 'country' \(P17\)\?"):
        graph.relation("contry")
    assert graph.relation("Country") == graph.relation("P17") == graph.relations.id("P17")
    with pytest.raises(BadInput, match="'Berln' is not in this graph; did you mean 'Berlin'"):
        graph.entity("Berln")


def test_labels_change_no_digest() -> None:
    plain, labelled = described(), described(labels=LABELS, relation_labels={"P17": "country"})
    assert plain.digest == labelled.digest and not plain.about_entities and labelled.about_relations
    assert labelled.label("Q30") == "United States of America" and labelled.relation_label("P17") == "country"
    assert (plain.label("Q30"), plain.relation_label("P36")) == ("Q30", "P36")


def test_mappings_of_a_caller_are_checked() -> None:
    assert of_mappings({"a": "x" * 2000}).labels == {"a": "x" * 1000}
    assert of_mappings(types={"a": ["b", " b ", "c"]}).types == {"a": ("b", "c")}
    assert of_mappings({"a": "\ud800x"}).labels == {"a": "?x"}
    with pytest.raises(BadInput, match="labels must be a mapping of names, such as .*, not 'ab'"):
        of_mappings("ab")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="a label must be text that is not empty, not 3"):
        of_mappings({"a": 3})  # type: ignore[dict-item]
    with pytest.raises(BadInput, match="a type must be text that is not empty, not ' '"):
        of_mappings(types={"a": [" "]})
    assert tidy(" a\n\tb ", 9) == "a b"


def test_only_and_over() -> None:
    one = Descriptions({"a": "A", "z": "Z"}, {"a": ("t",), "y": ("t",)}, {"x": "?"})
    kept, strange = one.only(Vocabulary(["a", "b"]))
    assert (kept, strange) == (Descriptions({"a": "A"}, {"a": ("t",)}), 3)
    assert kept.over(Descriptions({"a": "old", "b": "B"})).labels == {"a": "A", "b": "B"}
    many = Vocabulary(f"n{i}" for i in range(6000))
    assert many.strangers([f"n{i}" for i in range(5999, 6002)]) == ["n6000", "n6001"]
    assert many.strangers([f"n{i}" for i in range(5000, 10_000)]) == [f"n{i}" for i in range(6000, 10_000)]


@pytest.mark.slow
def test_a_million_labels_take_seconds() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.permutation(1_000_000).tolist()
    labels = {f"Q{at:07d}": f"Entity Number {number}" for at, number in enumerate(numbers)}
    names, about = Vocabulary(labels), Descriptions(labels)
    before = time.perf_counter()
    assert find(names, about, "Entity Number 17", "entity") == numbers.index(17)
    exact = time.perf_counter()
    assert find(names, about, "entity number 17", "entity") == numbers.index(17)
    case = time.perf_counter()
    with pytest.raises(BadInput, match="did you mean 'Entity Number"):
        find(names, about, "Entity Nmber 17", "entity")
    unknown = time.perf_counter()
    for number in range(10_000):
        find(names, about, f"Entity Number {number}", "entity")
    assert exact - before < 10 and case - exact < 15 and unknown - case < 30 and time.perf_counter() - unknown < 2
