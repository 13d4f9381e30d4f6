/** Requests that must arrive: sent again, with growing waits, while the server cannot be reached or says "not now". */

/** The server answered, and does not want this. */
export class Refused extends Error {
  constructor(readonly status: number) {
    super(`refused with ${status}`);
  }
}

/** It was sent often enough. */
export class Lost extends Error {}

export const PATIENT: readonly number[] = [300, 700, 1500, 3000, 6000, 10_000, 10_000];
export const BRIEF: readonly number[] = [300, 1000, 3000];

const ANSWER_WITHIN = 15_000;
const LATER = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Send a request until it is answered; `retrying` is told before each wait, `trying` before each attempt. */
export async function persist(
  path: string,
  request: RequestInit,
  waits: readonly number[],
  retrying: () => void = () => undefined,
  trying: () => void = () => undefined,
): Promise<Response> {
  for (let tries = 0; ; tries += 1) {
    trying();
    const answer = await attempt(path, request);
    if (answer !== null && answer.ok) {
      return answer;
    }
    if (answer !== null && !LATER.has(answer.status)) {
      throw new Refused(answer.status);
    }
    const wait = waits[tries];
    if (wait === undefined) {
      throw new Lost();
    }
    retrying();
    await pause(wait);
  }
}

async function attempt(path: string, request: RequestInit): Promise<Response | null> {
  try {
    return await fetch(path, { ...request, cache: "no-store", signal: AbortSignal.timeout(ANSWER_WITHIN) });
  } catch {
    return null;
  }
}

/** A while; shorter if the browser says that it is online again. */
function pause(milliseconds: number): Promise<void> {
  return new Promise((done) => {
    const end = (): void => {
      clearTimeout(timer);
      removeEventListener("online", end);
      done();
    };
    const timer = setTimeout(end, milliseconds);
    addEventListener("online", end);
  });
}

/** A request with a JSON body. */
export function json(method: string, body: unknown): RequestInit {
  return { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

/** A request as a form sends it, answered by a page or a piece of one. */
export function form(fields: Record<string, string>): RequestInit {
  return { method: "POST", headers: { accept: "text/html" }, body: new URLSearchParams(fields) };
}

/** How many milliseconds a vote can be taken back, by the database's clock alone: no other is compared with it. */
export function timeLeft(ended: { at: string; undo_until: string | null }): number | null {
  return ended.undo_until === null ? null : Math.max(0, Date.parse(ended.undo_until) - Date.parse(ended.at));
}
