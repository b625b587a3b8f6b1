// Loading, failure and nothing: each says so in a sentence.
import type { ComponentChildren } from "preact";
import { clean } from "../text";
import type { ApiError } from "../api";

/** Grey lines where the answer will be. They appear only if the answer takes a moment. */
export const Loading = ({ lines = 4, what = "Loading" }: { lines?: number; what?: string }) => (
  <div class="loading" role="status">
    <span class="unseen">{what}…</span>
    {Array.from({ length: lines }, (_, i) => <span key={i} class={`bone bone-${i % 4}`} aria-hidden="true" />)}
  </div>
);

export const Failure = ({ error, again }: { error: ApiError; again?: () => void }) => (
  <div class="failure" role="alert">
    <p><bdi>{clean(error.message, 400)}</bdi></p>
    {again && <button type="button" class="quiet" onClick={again}>Try again</button>}
  </div>
);

export const Nothing = ({ children }: { children: ComponentChildren }) => <p class="nothing">{children}</p>;
