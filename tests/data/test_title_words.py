from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dura.data.words import HEADERS, named, tokens

TITLES = st.text(max_size=20) | st.sampled_from(
    ["head", "From", "to_id", "edgeType", ":TYPE", "start", "end", "Label", "source label", "1", "date", "since", "id"]
)


@pytest.mark.parametrize(
    ("titles", "positions"),
    [
        ("head relation tail", (0, 1, 2)),
        ("T R H", (2, 1, 0)),
        ("s p o", (0, 1, 2)),
        ("predicate object subject", (2, 0, 1)),
        ("source target weight relationship", (0, 3, 1)),
        ("from_id edge_type to_id", (0, 1, 2)),
        ("fromNode linkKind toNode", (0, 1, 2)),
        (":START_ID :END_ID :TYPE", (0, 2, 1)),
        (":START_ID(Person) since:int :END_ID(Person) :TYPE", (0, 3, 2)),
        ("entity1 relation entity2", (0, 1, 2)),
        ("arg1 rel arg2", (0, 1, 2)),
        ("node1 label node2", (0, 1, 2)),
        ("subject_id subject_label predicate predicate_label object_id object_label", (0, 2, 4)),
        ("head head_type relation tail tail_type", (0, 2, 3)),
        ("Source Target Type Id Label", (0, 2, 1)),
        ("head relation tail time", (0, 1, 2, 3)),
        ("date head relation tail", (1, 2, 3, 0)),
        ("head relation tail begin end", (0, 1, 2, 3, 4)),
        ("head relation tail until since", (0, 1, 2, 4, 3)),
        ("head relation tail start_date end_date", (0, 1, 2, 3, 4)),
        ("from kind to valid_from valid_to", (0, 1, 2, 3, 4)),
        ("start type end start_time end_time", (0, 1, 2, 3, 4)),
    ],
)
def test_titles_that_people_use(titles: str, positions: tuple[int, ...]) -> None:
    found = named(titles.split())
    assert found is not None
    assert found.positions == positions


@pytest.mark.parametrize(
    "titles",
    [
        "",
        "a b c",
        "Berlin located_in Germany",
        "head tail",
        "head head relation tail",
        "from to",
        "id name age",
        "h p o",
        "gene1 interacts gene2",
        "1 2 3",
        "2014-05-06 1 2",
        "source relation",
        "type type type",
    ],
)
def test_titles_that_say_nothing(titles: str) -> None:
    assert named(titles.split()) is None


def test_two_times_are_not_guessed() -> None:
    found = named(["head", "relation", "tail", "created_date", "date", "timestamp"])
    assert found is not None
    assert found.times == ()


@given(st.permutations(range(5)), st.sampled_from(HEADERS), st.booleans())
def test_the_order_of_columns_does_not_matter(order: list[int], header: tuple[str, str, str], upper: bool) -> None:
    titles = [*header, "weight", "note"]
    found = named([(titles[at].upper() if upper else titles[at]) for at in order])
    assert found is not None
    assert [order[at] for at in found.positions] == [0, 1, 2]


@given(st.lists(TITLES, max_size=8))
def test_any_titles_give_distinct_columns_or_none(titles: list[str]) -> None:
    found = named(titles)
    if found is not None:
        assert len(set(found.positions)) == len(found.positions)
        assert all(0 <= at < len(titles) for at in (*found.positions, *found.others))
        assert not set(found.others) & {found.head, found.relation, found.tail}


@given(st.lists(TITLES, max_size=8), st.randoms(use_true_random=False))
def test_what_is_found_moves_with_the_columns(titles: list[str], draw: object) -> None:
    order = list(range(len(titles)))
    draw.shuffle(order)  # type: ignore[attr-defined]
    before, after = named(titles), named([titles[at] for at in order])
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert tuple(order[at] for at in after.positions) == before.positions


@given(st.text(max_size=300))
def test_tokens_are_words_or_numbers(title: str) -> None:
    for word in tokens(title):
        assert word.isdigit() or (word.isalpha() and word == word.lower())
