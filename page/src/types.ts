// What the service answers; docs/reference/service.md describes it.

export interface About {
  dura: string;
  run: string | null;
  model: string;
  rank: number;
  regularizer: string;
  graph: { name: string; entities: number; relations: number; times: string[] | null; labels: { entities: number; relations: number } };
  tables: { sparse: boolean; dtype: string; bytes: number };
  calibrated: boolean;
  facts: { train: number; valid: number; test: number };
  metrics: Record<string, Metrics | null> | null;
  settings: Record<string, unknown>;
  reviews: { writable: boolean; accept: number; reject: number };
  times: string[] | null;
  no_time?: boolean;
  intervals?: boolean;
}
export type Metrics = Record<string, unknown>;
export interface Found { entity: string; label: string; types: string[]; facts: number; match: "exact" | "prefix" | "word" | "fuzzy" }
export interface Relation { relation: string; label: string; facts: number }
export interface Fact { head: string; relation: string; tail: string; time?: string | null }
export interface LabelledFact extends Fact { head_label?: string; relation_label?: string; tail_label?: string }
export interface KnownFact extends LabelledFact { split: "train" | "valid" | "test"; begin?: string | null; end?: string | null }
export interface FactsOf { entity: string; label: string; types: string[]; description: string | null; total: number; facts: KnownFact[] }
export type Side = "tail" | "head";
export interface Answer { entity: string; label: string; score: number; rank: number; known: boolean; probability?: number | null; contradicts?: boolean }
export interface Suggestion { relation: string; label: string; side: Side; own?: boolean; share?: number; answers: Answer[] }
export interface Suggestions { entity: string; label: string; time?: string; relations: Suggestion[] }
export interface Scored extends LabelledFact { score: number; known: boolean; probability?: number | null }
export interface Influence extends LabelledFact { effect: number }
export interface Rule { text: string; support: number; times: number; confidence: number; sampled: boolean; facts: LabelledFact[][] }
export interface Explanation {
  fact: LabelledFact; side: Side; score: number; rank: number; known: boolean;
  facts: Influence[]; against: Influence[]; looked_at: number; left_out: number;
  similar: { entity: string; label: string; similarity: number }[]; rules: Rule[]; no_facts: string;
}
export interface Moment { time: string; score: number; share: number; known: boolean }
export interface Places { method: "pca" | "tsne"; entities: string[]; labels: string[] | null; types: (string | null)[] | null; x: number[]; y: number[]; facts: number[]; left_out?: number }
export type Word = "accept" | "reject";
export interface Decision extends LabelledFact { decision: Word; trained?: boolean }
