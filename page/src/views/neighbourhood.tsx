// The neighbourhood of an entity: known and predicted facts as a drawing that can be dragged and walked.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api";
import { useLoad } from "../hooks";
import { factLink } from "../parts/answers";
import { EntityLink, RelationName } from "../parts/names";
import { Network } from "../parts/network";
import { Failure, Loading, Nothing } from "../parts/status";
import { link } from "../router";
import { useShared } from "../store";
import { isolated, percent, shownName, some } from "../text";
import type { FactsOf, KnownFact, Suggestions } from "../types";

export interface Edge { key: string; head: string; relation: string; tail: string; title: string; predicted: boolean; p?: number | null; other: string; label?: string; relationLabel?: string; time?: string | null }

/** How many are drawn: a phone has room for fewer. */
const room = () => (innerWidth < 760 ? { known: 5, predicted: 4 } : { known: 10, predicted: 6 });

/** Some of the known facts: one of each relation and side, then a second one, and so on, each neighbour once. */
function chosen(entity: string, facts: KnownFact[]): KnownFact[] {
  const queues = new Map<string, KnownFact[]>(), most = room().known;
  for (const fact of facts) {
    const key = `${fact.head === entity} ${fact.relation}`;
    queues.set(key, [...(queues.get(key) ?? []), fact]);
  }
  const taken = new Map<string, KnownFact>();
  for (let round = 0; taken.size < most && [...queues.values()].some((queue) => queue.length > round); round++) {
    for (const queue of queues.values()) {
      const fact = queue[round];
      const other = fact && (fact.head === entity ? fact.tail : fact.head);
      if (fact && other && other !== entity && !taken.has(other) && taken.size < most) taken.set(other, fact);
    }
  }
  return [...taken.values()];
}

function edgesOf(facts: FactsOf, found: Suggestions): Edge[] {
  const own = facts.entity;
  const known = chosen(own, facts.facts).map((fact): Edge => {
    const out = fact.head === own;
    return { key: `k ${fact.head} ${fact.relation} ${fact.tail}`, head: fact.head, relation: fact.relation, tail: fact.tail, relationLabel: fact.relation_label, title: fact.relation, predicted: false, other: out ? fact.tail : fact.head, label: out ? fact.tail_label : fact.head_label, time: fact.time };
  });
  const near = new Set([own, ...known.map((edge) => edge.other)]);
  const predicted: Edge[] = [], chosenOnes: Edge[] = [];
  for (const one of found.relations) for (const answer of one.answers) {
    const [head, tail] = one.side === "tail" ? [own, answer.entity] : [answer.entity, own];
    predicted.push({ key: `p ${head} ${one.relation} ${tail}`, head, relation: one.relation, tail, relationLabel: one.label, title: one.relation, predicted: true, p: answer.probability, other: answer.entity, label: answer.label, time: found.time });
  }
  predicted.sort((a, b) => (b.p ?? 0) - (a.p ?? 0));
  for (const edge of predicted) if (!near.has(edge.other) && chosenOnes.length < room().predicted) { near.add(edge.other); chosenOnes.push(edge); }
  return [...known, ...chosenOnes];
}

export function NeighbourhoodView({ name, time }: { name: string; time: string | null }) {
  const { announce } = useShared();
  const [marked, mark] = useState<string | null>(null);
  const [trail, setTrail] = useState<{ name: string; label: string }[]>([]);
  const found = useLoad(async (signal) => {
    const [facts, suggestions] = await Promise.all([
      get<FactsOf>("/facts", { entity: name, limit: 200 }, signal),
      get<Suggestions>("/suggestions", { entity: name, k: 2, limit: 10, time }, signal),
    ]);
    return { facts, edges: edgesOf(facts, suggestions) };
  }, [name, time], "kept");
  const data = found.data;
  useEffect(() => {
    if (!data || data.facts.entity !== name) return;
    const known = data.edges.filter((edge) => !edge.predicted).length;
    announce(`${isolated(shownName(name, data.facts.label))}: ${some(known, "known")} and ${some(data.edges.length - known, "predicted")} neighbours shown`);
    setTrail((old) => [...old.filter((one) => one.name !== name), { name, label: data.facts.label }].slice(-6));
  }, [data]);
  if (found.error && !data) return <div class="page narrow"><h1 tabIndex={-1}><bdi>{shownName(name)}</bdi></h1><Failure error={found.error} again={found.again} /></div>;
  const title = shownName(data?.facts.entity ?? name, data?.facts.label);
  const lists = [["Known", false], ["Predicted", true]] as const;
  return (
    <div class="wide-page neighbourhood">
      <div class="stage" aria-busy={found.busy}>
        {data ? <Network centre={data.facts.entity} label={data.facts.label} edges={data.edges} trail={trail.map((one) => one.name)} time={time} marked={marked} /> : <Loading lines={3} what="Loading the neighbourhood" />}
        <p class="legend-line over" aria-hidden="true"><span class="swatch known" /> known <span class="swatch asked" /> predicted</p>
      </div>
      <aside class="beside">
        <h1 tabIndex={-1} class={title.length > 60 ? "long" : ""}><bdi>{title}</bdi></h1>
        <p class="under"><a href={link("entity", { name: data?.facts.entity ?? name, time })}>All facts</a><a href={link("map", { name: data?.facts.entity ?? name })}>On the map</a></p>
        {found.error && <Failure error={found.error} again={found.again} />}
        {trail.length > 1 && <p class="trail">Walked: {trail.slice(0, -1).map((one) => <EntityLink key={one.name} name={one.name} label={one.label} time={time} view="neighbourhood" />)}</p>}
        {data?.edges.length === 0 && <Nothing>It has no neighbours.</Nothing>}
        {data && lists.map(([heading, predicted]) => {
          const edges = data.edges.filter((edge) => edge.predicted === predicted);
          return edges.length > 0 && (
            <section key={heading} aria-label={heading}>
              <h2>{heading}</h2>
              <ul class="steps">
                {edges.map((edge) => (
                  <li key={edge.key} onPointerEnter={() => mark(edge.other)} onPointerLeave={() => mark(null)} onFocusCapture={() => mark(edge.other)} onBlurCapture={() => mark(null)}>
                    <span class="step-relation">{edge.tail === edge.other ? "" : "← "}<a href={factLink(edge, edge.tail === edge.other ? "tail" : "head")}><RelationName name={edge.relation} label={edge.relationLabel} /></a>{edge.tail === edge.other ? " →" : ""}</span>
                    <EntityLink name={edge.other} label={edge.label} time={time} view="neighbourhood" />
                    {predicted && edge.p != null && <span class="number">{percent(edge.p)}</span>}
                  </li>
                ))}
              </ul>
            </section>
          );
        })}
      </aside>
    </div>
  );
}
