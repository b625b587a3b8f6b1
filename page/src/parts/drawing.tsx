// Why this answer, as a small drawing: the two entities, and between them what the answer rests on.
import { clean, isolated, percent, relationTitle, shownName, some } from "../text";
import type { Explanation, LabelledFact } from "../types";

type Kind = "known" | "similar";
interface Line { from: string; to: string; kind: Kind; labels: string[]; weight: number }
interface Mid { id: string; title: string }

const WIDE = 900, BOX = 190, LANE = 54, TOP = 86, HIGH = 34;
const HEAD = "\u0000head", TAIL = "\u0000tail";
const AT = { left: BOX / 2 + 2, mid: WIDE / 2, right: WIDE - BOX / 2 - 2 };
const MOST = 7;

const short = (text: string, longest: number): string => clean(text, longest);

/** The entities and lines of an explanation: a way for each rule, the strongest facts, the most similar entities. */
export function sketch(why: Explanation): { mids: Mid[]; lines: Line[] } {
  const { head, tail } = why.fact;
  const mids = new Map<string, Mid>(), lines = new Map<string, Line>();
  const place = (name: string, label?: string): string | null => {
    if (name === head) return HEAD;
    if (name === tail) return TAIL;
    if (!mids.has(name) && mids.size >= MOST) return null;
    if (!mids.has(name)) mids.set(name, { id: name, title: shownName(name, label) });
    return name;
  };
  const add = (from: string | null, to: string | null, label: string, kind: Kind, weight: number) => {
    if (!from || !to || from === to) return;
    const key = `${from}\u0000${to}\u0000${kind}`;
    const line = lines.get(key) ?? { from, to, kind, labels: [], weight: 0 };
    if (!line.labels.includes(label)) line.labels.push(label);
    line.weight = Math.max(line.weight, weight);
    lines.set(key, line);
  };
  const known = (fact: LabelledFact, weight: number) =>
    add(place(fact.head, fact.head_label), place(fact.tail, fact.tail_label), relationTitle(fact.relation, fact.relation_label), "known", weight);
  for (const rule of why.rules.slice(0, 2)) for (const fact of rule.facts[0] ?? []) known(fact, 0.6);
  const most = Math.max(...why.facts.map((fact) => fact.effect), 1e-9);
  for (const fact of why.facts.slice(0, 4)) known(fact, fact.effect / most);
  const relation = relationTitle(why.fact.relation, why.fact.relation_label);
  for (const one of why.similar.slice(0, 3)) {
    const id = place(one.entity, one.label);
    const [near, far] = why.side === "tail" ? [HEAD, TAIL] : [TAIL, HEAD];
    add(id, near, `similar ${one.similarity.toFixed(2)}`, "similar", 0.3);
    if (why.side === "tail") add(id, far, relation, "known", 0.4);
    else add(far, id, relation, "known", 0.4);
  }
  return { mids: [...mids.values()], lines: [...lines.values()] };
}

