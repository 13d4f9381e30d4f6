/** Boxes for prompts: Ctrl+Enter sends, and near the limit the characters are counted. */

/** From this share of the limit on, the characters that are left are shown. */
const NEAR = 0.8;

export function mountBoxes(root: HTMLElement, word: (name: string) => string): void {
  for (const box of root.querySelectorAll<HTMLTextAreaElement>("textarea.prompt-box")) {
    const line = box.parentElement?.querySelector<HTMLElement>("[data-count]") ?? null;
    const count = (): void => {
      if (line !== null) {
        show(box, line, word);
      }
    };
    box.addEventListener("input", count);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) {
        event.preventDefault();
        box.form?.requestSubmit();
      }
    });
    count();
  }
  root.addEventListener("submit", (event) => once(event));
}

/** Characters as the server counts them. */
function show(box: HTMLTextAreaElement, line: HTMLElement, word: (name: string) => string): void {
  const limit = Number(box.dataset["limit"] ?? 0);
  const length = [...box.value].length;
  const over = length > limit;
  line.hidden = length < limit * NEAR;
  line.classList.toggle("is-over", over);
  line.textContent = word(over ? "over" : "left").replace("{n}", format(Math.abs(limit - length)));
  box.setAttribute("aria-invalid", String(over));
}

/** A prompt is sent once, however often its button is pressed. */
function once(event: SubmitEvent): void {
  const form = event.target instanceof HTMLFormElement ? event.target : null;
  const button = form?.querySelector<HTMLButtonElement>("[data-send]") ?? null;
  if (form === null || button === null || event.defaultPrevented) {
    return;
  }
  if (form.dataset["sent"] !== undefined) {
    event.preventDefault();
    return;
  }
  form.dataset["sent"] = "";
  button.setAttribute("aria-disabled", "true");
  addEventListener("pageshow", () => {
    delete form.dataset["sent"];
    button.removeAttribute("aria-disabled");
  });
}

export function format(value: number): string {
  return value.toLocaleString(document.documentElement.lang);
}
