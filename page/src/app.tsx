// The frame around the views: what is served, the way between views, and what they share.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, post } from "./api";
import { useLoad } from "./hooks";
import { Icon } from "./parts/icons";
import { Search } from "./parts/search";
import { Failure, Loading } from "./parts/status";
import { Token } from "./parts/token";
import { go, link, useRoute, type Route } from "./router";
import { keyOf, Store, type Shared } from "./store";
import { clean, flat } from "./text";
import { applyTheme, isDark } from "./theme";
import type { About, Decision, Fact, Word } from "./types";
import { DecisionsView } from "./views/decisions";
import { EntityView } from "./views/entity";
import { FactView } from "./views/fact";
import { Home } from "./views/home";
import { MapView } from "./views/map";
import { ModelView } from "./views/model";
import { NeighbourhoodView } from "./views/neighbourhood";

const NAV = [["home", "Explore"], ["map", "Map"], ["decisions", "Decisions"], ["model", "Model"]] as const;
const HOME = new Set(["home", "entity", "fact", "neighbourhood"]);

export function App() {
  const route = useRoute();
  const start = useLoad(async (signal) => {
    const about = await get<About>("/about", {}, signal);
    const { decisions } = await get<{ decisions: Decision[] }>("/reviews", {}, signal);
    return { about, decisions };
  }, []);
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("#content")?.focus(); }}>Skip to content</a>
      <Token />
      {start.data ? <Frame route={route} {...start.data} /> : (
        <>
          <Header route={route} />
          <main id="content" tabIndex={-1} class="page narrow">{start.error ? <><h1>dura</h1><Failure error={start.error} again={start.again} /></> : <><h1 class="unseen">dura</h1><Loading what="Opening the model" /></>}</main>
        </>
      )}
    </>
  );
}

function Frame({ route, about: first, decisions: known }: { route: Route; about: About; decisions: Decision[] }) {
  const [decisions, setDecisions] = useState(() => new Map(known.map((one) => [keyOf(one), one])));
  const [said, announce] = useState("");
  const [about, setAbout] = useState(first);
  const decide = useCallback(async (fact: Fact, word: Word | null) => {
    // A decision of somebody else may stand; who clicks here sees which one, so it may be changed.
    await post("/reviews", { decisions: [{ ...fact, decision: word ?? "withdraw" }], change: true });
    setDecisions((old) => {
      const now = new Map(old);
      if (word) now.set(keyOf(fact), { ...fact, decision: word });
      else now.delete(keyOf(fact));
      const counted = [...now.values()].filter((one) => one.decision === "accept").length;
      setAbout((was) => ({ ...was, reviews: { ...was.reviews, accept: counted, reject: now.size - counted } }));
      return now;
    });
  }, []);
  const shared = useMemo<Shared>(() => ({ about, decisions, decide, announce }), [about, decisions, decide]);
  useFocusOnNewView(route);
  return (
    <Store.Provider value={shared}>
      <Header route={route} />
      <main id="content" tabIndex={-1} key={route.view}><View route={route} /></main>
      <div class="unseen" role="status" aria-live="polite">{said}</div>
    </Store.Provider>
  );
}

function View({ route: { view, given } }: { route: Route }) {
  const name = given.get("name") ?? "", time = given.get("time");
  switch (view) {
    case "home": return <Home />;
    case "entity": return <EntityView name={name} time={time} />;
    case "neighbourhood": return <NeighbourhoodView name={name} time={time} />;
    case "fact": return <FactView head={given.get("head") ?? ""} relation={given.get("relation") ?? ""} tail={given.get("tail") ?? ""} time={time} side={given.get("side") === "head" ? "head" : "tail"} />;
    case "map": return <MapView name={given.get("name")} />;
    case "decisions": return <DecisionsView />;
    case "model": return <ModelView />;
    default: return <div class="page narrow"><h1 tabIndex={-1}>There is no such view</h1><p><a href={link("home")}>Explore the graph</a> instead.</p></div>;
  }
}

/** After a step to another view, the focus is on its title, so that a screen reader reads it. */
function useFocusOnNewView({ view, given }: Route) {
  const first = useRef(true);
  const what = given.get("name") ?? given.get("head") ?? "";
  useEffect(() => {
    const named = NAV.find(([one]) => one === view)?.[1] ?? "Explore";
    document.title = `${what ? clean(flat(what), 60) : named} · dura`;
    if (first.current) { first.current = false; return; }
    if (view === "neighbourhood" || view === "map") return; // a walk keeps its focus
    scrollTo(0, 0);
    document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
  }, [view, what]);
}

function Header({ route }: { route: Route }) {
  const { view } = route;
  const now = HOME.has(view) ? "home" : view;
  return (
    <header class="top">
      <a class="mark" href={link("home")} aria-label="dura, start"><svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true"><circle cx="8" cy="22" r="4.5" class="full" /><circle cx="24" cy="10" r="4.5" class="ring" /><path d="M12 19.2 20 13" class="dash" /></svg>dura</a>
      <nav aria-label="Views">
        {NAV.map(([to, title]) => <a key={to} href={link(to)} aria-current={now === to ? "page" : undefined}>{title}</a>)}
      </nav>
      {view !== "home" && view !== "map" && <Search slash choose={(found) => go(link("entity", { name: found.entity, time: route.given.get("time") }))} label="Find an entity" placeholder="Find an entity" />}
      <ThemeButton />
    </header>
  );
}

function ThemeButton() {
  const [dark, set] = useState(isDark);
  useEffect(() => {
    const changed = () => set(isDark());
    const system = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("themechange", changed);
    system.addEventListener("change", changed);
    return () => { removeEventListener("themechange", changed); system.removeEventListener("change", changed); };
  }, []);
  const turn = () => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches;
    applyTheme(dark === system ? (dark ? "light" : "dark") : "auto");
  };
  return <button type="button" class="round theme" onClick={turn} aria-label={dark ? "Light colours" : "Dark colours"} title={dark ? "Light colours" : "Dark colours"}><Icon name={dark ? "sun" : "moon"} /></button>;
}
