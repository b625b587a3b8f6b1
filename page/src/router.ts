// Router: the view and what it shows are in the part of the address after #, so every view can be linked.
import { useEffect, useState } from "preact/hooks";

export interface Route { view: string; given: URLSearchParams }

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: path || "home", given: new URLSearchParams(query) };
}

export function link(view: string, given: Record<string, string | null | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(given)) if (value !== null && value !== undefined) query.set(key, value);
  const text = query.toString();
  return `#/${view === "home" ? "" : view}${text ? `?${text}` : ""}`;
}

export const go = (hash: string): void => { location.hash = hash; };

/** Change what a view shows without a new step in the history: for sliders. */
export function swap(hash: string): void {
  history.replaceState(null, "", hash);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => set(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
