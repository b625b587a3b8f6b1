// Move and enlarge a drawing by pointer and wheel. The middle of the drawing is the middle of its box.
import { useEffect, useRef } from "preact/hooks";

export function usePanZoom() {
  const svg = useRef<SVGSVGElement>(null), layer = useRef<SVGGElement>(null);
  const view = useRef({ x: 0, y: 0, k: 1 });
  const toScene = (clientX: number, clientY: number): [number, number] => {
    const box = svg.current!.getBoundingClientRect(), { x, y, k } = view.current;
    return [(clientX - box.left - box.width / 2 - x) / k, (clientY - box.top - box.height / 2 - y) / k];
  };
  useEffect(() => {
    const element = svg.current!;
    const apply = () => {
      const { width, height } = element.getBoundingClientRect(), { x, y, k } = view.current;
      layer.current?.setAttribute("transform", `translate(${width / 2 + x},${height / 2 + y}) scale(${k})`);
    };
    const fit = () => {
      view.current = { x: 0, y: 0, k: 1 };
      apply();
    };
    const zoom = (event: WheelEvent) => {
      event.preventDefault();
      const { left, top, width, height } = element.getBoundingClientRect(), old = view.current;
      const k = Math.min(4, Math.max(0.25, old.k * Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016))));
      const [px, py] = [event.clientX - left - width / 2, event.clientY - top - height / 2];
      view.current = { k, x: px - ((px - old.x) * k) / old.k, y: py - ((py - old.y) * k) / old.k };
      apply();
    };
    const pointers = new Map<number, [number, number]>();
    const down = (event: PointerEvent) => { pointers.set(event.pointerId, [event.clientX, event.clientY]); element.setPointerCapture(event.pointerId); };
    const move = (event: PointerEvent) => {
      const old = pointers.get(event.pointerId);
      if (!old) return;
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const at: [number, number] = [event.clientX, event.clientY], other = others[0];
      if (other) {
        const by = Math.hypot(at[0] - other[0], at[1] - other[1]) / (Math.hypot(old[0] - other[0], old[1] - other[1]) || 1);
        view.current.k = Math.min(4, Math.max(0.25, view.current.k * by));
      } else { view.current.x += at[0] - old[0]; view.current.y += at[1] - old[1]; }
      pointers.set(event.pointerId, at);
      apply();
    };
    const up = (event: PointerEvent) => { pointers.delete(event.pointerId); };
    const watch = new ResizeObserver(fit);
    watch.observe(element);
    element.addEventListener("wheel", zoom, { passive: false });
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", up);
    element.addEventListener("pointercancel", up);
    return () => watch.disconnect();
  }, []);
  return { svg, layer, toScene };
}
