/** What somebody does to read: text size, raw text, one response on the whole screen. Nothing of it is sent. */

import type { Frame } from "./frame";
import { Phone } from "./phone";

const KEPT = "tiltyard.text-size";
const SIZES: readonly number[] = [0.875, 1, 1.125, 1.25, 1.5];
const USUAL = 1;

export class Panes {
  private size = keptSize();
  private readonly phone: Phone;

  constructor(
    private readonly root: HTMLElement,
    private readonly frame: Frame,
  ) {
    const sizes = root.querySelector<HTMLElement>("[data-sizes]");
    if (sizes !== null) {
      sizes.hidden = false;
    }
    this.phone = new Phone(root);
    this.resize(0);
    root.addEventListener("click", (event) => this.clicked(event));
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        this.close();
      }
    });
    for (const moved of ["scroll", "resize"]) {
      addEventListener(moved, () => this.look(), { passive: true });
    }
  }

  /** Which responses of the matchup that is shown go on below the bar. */
  look(): void {
    const stage = this.root.querySelector(".stage:not(.stage-ahead)");
    const bar = stage?.querySelector(".bar")?.getBoundingClientRect();
    const edge = Math.min(bar?.top ?? innerHeight, innerHeight);
    // Everything is measured before anything is changed: otherwise the page is laid out once more for each change.
    const sides = [...(stage?.querySelectorAll("[data-side]") ?? [])];
    const below = sides.map((side) => (side.querySelector(".response")?.getBoundingClientRect().bottom ?? 0) > edge + 8);
    this.root.style.setProperty("--bar", `${Math.round(bar?.height ?? 0)}px`);
    sides.forEach((side, place) => side.toggleAttribute("data-below", below[place]));
    this.phone.look();
  }

  /** From the whole screen back to both responses. */
  private close(): void {
    for (const box of this.root.querySelectorAll<HTMLInputElement>(".side-zoom:checked")) {
      box.checked = false;
    }
  }

  private clicked(event: MouseEvent): void {
    const target = event.target instanceof Element ? event.target : null;
    const size = target?.closest<HTMLElement>("[data-size]") ?? null;
    const raw = target?.closest<HTMLAnchorElement>("[data-raw]") ?? null;
    if (size !== null) {
      this.resize(Number(size.dataset["size"]));
    } else if (raw !== null && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      void this.toggleRaw(raw);
    }
  }

  private resize(by: number): void {
    this.size = Math.max(0, Math.min(SIZES.length - 1, this.size + by));
    this.root.style.setProperty("--reading", String(SIZES[this.size] ?? USUAL));
    if (by !== 0) {
      keepSize(this.size);
    }
  }

  /** The text as the model wrote it, or rendered again. */
  private async toggleRaw(link: HTMLAnchorElement): Promise<void> {
    const response = link.closest("[data-side]")?.querySelector(".response") ?? null;
    if (response === null) {
      return;
    }
    let raw = response.querySelector<HTMLElement>(".raw");
    if (raw === null) {
      try {
        const answer = await fetch(link.href, { cache: "no-store" });
        if (!answer.ok) {
          throw new Error(String(answer.status));
        }
        raw = document.createElement("pre");
        raw.className = "raw";
        raw.dir = "auto";
        raw.hidden = true;
        raw.textContent = await answer.text();
        response.append(raw);
      } catch {
        this.frame.say("failed");
        return;
      }
    }
    const shown = response.classList.toggle("is-raw");
    raw.hidden = !shown;
    link.textContent = this.frame.word(shown ? "rendered" : "raw");
    this.look();
  }
}

function keptSize(): number {
  try {
    const kept = Number(localStorage.getItem(KEPT) ?? USUAL);
    return Number.isInteger(kept) ? kept : USUAL;
  } catch {
    return USUAL;
  }
}

function keepSize(size: number): void {
  try {
    localStorage.setItem(KEPT, String(size));
  } catch {
    // Nothing can be kept here: it holds for this page.
  }
}
