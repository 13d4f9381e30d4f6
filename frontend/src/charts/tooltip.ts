import type { TooltipHandler } from "vega";

/** Characters of a name or value that are shown. */
const LONGEST = 120;
/** Pixels between the pointer and what it is told. */
const GAP = 14;

/** Tells what the pointer is over, as text only: names come from strangers. */
export function tooltipIn(place: HTMLElement): TooltipHandler {
  const box = document.createElement("div");
  box.className = "chart-tooltip";
  box.hidden = true;
  document.body.append(box);
  place.addEventListener("pointerleave", () => (box.hidden = true));
  return (_handler, event, _item, value) => {
    box.hidden = value === null || value === undefined || value === "";
    if (!box.hidden) {
      box.replaceChildren(told(value));
      stand(box, event);
    }
  };
}

function told(value: unknown): Node {
  if (typeof value !== "object" || value === null) {
    return isolated(value);
  }
  const list = document.createElement("dl");
  for (const [name, one] of Object.entries(value)) {
    const term = document.createElement("dt");
    const description = document.createElement("dd");
    term.append(isolated(name));
    description.append(isolated(one));
    list.append(term, description);
  }
  return list;
}

/** Text whose direction cannot turn its neighbours' round. */
function isolated(value: unknown): HTMLElement {
  const letters = Array.from(String(value));
  const element = document.createElement("bdi");
  element.textContent = letters.length > LONGEST ? `${letters.slice(0, LONGEST).join("")}…` : letters.join("");
  return element;
}

/** Beside the pointer, and inside the window. */
function stand(box: HTMLElement, { clientX, clientY }: MouseEvent): void {
  const { width, height } = box.getBoundingClientRect();
  const right = clientX + GAP + width <= window.innerWidth;
  const below = clientY + GAP + height <= window.innerHeight;
  box.style.left = `${Math.max(0, right ? clientX + GAP : clientX - GAP - width)}px`;
  box.style.top = `${Math.max(0, below ? clientY + GAP : clientY - GAP - height)}px`;
}
