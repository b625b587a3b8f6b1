// One suggested fact: its probability, what was decided about it, and the way to the reasons.
import { useState } from "preact/hooks";
import { link } from "../router";
import { keyOf, useShared } from "../store";
import { clean, isolated, percent, relationTitle, shownName } from "../text";
import type { Answer, Fact, LabelledFact, Side, Word } from "../types";
import { Icon } from "./icons";
import { EntityLink } from "./names";

/** A bar and a number. Without calibration there is only a score, and no bar. */
export function Probability({ p, score }: { p?: number | null; score?: number }) {
  if (p === null || p === undefined) return <span class="chance plain"><span class="number">{score === undefined ? "" : `score ${score.toFixed(2)}`}</span></span>;
  return (
    <span class="chance">
      <span class="bar" aria-hidden="true"><span style={{ width: `${Math.max(2, 100 * p)}%` }} /></span>
      <span class="number">{percent(p)}</span>
    </span>
  );
}

const sentence = (fact: LabelledFact): string =>
  [shownName(fact.head, fact.head_label), relationTitle(fact.relation, fact.relation_label), shownName(fact.tail, fact.tail_label)].map(isolated).join(" ");

/** Accept and reject, or what was decided and a way back. */
export function Decide({ fact, wide = false }: { fact: LabelledFact; wide?: boolean }) {
  const { about, decisions, decide, announce } = useShared();
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const decision = decisions.get(keyOf(fact))?.decision;
  if (!about.reviews.writable) return null;
  const put = async (word: Word | null) => {
    setBusy(true);
    setFailed("");
    try {
      await decide(bare(fact), word);
      announce(word ? `${word === "accept" ? "Accepted" : "Rejected"}: ${sentence(fact)}` : `Taken back: ${sentence(fact)}`);
    } catch (error) {
      setFailed((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const said = failed && <span class="failed" role="alert"><bdi>{clean(failed, 200)}</bdi></span>;
  if (decision) {
    return (
      <span class={`decided ${decision}`}>
        <span class="verdict"><Icon name={decision === "accept" ? "check" : "cross"} />{decision === "accept" ? "Accepted" : "Rejected"}</span>
        <button type="button" class="quiet" disabled={busy} onClick={() => put(null)} aria-label={`Undo: ${sentence(fact)}`}>Undo</button>
        {said}
      </span>
    );
  }
  return (
    <span class={`decide ${wide ? "wide" : ""}`}>
      <button type="button" class="accept" disabled={busy} onClick={() => put("accept")} title="Accept" aria-label={`Accept: ${sentence(fact)}`}><Icon name="check" />{wide && "Accept"}</button>
      <button type="button" class="reject" disabled={busy} onClick={() => put("reject")} title="Reject" aria-label={`Reject: ${sentence(fact)}`}><Icon name="cross" />{wide && "Reject"}</button>
      {said}
    </span>
  );
}

export const bare = ({ head, relation, tail, time }: Fact): Fact => (time ? { head, relation, tail, time } : { head, relation, tail });

interface Asked { name: string; label: string; relation: string; relationLabel?: string; side: Side; time?: string | null }

export function factOf(asked: Asked, answer: Answer): LabelledFact {
  const own = [asked.name, asked.label] as const, other = [answer.entity, answer.label] as const;
  const [head, tail] = asked.side === "tail" ? [own, other] : [other, own];
  return { head: head[0], head_label: head[1], relation: asked.relation, relation_label: asked.relationLabel, tail: tail[0], tail_label: tail[1], time: asked.time ?? undefined };
}

export const factLink = (fact: Fact, side: Side = "tail"): string =>
  link("fact", { head: fact.head, relation: fact.relation, tail: fact.tail, time: fact.time, side: side === "head" ? side : null });

export function AnswerRow({ asked, answer }: { asked: Asked; answer: Answer }) {
  const fact = factOf(asked, answer);
  const { decisions } = useShared();
  const decision = decisions.get(keyOf(fact))?.decision;
  return (
    <li class={`answer ${decision ?? ""}`}>
      <EntityLink name={answer.entity} label={answer.label} time={asked.time} />
      {answer.contradicts && <span class="tag" title="The graph allows one answer here, and has another one.">contradicts</span>}
      <Probability p={answer.probability} score={answer.score} />
      <a class="why" href={factLink(fact, asked.side)} aria-label={`Why: ${sentence(fact)}`}>Why</a>
      <Decide fact={fact} />
    </li>
  );
}
