"use strict";
(() => {
  const folder = "report_data";
  const parts = new Map();
  const waiting = new Map();

  /** Called by every part when it is loaded. */
  window.tiltyardPart = (name, value) => {
    parts.set(name, value);
  };

  const run = (name) => {
    if (!waiting.has(name)) {
      waiting.set(name, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = `${folder}/${name}.js`;
        script.onload = () => { script.remove(); resolve(); };
        script.onerror = () => { script.remove(); waiting.delete(name); reject(new Error(script.src)); };
        document.head.append(script);
      }));
    }
    return waiting.get(name);
  };

  const load = async (kind, number) => {
    const name = `${kind}-${String(number).padStart(4, "0")}`;
    await run(name);
    const value = parts.get(name);
    if (value === undefined) throw new Error(name);
    return value;
  };

  /** A few parts of texts are kept, the ones used last. */
  const recent = [];
  const text = async (kind, number) => {
    const name = `${kind}-${String(number).padStart(4, "0")}`;
    const value = await load(kind, number);
    if (recent.includes(name)) recent.splice(recent.indexOf(name), 1);
    recent.push(name);
    if (recent.length > 30) {
      const oldest = recent.shift();
      parts.delete(oldest);
      waiting.delete(oldest);
    }
    return value;
  };

  for (const fold of document.querySelectorAll("details.charts")) {
    fold.addEventListener("toggle", () => {
      if (!fold.open) return;
      run("charts").catch(() => { fold.querySelector(".chart").textContent = lost(`${folder}/charts.js`); });
    });
  }

  const lost = (file) => `${file} cannot be read. Keep the folder ${folder} beside this file.`;
  const source = document.getElementById("said-data");
  if (source === null) return;
  const data = JSON.parse(source.textContent);
  const section = document.getElementById("said");
  const app = section.querySelector(".said");
  const form = app.querySelector("form");
  const list = app.querySelector("ol");
  const pages = app.querySelector(".said-pages");
  const count = app.querySelector(".said-count");
  const one = app.querySelector(".said-one");
  const rowsOfPage = 40;
  const rows = [];
  const several = data.judges.length > 1;

  // --- Small pieces. Text from a run only ever becomes a text node or the value of a form field.

  /** Show what has no shape of its own: control characters, changes of direction, invisible ones. */
  const visible = (words) => words.replace(/\r\n/g, "\n").replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e0fff}]/gu,
    (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`,
  );
  const make = (tag, values, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(values || {})) element.setAttribute(name, value);
    for (const child of children) {
      if (child !== null && child !== "") {
        element.append(typeof child === "string" ? document.createTextNode(visible(child)) : child);
      }
    }
    return element;
  };
  const name = (words) => make("bdi", {}, words);
  const number = (value) => value.toLocaleString("en");

  // --- The address: #said?show=flips&dimension=…&open=dimension/prompt/a/b

  const fields = ["show", "dimension", "a", "b", "judge", "category", "find"];
  let state = {};
  const decode = (words) => { try { return decodeURIComponent(words); } catch { return words; } };
  const encode = (words) => encodeURIComponent(words.toWellFormed?.() ?? words);
  /** The same match, whoever spelled its address. */
  const recode = (key) => key.split("/").map((piece) => encode(decode(piece))).join("/");
  const readAddress = () => {
    const found = {};
    const [place, rest] = location.hash.slice(1).split(/\?(.*)/s);
    if (place !== "said") return null;
    for (const piece of (rest || "").split("&")) {
      const [key, value] = piece.split(/=(.*)/s);
      if (fields.includes(key) || key === "open") found[key] = key === "open" ? recode(value || "") : decode(value || "");
    }
    return found;
  };
  const address = (changed) => {
    const wanted = { ...state, ...changed };
    const said = fields.filter((key) => wanted[key] && !(key === "show" && wanted[key] === "all"))
      .map((key) => `${key}=${encode(wanted[key])}`);
    if (wanted.open) said.push(`open=${wanted.open}`);
    return `#said${said.length ? "?" : ""}${said.join("&")}`;
  };
  const keyOf = (row) => {
    const told = [data.dimensions[row.dimension], row.prompt[0], data.entrants[row.a], data.entrants[row.b]];
    if (row.check) told.push(row.check, data.judges[row.judge], String(row.slot));
    return told.map(encode).join("/");
  };

  // --- The index.

  const places = new Map();
  const addPart = (part) => {
    for (const [file, together] of part.rows) {
      for (const line of together.split(";")) {
        const [prompt, a, b, result, check, judge, slot] = line.split(" ");
        const place = places.get(file) || 0;
        places.set(file, place + 1);
        rows.push({
          dimension: part.dimension, prompt: part.prompts[prompt], a: Number(a), b: Number(b), result, file, place,
          check: check || "", judge: Number(judge || 0), slot: Number(slot || 0),
        });
      }
    }
  };
  const winners = { A: 1, a: 1, B: 2, b: 2, "=": 0, x: 0 };
  const disputed = (result) => {
    let seen = -1;
    for (const letter of result) {
      if (letter === "-") continue;
      if (seen >= 0 && winners[letter] !== seen) return true;
      seen = winners[letter];
    }
    return false;
  };
  const shows = (show, row, judge) => {
    const mine = judge < 0 || row.check ? row.result : row.result[judge];
    switch (show) {
      case "flips": return !row.check && mine.includes("x");
      case "disputed": return !row.check && disputed(row.result);
      case "none": return mine.includes("-");
      case "failed": return row.check !== "" && mine === "!";
      case "checks": return row.check !== "";
      default: return !row.check;
    }
  };
  const chosen = () => {
    const at = (values, value) => (value ? values.indexOf(value) : -1);
    const wanted = {
      dimension: at(data.dimensions, state.dimension), a: at(data.entrants, state.a), b: at(data.entrants, state.b),
      judge: at(data.judges, state.judge), category: at(data.categories, state.category),
      find: (state.find || "").toLowerCase(),
    };
    const between = (row) => {
      const sides = [wanted.a, wanted.b].filter((side) => side >= 0);
      if (sides.length === 2 && sides[0] !== sides[1]) return sides.includes(row.a) && sides.includes(row.b) && row.a !== row.b;
      return sides.every((side) => side === row.a || side === row.b);
    };
    const fits = (row) => (wanted.dimension < 0 || row.dimension === wanted.dimension)
      && (wanted.category < 0 || row.prompt[1] === wanted.category)
      && between(row)
      && (wanted.judge < 0 || !row.check || row.judge === wanted.judge)
      && (!wanted.find || `${row.prompt[0]} ${row.prompt[2]}`.toLowerCase().includes(wanted.find));
    const kinds = [...form.elements.namedItem("show")].map((chip) => chip.value);
    const counts = Object.fromEntries(kinds.map((kind) => [kind, 0]));
    const found = [];
    for (const row of rows) {
      if (!fits(row)) continue;
      for (const kind of kinds) {
        if (shows(kind, row, wanted.judge)) {
          counts[kind] += 1;
          if (kind === (state.show || "all")) found.push(row);
        }
      }
    }
    return { found, counts };
  };

  // --- The list.

  const kinds = { i: "identical pair", t: "truncated copy", g: "shuffled copy", r: "asked again", s: "another prompt's response", e: "empty response" };
  const marks = { "+": "passed", "!": "failed", "-": "no verdict", "?": "nothing to compare with" };
  const outcome = (letter, row) => ({
    A: `${data.entrants[row.a]} won`, B: `${data.entrants[row.b]} won`, a: `lean to ${data.entrants[row.a]}`,
    b: `lean to ${data.entrants[row.b]}`, "=": "tie", x: "flip", "-": "no verdict",
  }[letter]);
  const tone = (letter) => ({ x: "bad", "!": "bad", "-": "none", "?": "none" }[letter] || "");
  const tags = (row) => {
    if (row.check) return [make("span", { class: `tag ${tone(row.result)}` }, `${kinds[row.check]}: ${marks[row.result]}`)];
    const counts = new Map();
    for (const letter of row.result) counts.set(letter, (counts.get(letter) || 0) + 1);
    return [...counts].map(([letter, times]) => make(
      "span", { class: `tag ${tone(letter)}` }, several ? `${times} × ${outcome(letter, row)}` : outcome(letter, row),
    ));
  };
  const title = (row) => (row.check && row.check !== "r"
    ? [name(data.entrants[row.a])]
    : [name(data.entrants[row.a]), " and ", name(data.entrants[row.b])]);
  const item = (row, current) => {
    const link = make(
      "a", { href: address({ open: keyOf(row) }), ...(current ? { "aria-current": "true" } : {}) },
      make("span", { class: "prompt", dir: "auto" }, row.prompt[2] || row.prompt[0]),
      make("span", { class: "models" }, ...title(row)),
      make("span", { class: "tags" }, ...tags(row), make("span", { class: "soft" }, data.dimensions[row.dimension], " · ", name(row.prompt[0]))),
    );
    return make("li", {}, link);
  };
  let current = { found: [], page: 0, index: -1 };
  let complete = false;
  const drawList = () => {
    const { found, page } = current;
    const first = page * rowsOfPage;
    const shown = found.slice(first, first + rowsOfPage);
    list.replaceChildren(...shown.map((row, k) => item(row, first + k === current.index)));
    list.setAttribute("start", String(first + 1));
    const turn = (label, to, able) => {
      const button = make("button", { type: "button" }, label);
      button.disabled = !able;
      button.addEventListener("click", () => { current.page = to; drawList(); list.querySelector("a")?.focus(); });
      return button;
    };
    const last = Math.ceil(found.length / rowsOfPage) - 1;
    const range = make("span", {}, `${number(first + 1)}–${number(first + shown.length)} of ${number(found.length)}`);
    pages.replaceChildren(...(last > 0 ? [turn("Back", page - 1, page > 0), range, turn("More", page + 1, page < last)] : []));
  };
  const sync = () => {
    for (const key of fields) {
      const field = form.elements.namedItem(key);
      if (field !== null) field.value = state[key] || (key === "show" ? "all" : "");
    }
  };
  const draw = () => {
    const { found, counts } = chosen();
    for (const chip of form.elements.namedItem("show")) {
      chip.parentElement.querySelector("b").textContent = number(counts[chip.value]);
    }
    const index = state.open ? found.findIndex((row) => keyOf(row) === state.open) : -1;
    current = { found, index, page: Math.max(0, Math.floor(index / rowsOfPage)) };
    const total = rows.length;
    const words = found.length ? `${number(found.length)} of ${number(total)} matches and checks` : "Nothing fits these filters.";
    count.textContent = complete ? words : `${words}, still reading …`;
    drawList();
  };

  // --- One match.

  const cutNote = (length, shown, where) => (length > shown
    ? make("p", { class: "soft" }, `The first ${number(shown)} of ${number(length)} characters; the whole is in ${where}.`)
    : null);
  const block = (label, words, length, where, extra) => {
    const body = make("div", { class: "text", dir: "auto", tabindex: "0", role: "group", "aria-label": label }, words);
    if (!words) body.append(make("em", {}, "(empty)"));
    const head = make("h4", {}, label);
    if (extra) head.append(make("small", {}, ` ${extra}`));
    return make("div", { class: "block" }, head, body, cutNote(length, [...words].length, where));
  };
  const sized = (length) => `${number(length)} characters`;
  const states = {
    refused: "refused to answer", truncated: "cut off", unparseable: "could not be parsed", provider_error: "the call failed",
    expired: "the batch expired", lost: "the reply was lost", unasked: "not asked",
  };
  const stepWords = (step, first, second) => ({
    "A>>B": `${first} is much better`, "A>B": `${first} is better`, "A=B": "neither is better",
    "B>A": `${second} is better`, "B>>A": `${second} is much better`,
  }[step]);
  const reply = (told, row, sides) => {
    const [, , state_, step, bothBad, words, length, line, problem] = told;
    const [first, second] = sides;
    const where = `questions/${data.dimensions[row.dimension]}.jsonl, line ${line}`;
    const verdict = step
      ? make("p", { class: "verdict" }, make("b", {}, stepWords(step, first, second)), " ", make("code", {}, step), bothBad ? " both bad" : "")
      : make("p", { class: "verdict bad" }, make("b", {}, `No verdict: ${states[state_] || state_}`), problem ? ` (${problem})` : "");
    return make(
      "div", { class: "reply" },
      make("p", { class: "soft" }, "A is ", name(first), ", B is ", name(second)),
      verdict,
      words || step ? block(step ? "Reasoning" : "Reply", words, length, where) : null,
    );
  };
  const sentence = (letter, row) => ({
    A: `${data.entrants[row.a]} won in each order asked`, B: `${data.entrants[row.b]} won in each order asked`,
    a: `a lean to ${data.entrants[row.a]}: better in one order, level in the other`,
    b: `a lean to ${data.entrants[row.b]}: better in one order, level in the other`,
    "=": "a tie in each order asked", x: "a flip: the winner changes with the order", "-": "no result: an order has no verdict",
  }[letter]);
  const judgeBlocks = (row, said) => data.judges.map((judge, k) => {
    const told = said.filter((entry) => entry[0] === k).sort((x, y) => x[1] - y[1]);
    if (!told.length || (state.judge && state.judge !== judge)) return null;
    const [a, b] = [data.entrants[row.a], data.entrants[row.b]];
    return make(
      "section", { class: "judge", tabindex: "-1" }, make("h4", {}, name(judge), `: ${sentence(row.result[k], row)}`),
      make("div", { class: "two" }, ...told.map((entry) => reply(entry, row, entry[1] ? [b, a] : [a, b]))),
    );
  });
  const expected = {
    i: "Both responses are the same: neither is better.", t: "One response is a truncated copy of the other: the whole one is better.",
    g: "One response is a copy of the other with its words shuffled: the whole one is better.", r: "A question of a match, asked again: the same choice is expected.",
    s: "One response is to another prompt: the one to this prompt is better.", e: "One response is empty: the other is better.",
  };
  const foundAnswer = (texts, model) => (texts ? texts[5].find((entry) => entry[0] === model) : undefined);
  /** What came before a prompt or a response, folded. */
  const context = (label, told) => make(
    "details", { class: "context" }, make("summary", {}, label),
    ...told.map(([kind, words, length]) => block(kind, words, length, "answers.jsonl")),
  );
  /** What both responses begin with, and how many texts that is. */
  const sharedContext = (texts, row) => {
    const [one, other] = [row.a, row.b].map((model) => foundAnswer(texts, model)?.[5] || []);
    const same = (k) => k < one.length && k < other.length && one[k][0] === other[k][0] && one[k][1] === other[k][1];
    let shared = 0;
    while (same(shared)) shared += 1;
    return one.slice(0, shared);
  };
  const response = (texts, model, label, shared) => {
    const found = foundAnswer(texts, model);
    if (!found) return block(label, "", 0, "");
    const before = found[5].slice(shared);
    const shown = block(label, found[1], found[2], `answers.jsonl, line ${found[3]}`, sized(found[2]) + (found[4] ? ", cut off at its token limit" : ""));
    if (before.length) shown.insertBefore(context(`Before it (${before.length})`, before), shown.children[1]);
    return shown;
  };
  const copied = (label, [words, length]) => block(label, words, length, "answers.jsonl, made by Tiltyard from the response", sized(length));
  const checkBlocks = (row, texts, entry, shared) => {
    const [a, b] = [data.entrants[row.a], data.entrants[row.b]];
    const verdict = marks[row.result];
    const heading = make("h4", {}, name(data.judges[row.judge]), `: ${verdict}`);
    if (row.check === "r") {
      const sides = row.slot ? [b, a] : [a, b];
      const before = entry.before ? `The first time it said: ${stepWords(entry.before, ...sides)}. ` : "The first time it gave no verdict. ";
      const match = [data.dimensions[row.dimension], row.prompt[0], a, b].map(encode).join("/");
      return [
        make("div", { class: "two" }, response(texts, row.a, a, shared), response(texts, row.b, b, shared)),
        make("section", { class: "judge", tabindex: "-1" }, heading, make("p", {}, before, make("a", { href: address({ open: match }) }, "Open the match")), reply(entry.said[0], row, sides)),
      ];
    }
    const spoilt = `${a}, ${row.check === "i" ? "again" : kinds[row.check]}`;
    const labels = row.slot === 0 ? [spoilt, a] : [a, spoilt];
    const whole = (label) => response(texts, row.a, label, shared);
    const both = labels.map((label, slot) => {
      const shown = `${slot ? "B" : "A"}: ${label}`;
      return slot === row.slot ? copied(shown, entry.copy) : whole(shown);
    });
    return [make("div", { class: "two" }, ...both), make("section", { class: "judge", tabindex: "-1" }, heading, reply(entry.said[0], row, labels))];
  };
  const step = (label, to, mark) => (to
    ? make("a", { href: address({ open: keyOf(to) }), "data-go": mark }, label)
    : make("span", { class: "soft" }, label));
  const bar = () => {
    const { found, index } = current;
    const back = make("a", { href: address({ open: "" }), class: "back", "data-go": "list" }, "All results");
    if (index < 0) return make("p", { class: "bar" }, back);
    return make(
      "p", { class: "bar" }, back, step("Previous", found[index - 1], "previous"), step("Next", found[index + 1], "next"),
      make("span", { class: "soft" }, `${number(index + 1)} of ${number(found.length)}`),
    );
  };
  const results = (row) => {
    const jump = make("button", { type: "button" }, "To the verdict");
    jump.addEventListener("click", () => {
      const verdict = one.querySelector(".judge");
      verdict.scrollIntoView();
      verdict.focus({ preventScroll: true });
    });
    return make("p", { class: "result" }, ...(row.check ? [] : tags(row)), jump);
  };
  let wanted = "";
  const drawOne = async () => {
    const key = state.open || "";
    const focus = document.activeElement?.dataset?.go;
    wanted = key;
    app.classList.toggle("reading", key !== "");
    const row = key ? current.found[current.index] || rows.find((other) => keyOf(other) === key) : null;
    if (!row) {
      const words = !key ? "Select a match to read it." : complete ? "This match is not in this run." : "Reading …";
      one.replaceChildren(...(key ? [bar()] : []), make("p", { class: "soft" }, words));
      return;
    }
    let texts, entry;
    try {
      const [found, said] = await Promise.all([row.prompt[3] < 0 ? null : text("texts", row.prompt[3]), text("verdicts", row.file)]);
      [texts, entry] = [found && found[row.prompt[4]], said[row.place]];
    } catch (error) {
      one.replaceChildren(bar(), make("p", { class: "bad" }, lost(error.message.replace(/^.*\//, `${folder}/`))));
      return;
    }
    if (wanted !== key) return;
    const category = row.prompt[1] < 0 ? "" : ` · ${data.categories[row.prompt[1]]}`;
    const beside = texts ? [["Reference answer", texts[3]], ["Expected behaviour", texts[4]]] : [];
    const before = sharedContext(texts, row);
    const shared = before.length;
    const inside = row.check ? checkBlocks(row, texts, entry, shared) : [
      make(
        "div", { class: "two" }, response(texts, row.a, data.entrants[row.a], shared), response(texts, row.b, data.entrants[row.b], shared),
      ),
      ...judgeBlocks(row, entry.said),
    ];
    one.replaceChildren(
      bar(),
      make("h3", {}, ...title(row)),
      make("p", { class: "soft" }, data.dimensions[row.dimension], " · prompt ", name(row.prompt[0]), category),
      results(row),
      ...(row.check ? [make("p", { class: "check" }, make("b", {}, `Check, ${kinds[row.check]}: ${marks[row.result]}. `), expected[row.check])] : []),
      ...(shared ? [context(`Before the prompt (${shared})`, before)] : []),
      ...(texts ? [block("Prompt", texts[0], texts[1], `answers.jsonl, line ${texts[2]}`)] : []),
      ...beside.filter(([, found]) => found).map(([label, [words, length]]) => block(label, words, length, `answers.jsonl, line ${texts[2]}`)),
      ...inside.filter((part) => part !== null),
    );
    const again = focus && one.querySelector(`[data-go="${CSS.escape(focus)}"]`);
    if (again) again.focus({ preventScroll: true });
    if (narrow.matches) {
      if (!again) one.focus({ preventScroll: true });
      one.scrollIntoView();
    }
  };
  const narrow = matchMedia("(max-width: 63.99rem)");

  // --- What the reader does.

  let started = null;
  const start = () => {
    started ??= (async () => {
      section.querySelector(".said-missing").hidden = true;
      app.hidden = false;
      for (let part = 0; part < data.index; part += 1) {
        addPart(await load("index", part));
        complete = part === data.index - 1;
        if (complete || part % 8 === 0) { draw(); await drawOne(); }
      }
    })().catch((error) => {
      section.querySelector(".said-missing").hidden = false;
      section.querySelector(".said-missing").textContent = lost(error.message.replace(/^.*\//, `${folder}/`));
      app.hidden = true;
    });
    return started;
  };
  const follow = async () => {
    const found = readAddress();
    if (found === null) return;
    const fresh = started === null;
    const before = state;
    state = found;
    sync();
    if (fresh) await start();
    else { draw(); await drawOne(); }
    const stays = !fresh && before.open !== state.open && fields.every((key) => (before[key] || "") === (state[key] || ""));
    if (!stays) section.scrollIntoView();
    else if (narrow.matches && !state.open) list.querySelector('[aria-current="true"], a')?.focus();
  };
  const filter = () => {
    const values = new FormData(form);
    state = { open: state.open };
    for (const key of fields) if (values.get(key)) state[key] = values.get(key);
    try { history.replaceState(null, "", address({})); } catch { /* Some browsers keep the address of a file as it is. */ }
    draw();
    drawOne();
  };
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  list.addEventListener("keydown", (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (way === undefined) return;
    const links = [...list.querySelectorAll("a")];
    links[links.indexOf(document.activeElement) + way]?.focus();
    event.preventDefault();
  });
  addEventListener("hashchange", follow);
  new IntersectionObserver((seen, watcher) => {
    if (!seen.some((entry) => entry.isIntersecting)) return;
    watcher.disconnect();
    start();
  }, { rootMargin: "300px" }).observe(section);
  follow();
})();
