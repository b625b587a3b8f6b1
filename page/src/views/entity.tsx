// One entity: what is missing, best first, and what is known.
import { useState } from "preact/hooks";
import { get } from "../api";
import { useLoad } from "../hooks";
import { AnswerRow } from "../parts/answers";
import { Known } from "../parts/known";
import { RelationHeading } from "../parts/names";
import { Failure, Loading, Nothing } from "../parts/status";
import { TimeSlider } from "../parts/times";
import { link, swap } from "../router";
import { useShared } from "../store";
import { clean, count, shownName, some } from "../text";
import type { Answer, FactsOf, Suggestion, Suggestions } from "../types";

const PAGE = 100, FIRST = 6, ALL = 24;

export function EntityView({ name, time }: { name: string; time: string | null }) {
  const { about } = useShared();
  const facts = useLoad((signal) => get<FactsOf>("/facts", { entity: name, limit: PAGE }, signal), [name]);
  if (facts.error) return <div class="page narrow"><h1 tabIndex={-1}><bdi>{shownName(name)}</bdi></h1><Failure error={facts.error} again={facts.error.status === 400 ? undefined : facts.again} /></div>;
  const of = facts.data;
  const own = of?.entity ?? name;
  const title = shownName(own, of?.label);
  return (
    <div class="page entity-page">
      <div class="title">
        {of && of.types.length > 0 && <p class="types">{of.types.slice(0, 6).map((type) => <span key={type}><bdi>{clean(type, 60)}</bdi></span>)}</p>}
        <h1 tabIndex={-1} class={title.length > 60 ? "long" : ""}><bdi>{title}</bdi></h1>
        <p class="under">
          {title !== own && <code class="id"><bdi>{clean(own, 120)}</bdi></code>}
          {of && <span>{some(of.total, "known fact")}</span>}
          <a href={link("neighbourhood", { name: own, time })}>Neighbourhood</a>
          <a href={link("map", { name: own })}>On the map</a>
        </p>
        {of?.description && <p class="description"><bdi>{clean(of.description, 600)}</bdi></p>}
      </div>
      <div class="columns">
        <Missing key={own} name={own} time={time} times={about.times} />
        <section class="known-part" aria-labelledby="known-title">
          <h2 id="known-title">Known</h2>
          {of ? <Known key={own} first={of} /> : <Loading lines={8} what="Loading the known facts" />}
        </section>
      </div>
    </div>
  );
}

function Missing({ name, time, times }: { name: string; time: string | null; times: string[] | null }) {
  const { about } = useShared();
  const [most, setMost] = useState(FIRST);
  const found = useLoad((signal) => get<Suggestions>("/suggestions", { entity: name, k: 3, limit: ALL, time }, signal), [name, time], name);
  const now = time ?? found.data?.time ?? times?.[times.length - 1] ?? "";
  return (
    <section class={`missing-part ${found.busy && found.data ? "busy" : ""}`} aria-labelledby="missing-title" aria-busy={found.busy}>
      <h2 id="missing-title">Most likely missing</h2>
      {times && times.length > 1 && <TimeSlider times={times} time={now} label="Time of the suggestions" change={(to) => swap(link("entity", { name, time: to }))} />}
      {!about.calibrated && <p class="note">This run has no probabilities yet, only scores. <code>dura calibrate</code> adds them.</p>}
      {found.error && <Failure error={found.error} again={found.again} />}
      {!found.data && !found.error && <Loading lines={8} what="Asking the model" />}
      {found.data?.relations.length === 0 && <Nothing>The model suggests nothing here.</Nothing>}
      {found.data?.relations.slice(0, most).map((one) => <Group key={`${one.side} ${one.relation} ${found.data!.time ?? ""}`} name={name} label={found.data!.label} time={found.data!.time} suggestion={one} />)}
      {found.data && found.data.relations.length > most && <p class="rest"><button type="button" class="quiet" onClick={() => setMost(ALL)}>{count(found.data.relations.length - most)} more relations</button></p>}
    </section>
  );
}

const MORE = 20;

function Group({ name, label, time, suggestion: { relation, label: relationLabel, side, answers } }: { name: string; label: string; time?: string; suggestion: Suggestion }) {
  const [more, setMore] = useState<Answer[] | null>(null);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const asked = { name, label, relation, relationLabel, side, time };
  const show = async () => {
    setBusy(true);
    try {
      const question = side === "tail" ? { head: name } : { tail: name };
      setMore((await get<{ answers: Answer[] }>("/predict", { ...question, relation, time, k: MORE })).answers);
    } catch (error) {
      setFailed((error as Error).message);
    }
    setBusy(false);
  };
  // What was decided here stays in its place, though the service does not suggest it any more.
  const shown = more ? [...answers, ...more.filter((one) => !answers.some((old) => old.entity === one.entity))] : answers;
  return (
    <article class="group">
      <RelationHeading name={relation} label={relationLabel} side={side} />
      <ul class="answers">{shown.map((answer) => <AnswerRow key={answer.entity} asked={asked} answer={answer} />)}</ul>
      {!more && answers.length >= 3 && <button type="button" class="quiet more" disabled={busy} onClick={show}>More answers<span class="unseen"> for <bdi>{clean(relationLabel || relation, 60)}</bdi></span></button>}
      {failed && <p class="failed" role="alert"><bdi>{clean(failed, 200)}</bdi></p>}
    </article>
  );
}
