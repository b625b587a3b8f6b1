// The drawing of a neighbourhood: forces hold it apart, the pointer drags it, a click walks on.
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, type Simulation } from "d3-force";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { calm } from "../hooks";
import { go, link } from "../router";
import { clean, percent, relationTitle, shownName } from "../text";
import type { Edge } from "../views/neighbourhood";
import { usePanZoom } from "./panzoom";

interface Node { id: string; title: string; x: number; y: number; vx?: number; vy?: number; fx?: number | null; fy?: number | null }
interface Link { edge: Edge; source: Node; target: Node }
interface Given { centre: string; label: string; edges: Edge[]; trail: string[]; time: string | null; marked: string | null }

export function Network({ centre, label, edges, trail, time, marked }: Given) {
  const kept = useRef(new Map<string, Node>());
  const seen = useRef(new Map<string, Edge>());
  const parts = useRef(new Map<string, SVGGElement>());
  const physics = useRef<Simulation<Node, undefined> | null>(null);
  const { svg, layer, toScene } = usePanZoom();
  const dragged = useRef(false), redraw = useRef(() => {});

  const { nodes, links } = useMemo(() => grow(kept.current, seen.current, { centre, label, edges, trail }), [centre, edges, trail.join("\n")]);

  useEffect(() => {
    const { width, height } = svg.current!.getBoundingClientRect(), spread = Math.min(1.1, Math.max(0.45, Math.min(width, height) / 720));
    const place = () => {
      // Nobody leaves the stage, so that no name is cut off.
      const [w, h] = [Math.max(60, width / 2 - 54), Math.max(60, height / 2 - 30)];
      for (const node of nodes) { node.x = Math.min(w, Math.max(-w, node.x)); node.y = Math.min(h - 10, Math.max(-h, node.y)); }
      for (const node of nodes) parts.current.get(`n ${node.id}`)?.setAttribute("transform", `translate(${node.x.toFixed(1)},${node.y.toFixed(1)})`);
      for (const one of links) drawLink(parts.current.get(one.edge.key), one);
    };
    physics.current?.stop();
    const flat = Math.min(3, Math.max(0.5, width / Math.max(1, height))); // a wide stage is filled in its width
    const work = forceSimulation<Node>(nodes)
      .force("link", forceLink<Node, Link>(links).distance((one) => spread * (one.edge.predicted ? 225 : 175)).strength(0.4))
      .force("charge", forceManyBody<Node>().strength(-1100 * spread).distanceMax(620))
      .force("collide", forceCollide<Node>((node) => spread * (26 + 1.9 * Math.min(26, node.title.length))))
      .force("x", forceX<Node>(0).strength((node) => (node.id === centre ? 0.6 : 0.03 / flat)))
      .force("y", forceY<Node>(0).strength((node) => (node.id === centre ? 0.6 : 0.03 * flat * flat)))
      .alphaDecay(0.045);
    physics.current = work;
    redraw.current = place;
    work.stop().tick(calm() ? 300 : 30);
    place();
    if (!calm()) work.on("tick", place).restart();
    return () => { work.stop(); };
  }, [nodes, links]);

  const drag = (node: Node) => (event: PointerEvent & { currentTarget: SVGGElement }) => {
    if (event.button !== 0) return;
    event.stopPropagation();
    const target = event.currentTarget, [x0, y0] = [event.clientX, event.clientY];
    dragged.current = false;
    const move = (at: PointerEvent) => {
      if (!dragged.current && Math.hypot(at.clientX - x0, at.clientY - y0) < 5) return;
      if (!dragged.current) { dragged.current = true; target.setPointerCapture(at.pointerId); }
      [node.fx, node.fy] = toScene(at.clientX, at.clientY);
      if (calm()) { [node.x, node.y] = [node.fx, node.fy]; redraw.current(); } // only what is dragged moves
      else physics.current?.alphaTarget(0.25).restart();
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      node.fx = node.fy = null;
      physics.current?.alphaTarget(0);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  };
  /** The list next to the drawing has a link to each of them, for keys and screen readers. */
  const walk = (node: Node) => { if (!dragged.current) go(link("neighbourhood", { name: node.id, time })); };
  const hold = (key: string) => (element: SVGGElement | null) => { if (element) parts.current.set(key, element); else parts.current.delete(key); };

  return (
    <svg ref={svg} class="network" aria-hidden="true">
      <g ref={layer}>
        {links.map(({ edge }) => (
          <g key={edge.key} ref={hold(edge.key)} class={`edge ${edge.predicted ? "predicted" : "known"} ${edge.head === centre || edge.tail === centre ? "" : "far"} ${marked && edge.other === marked ? "marked" : ""}`}>
            <path class="shaft" />
            <path class="point" d="M0 0 -8 -3.6 -8 3.6z" />
            <text dy="-5">{clean(relationTitle(edge.relation, edge.relationLabel), 24)}{edge.predicted && edge.p != null ? ` ${percent(edge.p)}` : ""}</text>
          </g>
        ))}
        {nodes.map((node) => (
          <g key={node.id} ref={hold(`n ${node.id}`)} class={`node ${node.id === centre ? "centre" : ""} ${marked === node.id ? "marked" : ""}`} onPointerDown={drag(node)} onClick={() => walk(node)}>
            <circle class="reach" r={24} /><circle class="disc" r={node.id === centre ? 9 : 6} />
            <text y={node.id === centre ? 27 : 22}>{clean(node.title, innerWidth < 760 ? 18 : 26)}</text>
          </g>
        ))}
      </g>
    </svg>
  );
}

/** The neighbours of the centre, the walked entities, and the edges between them. Who was there stays where it was. */
function grow(kept: Map<string, Node>, seen: Map<string, Edge>, { centre, label, edges, trail }: Pick<Given, "centre" | "label" | "edges" | "trail">) {
  const titles = new Map<string, string>([[centre, shownName(centre, label)]]);
  for (const edge of edges) { titles.set(edge.other, shownName(edge.other, edge.label)); seen.set(edge.key, edge); }
  for (const name of trail) if (kept.has(name) && !titles.has(name)) titles.set(name, kept.get(name)!.title);
  const from = kept.get(centre) ?? { x: 0, y: 0 };
  const nodes = [...titles].map(([id, title], i): Node => {
    const old = kept.get(id), turn = i * 2.399963; // the golden angle spreads new ones evenly
    return old ? { ...old, title, fx: null, fy: null } : { id, title, x: from.x + 60 * Math.cos(turn) + (id === centre ? 0 : 20), y: from.y + 60 * Math.sin(turn) };
  });
  kept.clear();
  for (const node of nodes) kept.set(node.id, node);
  const links: Link[] = [], pairs = new Set<string>();
  for (const edge of [...edges, ...[...seen.values()].filter((old) => !edges.includes(old))]) {
    const [source, target] = [kept.get(edge.head), kept.get(edge.tail)], pair = [edge.head, edge.tail].sort().join("\n");
    if (source && target && source !== target && !pairs.has(pair)) { pairs.add(pair); links.push({ edge, source, target }); }
  }
  const left = new Set(links.map((one) => one.edge.key));
  for (const key of [...seen.keys()]) if (!left.has(key)) seen.delete(key);
  return { nodes, links };
}

function drawLink(group: SVGGElement | undefined, { source, target }: Link): void {
  if (!group) return;
  const [dx, dy] = [target.x - source.x, target.y - source.y], far = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / far, dy / far], gap = 13;
  const [x1, y1, x2, y2] = [source.x + ux * gap, source.y + uy * gap, target.x - ux * gap, target.y - uy * gap];
  const [shaft, point, text] = group.children;
  shaft!.setAttribute("d", `M${x1.toFixed(1)} ${y1.toFixed(1)}L${x2.toFixed(1)} ${y2.toFixed(1)}`);
  const turn = (Math.atan2(dy, dx) * 180) / Math.PI;
  point!.setAttribute("transform", `translate(${x2.toFixed(1)},${y2.toFixed(1)}) rotate(${turn.toFixed(1)})`);
  const upright = Math.abs(turn) > 90 ? turn + 180 : turn;
  text!.setAttribute("transform", `translate(${((x1 + x2) / 2).toFixed(1)},${((y1 + y2) / 2).toFixed(1)}) rotate(${upright.toFixed(1)})`);
}
