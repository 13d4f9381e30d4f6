/** One matchup on the page: what stands where in it. */

import type { State, Winner } from "./machine";
import type { Side } from "./watch";

/** A second click within this time was meant for what stood there before. */
const DOUBLE_CLICK = 600;
const LONGEST_FRAME = 300;
const WINNERS: readonly string[] = ["model_a", "model_b", "tie", "both_bad"];

export function isWinner(value: string): value is Winner {
  return WINNERS.includes(value);
}

export class Stage {
  readonly matchup: string;
  private readonly arrived = performance.now();

  constructor(readonly element: HTMLElement) {
    this.matchup = element.dataset["matchup"] ?? "";
  }

  /** The state in which the server sent it. */
  get sent(): State {
    switch (this.element.dataset["state"]) {
      case "open":
        return { name: "showing" };
      case "voted":
        return { name: "voted", until: this.arrived + 1000 * Number(this.element.dataset["left"] ?? 0) };
      case "final":
        return { name: "final" };
      default:
        return { name: "closed" };
    }
  }

  /** Whether it has waited too long to be voted on. */
  get expired(): boolean {
    return performance.now() - this.arrived > 1000 * Number(this.element.dataset["expires"] ?? 0) - 5000;
  }

  /** How often a vote on it was undone: a vote, and an undo, names this number. */
  get ballot(): number {
    return Number(this.element.dataset["ballot"] ?? 0);
  }

  /** Proves that its texts were sent; empty where that is not asked for. */
  get receipt(): string {
    return this.element.querySelector<HTMLInputElement>('input[name="receipt"]')?.value ?? "";
  }

  /** Whether somebody says to know a model by its response. */
  get recognized(): boolean {
    return this.element.querySelector<HTMLInputElement>('input[name="recognized"]')?.checked ?? false;
  }

  slot(name: string): HTMLElement | null {
    return this.element.querySelector<HTMLElement>(`[data-slot="${name}"]`);
  }

  /** Come into view. It was loaded where nobody could see it, and stays where it is: a frame that is moved starts anew. */
  enter(): void {
    this.element.classList.remove("stage-ahead");
    this.element.inert = false;
    this.settle();
  }

  focus(where: ".result" | "[data-focus]", preventScroll = where === ".result"): void {
    this.element.querySelector<HTMLElement>(where)?.focus({ preventScroll });
  }

  /** The bar has changed under the pointer: a double click must not press what is there now. */
  settle(): void {
    const bar = this.element.querySelector(".bar");
    bar?.classList.add("settling");
    setTimeout(() => bar?.classList.remove("settling"), DOUBLE_CLICK);
  }

  /** Take no vote while these responses have not been on screen. */
  await(unseen: readonly Side[]): void {
    this.element.dataset["unseen"] = unseen.join(" ");
    for (const button of this.element.querySelectorAll('[data-act="vote"]')) {
      button.setAttribute("aria-disabled", String(unseen.length > 0));
    }
  }

  /** Bring a response on screen. */
  bring(side: Side): void {
    this.settle();
    const tab = this.element.querySelector<HTMLInputElement>(`input.tab-${side}`);
    if (tab !== null) {
      tab.checked = true;
    }
    this.element.querySelector(`[data-side="${side}"]`)?.scrollIntoView({ block: "nearest" });
  }

  /** Whether the bar has just changed: a key that is pressed twice must not vote on what came after. */
  get settling(): boolean {
    return this.element.querySelector(".bar.settling") !== null;
  }

  /** From the ballot to what comes after it. */
  showVoted(winner: Winner): void {
    this.settle();
    this.show(".ballot", false);
    this.show(".after", true);
    this.ask(winner);
    for (const side of this.element.querySelectorAll<HTMLElement>("[data-side]")) {
      side.toggleAttribute("data-won", winner === `model_${side.dataset["side"] ?? ""}`);
    }
  }

  /** From what comes after a vote back to the ballot, which is another one than before. */
  reopen(ballot: number): void {
    this.settle();
    this.element.dataset["ballot"] = String(ballot);
    for (const field of this.element.querySelectorAll<HTMLInputElement>('input[name="ballot"]')) {
      field.value = String(ballot);
    }
    this.show(".ballot", true);
    this.show(".after", false);
    this.result("");
    this.forget();
    for (const side of this.element.querySelectorAll<HTMLElement>("[data-side]")) {
      side.removeAttribute("data-won");
    }
  }

  /** What was said of a vote that was undone goes with it. */
  private forget(): void {
    for (const tag of this.element.querySelectorAll<HTMLInputElement>('input[name="tags"]')) {
      tag.checked = false;
    }
    const comment = this.element.querySelector<HTMLTextAreaElement>('textarea[name="comment"]');
    if (comment !== null) {
      comment.value = "";
    }
    this.element.querySelector("details.comment")?.removeAttribute("open");
  }

  /** Ask why: what is wrong with both only where both are bad. */
  private ask(winner: Winner): void {
    const wanted = winner === "both_bad" ? "reproach" : "praise";
    for (const tags of this.element.querySelectorAll<HTMLElement>("[data-tags]")) {
      const shown = tags.dataset["tags"] === wanted;
      tags.hidden = !shown;
      for (const box of tags.querySelectorAll("input")) {
        box.disabled = !shown;
      }
    }
    for (const question of this.element.querySelectorAll<HTMLElement>("[data-about]")) {
      question.hidden = (question.dataset["about"] === "both") !== (winner === "tie");
    }
  }

  /** Which of the buttons make sense. */
  offer(state: State): void {
    const voted = state.name === "voted" || state.name === "undoing";
    const undoable = voted && state.until > performance.now();
    this.show('[data-act="undo"]', undoable);
    this.show('[data-act="reveal"]', voted);
    this.show('[data-act="next"]', state.name !== "unsaved");
    this.show(".why", state.name !== "final" && state.name !== "closed");
    for (const button of this.element.querySelectorAll<HTMLButtonElement>(".after-row button")) {
      button.setAttribute("aria-disabled", String(state.name === "undoing"));
    }
  }

  result(text: string, strong = ""): void {
    const line = this.slot("result");
    if (line !== null) {
      const said = document.createElement("strong");
      said.textContent = strong;
      line.replaceChildren(strong === "" ? text : `${text} `, ...(strong === "" ? [] : [said]));
    }
  }

  /** What somebody has said so far. */
  remark(): { tags: string[]; comment: string | null } {
    const boxes = this.element.querySelectorAll<HTMLInputElement>('input[name="tags"]:checked:enabled');
    const comment = this.element.querySelector<HTMLTextAreaElement>('textarea[name="comment"]')?.value.trim() ?? "";
    return { tags: [...boxes].map((box) => box.value), comment: comment === "" ? null : comment };
  }

  private show(selector: string, shown: boolean): void {
    const found = this.element.querySelector<HTMLElement>(selector);
    if (found !== null) {
      found.hidden = !shown;
    }
  }
}

/** Once what was changed can be seen. A page in the background is not painted, and does not wait for it. */
export function painted(): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, LONGEST_FRAME);
    requestAnimationFrame(() => setTimeout(done));
  });
}