export function Drawing({ why, probability }: { why: Explanation; probability?: number | null }) {
  const { mids, lines } = sketch(why);
  const direct = lines.filter((line) => [line.from, line.to].every((end) => end === HEAD || end === TAIL));
  const lanes = mids.length + direct.length;
  const height = TOP + Math.max(1, lanes) * LANE;
  const middle = TOP + ((Math.max(1, lanes) - 1) * LANE) / 2 + 8;
  const y = new Map(mids.map((mid, i) => [mid.id, TOP + (direct.length + i) * LANE + 8]));
  const asked = relationTitle(why.fact.relation, why.fact.relation_label);
  const [head, tail] = [shownName(why.fact.head, why.fact.head_label), shownName(why.fact.tail, why.fact.tail_label)];
  const said = `${isolated(head)} ${isolated(asked)} ${isolated(tail)}: drawn with ${some(mids.length, "entity", "entities")} that it rests on. The lists below say the same in words.`;
  const title = `${short(asked, 46)}${probability == null ? "" : ` · ${percent(probability)}`}`;
  const arc = `M ${AT.left} ${middle - HIGH / 2} V 46 Q ${AT.left} 26 ${AT.left + 20} 26 H ${AT.right - 20} Q ${AT.right} 26 ${AT.right} 46 V ${middle - HIGH / 2 - 3}`;
  return (
    <div class="drawing" tabIndex={0} role="group" aria-label="Drawing of the reasons">
      <svg viewBox={`0 0 ${WIDE} ${height}`} role="img" aria-label={said}>
        <defs>
          {(["known", "asked"] as const).map((kind) => <marker key={kind} id={`tip-${kind}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path class={`tip ${kind}`} d="M0.5 0.8 7.2 4 0.5 7.2z" /></marker>)}
        </defs>
        <path class="line asked" d={arc} marker-end="url(#tip-asked)" />
        <rect class="asked-gap" x={WIDE / 2 - 4 * title.length - 8} y={14} width={8 * title.length + 16} height={24} />
        <text class="asked-label" x={WIDE / 2} y={31} text-anchor="middle">{title}</text>
        {direct.map((line, i) => <Direct key={i} line={line} y={TOP + i * LANE + 8} middle={middle} />)}
        {lines.filter((line) => !direct.includes(line)).map((line, i) => <Curve key={i} line={line} y={y} middle={middle} />)}
        <Box x={AT.left} y={middle} text={head} main />
        <Box x={AT.right} y={middle} text={tail} main />
        {mids.map((mid) => <Box key={mid.id} x={AT.mid} y={y.get(mid.id)!} text={mid.title} />)}
      </svg>
    </div>
  );
}

function Box({ x, y, text, main = false }: { x: number; y: number; text: string; main?: boolean }) {
  return (
    <g class={`box ${main ? "main" : ""}`}>
      <rect x={x - BOX / 2} y={y - HIGH / 2} width={BOX} height={HIGH} rx={HIGH / 2} />
      <text x={x} y={y + 4.5} text-anchor="middle">{short(text, main ? 22 : 25)}</text>
    </g>
  );
}

const label = (labels: string[]): string => (labels.length > 1 ? `${short(labels[0]!, 16)} +${labels.length - 1}` : short(labels[0] ?? "", 20));
const wide = (line: Line): number => 1 + 2 * line.weight;

/** A line between one of the two entities and one in the middle. */
function Curve({ line, y, middle }: { line: Line; y: Map<string, number>; middle: number }) {
  const side = [line.from, line.to].find((end) => end === HEAD || end === TAIL);
  const mid = line.from === side ? line.to : line.from;
  if (!side) { // between two entities in the middle
    const [a, b] = [y.get(line.from)!, y.get(line.to)!];
    return <path class={`line ${line.kind}`} d={`M ${AT.mid} ${a} V ${b}`} stroke-width={wide(line)} />;
  }
  const left = side === HEAD;
  const [a, b] = left ? [AT.left + BOX / 2 + 2, AT.mid - BOX / 2 - 3] : [AT.right - BOX / 2 - 2, AT.mid + BOX / 2 + 3];
  const at = y.get(mid)!, bend = (a + b) / 2;
  const tip = line.kind === "known" ? "url(#tip-known)" : undefined;
  const toMid = line.to === mid;
  return (
    <g>
      <path class={`line ${line.kind}`} d={`M ${a} ${middle} C ${bend} ${middle} ${bend} ${at} ${b} ${at}`} stroke-width={wide(line)} marker-end={toMid ? tip : undefined} marker-start={toMid ? undefined : tip} />
      <text class="line-label" x={bend + (b - bend) * 0.36} y={middle + (at - middle) * 0.86 + 3.5} text-anchor="middle">{label(line.labels)}</text>
    </g>
  );
}

/** A known fact between the two entities themselves. */
function Direct({ line, y, middle }: { line: Line; y: number; middle: number }) {
  const [a, b] = [AT.left + BOX / 2 + 2, AT.right - BOX / 2 - 2];
  const tip = "url(#tip-known)", right = line.to === TAIL;
  return (
    <g>
      <path class={`line ${line.kind}`} d={`M ${a} ${middle} C ${a + 90} ${middle} ${a + 60} ${y} ${AT.mid} ${y} S ${b - 90} ${middle} ${b} ${middle}`} stroke-width={wide(line)} marker-end={right ? tip : undefined} marker-start={right ? undefined : tip} />
      <text class="line-label" x={AT.mid} y={y + 3.5} text-anchor="middle">{line.labels.map((one) => short(one, 28)).slice(0, 2).join(", ")}</text>
    </g>
  );
}
