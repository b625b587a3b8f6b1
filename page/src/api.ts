// Questions to the service. Every failure is an `ApiError` with one sentence for people.

const KEY = "dura-token";

export class ApiError extends Error {
  constructor(readonly status: number, sentence: string) { super(sentence); }
}

let token = sessionStorage.getItem(KEY) ?? "";
let asked: Promise<void> | null = null;
let prompt: (wrong: boolean) => Promise<string> = () => Promise.reject(new ApiError(401, "The service wants a token."));

/** The page says here how it asks for the token. */
export const onToken = (ask: typeof prompt): void => { prompt = ask; };

async function newToken(): Promise<void> {
  token = await prompt(token !== "");
  sessionStorage.setItem(KEY, token);
}

type Value = string | number | null | undefined;

export async function get<T>(path: string, given: Record<string, Value> = {}, signal?: AbortSignal): Promise<T> {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(given)) if (value !== null && value !== undefined) query.set(key, String(value));
  const text = query.toString();
  return send<T>(text ? `${path}?${text}` : path, { signal });
}

export const post = <T>(path: string, body: unknown): Promise<T> =>
  send<T>(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

async function send<T>(address: string, request: RequestInit, tries = 3): Promise<T> {
  const sent = token;
  const response = await fetch(address, {
    ...request,
    headers: { Accept: "application/json", ...(sent ? { Authorization: `Bearer ${sent}` } : {}), ...request.headers },
  }).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not answer. Is it still running?");
  });
  if (response.status === 401) {
    // Several requests may fail at the same moment; people are asked once.
    if (sent === token) asked ??= newToken().finally(() => { asked = null; });
    if (asked) await asked;
    return send<T>(address, request, tries);
  }
  if (response.status === 429 && tries > 1) {
    const wait = Math.min(5, Number(response.headers.get("Retry-After")) || 1);
    await new Promise((resume) => setTimeout(resume, 1000 * wait));
    return send<T>(address, request, tries - 1);
  }
  const answer = (await response.json().catch(() => null)) as (T & { error?: string }) | null;
  if (!response.ok || answer === null) throw new ApiError(response.status, sentence(response.status, answer?.error));
  return answer;
}

function sentence(status: number, said: string | undefined): string {
  if (said) return said.charAt(0).toUpperCase() + said.slice(1) + (/[.!?]$/.test(said) ? "" : ".");
  return status === 429 ? "The service is busy. Try again in a moment." : `The service failed (status ${status}).`;
}
