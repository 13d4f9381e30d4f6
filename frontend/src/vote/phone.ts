/** Two responses on a phone: one at a time, by tabs or by a swipe, each where one left it; and a prompt of two lines. */

/** A swipe is longer than this, in pixels, and so many times as wide as high. */
const SWIPE = 60;
const STEEP = 2;
/** What scrolls sideways itself, or is played with. */
const OWN_TOUCH = "pre, table, .wide, input, audio, video, iframe, textarea, details.prompt-folded";

export class Phone {
  /** Where each tab was left, in pixels of the page. */
  private readonly left = new Map<string, number>();
  private from: Touch | null = null;

  constructor(private readonly root: HTMLElement) {
    root.addEventListener("change", (event) => {
      if (event.target instanceof HTMLInputElement && event.target.matches(".tabs input")) {
        this.switched(event.target);
      }
    });
    root.addEventListener("click", (event) => {
      const text = event.target instanceof Element ? event.target.closest(".prompt[data-long] > .prompt-text") : null;
      text?.parentElement?.querySelector<HTMLInputElement>(".prompt-open input:not(:checked)")?.click();
    });
    root.addEventListener("touchstart", (event) => this.touched(event), { passive: true });
    root.addEventListener("touchend", (event) => this.swiped(event), { passive: true });
    addEventListener("scroll", () => this.remember(), { passive: true });
  }

  /** Whether the prompt of the matchup that is shown has more than the lines that are seen. */
  look(): void {
    const prompt = this.root.querySelector(".stage:not(.stage-ahead) > .prompt");
    const text = prompt?.querySelector(":scope > .prompt-text") ?? null;
    if (prompt !== null && text !== null && prompt.querySelector(".prompt-open :checked") === null) {
      prompt.toggleAttribute("data-long", text.scrollHeight > text.clientHeight + 4);
    }
  }

  private get tabs(): HTMLInputElement[] {
    const all = this.root.querySelectorAll<HTMLInputElement>(".stage:not(.stage-ahead) .tabs input");
    return [...all].filter((tab) => tab.closest(".tabs")?.checkVisibility() ?? false);
  }

  private remember(): void {
    const shown = this.tabs.find((tab) => tab.checked);
    if (shown !== undefined) {
      this.left.set(keyOf(shown), scrollY);
    }
  }

  /** Back to where this response was left; one that was not read yet begins at its top. */
  private switched(tab: HTMLInputElement): void {
    if (!this.tabs.includes(tab)) {
      return;
    }
    const bar = tab.closest(".tabs");
    const top = scrollY + (bar?.parentElement?.getBoundingClientRect().top ?? 0);
    scrollTo({ top: this.left.get(keyOf(tab)) ?? Math.min(scrollY, top), behavior: "instant" });
  }

  private touched(event: TouchEvent): void {
    const own = event.target instanceof Element && event.target.closest(OWN_TOUCH) !== null;
    const inside = event.target instanceof Element && event.target.closest(".side .response") !== null;
    this.from = event.touches.length === 1 && inside && !own ? (event.touches[0] ?? null) : null;
  }

  private swiped(event: TouchEvent): void {
    const [from, to] = [this.from, event.changedTouches[0] ?? null];
    this.from = null;
    if (from === null || to === null || getSelection()?.isCollapsed === false) {
      return;
    }
    const [across, down] = [to.clientX - from.clientX, to.clientY - from.clientY];
    if (Math.abs(across) < SWIPE || Math.abs(across) < STEEP * Math.abs(down)) {
      return;
    }
    const forward = across < 0 === (getComputedStyle(this.root).direction !== "rtl");
    const tab = this.tabs[forward ? 1 : 0];
    if (tab !== undefined && !tab.checked) {
      tab.click();
    }
  }
}

function keyOf(tab: HTMLInputElement): string {
  return `${tab.name} ${tab.value}`;
}
