/** The vote page without reloading: keys, undo against the clock, and the next matchup already there. */

import { mountAll } from "../mounting";
import { read, want, wanted } from "../vote/keys";
import { type Effect, type Event, isUnsaved, type State, step, type Winner } from "../vote/machine";
import { Remarks } from "../vote/remarks";
import { BRIEF, form, json, Lost, PATIENT, persist, Refused, timeLeft } from "../vote/sending";
import { isWinner, Stage } from "../vote/stage";

type Words = Readonly<Record<string, string>>;

const TICK = 250;
const LONGEST_FRAME = 300;

class Booth {
  private stage: Stage;
  private state: State;
  private remarks: Remarks;
  private ahead: Promise<Stage | null> = Promise.resolve(null);
  private ready: Stage | null = null;
  private readonly words: Words;
  private readonly path: string;

  constructor(private readonly root: HTMLElement) {
    this.words = JSON.parse(root.dataset["words"] ?? "{}") as Words;
    this.path = root.dataset["arena"] ?? "";
    this.stage = new Stage(root.querySelector<HTMLElement>(".stage") ?? root);
    this.state = this.stage.sent;
    this.remarks = this.remarksOf(this.stage);
    this.root.addEventListener("submit", (event) => this.submitted(event));
    this.root.addEventListener("input", (event) => this.written(event));
    document.addEventListener("keydown", (event) => this.pressed(event));
    addEventListener("beforeunload", (event) => {
      if (isUnsaved(this.state)) {
        event.preventDefault();
      }
    });
    addEventListener("pageshow", (event) => {
      if (event.persisted) {
        location.reload();
      }
    });
    this.prepareKeys();
    this.arrange();
    setInterval(() => this.tick(), TICK);
    this.look();
  }

  private word(name: string): string {
    return this.words[name] ?? name;
  }

  private remarksOf(stage: Stage): Remarks {
    return new Remarks(stage, () => this.say(this.word("failed")));
  }

  /** Something happened. */
  private tell(event: Event): void {
    const { state, effects } = step(this.state, event);
    const before = this.state;
    this.state = state;
    if (before !== state) {
      this.arrange();
    }
    effects.forEach((effect) => this.act(effect));
  }

  private act(effect: Effect): void {
    switch (effect.do) {
      case "send":
        void this.send(effect.winner);
        break;
      case "undo":
        void this.undo();
        break;
      case "reveal":
        void this.reveal();
        break;
      case "recover":
        void this.recover();
        break;
      case "leave":
        void this.leave(effect.after);
        break;
    }
  }

  /** The page as the state wants it. */
  private arrange(): void {
    const { stage, state } = this;
    stage.element.dataset["now"] = state.name;
    stage.offer(state);
    for (const plain of stage.element.querySelectorAll<HTMLElement>("[data-plain]")) {
      plain.hidden = true;
    }
    this.count();
  }

  private async send(winner: Winner): Promise<void> {
    const stage = this.stage;
    stage.showVoted(winner);
    stage.result(this.word("saving"));
    stage.focus(".result");
    let sent = 0;
    try {
      const path = `/api/v1/matchups/${stage.matchup}/vote`;
      const retrying = (): void => this.say(this.word("unsaved"));
      const answer = await persist(path, json("POST", { winner }), PATIENT, retrying, () => (sent = performance.now()));
      const left = timeLeft((await answer.json()) as { at: string; undo_until: string | null }, answer);
      history.replaceState(null, "", `/matchups/${stage.matchup}`);
      stage.result(this.word("voted"), this.word(winner));
      this.say(`${this.word("voted")} ${this.word(winner)}`, "calm");
      this.tell({ is: "saved", until: left === null ? null : sent + left });
    } catch (error) {
      this.unsent(error);
    }
  }

  private unsent(error: unknown): void {
    if (error instanceof Refused) {
      this.tell({ is: "refused" });
      return;
    }
    this.stage.result(this.word("lost"));
    this.tell({ is: "lost" });
    const again = document.createElement("button");
    again.type = "button";
    again.className = "button";
    again.textContent = this.word("again");
    again.addEventListener("click", () => {
      this.tell({ is: "again" });
    });
    this.say(this.word("lost"), "warn", again);
  }

  private async undo(): Promise<void> {
    const stage = this.stage;
    try {
      await persist(`/api/v1/matchups/${stage.matchup}/undo`, { method: "POST" }, BRIEF);
      stage.result(this.word("undone"));
      this.tell({ is: "undone" });
      stage.focus(".result");
      this.say(this.word("undone"), "calm");
    } catch (error) {
      if (error instanceof Refused && error.status === 409) {
        this.say(this.word("late"));
        this.tell({ is: "late" });
      } else {
        this.say(this.word("failed"));
        this.tell({ is: error instanceof Lost ? "stuck" : "refused" });
      }
    }
  }

