/** The page of a live battle: both answers as they are written, then the vote as on the vote page. */

import { mountBoxes, format } from "../live/box";
import { addCopyButtons } from "../live/copying";
import { type Letter, type Reader, type TurnState, TurnStream } from "../live/stream";
import type { Event, Winner } from "../vote/machine";
import { BRIEF, form, persist } from "../vote/sending";
import { mount as drawMaths } from "./maths";
import { Booth } from "./vote";

const NOTICE = 5000;

class LiveBooth extends Booth implements Reader {
  start(): void {
    this.root.addEventListener("click", (event) => this.clicked(event));
    mountBoxes(this.root, (name) => this.frame.word(name));
    addCopyButtons(this.root, (name) => this.frame.word(name));
    const { matchup, element } = this.stage;
    if (element.hasAttribute("data-running")) {
      new TurnStream(element, `/live/${matchup}/stream`, element.dataset["mark"] ?? "", this);
      const last = element.querySelectorAll<HTMLElement>("[id^='turn-']");
      if (last.length > 1) {
        last[last.length - 1]?.scrollIntoView({ block: "start" });
      }
    }
  }

  wrote(letter: Letter, shown: number, ended: boolean, blocks: HTMLElement | null): void {
    const { element } = this.stage;
    const progress = element.querySelector<HTMLElement>(`[data-progress="${letter}"]`);
    if (progress !== null) {
      progress.textContent = ended ? "✓" : format(shown);
    }
    if (ended) {
      element.querySelector(`[data-writing="${letter}"]`)?.remove();
    }
    if (blocks?.querySelector(".maths:not(.maths-drawn, .maths-failed)") != null) {
      drawMaths(blocks);
    }
    this.panes.look();
  }

  ended(state: TurnState): void {
    const { element } = this.stage;
    if (state === "void") {
      location.replace(`/matchups/${this.stage.matchup}`);
      return;
    }
    element.removeAttribute("data-running");
    element.querySelector(".sides")?.removeAttribute("aria-busy");
    addCopyButtons(element, (name) => this.frame.word(name));
    const answers = [...element.querySelectorAll<HTMLElement>(".turn:last-child .live-answer")];
    const votable = answers.every((answer) => answer.textContent?.trim() !== "");
    this.showGoOn();
    if (votable) {
      this.frame.say(state === "stopped" ? "stopped" : "complete", "calm");
    } else {
      element.setAttribute("data-unvotable", "");
      this.frame.say("empty");
      this.explain("empty");
    }
    this.arrange();
  }

  connected(is: boolean): void {
    if (is) {
      this.frame.unsay("offline");
    } else {
      this.frame.say("offline");
    }
  }

  outdated(): void {
    location.reload();
  }

  /** Stop goes, and what can be done with two answers comes. */
  private showGoOn(): void {
    const { element } = this.stage;
    element.querySelector(".live-stop")?.remove();
    element.querySelectorAll(".follow-up, .turn-vote").forEach((one) => one.removeAttribute("hidden"));
  }

  private get waits(): boolean {
    return this.stage.element.matches("[data-running], [data-unvotable]");
  }

  protected override arrange(): void {
    super.arrange();
    const heading = this.root.querySelector<HTMLElement>('[data-slot="heading"]');
    if (heading !== null && this.stage.element.hasAttribute("data-running")) {
      heading.textContent = this.frame.word("waiting");
    }
    const over = this.state.name !== "showing";
    this.stage.element.toggleAttribute("data-voted", over);
  }

  /** No vote before both are complete and were on screen; beside the buttons stands what is missing. */
  protected override observe(): void {
    const { element } = this.stage;
    if (!this.waits || this.state.name !== "showing") {
      super.observe();
      const [unseen] = this.state.name === "showing" ? this.watch.unseen : [];
      this.explain(unseen === undefined ? "" : `${this.watch.loading(unseen) ? "loading" : "unseen"}_${unseen}`);
      return;
    }
    for (const button of element.querySelectorAll('[data-act="vote"]')) {
      button.setAttribute("aria-disabled", "true");
    }
    // Who looks at both while they are written has seen both.
    const answers = [...element.querySelectorAll<HTMLElement>(".turn:last-child .live-answer")];
    if (answers.every((answer) => answer.textContent?.trim() !== "")) {
      this.watch.look();
    }
  }

  /** Say beside the vote buttons why they do nothing; an empty word takes the line away. */
  private explain(word: string): void {
    const { element } = this.stage;
    const why = element.querySelector<HTMLElement>(".ballot-why");
    const line = why?.querySelector("p") ?? null;
    if (why === null || line === null || (why.hidden && word === "")) {
      return;
    }
    why.hidden = word === "";
    const text = word === "" ? "" : this.frame.word(word);
    if (line.textContent !== text) {
      line.textContent = text;
    }
    for (const button of element.querySelectorAll('[data-act="vote"]')) {
      if (word === "") {
        button.removeAttribute("aria-describedby");
      } else {
        button.setAttribute("aria-describedby", line.id);
      }
    }
  }

  protected override cast(winner: Winner): void {
    if (!this.waits || this.state.name !== "showing") {
      super.cast(winner);
      return;
    }
    const word = this.stage.element.hasAttribute("data-running") ? "incomplete" : "empty";
    this.frame.say(word);
    setTimeout(() => this.frame.unsay(word), NOTICE);
  }

  /** What comes next is another prompt. */
  protected override tell(event: Event): void {
    if (event.is === "next") {
      // The key that asked for it is not typed into the box.
      setTimeout(() => this.stage.element.querySelector<HTMLElement>(".next-ask textarea")?.focus());
    } else {
      super.tell(event);
    }
  }

  /** No matchup comes by itself: the next one begins with a prompt. */
  protected override look(): void {
    // Nothing is fetched ahead.
  }

  protected override async leave(after: "finalise" | "skip" | "nothing"): Promise<void> {
    this.frame.say("loading");
    const { matchup } = this.stage;
    await this.finish(this.stage, this.remarks, after);
    location.assign(after === "skip" ? this.path : `${this.path}?after=${matchup}`);
  }

  private clicked(event: MouseEvent): void {
    const button = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-live]") : null;
    if (button?.dataset["live"] === "stop") {
      event.preventDefault();
      button.setAttribute("aria-disabled", "true");
      void this.stop(button);
    }
  }

  private async stop(button: HTMLElement): Promise<void> {
    try {
      await persist(`/live/${this.stage.matchup}/stop`, form({ part: "stop" }), BRIEF);
    } catch {
      button.removeAttribute("aria-disabled");
      this.frame.say("failed");
    }
  }
}

export function mount(element: HTMLElement): void {
  new LiveBooth(element).start();
}
