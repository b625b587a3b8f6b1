// One fact: how likely it is, when, and why.
import type { ComponentChildren } from "preact";
import { get } from "../api";
import { useLoad } from "../hooks";
import { Decide, factLink, Probability } from "../parts/answers";
import { Drawing } from "../parts/drawing";
import { EntityLink, EntityName, RelationName } from "../parts/names";
import { Failure, Loading, Nothing } from "../parts/status";
import { Strip, TimeSlider } from "../parts/times";
import { link, swap } from "../router";
import { useShared } from "../store";
import { clean, count, relationTitle, some } from "../text";
import type { Answer, Explanation, Influence, LabelledFact, Moment, Side } from "../types";

interface Given { head: string; relation: string; tail: string; time: string | null; side: Side }

export function FactView({ head, relation, tail, time: given, side }: Given) {
  const { about } = useShared();
  const time = given ?? (about.times && !about.no_time ? about.times[about.times.length - 1]! : null);
  const fact = { head, relation, tail, time };
  const same = `${head}\n${relation}\n${tail}`;
  // The probability of the answer to a question, as in the list of suggestions; that of /score has another meaning.
  const score = useLoad(async (signal) => {
    const question = side === "tail" ? { head, among: tail } : { tail, among: head };
    return (await get<{ answers: Answer[] }>("/predict", { ...question, relation, time, known: "true", k: 1 }, signal)).answers[0] ?? null;
  }, [head, relation, tail, time, side], same);
  const why = useLoad((signal) => get<Explanation>("/explain", { ...fact, side, k: 5 }, signal), [head, relation, tail, time, side], same);
  const named: LabelledFact = { ...fact, ...why.data?.fact };
  const sentence = <><EntityLink name={named.head} label={named.head_label} time={given} /> <span class="verb"><RelationName name={named.relation} label={named.relation_label} /></span> <EntityLink name={named.tail} label={named.tail_label} time={given} /></>;
  if (score.error) return <div class="page narrow"><h1 tabIndex={-1}>This fact</h1><Failure error={score.error} /></div>;
  return (
    <div class="page fact-page">
      <h1 tabIndex={-1} class="sentence">{sentence}</h1>
      <div class="under">
        {score.data ? (
          <>
            {score.data.known ? <span class="tag strong">known</span> : <Probability p={score.data.probability} score={score.data.score} />}
            {why.data && !score.data.known && <span>rank {count(why.data.rank)} as the {side}</span>}
            {!score.data.known && <Decide fact={named} wide />}
          </>
        ) : <Loading lines={1} />}
      </div>
      {about.times && time !== null && <When fact={fact} time={time} side={side} times={about.times} />}
      <section class={why.busy && why.data ? "busy" : ""} aria-labelledby="why-title" aria-busy={why.busy}>
        <h2 id="why-title">Why</h2>
        {why.error && <Failure error={why.error} again={why.again} />}
        {!why.data && !why.error && <Loading lines={6} what="Looking for reasons" />}
        {why.data && <Reasons why={why.data} probability={score.data?.known ? null : score.data?.probability} />}
      </section>
    </div>
  );
}

function When({ fact, time, side, times }: { fact: { head: string; relation: string; tail: string }; time: string; side: Side; times: string[] }) {
  const { head, relation, tail } = fact;
  const found = useLoad((signal) => get<{ times: Moment[] }>("/times", { head, relation, tail }, signal), [head, relation, tail], `${head}\n${relation}\n${tail}`);
  const choose = (to: string) => swap(factLink({ ...fact, time: to }, side));
  return (
    <section aria-labelledby="when-title">
      <h2 id="when-title">When it is likely</h2>
      {found.error && <Failure error={found.error} again={found.again} />}
      {!found.data && !found.error && <Loading lines={3} what="Asking for every time" />}
      {found.data && found.data.times.length > 0 && <Strip moments={found.data.times} time={time} choose={choose} />}
      {times.length > 1 && <TimeSlider times={times} time={time} label="Time of the fact" change={choose} />}
    </section>
  );
}

function Reasons({ why, probability }: { why: Explanation; probability?: number | null }) {
  const nothing = why.facts.length + why.similar.length + why.rules.length === 0;
  if (nothing && !why.no_facts) return <Nothing>No training fact, similar entity or rule supports this answer.</Nothing>;
  return (
    <>
      {!nothing && <Drawing why={why} probability={probability} />}
      {!nothing && <p class="legend-line" aria-hidden="true"><span class="swatch asked" /> asked <span class="swatch known" /> known <span class="swatch similar" /> similar</p>}
      <div class="reasons">
        {why.rules.length > 0 && (
          <Reason title="Rules that lead to it">
            {why.rules.map((rule) => <li key={rule.text}><p class="rule" title={clean(rule.text, 600)}><bdi>{clean(readable(rule.text), 260)}</bdi></p><p class="note">right {count(rule.support)} of {some(rule.times, rule.sampled ? "sampled time" : "time")}</p></li>)}
          </Reason>
        )}
        {why.no_facts && <p class="note">The influence of training facts is not known: <bdi>{clean(why.no_facts, 200)}</bdi></p>}
        {why.facts.length > 0 && <Reason title="Training facts it depends on">{why.facts.map((fact, i) => <Effect key={i} fact={fact} />)}</Reason>}
        {why.similar.length > 0 && (
          <Reason title="Similar entities with the same answer">
            {why.similar.map((one) => <li key={one.entity} class="near"><EntityLink name={one.entity} label={one.label} /><span class="number">{one.similarity.toFixed(2)}</span></li>)}
          </Reason>
        )}
        {why.against.length > 0 && <Reason title="Training facts that speak against it">{why.against.map((fact, i) => <Effect key={i} fact={fact} />)}</Reason>}
      </div>
      {why.left_out > 0 && <p class="note">{some(why.left_out, "training fact")} of these entities {why.left_out === 1 ? "was" : "were"} not looked at.</p>}
    </>
  );
}

/** A rule with the titles of its relations instead of their whole names: nationality(x, y) for /people/person/nationality(x, y). */
const readable = (text: string): string => text.replace(/\S+(?=\()/g, (name) => relationTitle(name));

const Reason = ({ title, children }: { title: string; children: ComponentChildren }) => <section class="reason"><h3>{title}</h3><ul>{children}</ul></section>;

const Effect = ({ fact }: { fact: Influence }) => (
  <li class="effect">
    <a href={link("fact", { head: fact.head, relation: fact.relation, tail: fact.tail, time: fact.time })}>
      <EntityName name={fact.head} label={fact.head_label} /> <span class="verb"><RelationName name={fact.relation} label={fact.relation_label} /></span> <EntityName name={fact.tail} label={fact.tail_label} />
    </a>
    {fact.time && <span class="time">{clean(fact.time, 40)}</span>}
    <span class="number">{fact.effect > 0 ? "+" : "−"}{Math.abs(fact.effect).toFixed(3)}</span>
  </li>
);
