// Text: names from a graph as they are shown. A graph may come from a stranger, so names are cut, cleaned and isolated.

const LONGEST = 140;

/** A name without control characters and not longer than a screen can show. */
export function clean(text: string, longest = LONGEST): string {
  // Cut before cleaning: a label may have a megabyte.
  const cut = text.length > 4 * longest ? text.slice(0, 4 * longest) : text;
  const plain = cut.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ");
  const points = Array.from(plain);
  return points.length > longest ? `${points.slice(0, longest - 1).join("").trimEnd()}…` : plain;
}

/** The name of an entity for people: its label, or its name with spaces for underscores. */
export function shownName(name: string, label?: string | null): string {
  const own = label && label !== name ? label : /\s/.test(name) ? name : name.replaceAll("_", " ");
  return clean(own).trim() || "(empty name)";
}

/** A relation in two parts: where it stands in a schema (/people/person/) and what it is called there (nationality). */
export function relationParts(name: string, label?: string | null): { place: string; title: string } {
  if (label && label !== name) return { place: "", title: clean(label).trim() || "(empty name)" };
  const at = Math.max(name.lastIndexOf("/"), name.lastIndexOf("#"));
  const place = at > 0 && at < name.length - 1 ? name.slice(0, at + 1) : "";
  const title = name.slice(place.length).replaceAll("_", " ");
  return { place: clean(place, 90), title: clean(title).trim() || "(empty name)" };
}

export const relationTitle = (name: string, label?: string | null): string => relationParts(name, label).title;

/** A name inside a sentence for screen readers and titles: its direction does not change that of the sentence. */
export const isolated = (text: string): string => `\u2068${text}\u2069`;

/** For titles of windows: without marks of direction at all. */
export const flat = (text: string): string => text.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]/g, "");

export function percent(p: number): string {
  if (p >= 0.995) return p >= 0.9995 ? ">99.9%" : `${(100 * p).toFixed(1)}%`;
  if (p >= 0.1) return `${Math.round(100 * p)}%`;
  return p >= 0.001 ? `${(100 * p).toFixed(1)}%` : "<0.1%";
}

const WHOLE = new Intl.NumberFormat("en");
export const count = (n: number): string => WHOLE.format(n);
export const some = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

export function bytes(n: number): string {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]] as const) if (n >= size) return `${(n / size).toFixed(n / size < 10 ? 1 : 0)} ${unit}`;
  return `${n} bytes`;
}
