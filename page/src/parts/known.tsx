// The known facts of an entity, in groups by relation and side. Large entities have thousands: they come a page at a time.
import { useState } from "preact/hooks";
import { get } from "../api";
import { clean, count, relationTitle, some } from "../text";
import type { FactsOf, KnownFact, Side } from "../types";
import { EntityLink, RelationHeading } from "./names";
import { Nothing } from "./status";

interface Group { relation: string; label?: string; side: Side; facts: KnownFact[] }

export function grouped(entity: string, facts: KnownFact[]): Group[] {
  const groups = new Map<string, Group>();
  for (const fact of facts) {
    const side: Side = fact.head === entity ? "tail" : "head";
    const key = `${side} ${fact.relation}`;
    if (!groups.has(key)) groups.set(key, { relation: fact.relation, label: fact.relation_label, side, facts: [] });
    groups.get(key)!.facts.push(fact);
  }
  return [...groups.values()];
}

const FEW = 6;

export function Known({ first }: { first: FactsOf }) {
  const [facts, setFacts] = useState(first.facts);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const left = first.total - facts.length;
  const more = async () => {
    setBusy(true);
    setFailed("");
    try {
      const next = await get<FactsOf>("/facts", { entity: first.entity, offset: facts.length, limit: 200 });
      setFacts([...facts, ...next.facts]);
    } catch (error) {
      setFailed((error as Error).message);
    }
    setBusy(false);
  };
  if (first.total === 0) return <Nothing>The graph holds no fact about it.</Nothing>;
  return (
    <>
      {grouped(first.entity, facts).map((group) => <KnownGroup key={`${group.side} ${group.relation}`} group={group} entity={first.entity} />)}
      {left > 0 && (
        <p class="rest">
          <span>{count(facts.length)} of {some(first.total, "fact")}</span>
          <button type="button" class="quiet" disabled={busy} onClick={more}>Show {count(Math.min(200, left))} more</button>
        </p>
      )}
      {failed && <p class="failed" role="alert"><bdi>{clean(failed, 200)}</bdi></p>}
    </>
  );
}

/** The same pair may be known at many times: it is one line with its times. */
function lines(facts: KnownFact[], side: Side): { fact: KnownFact; name: string; label?: string; times: string[]; splits: Set<string> }[] {
  const found = new Map<string, ReturnType<typeof lines>[number]>();
  for (const fact of facts) {
    const name = side === "tail" ? fact.tail : fact.head;
    const line = found.get(name) ?? { fact, name, label: side === "tail" ? fact.tail_label : fact.head_label, times: [], splits: new Set<string>() };
    if (fact.time) line.times.push(fact.end && fact.end !== fact.begin ? `${fact.begin ?? "…"} – ${fact.end}` : fact.time);
    line.splits.add(fact.split);
    found.set(name, line);
  }
  return [...found.values()];
}

function KnownGroup({ group, entity }: { group: Group; entity: string }) {
  const [open, setOpen] = useState(false);
  const all = lines(group.facts, group.side);
  const shown = open ? all : all.slice(0, FEW);
  return (
    <article class="group known">
      <RelationHeading name={group.relation} label={group.label} side={group.side} />
      <ul>
        {shown.map((line) => (
          <li key={line.name}>
            {line.name === entity ? <span class="self">itself</span> : <EntityLink name={line.name} label={line.label} />}
            {line.times.length > 0 && <span class="time">{line.times.slice(0, 3).map((time) => clean(time, 50)).join(", ")}{line.times.length > 3 && ` and ${count(line.times.length - 3)} more`}</span>}
            {!line.splits.has("train") && <span class="tag" title="The model was not trained with this fact.">{[...line.splits].join(", ")}</span>}
          </li>
        ))}
      </ul>
      {all.length > FEW && (
        <button type="button" class="quiet more" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Fewer" : `${count(all.length - FEW)} more`}<span class="unseen"> of <bdi>{relationTitle(group.relation, group.label)}</bdi></span>
        </button>
      )}
    </article>
  );
}
