// What people decided, and a way to take it back.
import { useState } from "preact/hooks";
import { post } from "../api";
import { useLoad } from "../hooks";
import { Decide, factLink } from "../parts/answers";
import { EntityLink, RelationName } from "../parts/names";
import { Nothing } from "../parts/status";
import { keyOf, useShared } from "../store";
import { clean, count, some } from "../text";
import type { Decision, LabelledFact } from "../types";

const MOST = 200;
type Question = { question?: LabelledFact };

/** The labels of these facts: a question repeats what it asks by name and label. */
async function labelsOf(facts: Decision[]): Promise<LabelledFact[]> {
  if (!facts.length) return [];
  const questions = facts.flatMap(({ head, relation, tail, time }) => [{ head, relation, time }, { relation, tail, time }]);
  const { questions: asked } = await post<{ questions: Question[] }>("/predict", { questions, k: 1 });
  return facts.map((fact, i) => ({ ...fact, ...asked[2 * i]?.question, ...asked[2 * i + 1]?.question }));
}

export function DecisionsView() {
  const { about, decisions } = useShared();
  // Lines stay when they are taken back, so that this can be undone too.
  const [all] = useState<Decision[]>(() => [...decisions.values()].reverse());
  const shown = all.slice(0, MOST);
  const labels = useLoad(() => labelsOf(shown), []);
  const { accept, reject, writable } = about.reviews;
  return (
    <div class="page narrow decisions">
      <h1 tabIndex={-1}>Decisions</h1>
      <p class="lead">{accept + reject ? `${some(accept, "fact is", "facts are")} accepted, and ${count(reject)} rejected.` : "Nothing has been decided yet."} {writable ? <>Decisions are kept in the run folder. <code>dura train --reviews</code> trains with them.</> : "This service is read only: it takes no decisions."}</p>
      {all.length === 0 && writable && <Nothing>Accept or reject a suggestion, and it appears here.</Nothing>}
      <ul class="decision-list">
        {shown.map((one, i) => {
          const fact = labels.data?.[i] ?? one;
          return (
            <li key={keyOf(one)}>
              <p><EntityLink name={fact.head} label={fact.head_label} /> <a class="relation-link" href={factLink(one)}><RelationName name={fact.relation} label={fact.relation_label} /></a> <EntityLink name={fact.tail} label={fact.tail_label} />{fact.time && <span class="time">{clean(fact.time, 40)}</span>}</p>
              <Decide fact={fact} />
            </li>
          );
        })}
      </ul>
      {all.length > MOST && <Nothing>Only the newest {count(MOST)} of {count(all.length)} are shown.</Nothing>}
    </div>
  );
}
