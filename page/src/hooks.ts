import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./api";

export interface Loaded<T> { data: T | null; error: ApiError | null; busy: boolean; again: () => void }

/** What `load` brings. The last answer stays until the next one is there, unless `fresh` changes. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, needs: unknown[], fresh: unknown = needs[0]): Loaded<T> {
  const [state, set] = useState<{ data: T | null; error: ApiError | null; busy: boolean; of: unknown }>({ data: null, error: null, busy: true, of: fresh });
  const [turn, next] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    set((old) => ({ data: old.of === fresh ? old.data : null, error: null, busy: true, of: fresh }));
    load(stop.signal).then(
      (data) => { if (!stop.signal.aborted) set({ data, error: null, busy: false, of: fresh }); },
      (error: unknown) => {
        if (stop.signal.aborted) return;
        const said = error instanceof ApiError ? error : new ApiError(0, "The page failed to read this answer.");
        set((old) => ({ ...old, error: said, busy: false }));
      },
    );
    return () => stop.abort();
  }, [...needs, turn]);
  const current = state.of === fresh ? state : { data: null, error: null, busy: true };
  return { ...current, again: () => next(turn + 1) };
}

/** The value, but only after it has not changed for a while. */
export function useSettled<T>(value: T, wait: number): T {
  const [settled, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), wait);
    return () => clearTimeout(timer);
  }, [value, wait]);
  return settled;
}

/** The size of an element, which is told again whenever it changes. */
export function useSize<E extends HTMLElement>(): [{ current: E | null }, { width: number; height: number }] {
  const box = useRef<E>(null);
  const [size, set] = useState({ width: 0, height: 0 });
  useEffect(() => {
    if (!box.current) return undefined;
    const watch = new ResizeObserver(([entry]) => entry && set({ width: entry.contentRect.width, height: entry.contentRect.height }));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, size];
}

export const calm = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;
