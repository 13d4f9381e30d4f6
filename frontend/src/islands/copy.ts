/** A button that copies a text which somebody sends to others. */

import { addCopyButton } from "../live/copying";

const WORDS: Record<string, string> = { copy: "Copy", copied: "Copied" };

export function mount(element: HTMLElement): void {
  if ("clipboard" in navigator) {
    addCopyButton(element, "button", (name) => element.dataset[name] ?? WORDS[name] ?? name);
  }
}
