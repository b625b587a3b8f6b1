// What all views share: what is served, and what was decided.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { About, Decision, Fact, Word } from "./types";

export interface Shared {
  about: About;
  decisions: ReadonlyMap<string, Decision>;
  /** Stores a decision; null takes it back. */
  decide: (fact: Fact, word: Word | null) => Promise<void>;
  announce: (sentence: string) => void;
}

export const Store = createContext<Shared | null>(null);

export function useShared(): Shared {
  const shared = useContext(Store);
  if (!shared) throw new Error("outside of the page");
  return shared;
}

export const keyOf = (fact: Fact): string => JSON.stringify([fact.head, fact.relation, fact.tail, fact.time ?? ""]);
