/** Two answers while they are written: what the server sends, put where it belongs. */

export type Letter = "a" | "b";
export type TurnState = "waiting" | "streaming" | "done" | "stopped" | "void";

/** What changes on one side: characters behind the open text, or complete blocks and the open text after them. */
interface SideUpdate {
  readonly add?: string;
  readonly blocks?: readonly (readonly [html: string, joins: boolean])[];
  readonly tail?: string;
  readonly code?: boolean;
  readonly shown: number;
  readonly ended: boolean;
  /** The whole answer, where it looks otherwise than its blocks. */
  readonly whole?: string;
}

interface Update {
  readonly state: TurnState;
  readonly a: SideUpdate;
  readonly b: SideUpdate;
}

export interface Reader {
  /** Something was written on a side; its answer, if blocks became complete. */
  wrote(letter: Letter, shown: number, ended: boolean, blocks: HTMLElement | null): void;
  /** The turn has ended; nothing more comes. */
  ended(state: TurnState): void;
  /** The connection is lost, or there again. */
  connected(is: boolean): void;
  /** The page shows something else than what is written now. */
  outdated(): void;
}

const LETTERS: readonly Letter[] = ["a", "b"];
const WAITS: readonly number[] = [300, 1000, 2000, 4000, 8000];

/** One answer in the page. */
class Answer {
  private readonly element: HTMLElement;
  private tail: HTMLElement;

  constructor(root: HTMLElement, letter: Letter) {
    this.element = find(root, `[data-answer="${letter}"]`);
    this.tail = find(this.element, "[data-tail]");
  }

  /** Put an update in its place; the answer, if blocks came. */
  take(update: SideUpdate): HTMLElement | null {
    if (update.add !== undefined) {
      this.text.append(update.add);
    }
    for (const [html, joins] of update.blocks ?? []) {
      this.place(html, joins);
    }
    if (update.tail !== undefined) {
      this.open(update.tail, update.code ?? false);
    }
    if (update.whole !== undefined) {
      this.element.innerHTML = update.whole;
      this.element.append(this.tail);
    }
    if (update.ended) {
      this.tail.hidden = true;
    }
    return update.blocks === undefined ? null : this.element;
  }

  /** Nothing is open any more. */
  close(): void {
    this.tail.remove();
    delete this.element.dataset["answer"];
  }

  private get text(): HTMLElement {
    return this.tail.querySelector<HTMLElement>("code") ?? this.tail;
  }

  private place(html: string, joins: boolean): void {
    const before = this.tail.previousElementSibling;
    if (joins && before !== null) {
      before.insertAdjacentHTML("beforeend", html);
    } else {
      this.tail.insertAdjacentHTML("beforebegin", html);
    }
  }

  /** The open text: as it is written, or as code without the line that opens it. */
  private open(text: string, code: boolean): void {
    const made = document.createElement(code ? "pre" : "p");
    made.className = "live-tail";
    made.dir = code ? "ltr" : "auto";
    made.dataset["tail"] = "";
    if (code) {
      const inside = document.createElement("code");
      inside.textContent = text.slice(text.indexOf("\n") + 1);
      made.append(inside);
    } else {
      made.textContent = text;
    }
    this.tail.replaceWith(made);
    this.tail = made;
  }
}

/** Follows a turn to its end. A lost connection goes on from where it was. */
export class TurnStream {
  private readonly answers: Readonly<Record<Letter, Answer>>;
  private source: EventSource | null = null;
  private tries = 0;

  constructor(
    root: HTMLElement,
    private readonly path: string,
    private mark: string,
    private readonly reader: Reader,
  ) {
    this.answers = { a: new Answer(root, "a"), b: new Answer(root, "b") };
    addEventListener("online", () => this.hurry());
    this.connect();
  }

  private connect(): void {
    const source = new EventSource(`${this.path}?from=${this.mark}`);
    this.source = source;
    source.addEventListener("message", (event: MessageEvent<string>) => this.take(event));
    source.addEventListener("gap", () => {
      this.close();
      this.reader.outdated();
    });
    source.addEventListener("error", () => this.lost());
  }

  private take(event: MessageEvent<string>): void {
    const update = JSON.parse(event.data) as Update;
    this.mark = event.lastEventId;
    if (this.tries > 0) {
      this.tries = 0;
      this.reader.connected(true);
    }
    for (const letter of LETTERS) {
      const side = update[letter];
      this.reader.wrote(letter, side.shown, side.ended, this.answers[letter].take(side));
    }
    if (update.state !== "waiting" && update.state !== "streaming") {
      this.close();
      LETTERS.forEach((letter) => this.answers[letter].close());
      this.reader.ended(update.state);
    }
  }

  /** Connect again from the last mark, later each time. */
  private lost(): void {
    this.close();
    const wait = WAITS[Math.min(this.tries, WAITS.length - 1)] ?? 0;
    this.tries += 1;
    if (this.tries > 1) {
      this.reader.connected(false);
    }
    setTimeout(() => this.hurry(), wait);
  }

  private hurry(): void {
    if (this.source === null && this.tries > 0) {
      this.connect();
    }
  }

  private close(): void {
    this.source?.close();
    this.source = null;
  }
}

function find(root: ParentNode, selector: string): HTMLElement {
  const found = root.querySelector<HTMLElement>(selector);
  if (found === null) {
    throw new Error(`there is no ${selector}`);
  }
  return found;
}
