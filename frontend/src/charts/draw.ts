/** Draws a Vega-Lite spec under the pages' policy: nothing is evaluated, styled inline or fetched from elsewhere. */

import embed, { type VisualizationSpec } from "vega-embed";
import { expressionInterpreter } from "vega-interpreter";
import { look } from "./look";
import { tooltipIn } from "./tooltip";

type Fields = Record<string, unknown>;

/** Errors are told, warnings about a spec are not: those who read a page did not write it. */
const ERRORS = 1;
/** The share of a chart's width that labels may take. */
const LABELS = 0.4;

export async function draw(place: HTMLElement, spec: Fields): Promise<void> {
  await embed(place, fitted(place, spec) as unknown as VisualizationSpec, {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    ast: true,
    expr: expressionInterpreter,
    logLevel: ERRORS,
    config: look(place),
    loader: { load: refuse, sanitize: refuse, http: refuse, file: refuse },
    tooltip: tooltipIn(place),
  });
}

/** A chart of one view takes the width that there is. What a spec says about embedding is not heeded. */
function fitted(place: HTMLElement, { usermeta: _, ...spec }: Fields): Fields {
  const oneView = "mark" in spec || "layer" in spec;
  if (oneView && typeof spec["width"] === "number") {
    const autosize = { type: "fit-x", contains: "padding" };
    return { ...withLabels(spec, place.clientWidth * LABELS), width: "container", autosize };
  }
  return spec;
}

/** The same spec with labels that are no longer than this. Its rows, which may be many, stay as they are. */
function withLabels<One>(part: One, most: number): One {
  if (Array.isArray(part)) {
    return part.map((one: unknown) => withLabels(one, most)) as One;
  }
  if (typeof part !== "object" || part === null) {
    return part;
  }
  const changed = Object.entries(part).map(([name, value]: [string, unknown]) => {
    if (name === "labelLimit" && typeof value === "number") {
      return [name, Math.min(value, most)];
    }
    return [name, name === "data" || name === "datasets" ? value : withLabels(value, most)];
  });
  return Object.fromEntries(changed) as One;
}

function refuse(): Promise<never> {
  return Promise.reject(new Error("a chart brings its own data"));
}
