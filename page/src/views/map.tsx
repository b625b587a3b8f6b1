// The map: all entities in the plane, similar ones near each other.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { calm, useLoad } from "../hooks";
import { control } from "../map/control";
import { Plot, type Paint, type Points } from "../map/plot";
import { Icon } from "../parts/icons";
import { EntityLink, EntityName } from "../parts/names";
import { Search } from "../parts/search";
import { Failure, Loading } from "../parts/status";
import { go, link } from "../router";
import { useShared } from "../store";
import { clean, count, isolated, shownName, some } from "../text";
import type { Places } from "../types";

const KINDS = 7;
let kept: Promise<Places> | null = null; // the map has megabytes and does not change while the page is open

export function MapView({ name }: { name: string | null }) {
  const places = useLoad(() => (kept ??= get<Places>("/map").catch((error: unknown) => { kept = null; throw error; })), []);
  return (
    <div class="wide-page map-page">
      <h1 tabIndex={-1} class="unseen">Map of all entities</h1>
      {places.error && <Failure error={places.error} again={places.again} />}
      {!places.data && !places.error && <div class="stage"><Loading lines={3} what="Loading the map" /></div>}
      {places.data && <MapOf places={places.data} name={name} />}
    </div>
  );
}

/** The most frequent types, each with a colour; the rest shares the first one. */
function kindsOf(places: Places): { colour: Uint8Array; kinds: { type: string; number: number }[] } {
  const colour = new Uint8Array(places.entities.length), counts = new Map<string, number>();
  for (const type of places.types ?? []) if (type !== null) counts.set(type, (counts.get(type) ?? 0) + 1);
  const kinds = [...counts].sort((a, b) => b[1] - a[1]).slice(0, KINDS).map(([type, number]) => ({ type, number }));
  const at = new Map(kinds.map(({ type }, i) => [type, i + 1]));
  places.types?.forEach((type, i) => { colour[i] = type === null ? 0 : at.get(type) ?? 0; });
  return { colour, kinds };
}

function paintOf(typed: boolean): Paint {
  const style = getComputedStyle(document.documentElement), of = (name: string) => style.getPropertyValue(name).trim();
  const colours = [of(typed ? "--kind-0" : "--accent"), ...Array.from({ length: KINDS }, (_, i) => of(`--kind-${i + 1}`))];
  return { paper: of("--sunken"), ink: of("--ink"), muted: of("--soft"), mark: of("--mark"), colours, font: of("--sans") };
}

