/** What stands around the matchup: the heading, the voter's own votes, and the line that says what is going on. */

import type { State } from "./machine";

export class Frame {
  private readonly words: Readonly<Record<string, string>>;

  constructor(private readonly root: HTMLElement) {
    this.words = JSON.parse(root.dataset["words"] ?? "{}") as Record<string, string>;
  }

  word(name: string): string {
    return this.words[name] ?? name;
  }

  slot(name: string): HTMLElement | null {
    return this.root.querySelector<HTMLElement>(`.stage:not(.stage-ahead) [data-slot="${name}"]`) ?? this.own(name);
  }

  /** A slot outside the matchups. */
  private own(name: string): HTMLElement | null {
    return this.root.querySelector<HTMLElement>(`[data-slot="${name}"]:not(.stage *)`);
  }

  /** Put what the server wrote, or only these parts of it, where it belongs. */
  fill(written: DocumentFragment, parts?: readonly string[]): void {
    for (const filling of written.querySelectorAll<HTMLElement>("[data-fill]")) {
      const name = filling.dataset["fill"] ?? "";
      if (parts?.includes(name) ?? true) {
        this.slot(name)?.replaceChildren(...filling.childNodes);
      }
    }
  }

  /** Room for the line about the vote before, from the start where one is to come: it moves nothing when it comes. */
  makeRoom(coming: boolean): void {
    const line = this.own("last");
    if (line !== null) {
      line.hidden = !coming && !line.hasChildNodes();
    }
  }

  /** The heading that fits a state. What is told of an ended matchup brings its own. */
  head(state: State): void {
    const heading = this.own("heading");
    if (heading !== null) {
      heading.textContent = this.word(state.name === "showing" ? "ask" : state.name === "final" ? "names" : "yours");
      heading.hidden = this.root.querySelector(".stages h1") !== null;
    }
  }

  /** A line for everybody, or with `calm` for those who listen. */
  say(word: string, kind: "warn" | "calm" | "good" = "warn", ...more: (string | Node)[]): void {
    const line = this.own("status");
    if (line !== null) {
      line.dataset["kind"] = kind;
      line.replaceChildren(this.word(word), ...more.flatMap((one) => [" ", one]));
    }
  }

  /** Show what the operator asks voters to look for, or hide it again. */
  toggleInstructions(): void {
    const found = this.own("instructions");
    if (found instanceof HTMLDetailsElement) {
      found.open = !found.open;
      found.scrollIntoView({ block: "nearest" });
    }
  }

  /** Take a line away, if it is still the one that is shown. */
  unsay(word: string): void {
    const line = this.own("status");
    if (line !== null && line.textContent === this.word(word)) {
      line.replaceChildren();
    }
  }

  /** A button that does something in a line. */
  button(word: string, act: () => void): HTMLButtonElement {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "button";
    made.textContent = this.word(word);
    made.addEventListener("click", act);
    return made;
  }

  /** The vote before can be undone for a while: then its button goes. */
  endUndo(): void {
    const undo = this.own("session")?.querySelector<HTMLFormElement>("form[data-undo]");
    if (undo !== null && undo !== undefined) {
      setTimeout(() => undo.remove(), 1000 * Number(undo.dataset["undo"]));
    }
  }

  /** Undo the vote before, as its button does; whether there is one. */
  undoLast(): boolean {
    const undo = this.own("session")?.querySelector<HTMLFormElement>("form[data-undo]") ?? null;
    undo?.requestSubmit();
    return undo !== null;
  }

  /** Forget what the server had to say of the matchup before. */
  clear(): void {
    for (const notice of this.root.querySelectorAll(":scope > .notice")) {
      notice.remove();
    }
  }
}
