// Times: a slider over all times of the graph, and a strip that shows when a fact is likely.
import { useEffect, useState } from "preact/hooks";
import { useSettled, useSize } from "../hooks";
import { clean, some } from "../text";
import type { Moment } from "../types";
import { Icon } from "./icons";

interface SliderGiven { times: string[]; time: string; change: (time: string) => void; label: string; bare?: boolean }

export function TimeSlider({ times, time, change, label, bare = false }: SliderGiven) {
  const at = Math.max(0, times.indexOf(time));
  const [place, setPlace] = useState(at);
  useEffect(() => setPlace(at), [at]);
  const settled = useSettled(place, 160);
  useEffect(() => {
    const wanted = times[settled];
    if (settled === place && wanted !== undefined && wanted !== time) change(wanted);
  }, [settled]);
  const step = (by: number) => setPlace(Math.min(times.length - 1, Math.max(0, place + by)));
  const shown = clean(times[place] ?? "", 40);
  return (
    <div class={`times ${bare ? "bare" : ""}`}>
      <button type="button" class="round" aria-label="Earlier" onClick={() => step(-1)} disabled={place === 0}><Icon name="left" /></button>
      <input type="range" min={0} max={times.length - 1} step={1} value={place} aria-label={label} aria-valuetext={shown} onInput={(event) => setPlace(Number(event.currentTarget.value))} />
      <button type="button" class="round" aria-label="Later" onClick={() => step(1)} disabled={place === times.length - 1}><Icon name="right" /></button>
      <output class="now">{shown}</output>
    </div>
  );
}

interface Bucket { share: number; best: number; known: boolean }

/** At most one bar for every three pixels: the likeliest time of each part counts. */
function buckets(moments: Moment[], width: number): Bucket[] {
  const number = Math.min(moments.length, Math.max(40, Math.floor(width / 3)));
  const parts: Bucket[] = Array.from({ length: number }, () => ({ share: -1, best: 0, known: false }));
  moments.forEach((moment, i) => {
    const part = parts[Math.floor((i * number) / moments.length)]!;
    if (moment.share > part.share) { part.share = moment.share; part.best = i; }
    part.known ||= moment.known;
  });
  return parts;
}

const HEIGHT = 96, FOOT = 18;

export function Strip({ moments, time, choose }: { moments: Moment[]; time: string | null; choose: (time: string) => void }) {
  const [box, { width }] = useSize<HTMLDivElement>();
  const parts = buckets(moments, width || 600);
  const most = Math.max(...moments.map((moment) => moment.share), 1e-12);
  const best = moments.reduce((a, b) => (b.share > a.share ? b : a));
  const known = moments.filter((moment) => moment.known);
  const step = (width || 600) / parts.length;
  const at = time === null ? -1 : moments.findIndex((moment) => moment.time === time);
  const said = `Most likely at ${clean(best.time, 40)}. ${known.length ? `Known at ${some(known.length, "time")}.` : "Not known at any time."}`;
  const choosePlace = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const { left, width: wide } = event.currentTarget.getBoundingClientRect();
    const part = parts[Math.min(parts.length - 1, Math.max(0, Math.floor(((event.clientX - left) / wide) * parts.length)))]!;
    choose(moments[part.best]!.time);
  };
  return (
    <figure class="strip">
      <div ref={box}>
        <svg width="100%" height={HEIGHT + FOOT} role="img" aria-label={said} onClick={choosePlace}>
          {parts.map((part, i) => {
            const high = Math.max(1.5, (part.share / most) * (HEIGHT - 6));
            const here = at >= 0 && Math.floor((at * parts.length) / moments.length) === i;
            return (
              <g key={i}>
                <rect class={`likely ${here ? "here" : ""}`} x={i * step + step * 0.1} y={HEIGHT - high} width={Math.max(0.8, step * 0.8)} height={high} rx={Math.min(1.5, step / 3)} />
                {part.known && <circle class="known" cx={(i + 0.5) * step} cy={HEIGHT + 9} r={Math.min(3, Math.max(1.6, step / 2))} />}
                <title>{clean(moments[part.best]!.time, 40)}</title>
              </g>
            );
          })}
          <line class="base" x1="0" x2="100%" y1={HEIGHT + 0.5} y2={HEIGHT + 0.5} />
        </svg>
        <div class="ends" aria-hidden="true"><span>{clean(moments[0]!.time, 40)}</span><span>{clean(moments[moments.length - 1]!.time, 40)}</span></div>
      </div>
      <figcaption>{said} {known.length > 0 && <span class="legend"><i class="dot" /> known</span>}</figcaption>
    </figure>
  );
}
