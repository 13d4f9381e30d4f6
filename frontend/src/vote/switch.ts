/** The switch that turns the keys on and off. */

import { want, wanted } from "./keys";

export class KeySwitch {
  private on = wanted();

  constructor(private readonly root: HTMLElement) {
    const row = root.querySelector<HTMLElement>("[data-switch]");
    const box = row?.querySelector("input") ?? null;
    if (row !== null && box !== null) {
      row.hidden = false;
      box.checked = this.on;
      box.addEventListener("change", () => {
        this.on = box.checked;
        want(box.checked);
        this.show();
      });
    }
    this.show();
  }

  /** Whether keys mean something now; another tab may have turned them off. */
  get works(): boolean {
    return this.on && wanted();
  }

  /** The keys stand on the buttons while they work. */
  show(): void {
    this.root.classList.toggle("with-keys", this.on);
    for (const button of this.root.querySelectorAll<HTMLElement>("[data-keys]")) {
      if (this.on) {
        button.setAttribute("aria-keyshortcuts", button.dataset["keys"] ?? "");
      } else {
        button.removeAttribute("aria-keyshortcuts");
      }
    }
  }
}
