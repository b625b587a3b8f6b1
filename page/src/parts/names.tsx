// Names of entities and relations. Each is isolated, so that marks of direction inside it change nothing around it.
import { link } from "../router";
import { clean, relationParts, relationTitle, shownName } from "../text";

interface Named { name: string; label?: string | null }

export const EntityName = ({ name, label }: Named) => <bdi class="entity">{shownName(name, label)}</bdi>;

export const EntityLink = ({ name, label, time, view = "entity" }: Named & { time?: string | null; view?: string }) => (
  <a class="entity-link" href={link(view, { name, time })} title={clean(name, 200)}><EntityName name={name} label={label} /></a>
);

/** The title of a relation; the whole name is in the tooltip. */
export const RelationName = ({ name, label }: Named) => <bdi class="relation" title={clean(name, 200)}>{relationTitle(name, label)}</bdi>;

/** A relation as a heading: the place in its schema is above its title, in small letters. */
export function RelationHeading({ name, label, side }: Named & { side: "tail" | "head" }) {
  const { place, title } = relationParts(name, label);
  return (
    <h3 class="relation-heading" title={clean(name, 200)}>
      {place && <span class="place"><bdi>{place}</bdi></span>}
      <span>
        {side === "head" && <Arrow back />}
        <bdi>{title}</bdi>
        {side === "tail" && <Arrow />}
      </span>
    </h3>
  );
}

/** From the entity of the page to the answers, or from the answers to it. */
export const Arrow = ({ back = false }: { back?: boolean }) => (
  <>
    <span class="arrow" aria-hidden="true">{back ? "←" : "→"}</span>
    <span class="unseen">{back ? " (it is the tail) " : " "}</span>
  </>
);
