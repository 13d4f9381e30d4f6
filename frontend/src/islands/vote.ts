/** The vote page without reloading: keys, undo against the clock, and the next matchup already there. */

import { mountAll } from "../mounting";
import { askAgain, askAhead, askCounted, askNames, report, submitPlainly } from "../vote/asking";
import { Frame } from "../vote/frame";
import { read } from "../vote/keys";
import { type Effect, type Event, isUnsaved, type State, step, type Winner } from "../vote/machine";
import { Panes } from "../vote/panes";
import { Remarks } from "../vote/remarks";
import { BRIEF, json, Lost, PATIENT, persist, Refused, timeLeft } from "../vote/sending";
import { isWinner, painted, Stage } from "../vote/stage";
import { KeySwitch } from "../vote/switch";
import { Watch } from "../vote/watch";

const TICK = 250;
/** Milliseconds that a hint stays. */
const NOTICE = 5000;

export class Booth {
  protected stage: Stage;
  protected state: State;
  protected remarks: Remarks;
  protected watch: Watch;
  private ahead: Promise<Stage | null> = Promise.resolve(null);
  private ready: Stage | null = null;
  /** Counts what is fetched ahead: what was fetched before an undo is no longer open. */
  private turn = 0;
  /** The matchup whose names were asked for last: an answer about an older one comes too late. */
  private latest = "";
  /** Why the matchup is skipped, if somebody said so. */
  private skipReason: string | null = null;
  protected readonly keys: KeySwitch;
  protected readonly panes: Panes;
  protected readonly frame: Frame;
  protected readonly path: string;
  /** Whether names are told after each vote. Otherwise the next matchup comes at once. */
  private readonly namesEach: boolean;

  constructor(protected readonly root: HTMLElement) {
    this.frame = new Frame(root);
    this.path = root.dataset["arena"] ?? "";
    this.namesEach = root.dataset["reveal"] === "vote";
    this.stage = new Stage(root.querySelector<HTMLElement>(".stage") ?? root);
    this.state = this.stage.sent;
    this.remarks = this.remarksOf(this.stage);
    this.watch = new Watch(this.stage.element);
    this.root.classList.add("with-tabs");
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
    this.keys = new KeySwitch(root);
    this.panes = new Panes(root, this.frame);
    this.arrange();
    setInterval(() => this.tick(), TICK);
    this.frame.endUndo();
    this.look();
  }

  private remarksOf(stage: Stage): Remarks {
    return new Remarks(stage, () => this.frame.say("failed"));
  }

