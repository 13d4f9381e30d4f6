/**
 * A chart that answers the mouse, in place of its picture.
 *
 * The server renders `<figure data-island="chart" data-spec="…json">`, and `data-spec-dark` where the browser chooses
 * between light and dark, with a picture (`img`, `picture` or `svg`), a hidden
 * `<button type="button" data-chart-start hidden>` and words for the failure in `data-words`. The library that draws
 * is large, so it is fetched when somebody asks for it: by the button, or by pointing at the picture.
 */

const words = { failed: "The interactive chart could not be loaded. The picture stays as it is." };

export function mount(figure: HTMLElement): void {
  const picture = figure.querySelector<HTMLElement>("picture, img, svg");
  const button = figure.querySelector<HTMLButtonElement>("[data-chart-start]");
  if (picture === null || figure.dataset["spec"] === undefined) {
    throw new Error("a chart needs a picture and data-spec");
  }
  const status = statusLine(figure);
  const said = { ...words, ...(JSON.parse(figure.dataset["words"] ?? "{}") as Partial<typeof words>) };
  const start = once(async () => {
    const address = specOf(figure);
    figure.setAttribute("aria-busy", "true");
    button?.setAttribute("disabled", "");
    status.textContent = "";
    try {
      await replace(picture, address);
      button?.remove();
    } catch (error) {
      console.error(`The chart ${address} cannot be drawn.`, error);
      status.textContent = said.failed;
      button?.removeAttribute("disabled");
    } finally {
      figure.removeAttribute("aria-busy");
    }
  });
  button?.removeAttribute("hidden");
  button?.addEventListener("click", start);
  picture.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && start(), { once: true });
}

/** Where the spec is: that of a dark page, if there is one and the page is dark. */
function specOf(figure: HTMLElement): string {
  const { spec, specDark } = figure.dataset;
  return (specDark !== undefined && matchMedia("(prefers-color-scheme: dark)").matches ? specDark : spec) ?? "";
}

/** One attempt at a time; after a failure the button may try again. */
function once(attempt: () => Promise<void>): () => void {
  let running = false;
  return () => {
    if (!running) {
      running = true;
      void attempt().finally(() => (running = false));
    }
  };
}

async function replace(picture: HTMLElement, address: string): Promise<void> {
  const [{ draw }, answer] = await Promise.all([import("../charts/draw"), fetch(address)]);
  if (!answer.ok) {
    throw new Error(`the server answered ${answer.status}`);
  }
  const place = document.createElement("div");
  place.className = "chart-live";
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", picture.querySelector("img")?.alt ?? picture.getAttribute("alt") ?? "");
  const canvas = document.createElement("div");
  place.append(canvas);
  picture.hidden = true;
  picture.after(place);
  try {
    await draw(canvas, await answer.json());
  } catch (error) {
    place.remove();
    picture.hidden = false;
    throw error;
  }
  picture.remove();
}

function statusLine(figure: HTMLElement): HTMLElement {
  const there = figure.querySelector<HTMLElement>("[data-chart-status]");
  if (there !== null) {
    return there;
  }
  const line = document.createElement("p");
  line.className = "chart-status";
  line.setAttribute("role", "status");
  figure.append(line);
  return line;
}
