/** What every file in `islands/` exports. It improves what the server rendered, which works without it. */
interface Island {
  mount(element: HTMLElement): void;
}

const islands = import.meta.glob<Island>("./islands/*.ts");
const mounted = new WeakSet<HTMLElement>();

/** Bring every `[data-island]` under a root to life, once each; whoever inserts elements calls it again. */
export function mountAll(root: ParentNode): void {
  for (const element of root.querySelectorAll<HTMLElement>("[data-island]")) {
    if (!mounted.has(element)) {
      mounted.add(element);
      void mountOne(element);
    }
  }
}

async function mountOne(element: HTMLElement): Promise<void> {
  const name = element.dataset["island"] ?? "";
  try {
    const load = islands[`./islands/${name}.ts`];
    if (load === undefined) {
      throw new Error("there is no such island");
    }
    (await load()).mount(element);
  } catch (error) {
    console.error(`The island "${name}" did not start; the page works without it.`, error);
  }
}
