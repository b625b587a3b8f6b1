"""Tools: what agents can do with a trained model, as names, descriptions for a language model, forms and documents.

The forms are those of the HTTP service, so the same things are right and wrong in both. To add a tool: a row in `TOOLS`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, Field, ValidationError

from dura.runs.trained import Trained
from dura.types import BadInput
from dura.web import documents
from dura.web import requests as forms
from dura.web.answering import Served
from dura.web.sentences import FORMS, sentence

Document = dict[str, Any]
INSTRUCTIONS = (
    "This server answers questions about one knowledge graph: facts (head, relation, tail), some of them dated. A model learned "
    "from the facts. It can say which facts are probably missing, how probable they are, and why. Call about first. Names must be "
    "spelled as in the graph: find entities with search_entities and relations with relations. A prediction is not a fact: say "
    "so, and give its probability if there is one. Known facts come from the graph, by facts."
)


class Nothing(forms.Form):
    """A tool without parameters."""


class Listed(forms.Form):
    """Which relations are wanted."""

    query: Annotated[forms.Name, Field(description="Only relations whose name or label has this part.")] = ""
    limit: Annotated[forms.Limit, Field(description="How many relations, those with most facts first.")] = 100


class Discovered(forms.Form):
    """Which missing facts are wanted."""

    relation: Annotated[
        forms.Name | None, Field(description="Only facts of this relation. Without it, all relations are searched.")
    ] = None
    top: Annotated[forms.Limit, Field(le=100, description="How many facts.")] = 20
    type: Annotated[forms.Names, Field(description="Only facts with a head or tail of one of these types.")] = []  # noqa: RUF012
    min_probability: Annotated[
        forms.Share | None, Field(description="Only facts that are at least this probable. Needs a calibrated run.")
    ] = None
    time: Annotated[forms.Name | None, Field(description="The time at which the facts hold; by default the last.")] = (
        None
    )


class DiscoveredDocument(BaseModel):
    """The most probable missing facts."""

    value: str = Field(description="What the facts are ordered by: probability, or share of the softmax.")
    facts: list[dict[str, Any]]


class GraphDocument(documents.RootDocument):
    """The model and its graph."""

    calibrated: bool = Field(description="Whether answers have probabilities.")
    facts: dict[str, int]
    metrics: dict[str, Any] | None
    times: dict[str, Any] | None = Field(description="The first and last time and their number, if facts have times.")


@dataclass(frozen=True)
class Tool:
    """One tool: `call` gets what is served and a form with the parameters."""

    name: str
    description: str
    form: type[forms.Form]
    document: type[BaseModel]
    call: Callable[[Served, Any], Awaitable[Document]]

    async def run(self, served: Served, arguments: Document) -> Document:
        """The document for these arguments; what is wrong with them is a `BadInput`."""
        try:
            form = self.form.model_validate(arguments)
        except ValidationError as error:
            raise BadInput(_sentence(error, self.form)) from None
        return await self.call(served, form)


def _sentence(error: ValidationError, form: type[forms.Form]) -> str:
    """What is wrong, as the service says it. An example is an object here, not an address."""
    address = next((name for name, (known, _) in FORMS.items() if known is form), "")
    if not address:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    example = FORMS[address][1]
    as_object = json.dumps(dict(parse_qsl(example.partition("?")[2])))
    return sentence(error.errors(), address).replace(example, as_object)


def _only(found: list[Document]) -> Document:
    if "error" in found[0]:
        raise BadInput(found[0]["error"])
    return found[0]


async def _about(served: Served, _: Nothing) -> Document:
    found = await served.look_up(Trained.about)
    times = found["times"]
    wanted = (*documents.RootDocument.model_fields, "calibrated", "facts", "metrics")
    span = {"first": times[0], "last": times[-1], "count": len(times)} if times else None
    return {name: found[name] for name in wanted} | {"times": span}


async def _search(served: Served, asked: forms.Searched) -> Document:
    found = await served.look_up(lambda trained: trained.find_entities(asked.query, asked.limit))
    return {"query": asked.query, "entities": [one.to_dict() for one in found]}


async def _relations(served: Served, asked: Listed) -> Document:
    part = asked.query.casefold()
    found = await served.look_up(Trained.relations)
    fit = [one for one in found if part in one.relation.casefold() or part in one.label.casefold()]
    best = sorted(fit, key=lambda one: -one.facts)[: asked.limit]
    return {"relations": [one.to_dict() for one in best], "total": len(fit)}


async def _facts(served: Served, asked: forms.FactsAbout) -> Document:
    return await served.look_up(
        lambda trained: trained.facts_of(asked.entity, asked.relation, offset=asked.offset, limit=asked.limit).to_dict()
    )


async def _predict(served: Served, asked: forms.OneQuestion) -> Document:
    return _only(await served.ask([asked.question()], asked.wanted(1), explain=asked.explain))


async def _score(served: Served, asked: forms.FactFields) -> Document:
    return _only(await served.score([asked.fact()]))


async def _explain(served: Served, asked: forms.Explained) -> Document:
    return await served.compute(lambda trained: trained.explain(*asked.fact(), side=asked.side, k=asked.k).to_dict())


async def _neighbours(served: Served, asked: forms.Near) -> Document:
    return await served.compute(
        lambda trained: trained.neighbours(asked.entity, asked.k, relation=asked.relation, time=asked.time).to_dict()
    )


async def _suggest(served: Served, asked: forms.SuggestedFor) -> Document:
    return await served.compute(
        lambda trained: trained.suggest(asked.entity, asked.k, time=asked.time, limit=asked.limit).to_dict()
    )


async def _times(served: Served, asked: forms.TimedFact) -> Document:
    return await served.compute(lambda trained: trained.times_of(asked.head, asked.relation, asked.tail).to_dict())


async def _discover(served: Served, asked: Discovered) -> Document:
    seconds = 0.8 * served.settings.answer_seconds

    def work(trained: Trained) -> Document:
        end = time.monotonic() + seconds

        def progress(done: int, total: int) -> None:
            if time.monotonic() > end:
                raise BadInput(
                    f"the search was stopped after {seconds:g} seconds, at {done:,} of {total:,} questions; name a relation, "
                    "or let 'dura discover' write a file"
                )

        search = asked.model_dump(include={"top", "time", "type", "min_probability"})
        return trained.discover(asked.relation or (), **search, progress=progress).to_dict()

    return await served.compute(work)


TOOLS = (
    Tool(
        "about",
        "What this knowledge graph and its model are: the graph's name and sizes, the model, whether answers "
        "have probabilities, how good "
        "the model was on held-out facts, and which times the facts have. Call this first.",
        Nothing,
        GraphDocument,
        _about,
    ),
    Tool(
        "search_entities",
        "Find entities by a part of their name or label; spelling mistakes are tolerated. Use the `entity` of a "
        "result in other tools. "
        "An empty query gives the entities with most facts.",
        forms.Searched,
        documents.EntitiesDocument,
        _search,
    ),
    Tool(
        "relations",
        "List the relations of the graph with the number of their facts, those with most facts first.",
        Listed,
        documents.RelationsDocument,
        _relations,
    ),
    Tool(
        "facts",
        "The known facts in which an entity is the head or the tail, with its label, types and description. "
        "These come from the graph, "
        "not from the model.",
        forms.FactsAbout,
        documents.FactsDocument,
        _facts,
    ),
    Tool(
        "predict",
        "Ask the model for missing facts: give `relation` and either `head` (who or what is the tail?) or "
        "`tail` (who or what is the "
        "head?). Answers are ordered, best first; known facts are left out. `probability` is there if the run "
        "is calibrated; scores are "
        "only comparable within one question. In a graph with times give `time`, or `time` \"?\" with head and "
        "tail to ask when.",
        forms.OneQuestion,
        documents.AnswersDocument,
        _predict,
    ),
    Tool(
        "score",
        "How plausible one complete fact is to the model, and whether the graph already holds it. `contradicts`: a known "
        "fact speaks against it.",
        forms.FactFields,
        documents.ScoredDocument,
        _score,
    ),
    Tool(
        "explain",
        "Why the model gives this answer: the training facts that speak for and against it, similar entities "
        "with the same answer, and "
        "rules with how often they are right.",
        forms.Explained,
        documents.ExplanationDocument,
        _explain,
    ),
    Tool(
        "neighbours",
        "The entities that the model finds most alike to one entity; with `relation`, those that play the same part in it.",
        forms.Near,
        documents.NeighboursDocument,
        _neighbours,
    ),
    Tool(
        "suggestions",
        "The best missing facts of one entity over all relations that fit it, in both directions. Use this to "
        "ask what is probably "
        "missing about an entity.",
        forms.SuggestedFor,
        documents.SuggestionsDocument,
        _suggest,
    ),
    Tool(
        "discover",
        "The most probable missing facts of the whole graph, or of one relation. This searches many questions "
        "and can take long in a "
        "large graph: name a relation there. It stops with an error if it takes too long.",
        Discovered,
        DiscoveredDocument,
        _discover,
    ),
    Tool(
        "times",
        "How plausible a fact is at each time of a graph with times, in the order of time.",
        forms.TimedFact,
        documents.StripDocument,
        _times,
    ),
)  # fmt: skip
