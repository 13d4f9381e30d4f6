/** The gate of an open arena: computes the proof that a first matchup needs, while the voter reads the page. */

import { solve, type Challenge } from "../gate/proof";
import { BRIEF, persist } from "../vote/sending";

interface Answer {
  readonly gate: string;
  readonly challenge: Challenge | null;
}

const UNAVAILABLE = "unavailable";
/** A proof is valid for 20 minutes from the moment when its challenge was made. */
const PROOF_SECONDS = 1200;
const RENEWAL_MILLISECONDS = 900_000;

export function mount(element: HTMLElement): void {
  const form = element.closest(".welcome")?.querySelector<HTMLFormElement>("form") ?? null;
  const note = element.querySelector<HTMLElement>("[data-slot=wait]");
  let begun = performance.now();
  let proving = prove(element.dataset["gate"] ?? "");
  let proved = false;
  void proving.then(() => (proved = true));
  form?.addEventListener(
    "submit",
    (event) => {
      if (performance.now() - begun > RENEWAL_MILLISECONDS) {
        [begun, proved, proving] = [performance.now(), false, prove(element.dataset["gate"] ?? "")];
      }
      if (proved) {
        return;
      }
      event.preventDefault();
      event.stopImmediatePropagation();
      note?.removeAttribute("hidden");
      const button = event.submitter;
      void proving.then(() => {
        proved = true;
        note?.setAttribute("hidden", "");
        form.requestSubmit(button);
      });
    },
    { capture: true },
  );
}

/** Put a proof, or that there is none, into the cookie that is sent with the first matchup's request. */
async function prove(path: string): Promise<void> {
  let proof: string | null = UNAVAILABLE;
  try {
    const answer = (await (await persist(path, { headers: { accept: "application/json" } }, BRIEF)).json()) as Answer;
    if (answer.challenge === null) {
      return;
    }
    proof = (await solve(answer.challenge)) ?? UNAVAILABLE;
  } catch (error) {
    console.error("The proof of this browser could not be computed.", error);
  }
  const [prefix, secure] = location.protocol === "https:" ? ["__Host-", "; Secure"] : ["", ""];
  document.cookie = `${prefix}tiltyard_proof=${proof}; Path=/; Max-Age=${PROOF_SECONDS}; SameSite=Lax${secure}`;
}