  private async reveal(): Promise<void> {
    const stage = this.stage;
    try {
      await this.remarks.flush();
      const answer = await persist(`/matchups/${stage.matchup}/reveal`, form({ part: "names" }), BRIEF);
      const named = pieceOf(await answer.text());
      if (stage !== this.stage) {
        return;
      }
      const inside = stage.element.contains(document.activeElement);
      this.fill(named);
      this.say(this.word("final"), "calm");
      this.tell({ is: "named" });
      if (inside) {
        stage.focus(".result");
      }
    } catch (error) {
      if (error instanceof Refused) {
        this.tell({ is: "refused" });
      } else {
        this.say(this.word("nameless"));
        this.tell({ is: "nameless" });
      }
    }
  }

  /** Put what the server wrote where it belongs. */
  private fill(named: DocumentFragment): void {
    for (const filling of named.querySelectorAll<HTMLElement>("[data-fill]")) {
      const name = filling.dataset["fill"] ?? "";
      const slot = this.stage.slot(name) ?? this.root.querySelector(`[data-slot="${name}"]`);
      slot?.replaceChildren(...filling.childNodes);
    }
  }

  /** The server knows better what became of this matchup: show it as it is there. */
  private async recover(): Promise<void> {
    const stage = this.stage;
    this.say(this.word("elsewhere"));
    try {
      const answer = await fetch(`/matchups/${stage.matchup}`, { headers: { accept: "text/html" }, cache: "no-store" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.querySelector<HTMLElement>(".stage") ?? page.querySelector<HTMLElement>("main > *");
      if (found !== null && stage === this.stage) {
        const element = document.importNode(found, true);
        stage.element.replaceWith(element);
        this.take(new Stage(element));
      }
    } catch {
      stage.result(this.word("failed"));
    }
  }

  /** From now on this is the matchup before the voter. */
  private take(stage: Stage): void {
    this.stage = stage;
    this.state = stage.sent;
    this.remarks = this.remarksOf(stage);
    mountAll(stage.element);
    for (const notice of this.root.querySelectorAll(":scope > .notice")) {
      notice.remove();
    }
    this.showKeys();
    this.arrange();
  }

  /** On to the next matchup: what is there is shown at once, and everything else comes after. */
  private async leave(after: "finalise" | "skip" | "nothing"): Promise<void> {
    const old = this.stage;
    const remarks = this.remarks;
    let next = this.ready;
    if (next === null || next.expired) {
      this.say(this.word("loading"));
      await this.finish(old, remarks, after);
      next?.element.remove();
      next = (await this.ahead) ?? (await this.fetchAhead());
      if (next === null || next.expired) {
        this.submitPlainly();
        return;
      }
      after = "nothing";
    }
    this.ready = null;
    this.ahead = Promise.resolve(null);
    next.enter();
    old.element.remove();
    this.take(next);
    history.replaceState(null, "", this.path);
    scrollTo(0, 0);
    next.focus("[data-focus]");
    this.say(this.word("next"), "calm");
    await painted();
    await this.finish(old, remarks, after);
    this.look();
  }

  private async finish(old: Stage, remarks: Remarks, after: "finalise" | "skip" | "nothing"): Promise<void> {
    try {
      if (after === "skip") {
        await persist(`/api/v1/matchups/${old.matchup}/skip`, { method: "POST" }, BRIEF);
      }
      if (after === "finalise") {
        await remarks.flush();
        const answer = await persist(`/matchups/${old.matchup}/reveal`, form({ part: "names" }), BRIEF);
        const strip = pieceOf(await answer.text()).querySelector('[data-fill="strip"]');
        this.root.querySelector('[data-slot="strip"]')?.replaceChildren(...(strip?.childNodes ?? []));
      }
    } catch (error) {
      if (after === "skip" && !(error instanceof Refused)) {
        this.say(this.word("failed"));
      }
    }
  }

  /** Fetch the matchup after this one, so that it is there when it is wanted. */
  private look(): void {
    this.ahead = this.fetchAhead().then((found) => {
      this.ready = found;
      return found;
    });
  }

  private async fetchAhead(): Promise<Stage | null> {
    try {
      const answer = await persist(`${this.path}/ahead`, form({ shown: this.stage.matchup }), BRIEF);
      const element = pieceOf(await answer.text()).querySelector<HTMLElement>(".stage");
      if (element === null) {
        return null;
      }
      this.root.querySelector(".stages")?.append(element);
      mountAll(element);
      return new Stage(element);
    } catch {
      return null;
    }
  }

  /** Nothing is there to be shown: let the browser ask for a page, which also says why. */
  private submitPlainly(): void {
    const plain = document.createElement("form");
    plain.method = "post";
    plain.action = this.path;
    document.body.append(plain);
    plain.submit();
  }

  private tick(): void {
    this.count();
    if (this.state.name === "voted" && this.state.until > 0 && performance.now() >= this.state.until && !this.typing()) {
      this.tell({ is: "elapsed" });
    }
  }

  /** Whether a comment is being written: the names wait for it. */
  private typing(): boolean {
    return document.activeElement instanceof HTMLTextAreaElement && this.stage.element.contains(document.activeElement);
  }

  private count(): void {
    const left = this.stage.slot("left");
    if (left !== null && this.state.name === "voted") {
      const seconds = Math.ceil((this.state.until - performance.now()) / 1000);
      left.textContent = seconds > 0 ? String(seconds) : "";
      if (seconds <= 0) {
        this.stage.offer(this.state);
      }
    }
  }

  private submitted(event: SubmitEvent): void {
    const button = event.submitter;
    const target = event.target;
    if (!(target instanceof HTMLFormElement) || !this.stage.element.contains(target)) {
      return;
    }
    if (target.dataset["act"] === "report") {
      event.preventDefault();
      void this.report(target);
      return;
    }
    const act = button?.dataset["act"];
    if (act === undefined || (this.stage.matchup === "" && act !== "next")) {
      return;
    }
    event.preventDefault();
    if (act === "vote" && button instanceof HTMLButtonElement && isWinner(button.value)) {
      this.tell({ is: "vote", winner: button.value });
    } else if (act === "skip" || act === "undo" || act === "reveal" || act === "next") {
      this.tell({ is: act });
    }
  }

  private async report(sent: HTMLFormElement): Promise<void> {
    const fields = new FormData(sent);
    const note = String(fields.get("note") ?? "").trim();
    const body = { reason: String(fields.get("reason")), note: note === "" ? null : note };
    try {
      await persist(`/api/v1/matchups/${this.stage.matchup}/report`, json("POST", body), BRIEF);
      sent.reset();
      sent.closest("details")?.removeAttribute("open");
      this.say(this.word("reported"), "good");
    } catch {
      this.say(this.word("failed"));
    }
  }

  private written(event: InputEvent | globalThis.Event): void {
    const target = event.target;
    if (target instanceof Element && target.closest(".why") !== null) {
      this.remarks.changed();
    }
  }

  private pressed(event: KeyboardEvent): void {
    const asked = wanted() && this.keys ? read(event) : null;
    if (asked === null) {
      return;
    }
    const before = this.state;
    this.tell(typeof asked === "string" ? { is: asked } : { is: "vote", winner: asked.vote });
    if (before !== this.state) {
      event.preventDefault();
    }
  }

  private keys = true;

  private prepareKeys(): void {
    const row = this.root.querySelector<HTMLElement>("[data-switch]");
    const box = row?.querySelector("input") ?? null;
    this.keys = wanted();
    if (row !== null && box !== null) {
      row.hidden = false;
      box.checked = this.keys;
      box.addEventListener("change", () => {
        this.keys = box.checked;
        want(box.checked);
        this.showKeys();
      });
    }
    this.showKeys();
  }

  /** The keys stand on the buttons while they work. */
  private showKeys(): void {
    this.root.classList.toggle("with-keys", this.keys);
    for (const button of this.root.querySelectorAll<HTMLElement>("[data-keys]")) {
      if (this.keys) {
        button.setAttribute("aria-keyshortcuts", button.dataset["keys"] ?? "");
      } else {
        button.removeAttribute("aria-keyshortcuts");
      }
    }
  }

  /** A line for everybody, or with `calm` for those who listen. */
  private say(text: string, kind: "warn" | "calm" | "good" = "warn", more?: HTMLElement): void {
    const line = this.root.querySelector<HTMLElement>('[data-slot="status"]');
    if (line !== null) {
      line.dataset["kind"] = kind;
      line.replaceChildren(text, ...(more === undefined ? [] : [" ", more]));
    }
  }
}

/** Once what was changed can be seen. A page in the background is not painted, and does not wait for it. */
function painted(): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, LONGEST_FRAME);
    requestAnimationFrame(() => setTimeout(done));
  });
}

/** Markup that our server wrote, as nodes that have not been put anywhere yet. */
function pieceOf(html: string): DocumentFragment {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content;
}

export function mount(element: HTMLElement): void {
  new Booth(element);
}
