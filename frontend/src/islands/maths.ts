/**
 * Formulas, drawn by the browser itself.
 *
 * The server renders `<span class="maths" data-display="block|inline">` with the TeX source as its text, which stays
 * where a formula cannot be read. The library makes a tree; only elements, attributes and styles that belong to a
 * formula are taken from it, so a formula can neither link, nor load, nor run anything.
 *
 * Few systems have a font with the measures that formulas need, so one comes with the page. The browser loads it when a
 * formula is drawn and no such font is installed (text.css).
 */

import font from "@fontsource/noto-sans-math/files/noto-sans-math-latin-400-normal.woff2?url";

/** A longer source, and a larger formula, is not drawn. */
const LONGEST_SOURCE = 2_000;
const MOST_NODES = 4_000;
/** Formulas of one text that are drawn, and the milliseconds before the page may breathe. */
const MOST_FORMULAS = 1_000;
const SLICE = 12;

const MATHML = "http://www.w3.org/1998/Math/MathML";
const ELEMENTS = new Set(
  (
    "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mmultiscripts " +
    "mprescripts none mtable mtr mtd mstyle mpadded mphantom menclose semantics"
  ).split(" "),
);
const ATTRIBUTES = new Set(
  (
    "accent accentunder columnalign columnspan depth display displaystyle fence form height largeop linebreak " +
    "linethickness lspace mathbackground mathcolor mathsize mathvariant maxsize minsize movablelimits notation " +
    "rowspacing rspace scriptlevel separator stretchy symmetric voffset width"
  ).split(" "),
);
const STYLES = new Set(
  (
    "border border-bottom border-left border-right border-top color display font-family font-style font-weight height " +
    "justify-content margin-left math-depth padding padding-bottom padding-left padding-right padding-top text-align " +
    "white-space width"
  ).split(" "),
);

/** A text that grows is mounted again for what was added. */
const UNDRAWN = ".maths:not(.maths-drawn, .maths-failed)";

type Temml = typeof import("temml");

export function mount(element: HTMLElement): void {
  const formulas = [...element.querySelectorAll<HTMLElement>(UNDRAWN)].slice(0, MOST_FORMULAS);
  if (formulas.length > 0) {
    void drawAll(formulas).then(() => new ResizeObserver(() => fit(element, formulas)).observe(element));
  }
}

/** Formulas that are wider than their text scroll by themselves, by keys too. */
function fit(element: HTMLElement, formulas: readonly HTMLElement[]): void {
  for (const formula of formulas) {
    formula.classList.remove("maths-wide");
  }
  const room = element.clientWidth;
  const wide = formulas.map((formula) => Math.max(formula.scrollWidth, formula.getBoundingClientRect().width) > room);
  formulas.forEach((formula, place) => {
    formula.classList.toggle("maths-wide", wide[place]);
    if (wide[place]) {
      formula.tabIndex = 0;
    } else {
      formula.removeAttribute("tabindex");
    }
  });
}

async function drawAll(formulas: readonly HTMLElement[]): Promise<void> {
  const temml = await import("temml");
  document.fonts.add(new FontFace("Tiltyard Math", `url("${font}") format("woff2")`));
  let rested = performance.now();
  for (const formula of formulas) {
    drawOne(formula, temml);
    if (performance.now() - rested > SLICE) {
      await new Promise((resolve) => setTimeout(resolve));
      rested = performance.now();
    }
  }
}

function drawOne(formula: HTMLElement, temml: Temml): void {
  if (!formula.matches(UNDRAWN)) {
    return;
  }
  const source = formula.textContent ?? "";
  try {
    if (source.length > LONGEST_SOURCE) {
      throw new RangeError("the formula is too long");
    }
    const tree: unknown = temml.default.__renderToMathMLTree(source, {
      displayMode: formula.dataset["display"] === "block",
      throwOnError: true,
      trust: false,
      strict: false,
      macros: {},
      maxSize: [8, 80],
      maxExpand: 100,
      wrap: "none",
    });
    formula.replaceChildren(new Copy().of(tree));
    formula.classList.add("maths-drawn");
  } catch {
    formula.classList.add("maths-failed");
  }
}

/** A tree of the library as elements of the page, as far as its parts are known to be harmless. */
class Copy {
  private nodes = 0;

  of(tree: unknown): Node {
    this.nodes += 1;
    if (this.nodes > MOST_NODES || !isRecord(tree)) {
      throw new RangeError("the formula is too large");
    }
    if (typeof tree["text"] === "string") {
      return document.createTextNode(tree["text"]);
    }
    const parent = this.parent(tree);
    for (const child of Array.isArray(tree["children"]) ? (tree["children"] as unknown[]) : []) {
      parent.append(this.of(child));
    }
    return parent;
  }

  private parent(tree: Record<string, unknown>): DocumentFragment | MathMLElement {
    if (tree["type"] === undefined) {
      if (tree["href"] !== undefined || tree["src"] !== undefined) {
        throw new TypeError("a formula neither links nor loads");
      }
      return document.createDocumentFragment();
    }
    const name = String(tree["type"]);
    if (!ELEMENTS.has(name)) {
      throw new TypeError(`<${name}> is no part of a formula`);
    }
    const element = document.createElementNS(MATHML, name) as MathMLElement;
    for (const [attribute, value] of entries(tree["attributes"])) {
      if (ATTRIBUTES.has(attribute)) {
        element.setAttribute(attribute, value);
      }
    }
    for (const [property, value] of entries(tree["style"])) {
      const hyphened = property.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      if (STYLES.has(hyphened) && !value.includes("(")) {
        element.style.setProperty(hyphened, value);
      }
    }
    for (const name of Array.isArray(tree["classes"]) ? (tree["classes"] as unknown[]) : []) {
      if (typeof name === "string" && name.startsWith("tml-")) {
        element.classList.add(name);
      }
    }
    return element;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function entries(value: unknown): [string, string][] {
  return isRecord(value) ? Object.entries(value).map(([name, each]) => [name, String(each)]) : [];
}
