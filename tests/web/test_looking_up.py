"""What the page and agents look up: names, facts, suggestions, times and decisions, by the service and by Python alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from starlette.testclient import TestClient

import dura
from dura.data.entity_facts import fact_counts
from dura.data.search import NameSearch
from dura.data.vocabulary import Vocabulary
from dura.runs.trained import Trained
from dura.types import SPLITS
from dura.web.service import application
from dura.web.settings import Settings
from graphs import dated_graph


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("look")
    dura.fit(dura.load("nations"), rank=10, epochs=5, batch=50, out=folder / "plain", progress=False)
    dura.fit(dated_graph(untimed=True), rank=4, epochs=2, batch=50, out=folder / "untimed", progress=False)
    dura.fit(dated_graph(), rank=4, epochs=2, batch=50, out=folder / "dated", progress=False)
    return folder


def client(trained: Trained, **settings: Any) -> TestClient:
    return TestClient(application(trained, Settings(quiet=True, **settings)), raise_server_exceptions=False)


def test_entities_are_found_by_name_and_label_whatever_the_case_and_accents() -> None:
    names = Vocabulary(["Q1", "Q2", "Q3", "Q4", "Zürich HB", "berlin_east"])
    labels = {"Q1": "Berlin", "Q2": "Berlin Hauptbahnhof", "Q3": "Bern", "Q4": "San José"}
    search = NameSearch(names, labels, np.array([1, 9, 5, 2, 3, 4]))

    def found(query: str, limit: int = 9) -> list[tuple[str, str]]:
        return [(names.name(hit.entity), hit.match) for hit in search.find(query, limit)]

    assert found("BERLIN") == [("Q1", "exact"), ("Q2", "prefix"), ("berlin_east", "prefix"), ("Q3", "fuzzy")]
    assert found("ber", 2) == [("Q2", "prefix"), ("Q3", "prefix")]
    assert found("zurich") == [("Zürich HB", "prefix")]
    assert found("jose san") == [("Q4", "word")]
    assert found("haupt") == [("Q2", "word")]
    assert found("berlni")[0] == ("Q2", "fuzzy")
    assert found("", 2) == [("Q2", "prefix"), ("Q3", "prefix")]
    assert found("q1")[0] == ("Q1", "exact")
    assert found("\ud800") == found("")
    for query in ("%_*\\", "x" * 100_000, "((((", "\u202e", "nothing like it"):
        assert found(query) == []


def test_a_search_agrees_with_looking_at_every_name() -> None:
    names = [f"{a}{b} {c}{a}" for a in ("ka", "to", "ri") for b in ("n", "m", "") for c in ("an", "el", "or")]
    vocabulary = Vocabulary(names)
    weight = np.random.default_rng(0).integers(0, 5, len(vocabulary))
    search, order = NameSearch(vocabulary, {}, weight), lambda i: (-weight[i], i)
    for query in ("k", "ka", "kan", "to anto", "el", "or ka", "m"):
        hits = [hit for hit in search.find(query, len(names)) if hit.match != "fuzzy"]
        begin = sorted((i for i, name in enumerate(vocabulary) if name.startswith(query)), key=order)
        words = [
            i
            for i, name in enumerate(vocabulary)
            if i not in begin and all(any(w.startswith(q) for w in name.split()) for q in query.split())
        ]
        exact = [i for i in begin if vocabulary.name(i) == query]
        wanted = exact + [i for i in begin if i not in exact] + sorted(words, key=order)
        assert [hit.entity for hit in hits] == wanted, query


def test_facts_of_an_entity_are_those_of_all_splits(home: Path) -> None:
    trained = dura.open(home / "plain")
    graph, own = trained.graph, trained.graph.entity("usa")
    wanted = sorted(
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t), split)
        for split in SPLITS
        for h, r, t in graph.facts(split).tolist()
        if own in (h, t)
    )
    with client(trained) as asked:
        first = asked.get("/facts?entity=usa&limit=50").json()
        rest = asked.get(f"/facts?entity=usa&offset=50&limit={len(wanted)}").json()
        large = asked.get("/facts?entity=usa&limit=1000")
        assert large.headers["content-encoding"] == "gzip" and large.json()["total"] == len(wanted)
        only = asked.get("/facts?entity=usa&relation=embassy&limit=1000").json()
        relations = asked.get("/relations").json()["relations"]
        most = asked.get("/entities?limit=1").json()["entities"][0]
    shown = [(f["head"], f["relation"], f["tail"], f["split"]) for f in first["facts"] + rest["facts"]]
    assert sorted(shown) == wanted and first["total"] == len(wanted) and len(first["facts"]) == 50
    assert only["total"] == sum(fact[1] == "embassy" for fact in wanted) == len(only["facts"])
    entities, by_relation = fact_counts(graph)
    assert entities[own] == len(wanted) and most["facts"] == entities.max()
    assert {one["relation"]: one["facts"] for one in relations} == dict(
        zip(graph.relations, by_relation.tolist(), strict=True)
    )


def test_suggestions_are_the_best_answers_of_plausible_relations(home: Path) -> None:
    trained = dura.open(home / "plain")
    with client(trained) as asked:
        found = asked.get("/suggestions?entity=usa&k=2&limit=5").json()
    assert (found["entity"], found["label"], len(found["relations"])) == ("usa", "usa", 5)
    for one in found["relations"]:
        ask = {"head": "usa"} if one["side"] == "tail" else {"tail": "usa"}
        answers = trained.predict(relation=one["relation"], k=2, **ask)  # type: ignore[arg-type]
        assert [(a["entity"], a["rank"]) for a in one["answers"]] == [(a.entity, a.rank) for a in answers]
        assert one["answers"][0]["score"] == pytest.approx(answers[0].score, rel=1e-5)
    shares = [one["share"] for one in found["relations"]]
    assert shares == sorted(shares, reverse=True) and 0 < shares[0] <= 1


def test_times_of_a_fact_are_all_times_in_order(home: Path) -> None:
    trained = dura.open(home / "untimed")
    graph = trained.graph
    assert graph.times is not None
    fact = next(row for row in graph.train.tolist() if row[3] < 8)
    head, relation, tail = graph.entities.name(fact[0]), graph.relations.name(fact[1]), graph.entities.name(fact[2])
    with client(trained) as asked:
        strip = asked.get("/times", params={"head": head, "relation": relation, "tail": tail}).json()
        about = asked.get("/about").json()
        listed = asked.get("/facts", params={"entity": head, "limit": 1000}).json()["facts"]
    assert [one["time"] for one in strip["times"]] == about["times"] == [f"2014-01-{day:02d}" for day in range(1, 9)]
    assert about["no_time"] is True and any(one["time"] is None for one in listed)
    assert sum(one["share"] for one in strip["times"]) == pytest.approx(1)
    assert strip["times"][fact[3]]["known"] is True
    for one in strip["times"]:
        assert one["score"] == pytest.approx(trained.score([(head, relation, tail, one["time"])])[0], rel=1e-5)
    with client(dura.open(home / "plain")) as asked:
        refused = asked.get("/times?head=usa&relation=embassy&tail=uk")
    assert refused.status_code == 400 and "no times" in refused.json()["error"]
    dated = dura.open(home / "dated").suggest(head, k=1)
    assert dated.time == "2014-01-08"  # every fact has a time, so the last one is asked about


def test_decisions_are_stored_and_change_answers_in_every_process(home: Path) -> None:
    trained, other = dura.open(home / "plain"), dura.open(home / "plain")
    known = trained.graph.known
    first = trained.predict(head="usa", relation="embassy", k=1)[0].entity
    decision = {"head": "usa", "relation": "embassy", "tail": first, "decision": "reject"}
    with client(trained) as asked, client(other) as second:
        assert asked.get("/reviews").json() == {"writable": True, "decisions": []}
        done = asked.post("/reviews", json={"decisions": [decision]}).json()
        assert (done["accepted"], done["rejected"], done["changed"]) == (0, 1, 0)
        assert done["total"] == {"accept": 0, "reject": 1}
        for one in (asked, second):
            answers = one.get("/predict?head=usa&relation=embassy&k=14&known=true").json()["answers"]
            assert first not in {answer["entity"] for answer in answers}
            (stored,) = one.get("/reviews").json()["decisions"]
            assert {**decision, "when": stored["when"]} == stored
            suggested = one.get("/suggestions?entity=usa&k=14&limit=200").json()["relations"]
            named = {(s["relation"], s["side"], a["entity"]) for s in suggested for a in s["answers"]}
            assert ("embassy", "tail", first) not in named
        changed = second.post("/reviews", json={"decisions": [{**decision, "decision": "accept"}]}).json()
        assert (changed["accepted"], changed["changed"]) == (1, 1)
        assert asked.get("/about").json()["reviews"] == {"writable": True, "accept": 1, "reject": 0}
        firm = {"decisions": [decision], "change": False}
        refused = asked.post("/reviews", json=firm)
        assert refused.status_code == 400 and "was accepted" in refused.json()["error"]
        both = asked.post("/reviews", json={"decisions": [decision, {**decision, "decision": "accept"}]})
        assert both.json()["error"] == "decision 2: the same fact is accepted and rejected"
        unknown = asked.post("/reviews", json={"decisions": [{**decision, "tail": "uk"}, {**decision, "head": "us"}]})
        assert unknown.json()["error"].startswith("decision 2: the entity 'us' is not in this graph")
        assert asked.get("/about").json()["reviews"]["reject"] == 0  # nothing of a wrong request is stored
    assert trained.graph.known is known  # what takes long to make is kept
    with client(trained, read_only=True) as asked:
        assert asked.post("/reviews", json={"decisions": [decision]}).status_code == 403
        assert asked.get("/reviews").json()["writable"] is asked.get("/about").json()["reviews"]["writable"] is False


def test_scores_neighbours_and_explanations_are_those_of_python(home: Path) -> None:
    trained = dura.open(home / "plain")
    fact = {"head": "usa", "relation": "embassy", "tail": "uk"}
    with client(trained) as asked:
        assert asked.get("/score", params=fact).json() == trained.scored([("usa", "embassy", "uk")])[0].to_dict()
        several = asked.post("/score", json={"facts": [fact, {**fact, "head": "us"}, {"head": "usa"}, fact]}).json()[
            "facts"
        ]
        alone = asked.get("/score", params=fact).json()  # the products of several facts round otherwise
        near_alone = {**alone, "score": pytest.approx(alone["score"], rel=1e-5)}
        assert several[0] == near_alone and several[3] == near_alone
        assert several[1]["error"].startswith("the entity 'us' is not in this graph")
        assert several[2]["error"].startswith("relation is missing; it is needed, such as {")
        near = asked.get("/neighbours?entity=usa&k=3").json()
        assert near == trained.neighbours("usa", 3).to_dict()
        why = asked.get("/explain", params={**fact, "k": 2, "side": "head"}).json()
        assert why == json.loads(json.dumps(trained.explain("usa", "embassy", "uk", side="head", k=2).to_dict()))
        reasons = asked.get("/predict?head=usa&relation=embassy&k=2&explain=true").json()["answers"]
        assert [set(one["explanation"]) >= {"facts", "rules"} for one in reasons] == [True, True]
        assert asked.get("/predict?head=usa&relation=embassy&k=101&explain=true").status_code == 400
        for address in (
            "score?head=usa",
            "neighbours",
            "explain?side=x",
            "facts?entity=usa&offset=-1",
            "entities?limit=0",
        ):
            refused = asked.get(f"/{address}")
            assert refused.status_code == 400 and refused.json()["error"], address
        assert asked.get("/facts?entity=usa&limit=1001").json()["error"] == (
            "limit must be a whole number from 1 to 1,000, not '1001'"
        )


def test_about_tells_what_a_page_shows(home: Path) -> None:
    trained = dura.open(home / "plain")
    with client(trained) as asked:
        about = asked.get("/about").json()
    assert about["facts"] == {split: len(trained.graph.facts(split)) for split in SPLITS}
    assert (about["entities"], about["relations"], about["times"]) == (14, 55, None)
    assert about["calibrated"] is False and about["settings"] == trained.experiment.to_dict()
    assert 0 < about["metrics"]["valid"]["mrr"] <= 1


def test_a_browser_gets_the_page_and_other_programs_json(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page" / "assets").mkdir(parents=True)
    (tmp_path / "page" / "index.html").write_text("<!doctype html><title>dura</title>")
    (tmp_path / "page" / "assets" / "a.js").write_text("1")
    (tmp_path / "secret").write_text("x")
    monkeypatch.setattr("dura.web.pages.FOLDER", tmp_path / "page")
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    with client(dura.open(home / "plain")) as asked:
        page = asked.get("/", headers={"Accept": browser})
        assert page.headers["content-type"].startswith("text/html") and "dura" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        for accept in ("*/*", "application/json", "application/json, text/html;q=0.5", ";;q=x"):
            assert asked.get("/", headers={"Accept": accept}).json()["rank"] == 10
        script = asked.get("/page/assets/a.js")
        assert script.headers["content-type"].startswith("text/javascript") and script.headers["x-content-type-options"]
        for path in ("../secret", quote("../secret", safe=""), "%2e%2e/secret", "a%00b", "none.js", ""):
            assert asked.get(f"/page/{path}").status_code == 404
        monkeypatch.setattr("dura.web.pages.FOLDER", tmp_path / "none")
        assert asked.get("/", headers={"Accept": browser}).json()["rank"] == 10
