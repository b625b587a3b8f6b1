// The beginning: one question, one box.
import { get } from "../api";
import { useLoad } from "../hooks";
import { EntityName } from "../parts/names";
import { Search } from "../parts/search";
import { Failure } from "../parts/status";
import { go, link } from "../router";
import { useShared } from "../store";
import { clean, count } from "../text";
import type { Found } from "../types";

export function Home() {
  const { about } = useShared();
  const start = useLoad((signal) => get<{ entities: Found[] }>("/entities", { query: "", limit: 12 }, signal), []);
  const { train, valid, test } = about.facts;
  const graph = clean(about.graph.name, 60);
  return (
    <div class="page home">
      <h1 tabIndex={-1}>What is missing in <bdi class="graph-name">{graph}</bdi>?</h1>
      <p class="lead">Choose an entity. You see what the graph knows about it, and what it most likely should know.</p>
      <Search large slash choose={(found) => go(link("entity", { name: found.entity }))} label="Find an entity" placeholder="Type the name of an entity" />
      <section aria-labelledby="begin">
        <h2 id="begin">Begin with</h2>
        {start.error && <Failure error={start.error} again={start.again} />}
        <ul class="chips">
          {start.data?.entities.map((one) => (
            <li key={one.entity}><a href={link("entity", { name: one.entity })}><EntityName name={one.entity} label={one.label} /> <span class="number"><span class="unseen">, </span>{count(one.facts)}<span class="unseen"> {one.facts === 1 ? "fact" : "facts"}</span></span></a></li>
          ))}
        </ul>
      </section>
      <dl class="figures">
        <div><dt>entities</dt><dd>{count(about.graph.entities)}</dd></div>
        <div><dt>relations</dt><dd>{count(about.graph.relations)}</dd></div>
        <div><dt>{train + valid + test === 1 ? "fact" : "facts"}</dt><dd>{count(train + valid + test)}</dd></div>
        {about.times && <div><dt>times</dt><dd>{count(about.times.length)}</dd></div>}
        {about.reviews.accept + about.reviews.reject > 0 && <div><dt>decisions</dt><dd>{count(about.reviews.accept + about.reviews.reject)}</dd></div>}
      </dl>
    </div>
  );
}
