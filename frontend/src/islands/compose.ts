/** The box for the first prompt of a battle; in line it is sent again by itself. */

import { format, mountBoxes } from "../live/box";

export function mount(element: HTMLElement): void {
  const words = JSON.parse(element.dataset["words"] ?? "{}") as Record<string, string>;
  mountBoxes(element, (name) => words[name] ?? name);
  const line = element.querySelector<HTMLElement>("[data-retry]");
  const form = element.querySelector<HTMLFormElement>("form.ask");
  const box = form?.querySelector<HTMLTextAreaElement>("textarea") ?? null;
  if (line === null || form === null || box === null) {
    return;
  }
  const sent = box.value;
  let left = Number(line.dataset["retry"]);
  const timer = setInterval(() => {
    if (box.value !== sent) {
      clearInterval(timer);
      return;
    }
    line.textContent = (words["retrying"] ?? "").replace("{n}", format(left));
    if (left <= 0) {
      clearInterval(timer);
      form.requestSubmit();
    }
    left -= 1;
  }, 1000);
}