  /** Something happened. Without `arranging` the page stays as it is: the next matchup is about to take its place. */
  protected tell(event: Event, arranging = true): void {
    if (event.is === "reveal" && !this.namesEach) {
      return;
    }
    const { state, effects } = step(this.state, event);
    const before = this.state;
    this.state = state;
    if (before !== state && arranging) {
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
      case "reopen":
        this.reopen();
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
  protected arrange(): void {
    const { stage, state } = this;
    stage.element.dataset["now"] = state.name;
    stage.offer(state);
    this.frame.head(state);
    for (const plain of stage.element.querySelectorAll<HTMLElement>("[data-plain]")) {
      plain.hidden = true;
    }
    this.count();
    this.observe();
    this.panes.look();
  }

  /** A vote is taken once both responses have been on screen. */
  protected observe(): void {
    if (this.state.name === "showing") {
      this.watch.look();
      this.stage.await(this.watch.unseen);
    }
  }

  /** Vote, or be brought to the response that has not been on screen. */
  protected cast(winner: Winner): void {
    this.observe();
    const [unseen] = this.state.name === "showing" ? this.watch.unseen : [];
    if (unseen === undefined) {
      this.tell({ is: "vote", winner });
      return;
    }
    this.stage.bring(unseen);
    this.observe();
    const word = `${this.watch.loading(unseen) ? "loading" : "unseen"}_${unseen}`;
    this.frame.say(word);
    setTimeout(() => this.frame.unsay(word), NOTICE);
  }

  private async send(winner: Winner): Promise<void> {
    const stage = this.stage;
    if (this.namesEach) {
      stage.showVoted(winner);
      stage.result(this.frame.word("saving"));
      stage.focus(".result");
    }
    let sent = 0;
    try {
      const path = `/api/v1/matchups/${stage.matchup}/vote`;
      const retrying = (): void => this.frame.say("unsaved");
      const vote = json("POST", {
        winner,
        ballot: stage.ballot,
        shown: this.watch.seconds(),
        receipt: stage.receipt,
        recognized: stage.recognized,
      });
      const answer = await persist(path, vote, PATIENT, retrying, () => (sent = performance.now()));
      const ended = (await answer.json()) as { at: string; undo_until: string | null; revealed: boolean };
      if (!this.namesEach) {
        this.goOn(ended.revealed);
        return;
      }
      const left = timeLeft(ended);
      history.replaceState(null, "", `/matchups/${stage.matchup}`);
      stage.result(this.frame.word("voted"), this.frame.word(winner));
      this.frame.say("voted", "calm", this.frame.word(winner));
      this.tell({ is: "saved", until: left === null ? null : sent + left });
    } catch (error) {
      this.unsent(error, winner);
    }
  }

  /** The vote is saved, and its names are told later: on to the next matchup, or to the names of the whole session. */
  private goOn(told: boolean): void {
    this.tell({ is: "saved", until: performance.now() }, told);
    if (told) {
      location.assign(`${this.path}/names`);
    } else {
      this.tell({ is: "next" }, false);
    }
  }

  private unsent(error: unknown, winner: Winner): void {
    if (error instanceof Refused) {
      this.tell({ is: "refused" });
      return;
    }
    this.stage.showVoted(winner);
    this.stage.result(this.frame.word("lost"));
    this.tell({ is: "lost" });
    this.frame.say("lost", "warn", this.frame.button("again", () => this.tell({ is: "again" })));
  }

  private async undo(): Promise<void> {
    const stage = this.stage;
    try {
      this.remarks.cancel();
      const path = `/api/v1/matchups/${stage.matchup}/undo`;
      const answer = await persist(path, json("POST", { ballot: stage.ballot }), BRIEF);
      stage.reopen(((await answer.json()) as { ballot: number }).ballot);
      this.tell({ is: "undone" });
    } catch (error) {
      if (error instanceof Refused && error.status === 409) {
        this.frame.say("late");
        this.tell({ is: "late" });
      } else {
        this.frame.say("failed");
        this.tell({ is: error instanceof Lost ? "stuck" : "refused" });
      }
    }
  }

  /** The same matchup once more, with another ballot. */
  private reopen(): void {
    this.remarks = this.remarksOf(this.stage);
    this.stage.focus("[data-focus]", true);
    this.frame.say("undone", "good");
    this.lookAgain();
  }

  private async reveal(): Promise<void> {
    const stage = this.stage;
    if (!this.namesEach) {
      this.tell({ is: "nameless" });
      return;
    }
    try {
      await this.remarks.flush();
      this.latest = stage.matchup;
      const named = await askNames(stage.matchup);
      if (stage !== this.stage) {
        return;
      }
      const inside = stage.element.contains(document.activeElement);
      this.frame.fill(named);
      this.frame.say("final", "calm");
      this.tell({ is: "named" });
      if (inside) {
        stage.focus(".result");
      }
    } catch (error) {
      if (error instanceof Refused) {
        this.tell({ is: "refused" });
      } else {
        this.frame.say("nameless");
        this.tell({ is: "nameless" });
      }
    }
  }

  /** The server knows better what became of this matchup: show it as it is there. */
  private async recover(): Promise<void> {
    const stage = this.stage;
    this.frame.say("elsewhere");
    try {
      const element = await askAgain(stage.matchup);
      if (element !== null && stage === this.stage) {
        stage.element.replaceWith(element);
        this.take(new Stage(element));
        this.lookAgain();
      }
    } catch {
      stage.result(this.frame.word("failed"));
    }
  }

  /** From now on this is the matchup before the voter. */
  private take(stage: Stage): void {
    this.stage = stage;
    this.state = stage.sent;
    this.remarks = this.remarksOf(stage);
    this.watch = new Watch(stage.element);
    mountAll(stage.element);
    this.frame.clear();
    this.keys.show();
    this.arrange();
  }

  /** On to the next matchup: what is there is shown at once, and everything else comes after. */
  protected async leave(after: "finalise" | "skip" | "nothing"): Promise<void> {
    const old = this.stage;
    const remarks = this.remarks;
    let next = this.ready;
    if (after === "finalise") {
      this.frame.slot("last")?.replaceChildren();
    }
    if (next === null || next.expired) {
      this.arrange();
      this.frame.say("loading");
      await this.finish(old, remarks, after);
      next?.element.remove();
      next = await this.ahead;
      if (next === null || next.expired) {
        next = await this.fetchAhead();
      }
      if (next === null || next.expired) {
        submitPlainly(this.path);
        return;
      }
      after = "nothing";
    }
    this.ready = null;
    this.ahead = Promise.resolve(null);
    next.enter();
    old.element.remove();
    scrollTo(0, 0);
    this.take(next);
    this.frame.makeRoom(after === "finalise" && this.namesEach);
    const voted = after === "finalise" && !this.namesEach;
    history.replaceState(null, "", voted ? `${this.path}?after=${old.matchup}` : this.path);
    next.focus("[data-focus]");
    this.frame.say(voted ? "counted" : "next", "calm");
    await painted();
    await this.finish(old, remarks, after);
    this.look();
  }

  protected async finish(old: Stage, remarks: Remarks, after: "finalise" | "skip" | "nothing"): Promise<void> {
    try {
      if (after === "skip") {
        const why = { reason: this.skipReason, recognized: old.recognized };
        this.skipReason = null;
        await persist(`/api/v1/matchups/${old.matchup}/skip`, json("POST", why), BRIEF);
      }
      if (after === "finalise") {
        this.latest = old.matchup;
        await remarks.flush();
        const told = await (this.namesEach ? askNames(old.matchup) : askCounted(old.matchup));
        if (this.latest === old.matchup) {
          this.frame.fill(told, ["strip", "last", "session"]);
          this.frame.endUndo();
        }
      }
    } catch (error) {
      if (after === "skip" && !(error instanceof Refused)) {
        this.frame.say("failed");
      }
    }
  }

  /** Fetch the matchup after this one, so that it is there when it is wanted. */
  protected look(): void {
    const turn = (this.turn += 1);
    this.ahead = this.fetchAhead().then((found) => {
      if (turn !== this.turn) {
        found?.element.remove();
        return null;
      }
      this.ready = found;
      return found;
    });
  }

  /** What was fetched ahead may have been released by the server, as it is when a vote is undone. */
  protected lookAgain(): void {
    this.ready?.element.remove();
    this.ready = null;
    this.look();
  }

  private async fetchAhead(): Promise<Stage | null> {
    const element = await askAhead(this.path, this.stage.matchup);
    if (element === null) {
      return null;
    }
    this.root.querySelector(".stages")?.append(element);
    mountAll(element);
    return new Stage(element);
  }

  private tick(): void {
    this.count();
    this.observe();
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

  protected submitted(event: SubmitEvent): void {
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
      this.cast(button.value);
    } else if (act === "skip") {
      this.skipReason = button instanceof HTMLButtonElement && button.name === "reason" ? button.value : null;
      this.tell({ is: act });
    } else if (act === "undo" || act === "reveal" || act === "next") {
      this.tell({ is: act });
    }
  }

  private async report(sent: HTMLFormElement): Promise<void> {
    try {
      await report(this.stage.matchup, sent);
      this.frame.say("reported", "good");
    } catch {
      this.frame.say("failed");
    }
  }

  private written(event: InputEvent | globalThis.Event): void {
    const target = event.target;
    if (target instanceof Element && target.closest(".why") !== null) {
      this.remarks.changed();
    }
    this.observe();
  }

  private pressed(event: KeyboardEvent): void {
    const asked = this.keys.works ? read(event) : null;
    if (asked === null) {
      return;
    }
    if (asked === "instructions") {
      this.frame.toggleInstructions();
      return;
    }
    if (asked === "undo" && this.state.name === "showing" && this.frame.undoLast()) {
      event.preventDefault();
      return;
    }
    if (typeof asked !== "string" && !this.namesEach && this.stage.settling) {
      return;
    }
    const before = this.state;
    if (typeof asked === "string") {
      this.tell({ is: asked });
    } else {
      this.cast(asked.vote);
    }
    if (before !== this.state) {
      event.preventDefault();
    }
  }
}

export function mount(element: HTMLElement): void {
  new Booth(element);
}
