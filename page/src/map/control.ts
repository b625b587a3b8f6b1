// What moves the map: pointers, the wheel, keys, and the way to a chosen entity.
import type { Camera, Plot } from "./plot";

export function control(plot: Plot, stage: HTMLElement, choose: (i: number) => void) {
  const stop = new AbortController(), on = { signal: stop.signal };
  let asked = 0, flight = 0, rest: ReturnType<typeof setTimeout> | undefined;
  const many = plot.points.x.length > 8000;
  const draw = () => { asked = 0; plot.draw(); stage.dataset.frame = plot.took.toFixed(2); };
  const ask = () => { asked ||= requestAnimationFrame(draw); };
  const fill = (ratio = devicePixelRatio) => { reserve(); plot.resize(stage.clientWidth, stage.clientHeight, ratio); };
  /** While a large map moves, it is drawn in fewer pixels. As soon as it rests, in all of them. */
  const moving = () => {
    if (!many || devicePixelRatio <= 1) return;
    if (rest === undefined) fill(1);
    clearTimeout(rest);
    rest = setTimeout(() => { rest = undefined; fill(); draw(); }, 150);
  };
  const here = (event: MouseEvent): [number, number] => { const box = stage.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const halt = () => { cancelAnimationFrame(flight); flight = 0; };

  /** Names stay out of what lies on top of the map. */
  const reserve = () => {
    const home = stage.getBoundingClientRect();
    plot.reserved = [...(stage.parentElement?.querySelectorAll("[data-over]") ?? [])].map((element) => {
      const { left, top, right, bottom } = element.getBoundingClientRect();
      return [left - home.left - 4, top - home.top - 4, right - home.left + 4, bottom - home.top + 4];
    });
  };
  fill(); // a flight may begin before the observer tells the size
  const watch = new ResizeObserver(() => { fill(); draw(); });
  watch.observe(stage);

  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    halt();
    moving();
    plot.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0018)), ...here(event));
    ask();
  }, { ...on, passive: false });

  const pointers = new Map<number, [number, number]>();
  let moved = 0;
  stage.addEventListener("pointerdown", (event) => {
    halt();
    if (pointers.size === 0) moved = 0;
    pointers.set(event.pointerId, here(event));
    stage.setPointerCapture(event.pointerId);
  }, on);
  stage.addEventListener("pointermove", (event) => {
    const old = pointers.get(event.pointerId), at = here(event);
    if (!old) {
      const hovered = plot.at(...at, 12);
      if (hovered !== plot.hovered) { plot.hovered = hovered; stage.classList.toggle("over", hovered >= 0); ask(); }
      return;
    }
    moving();
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const by = Math.hypot(at[0] - other[0], at[1] - other[1]) / (Math.hypot(old[0] - other[0], old[1] - other[1]) || 1);
      plot.zoom(by, (at[0] + other[0]) / 2, (at[1] + other[1]) / 2);
    }
    const part = other ? 0.5 : 1;
    plot.pan(part * (at[0] - old[0]), part * (at[1] - old[1]));
    moved += Math.hypot(at[0] - old[0], at[1] - old[1]);
    pointers.set(event.pointerId, at);
    ask();
  }, on);
  const up = (event: PointerEvent) => {
    const held = pointers.delete(event.pointerId);
    if (!held || event.type !== "pointerup" || moved > 5 || pointers.size) return;
    const found = plot.at(...here(event), event.pointerType === "touch" ? 22 : 12);
    if (found >= 0) choose(found);
  };
  stage.addEventListener("pointerup", up, on);
  stage.addEventListener("pointercancel", up, on);
  stage.addEventListener("pointerleave", () => { if (plot.hovered >= 0) { plot.hovered = -1; ask(); } }, on);

  const step = (by: number) => { halt(); plot.zoom(by); ask(); };
  const all = () => { halt(); plot.camera = { x: 0, y: 0, k: plot.fitting }; ask(); };
  stage.addEventListener("keydown", (event) => {
    const push = 70, moves: Record<string, () => void> = {
      ArrowLeft: () => plot.pan(push, 0), ArrowRight: () => plot.pan(-push, 0), ArrowUp: () => plot.pan(0, push), ArrowDown: () => plot.pan(0, -push),
      "+": () => plot.zoom(1.4), "=": () => plot.zoom(1.4), "-": () => plot.zoom(1 / 1.4), 0: all, Escape: () => choose(-1),
    };
    const act = moves[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    halt();
    act();
    ask();
  }, on);

  /** Bring a point to the middle, near enough to tell it from others. */
  const fly = (i: number, slowly: boolean) => {
    halt();
    reserve();
    const from: Camera = { ...plot.camera }, near = Math.min(5, Math.max(1.2, Math.sqrt(plot.points.x.length) / 20));
    const k = Math.max(from.k, near * plot.fitting);
    // On a narrow screen the card is below: the point goes above it.
    const lift = stage.clientWidth < 860 ? (0.24 * stage.clientHeight) / k : 0;
    const to: Camera = { x: plot.points.x[i]!, y: plot.points.y[i]! - lift, k };
    if (!slowly) { plot.camera = to; ask(); return; }
    const began = performance.now();
    const go = (now: number) => {
      const t = Math.min(1, Math.max(0, (now - began) / 650)), ease = t < 0.5 ? 4 * t ** 3 : 1 - (-2 * t + 2) ** 3 / 2;
      moving();
      plot.camera = { x: from.x + (to.x - from.x) * ease, y: from.y + (to.y - from.y) * ease, k: from.k * (to.k / from.k) ** ease };
      draw();
      flight = t < 1 ? requestAnimationFrame(go) : 0;
    };
    flight = requestAnimationFrame(go);
  };
  return { ask, reserve, fly, step, all, end: () => { halt(); cancelAnimationFrame(asked); clearTimeout(rest); stop.abort(); watch.disconnect(); } };
}
