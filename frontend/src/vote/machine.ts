/** What becomes of one matchup on the page, and what follows from it. Nothing here touches the page. */

export type Winner = "model_a" | "model_b" | "tie" | "both_bad";

export type State =
  /** The matchup waits for its vote. */
  | { readonly name: "showing" }
  /** The vote is on its way; `next` if somebody wants to go on as soon as it has arrived. */
  | { readonly name: "sending"; readonly winner: Winner; readonly next: boolean }
  /** The vote did not arrive, however often it was sent. */
  | { readonly name: "unsaved"; readonly winner: Winner }
  /** The vote is saved, and can be undone until `until` (a time of `performance.now()`). */
  | { readonly name: "voted"; readonly until: number }
  | { readonly name: "undoing"; readonly until: number }
  /** The names are asked for: from here on the vote is final. */
  | { readonly name: "revealing" }
  | { readonly name: "final" }
  /** There is nothing more to do but to go on. */
  | { readonly name: "closed" }
  /** Somebody has gone on. */
  | { readonly name: "left" };

export type Event =
  | { readonly is: "vote"; readonly winner: Winner }
  | { readonly is: "saved"; readonly until: number | null }
  | { readonly is: "lost" | "refused" | "again" | "skip" | "next" }
  | { readonly is: "undo" | "undone" | "late" | "stuck" }
  | { readonly is: "reveal" | "elapsed" | "named" | "nameless" };

export type Effect =
  | { readonly do: "send"; readonly winner: Winner }
  | { readonly do: "undo" | "reopen" | "reveal" | "recover" }
  /** Show the next matchup; what is left to do for this one comes after that. */
  | { readonly do: "leave"; readonly after: "finalise" | "skip" | "nothing" };

export interface Step {
  readonly state: State;
  readonly effects: readonly Effect[];
}

const to = (state: State, ...effects: Effect[]): Step => ({ state, effects });
const leave = (after: "finalise" | "skip" | "nothing"): Step => to({ name: "left" }, { do: "leave", after });

/** The next state, and what to do. What makes no sense in a state changes nothing: a second click, a late answer. */
export function step(state: State, event: Event): Step {
  const same = to(state);
  switch (state.name) {
    case "showing":
      if (event.is === "vote") {
        return to({ name: "sending", winner: event.winner, next: false }, { do: "send", winner: event.winner });
      }
      return event.is === "skip" ? leave("skip") : same;
    case "sending":
      return sending(state, event);
    case "unsaved":
      return event.is === "again"
        ? to({ name: "sending", winner: state.winner, next: false }, { do: "send", winner: state.winner })
        : same;
    case "voted":
      if (event.is === "undo") {
        return to({ ...state, name: "undoing" }, { do: "undo" });
      }
      if (event.is === "reveal" || event.is === "elapsed") {
        return to({ name: "revealing" }, { do: "reveal" });
      }
      return event.is === "next" ? leave("finalise") : same;
    case "undoing":
      return undoing(state, event);
    case "revealing":
      if (event.is === "named") {
        return to({ name: "final" });
      }
      if (event.is === "refused") {
        return to({ name: "closed" }, { do: "recover" });
      }
      if (event.is === "nameless") {
        return to({ name: "voted", until: 0 });
      }
      return event.is === "next" ? leave("finalise") : same;
    case "final":
    case "closed":
      return event.is === "next" ? leave("nothing") : same;
    case "left":
      return same;
  }
}

function sending(state: State & { name: "sending" }, event: Event): Step {
  switch (event.is) {
    case "saved":
      if (state.next) {
        return leave("finalise");
      }
      return event.until === null
        ? to({ name: "revealing" }, { do: "reveal" })
        : to({ name: "voted", until: event.until });
    case "lost":
      return to({ name: "unsaved", winner: state.winner });
    case "refused":
      return to({ name: "closed" }, { do: "recover" });
    case "next":
      return to({ ...state, next: true });
    default:
      return to(state);
  }
}

function undoing(state: State & { name: "undoing" }, event: Event): Step {
  switch (event.is) {
    case "undone":
      return to({ name: "showing" }, { do: "reopen" });
    case "late":
      return to({ name: "revealing" }, { do: "reveal" });
    case "refused":
      return to({ name: "closed" }, { do: "recover" });
    case "stuck":
      return to({ name: "voted", until: state.until });
    default:
      return to(state);
  }
}

/** Whether something would be lost if the page were closed now. */
export function isUnsaved(state: State): boolean {
  return state.name === "sending" || state.name === "unsaved";
}
