/** A button that copies a text which an operator sends to somebody. */

import { addCopyButton } from "../live/copying";

const WORDS: Record<string, string> = { copy: "Copy", copied: "Copied" };

export function mount(element: HTMLElement): void {
  if ("clipboard" in navigator) {
    addCopyButton(element, "button", (name) => WORDS[name] ?? name);
  }
}
