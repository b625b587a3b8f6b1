// Facts about the model and its data.
import type { ComponentChildren } from "preact";
import { get } from "../api";
import { useLoad } from "../hooks";
import { RelationName } from "../parts/names";
import { Failure, Loading, Nothing } from "../parts/status";
import { useShared } from "../store";
import { bytes, clean, count } from "../text";
import type { Relation } from "../types";

const MOST = 15;
const ORDER = ["mrr", "hits@1", "hits@3", "hits@10"];

export function ModelView() {
  const { about } = useShared();
  const { graph, facts, tables } = about;
  const labels = graph.labels.entities || graph.labels.relations ? `${count(graph.labels.entities)} of entities, ${count(graph.labels.relations)} of relations` : "none";
  return (
    <div class="page model">
      <h1 tabIndex={-1}>The model and its data</h1>
      <p class="lead"><Name text={about.model} /> of rank {count(about.rank)}, regularized by <Name text={about.regularizer} />, trained on <bdi>{clean(graph.name, 60)}</bdi>.</p>
      <dl class="figures">
        <Pair name="entities">{count(graph.entities)}</Pair>
        <Pair name="relations">{count(graph.relations)}</Pair>
        <Pair name="training facts">{count(facts.train)}</Pair>
        <Pair name="valid and test facts">{count(facts.valid)} + {count(facts.test)}</Pair>
        <Pair name="of tables">{bytes(tables.bytes)}</Pair>
      </dl>
      <div class="sheets">
        <div>
          <Results />
          <section aria-labelledby="data-title">
            <h2 id="data-title">Data</h2>
            <dl class="pairs">
              <Pair name="Run"><bdi>{clean(about.run ?? "in memory", 80)}</bdi></Pair>
              <Pair name="Times">{graph.times ? `${clean(graph.times[0] ?? "", 40)} to ${clean(graph.times[graph.times.length - 1] ?? "", 40)}` : "none"}</Pair>
              <Pair name="Labels">{labels}</Pair>
              <Pair name="Tables">{tables.dtype}{tables.sparse ? ", sparse" : ""}</Pair>
              <Pair name="Decisions">{count(about.reviews.accept)} accepted, {count(about.reviews.reject)} rejected</Pair>
              <Pair name="Version">dura {about.dura}</Pair>
            </dl>
          </section>
          <Settings />
        </div>
        <Relations />
      </div>
    </div>
  );
}

const Name = ({ text }: { text: string }) => <b><bdi>{clean(text, 40)}</bdi></b>;
const Pair = ({ name, children }: { name: string; children: ComponentChildren }) => <div><dt>{name}</dt><dd>{children}</dd></div>;

function Results() {
  const { about } = useShared();
  const rows = Object.entries(about.metrics ?? {}).filter(([, one]) => one !== null);
  return (
    <section aria-labelledby="results-title">
      <h2 id="results-title">How good it is</h2>
      {rows.length === 0 ? <Nothing>The run has no recorded results. <code>dura evaluate</code> adds them.</Nothing> : (
        <table>
          <thead><tr><th scope="col">Facts</th>{ORDER.map((key) => <th scope="col" key={key} class="number">{key === "mrr" ? "MRR" : key.replace("hits", "Hits")}</th>)}</tr></thead>
          <tbody>
            {rows.map(([split, one]) => (
              <tr key={split}><th scope="row">{split}</th>{ORDER.map((key) => <td key={key} class="number">{typeof one![key] === "number" ? (one![key] as number).toFixed(3) : "–"}</td>)}</tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="note">{about.calibrated ? "Answers have probabilities, fitted on the valid facts." : <>Answers have scores only. <code>dura calibrate</code> adds probabilities.</>}</p>
    </section>
  );
}

function Relations() {
  const found = useLoad((signal) => get<{ relations: Relation[] }>("/relations", {}, signal), []);
  const sorted = [...(found.data?.relations ?? [])].sort((a, b) => b.facts - a.facts);
  const most = sorted[0]?.facts ?? 1;
  return (
    <section aria-labelledby="relations-title">
      <h2 id="relations-title">Relations with most facts</h2>
      {found.error && <Failure error={found.error} again={found.again} />}
      {found.busy && !found.data && <Loading lines={6} />}
      <ol class="bars">
        {sorted.slice(0, MOST).map((one) => (
          <li key={one.relation}><span class="name"><RelationName name={one.relation} label={one.label} /></span><span class="bar" aria-hidden="true"><span style={{ width: `${(100 * one.facts) / most}%` }} /></span><span class="number">{count(one.facts)}</span></li>
        ))}
      </ol>
      {sorted.length > MOST && <p class="note">and {count(sorted.length - MOST)} more</p>}
    </section>
  );
}

const told = (value: unknown) => value !== "" && value !== null && !(Array.isArray(value) && value.length === 0);

function Settings() {
  const { about } = useShared();
  const sections = Object.entries(about.settings).filter((pair): pair is [string, Record<string, unknown>] => typeof pair[1] === "object" && pair[1] !== null && !Array.isArray(pair[1]));
  return (
    <section aria-labelledby="settings-title">
      <h2 id="settings-title">Settings</h2>
      {sections.map(([title, values]) => {
        const pairs = Object.entries(values).filter(([, value]) => told(value));
        return pairs.length > 0 && (
          <details key={title}>
            <summary>{title} <span>{typeof values.name === "string" ? clean(values.name, 40) : ""}</span></summary>
            <dl class="pairs">{pairs.map(([name, value]) => <Pair key={name} name={name}><bdi>{clean(typeof value === "object" ? JSON.stringify(value) : String(value), 120)}</bdi></Pair>)}</dl>
          </details>
        );
      })}
    </section>
  );
}
