/**
 * The leaderboard answers at once: a heading sorts in place, a search hides rows as one types, and a quiet line
 * tells when a newer board is there. The address keeps step, so what is seen can be shared and reloaded.
 */

type Change = Readonly<Record<string, string | null>>;

interface Words {
  newer: string;
  show: string;
  found: string;
  none: string;
}

/** Milliseconds between looks for a newer board. */
const LOOK = 15_000;
/** Columns that begin with the least. */
const RISING = new Set(["rank", "model", "spread"]);

export function mount(section: HTMLElement): void {
  const words = JSON.parse(section.dataset["words"] ?? "{}") as Words;
  const table = section.querySelector<HTMLTableElement>("table:not(.board-both)");
  if (table !== null) {
    sortInPlace(table);
    searchInPlace(section, table, words);
  }
  lookForNews(section, words);
  section.dataset["live"] = "";
}

function sortInPlace(table: HTMLTableElement): void {
  const links = [...table.querySelectorAll<HTMLAnchorElement>("thead a[data-sort]")];
  for (const link of links) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) {
        return;
      }
      event.preventDefault();
      const column = link.dataset["sort"] ?? "rank";
      const heading = link.closest("th");
      const before = heading?.getAttribute("aria-sort") ?? null;
      const rising = before === null ? RISING.has(column) : before === "descending";
      arrange(table, heading?.cellIndex ?? 0, rising);
      const usual = rising === RISING.has(column);
      const change = {
        sort: column === "rank" ? null : column,
        order: usual ? null : rising ? "asc" : "desc",
      };
      mark(links, link, rising);
      drawTierLines(table);
      keepStep(change);
    });
  }
}

/** Rows by the value of a cell; what has none comes last, and equals keep the order of the board. */
function arrange(table: HTMLTableElement, column: number, rising: boolean): void {
  const rows = [...table.tBodies].map((body, index) => {
    const cell = body.rows[0]?.cells[column];
    const stated = cell?.dataset["v"];
    const value = column === 1 ? nameOf(body) : stated === undefined ? null : Number(stated);
    return { body, value, rank: Number(body.rows[0]?.cells[0]?.dataset["v"] ?? Infinity), index };
  });
  rows.sort((one, other) => {
    if (one.value === null || other.value === null) {
      return Number(one.value === null) - Number(other.value === null) || one.rank - other.rank || one.index - other.index;
    }
    const order = one.value < other.value ? -1 : one.value > other.value ? 1 : 0;
    return (rising ? order : -order) || (one.rank === other.rank ? one.index - other.index : one.rank - other.rank);
  });
  table.append(...rows.map((row) => row.body));
}

/** A line where a tier begins among the rows that are seen; in another order than that of the ranks there are none. */
function drawTierLines(table: HTMLTableElement): void {
  const ranked = table.querySelector('th[aria-sort="ascending"] a[data-sort="rank"]') !== null;
  let above: string | undefined;
  for (const body of table.tBodies) {
    if (body.hidden) {
      continue;
    }
    const tier = body.dataset["tier"];
    body.classList.toggle("tier-line", ranked && above !== undefined && tier !== undefined && tier !== above);
    above = tier;
  }
}

function nameOf(body: HTMLTableSectionElement): string {
  return (body.querySelector("th a")?.textContent ?? "").toLowerCase();
}

/** Say which heading sorts, and let every link lead where it would now. */
function mark(links: readonly HTMLAnchorElement[], chosen: HTMLAnchorElement, rising: boolean): void {
  for (const link of links) {
    const column = link.dataset["sort"] ?? "rank";
    link.closest("th")?.removeAttribute("aria-sort");
    let order: string | null = null;
    if (link === chosen) {
      link.closest("th")?.setAttribute("aria-sort", rising ? "ascending" : "descending");
      order = rising ? "desc" : "asc";
    }
    link.href = changed(link.href, { sort: column, order });
  }
}

function searchInPlace(section: HTMLElement, table: HTMLTableElement, words: Words): void {
  const input = document.querySelector<HTMLInputElement>("#f-q");
  if (input === null || input.value !== "") {
    return; // The server has left rows out, so only it can bring them back.
  }
  const count = section.querySelector("[data-count]");
  const region = table.closest(".table-region");
  input.addEventListener("input", () => {
    const sought = input.value.trim().toLowerCase();
    let found = 0;
    for (const body of table.tBodies) {
      body.hidden = !nameOf(body).includes(sought);
      found += Number(!body.hidden);
    }
    drawTierLines(table);
    region?.toggleAttribute("hidden", found === 0);
    if (count !== null) {
      count.textContent = found === 0 ? words.none : words.found.replace("#1", String(found));
      count.className = found === 0 ? "nothing" : "visually-hidden";
    }
    keepStep({ q: input.value.trim() || null });
  });
}

/** The page's address, and the links and forms that follow it, with some choices changed. */
function keepStep(change: Change): void {
  history.replaceState(history.state, "", changed(location.href, change));
  for (const link of document.querySelectorAll<HTMLAnchorElement>(".files a, .chart-tabs a, .board-tabs a, .excluded-link a")) {
    link.href = changed(link.href, change);
  }
  for (const field of document.querySelectorAll<HTMLInputElement>('form.theme input[name="next"]')) {
    field.value = location.pathname + location.search;
  }
  const form = document.querySelector<HTMLFormElement>("form.filters");
  for (const name of ["sort", "order"]) {
    const value = change[name];
    if (form === null || value === undefined) {
      continue;
    }
    form.querySelector(`input[type="hidden"][name="${name}"]`)?.remove();
    if (value !== null) {
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name, value });
      form.append(field);
    }
  }
}

function changed(address: string, change: Change): string {
  const url = new URL(address);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) {
      url.searchParams.delete(name);
    } else {
      url.searchParams.set(name, value);
    }
  }
  return url.href;
}

function lookForNews(section: HTMLElement, words: Words): void {
  const address = section.dataset["newest"];
  const line = section.querySelector("[data-news]");
  if (address === undefined || line === null) {
    return;
  }
  const shown = section.dataset["snapshot"]?.split(" ") ?? [];
  const timer = setInterval(() => {
    if (document.visibilityState === "visible") {
      void isNewer(address, shown).then((newer) => {
        if (newer) {
          clearInterval(timer);
          const link = document.createElement("a");
          link.href = location.href;
          link.textContent = words.show;
          link.addEventListener("click", (event) => {
            event.preventDefault();
            location.reload();
          });
          line.replaceChildren(`${words.newer} `, link);
        }
      });
    }
  }, LOOK);
}

/** Whether boards that are shown are not the newest ones. A server that cannot be reached has no news. */
async function isNewer(address: string, shown: readonly string[]): Promise<boolean> {
  try {
    const answer = await fetch(address, { cache: "no-cache" });
    const { snapshots } = (await answer.json()) as { snapshots: Readonly<Record<string, string>> };
    const newest = Object.values(snapshots);
    return shown.some((one) => !newest.includes(one));
  } catch {
    return false;
  }
}
