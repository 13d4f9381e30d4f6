/** Which responses have been on screen, and since when. */

export type Side = "a" | "b";

const SIDES: readonly Side[] = ["a", "b"];
/** Pixels of a response that must be in view: a line of text. */
const LINE = 24;

export class Watch {
  private readonly first = new Map<Side, number>();

  constructor(private readonly element: HTMLElement) {}

  /** Take note of what is on screen now. */
  look(): void {
    for (const side of this.unseen) {
      if (this.visible(side)) {
        this.first.set(side, performance.now());
      }
    }
  }

  /** The responses that have not been on screen. */
  get unseen(): Side[] {
    return SIDES.filter((side) => !this.first.has(side));
  }

  /** How many seconds ago each response was on screen first. */
  seconds(): Partial<Record<Side, number>> {
    const now = performance.now();
    return Object.fromEntries([...this.first].map(([side, at]) => [side, (now - at) / 1000]));
  }

  /** Whether a response has images that have not come. */
  loading(side: Side): boolean {
    return [...(this.response(side)?.querySelectorAll("img") ?? [])].some((image) => !image.complete);
  }

  /** Whether a response is on screen, neither behind the bar nor behind the tabs. */
  private visible(side: Side): boolean {
    const place = this.response(side)?.getBoundingClientRect();
    if (place === undefined || document.visibilityState === "hidden" || this.loading(side)) {
      return false;
    }
    const bar = this.element.querySelector(".bar")?.getBoundingClientRect().top ?? innerHeight;
    const tabs = this.element.querySelector(".tabs")?.getBoundingClientRect().bottom ?? 0;
    const height = Math.min(place.bottom, bar, innerHeight) - Math.max(place.top, tabs, 0);
    return height > 0 && height >= Math.min(LINE, place.height);
  }

  private response(side: Side): HTMLElement | null {
    return this.element.querySelector<HTMLElement>(`[data-side="${side}"] .response`);
  }
}
