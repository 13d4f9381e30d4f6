/** What the page asks of the server besides the vote itself. */

import { BRIEF, form, json, persist } from "./sending";

/** The names of a matchup and what goes with them, in pieces; the vote is final from now on. */
export async function askNames(matchup: string): Promise<DocumentFragment> {
  return pieceOf(await persist(`/matchups/${matchup}/reveal`, form({ part: "names" }), BRIEF));
}

/** What is told of a vote before its names are, in pieces. */
export async function askCounted(matchup: string): Promise<DocumentFragment> {
  return pieceOf(await persist(`/matchups/${matchup}/counted`, { headers: { accept: "text/html" } }, BRIEF));
}

/** The matchup after the one that is shown; `null` if there is none, or it cannot be had. */
export async function askAhead(path: string, shown: string): Promise<HTMLElement | null> {
  try {
    const piece = await pieceOf(await persist(`${path}/ahead`, form({ shown }), BRIEF));
    return piece.querySelector<HTMLElement>(".stage");
  } catch {
    return null;
  }
}

/** A matchup as the server knows it: a stage, or what is told of one that cannot be shown. */
export async function askAgain(matchup: string): Promise<HTMLElement | null> {
  const answer = await fetch(`/matchups/${matchup}`, { headers: { accept: "text/html" }, cache: "no-store" });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = page.querySelector<HTMLElement>(".stage") ?? page.querySelector<HTMLElement>("main > *");
  return found === null ? null : document.importNode(found, true);
}

/** Tell the operator what is wrong with a matchup. */
export async function report(matchup: string, sent: HTMLFormElement): Promise<void> {
  const fields = new FormData(sent);
  const note = String(fields.get("note") ?? "").trim();
  const body = { reason: String(fields.get("reason")), note: note === "" ? null : note };
  await persist(`/api/v1/matchups/${matchup}/report`, json("POST", body), BRIEF);
  sent.reset();
  sent.closest("details")?.removeAttribute("open");
}

/** Let the browser ask for a page, which also says why there is nothing to be shown. */
export function submitPlainly(path: string): void {
  const plain = document.createElement("form");
  plain.method = "post";
  plain.action = path;
  document.body.append(plain);
  plain.submit();
}

/** Markup that our server wrote, as nodes that have not been put anywhere yet. */
async function pieceOf(answer: Response): Promise<DocumentFragment> {
  const holder = document.createElement("template");
  holder.innerHTML = await answer.text();
  return holder.content;
}
