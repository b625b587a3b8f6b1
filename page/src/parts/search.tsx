// A box to type an entity into, with completion (the combobox pattern of ARIA).
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { useSettled } from "../hooks";
import { clean, isolated, shownName, some } from "../text";
import type { Found } from "../types";
import { Icon } from "./icons";
import { EntityName } from "./names";

interface Given {
  choose: (found: Found) => void;
  label: string;
  placeholder?: string;
  large?: boolean;
  /** The key / moves the focus here. */
  slash?: boolean;
}

export function Search({ choose, label, placeholder = "Type a name", large = false, slash = false }: Given) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [found, setFound] = useState<{ query: string; entities: Found[] } | null>(null);
  const [failed, setFailed] = useState("");
  const [active, setActive] = useState(-1);
  const query = useSettled(text, 90);

  useEffect(() => {
    if (!open) return undefined;
    const stop = new AbortController();
    get<{ entities: Found[] }>("/entities", { query, limit: 9 }, stop.signal).then(
      ({ entities }) => { setFound({ query, entities }); setFailed(""); setActive(query && entities.length ? 0 : -1); },
      (error: Error) => { if (!stop.signal.aborted) { setFailed(error.message); setFound(null); } },
    );
    return () => stop.abort();
  }, [query, open]);

  useEffect(() => {
    if (!slash) return undefined;
    const pressed = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || at.closest("input, textarea, select, dialog")) return;
      event.preventDefault();
      input.current?.focus();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [slash]);

  const entities = open && found ? found.entities : [];
  const take = (one: Found | undefined) => {
    if (!one) return;
    setText("");
    setOpen(false);
    setActive(-1);
    choose(one);
  };
  const pressed = (event: KeyboardEvent) => {
    const last = entities.length - 1;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) return setOpen(true);
      const step = event.key === "ArrowDown" ? 1 : -1;
      setActive(active + step > last ? 0 : active + step < 0 ? last : active + step);
    } else if (event.key === "Enter") {
      event.preventDefault();
      // The list may belong to an older text: then ask for the new one.
      if (found?.query === text) take(entities[Math.max(0, active)]);
      else if (text) get<{ entities: Found[] }>("/entities", { query: text, limit: 1 }).then(({ entities: [first] }) => take(first), (error: Error) => setFailed(error.message));
    } else if (event.key === "Escape") {
      if (open) event.stopPropagation();
      setOpen(false);
      setActive(-1);
    }
    return undefined;
  };

  const stale = found !== null && found.query !== query;
  const nothing = open && found !== null && !stale && entities.length === 0;
  return (
    <div class={`search ${large ? "large" : ""}`} role="search">
      <Icon name="search" />
      <input
        ref={input} type="text" role="combobox" autocomplete="off" autocapitalize="off" spellcheck={false} maxLength={900}
        aria-label={label} aria-autocomplete="list" aria-expanded={entities.length > 0} aria-controls={`${id}-list`}
        aria-activedescendant={active >= 0 && entities[active] ? `${id}-${active}` : undefined}
        placeholder={placeholder} value={text}
        onInput={(event) => { setText(event.currentTarget.value); setOpen(true); }}
        onFocus={() => setOpen(true)} onBlur={() => { setOpen(false); setActive(-1); }} onKeyDown={pressed}
      />
      {slash && <kbd aria-hidden="true">/</kbd>}
      <ul id={`${id}-list`} role="listbox" aria-label="Entities" class="options" hidden={entities.length === 0}>
        {entities.map((one, i) => (
          <li
            key={one.entity} id={`${id}-${i}`} role="option" aria-selected={i === active}
            onPointerDown={(event) => event.preventDefault()} onClick={() => take(one)}
          >
            <span class="what"><EntityName name={one.entity} label={one.label} /> {one.types[0] && <span class="type"><bdi>{clean(one.types[0], 40)}</bdi></span>}</span>
            <span class="number">{some(one.facts, "fact")}</span>
          </li>
        ))}
      </ul>
      {nothing && <p class="options none">No entity is called <bdi>{clean(query, 60)}</bdi>.</p>}
      {failed && open && <p class="options none"><bdi>{clean(failed, 200)}</bdi></p>}
      <span class="unseen" role="status">
        {open && found && !stale ? (entities.length ? `${some(entities.length, "entity", "entities")}, first ${isolated(shownName(entities[0]!.entity, entities[0]!.label))}` : "nothing found") : ""}
      </span>
    </div>
  );
}