function MapOf({ places, name }: { places: Places; name: string | null }) {
  const { announce } = useShared();
  const stage = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null);
  const plot = useRef<Plot | null>(null), moves = useRef<ReturnType<typeof control> | null>(null);
  const [only, setOnly] = useState(-1);
  const { colour, kinds } = useMemo(() => kindsOf(places), [places]);
  const index = useMemo(() => new Map(places.entities.map((entity, i) => [entity, i])), [places]);
  const chosen = name === null ? -1 : index.get(name) ?? -1;
  const near = useLoad(async (signal) => (chosen < 0 ? [] : (await get<{ neighbours: { entity: string; label: string; similarity: number }[] }>("/neighbours", { entity: name, k: 6 }, signal)).neighbours), [name]);

  useEffect(() => {
    const most = Math.log1p(Math.max(...places.facts.slice(0, 60000), 1));
    const points: Points = {
      x: Float32Array.from(places.x), y: Float32Array.from(places.y), colour,
      size: Float32Array.from(places.facts, (n) => (places.entities.length > 3000 ? 1 : 2) + 2.4 * (Math.log1p(n) / most) ** 2),
      titles: places.entities.map((entity, i) => clean(shownName(entity, places.labels?.[i]), 34)),
    };
    const made = new Plot(canvas.current!, points);
    plot.current = made;
    const hands = control(made, stage.current!, (i) => go(link("map", { name: i < 0 ? null : places.entities[i] })));
    moves.current = hands;
    const recolour = () => { made.colours(paintOf(kinds.length > 0)); hands.ask(); };
    recolour();
    addEventListener("themechange", recolour);
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", recolour);
    return () => { hands.end(); removeEventListener("themechange", recolour); system.removeEventListener("change", recolour); };
  }, [places]);

  useEffect(() => {
    const now = plot.current!;
    now.selected = chosen;
    now.near = [];
    if (chosen >= 0) {
      moves.current!.fly(chosen, !calm());
      announce(`${isolated(shownName(name!, places.labels?.[chosen]))} is in the middle of the map`);
    } else moves.current!.ask();
  }, [chosen, places]);
  useEffect(() => {
    moves.current!.reserve();
    plot.current!.near = (near.data ?? []).map((one) => index.get(one.entity) ?? -1).filter((i) => i >= 0);
    moves.current!.ask();
  }, [near.data]);
  useEffect(() => { plot.current!.only = only; moves.current!.ask(); }, [only]);

  return (
    <>
      <div class="stage" ref={stage} role="application" tabIndex={0} aria-label={`Map of ${some(places.entities.length, "entity", "entities")}. Arrow keys move it, plus and minus enlarge it, 0 shows all of it. The search box finds an entity.`}>
        <canvas ref={canvas} aria-hidden="true" />
      </div>
      <div class="map-tools">
        <div data-over class="map-search"><Search slash choose={(found) => go(link("map", { name: found.entity }))} label="Find an entity on the map" placeholder="Find on the map" /></div>
        <div class="map-buttons" data-over>
          <button type="button" class="round" aria-label="Enlarge" onClick={() => moves.current?.step(1.8)}><Icon name="plus" /></button>
          <button type="button" class="round" aria-label="Make smaller" onClick={() => moves.current?.step(1 / 1.8)}><Icon name="minus" /></button>
          <button type="button" class="round" aria-label="Show all" onClick={() => moves.current?.all()}><Icon name="home" /></button>
        </div>
      </div>
      {name !== null && (
        <section class="map-card" data-over aria-label="Chosen entity">
          <button type="button" class="round close" aria-label="Close" onClick={() => go(link("map"))}><Icon name="cross" /></button>
          {chosen < 0 ? <p><bdi>{shownName(name)}</bdi> is not on this map.</p> : (
            <>
              {places.types?.[chosen] && <p class="types"><span><bdi>{clean(places.types[chosen]!, 50)}</bdi></span></p>}
              <h2><EntityName name={name} label={places.labels?.[chosen]} /></h2>
              <p class="under"><span>{some(places.facts[chosen]!, "fact")}</span><a href={link("entity", { name })}>Open</a><a href={link("neighbourhood", { name })}>Neighbourhood</a></p>
              {near.error && <Failure error={near.error} />}
              {near.data && near.data.length > 0 && <><h3>Most alike</h3><ul>{near.data.map((one) => <li key={one.entity}><EntityLink view="map" name={one.entity} label={one.label} /><span class="number">{one.similarity.toFixed(2)}</span></li>)}</ul></>}
            </>
          )}
        </section>
      )}
      <div class="map-foot" data-over>
        {kinds.length > 1 && (
          <ul class="kinds" aria-label="Types">
            {kinds.map(({ type }, i) => <li key={type}><button type="button" aria-pressed={only === i + 1} onClick={() => setOnly(only === i + 1 ? -1 : i + 1)}><i class={`kind kind-${i + 1}`} /><bdi>{clean(type, 28)}</bdi></button></li>)}
          </ul>
        )}
        <p>{some(places.entities.length, "entity", "entities")}{places.left_out ? ` of ${count(places.entities.length + places.left_out)}, those with most facts` : ""}. {places.method === "tsne" ? "Near each other: similar embeddings (t-SNE)." : <>A quick projection (PCA). <code>dura map</code> makes one that shows groups.</>}</p>
      </div>
    </>
  );
}
