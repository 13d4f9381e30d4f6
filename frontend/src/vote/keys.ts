/** Which key means what, and when it means nothing. */

import type { Winner } from "./machine";

export type Pressed = { readonly vote: Winner } | "skip" | "undo" | "reveal" | "next" | "instructions";

const VOTES: Readonly<Record<string, Winner>> = {
  "1": "model_a",
  "2": "model_b",
  "3": "tie",
  t: "tie",
  "4": "both_bad",
  x: "both_bad",
};
const ACTS: Readonly<Record<string, Pressed>> = {
  " ": "skip",
  u: "undo",
  r: "reveal",
  n: "next",
  enter: "next",
  i: "instructions",
};
/** Here every key has a meaning of its own; in the others, a few have. */
const TYPED =
  "input:not([type='checkbox'], [type='radio']), textarea, select, audio, video, iframe, [contenteditable]";
const PRESSED = "button, a[href], summary, label";
const NATIVE = new Set([" ", "enter"]);
const MOVED = "input, [tabindex='0']";

/** What a key asks for; `null` where it belongs to whatever has the focus, or comes with another key. */
export function read(event: KeyboardEvent): Pressed | null {
  if (event.defaultPrevented || event.repeat || event.isComposing) {
    return null;
  }
  if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) {
    return null;
  }
  const key = event.key.toLowerCase();
  const target = event.target instanceof Element ? event.target : null;
  if (target !== null && belongs(target, key)) {
    return null;
  }
  const winner = VOTES[key] ?? pointed(key);
  return winner === undefined ? (ACTS[key] ?? null) : { vote: winner };
}

/** The arrows point to where A and B stand: A is first in the direction of reading. */
function pointed(key: string): Winner | undefined {
  if (key !== "arrowleft" && key !== "arrowright") {
    return undefined;
  }
  return (key === "arrowleft") === (document.dir !== "rtl") ? "model_a" : "model_b";
}

function belongs(target: Element, key: string): boolean {
  if (target.closest(TYPED) !== null) {
    return true;
  }
  if (NATIVE.has(key) && target.closest(PRESSED) !== null) {
    return true;
  }
  return (key.startsWith("arrow") || key === " ") && target.closest(MOVED) !== null;
}

const KEPT = "tiltyard.keys";

/** Whether keys are wanted: yes, unless somebody has turned them off here. */
export function wanted(): boolean {
  try {
    return localStorage.getItem(KEPT) !== "off";
  } catch {
    return true;
  }
}

export function want(on: boolean): void {
  try {
    localStorage.setItem(KEPT, on ? "on" : "off");
  } catch {
    // Nothing can be kept here: it holds for this page.
  }
}
