// Runs before anything of an app (app_sandbox.py puts it there). It takes away what a content policy leaves open:
// WebRTC, frames whose windows would have it again, and links that make the browser connect.
// An app may change every built-in object afterwards: whatever is needed later is kept in constants now.
(() => {
  "use strict";
  const names = Object.getOwnPropertyNames(window);
  for (const name of names) if (/^(webkit|moz)?RTC/.test(name)) delete window[name];

  const { apply, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const { charCodeAt, indexOf, lastIndexOf, substring, toLowerCase } = String.prototype;
  const { getElementsByTagNameNS, createElement } = Document.prototype;
  const { remove } = Element.prototype;
  const localNameOf = getOwnPropertyDescriptor(Element.prototype, "localName").get;
  const asText = String;

  // What an element becomes, by its name: one without effect, and void where the other is.
  const REPLACED = {
    __proto__: null, iframe: "x-iframe", frameset: "x-frameset", object: "x-object", applet: "x-applet", portal: "x-portal",
    fencedframe: "x-fencedframe", link: "meta", embed: "meta", frame: "meta",
  };
  const replacement = (name) => REPLACED[apply(toLowerCase, name, [])];

  // Where the name of a tag ends; -1 if nothing ends it, or if another tag begins first.
  const endOfName = (html, start) => {
    for (let k = start; k < html.length; k++) {
      const code = apply(charCodeAt, html, [k]);
      if (code === 62 || code === 47 || code === 32 || (code >= 9 && code <= 13)) return k;
      if (code === 60) return -1;
    }
    return -1;
  };

  // The same HTML, or XML with prefixes, with other names for these elements.
  const cleaned = (html) => {
    let made = "", done = 0;
    for (let at = apply(indexOf, html, ["<", 0]); at >= 0; at = apply(indexOf, html, ["<", at + 1])) {
      let start = apply(charCodeAt, html, [at + 1]) === 47 ? at + 2 : at + 1;
      const end = endOfName(html, start);
      if (end < 0) continue;
      start += apply(indexOf, apply(substring, html, [start, end]), [":", 0]) + 1;
      const other = replacement(apply(substring, html, [start, end]));
      if (other === undefined) continue;
      made += apply(substring, html, [done, start]) + other;
      done = end;
    }
    return made + apply(substring, html, [done]);
  };

  // Put `change(native, self, given)` in the place of a method or a setter.
  const wrap = (owner, name, change) => {
    const there = owner && getOwnPropertyDescriptor(owner, name);
    const part = there && (there.value ? "value" : "set");
    const native = there && there[part];
    if (!native) return;
    defineProperty(owner, name, { ...there, [part]: function (...given) { return change(native, this, given); } });
  };

  // Elements that a script makes.
  const harmless = (native, self, given) => {
    const made = apply(native, self, given);
    const other = replacement(apply(localNameOf, made, []));
    return other === undefined ? made : apply(createElement, self, [other]);
  };
  wrap(Document.prototype, "createElement", harmless);
  wrap(Document.prototype, "createElementNS", harmless);
  wrap(CustomElementRegistry.prototype, "define", (native, self, given) => {
    const extended = given[2]?.extends;
    if (extended === undefined) return apply(native, self, [given[0], given[1]]);
    const base = asText(extended);
    if (replacement(base) !== undefined) throw new TypeError(`${base} cannot be extended here`);
    return apply(native, self, [given[0], given[1], { extends: base }]);
  });
  // A document of its own does nothing until its elements are moved into this one.
  const emptied = (made) => {
    for (const name in REPLACED) {
      const found = apply(getElementsByTagNameNS, made, ["*", name]);
      while (found[0]) apply(remove, found[0], []);
    }
    return made;
  };
  wrap(DOMImplementation.prototype, "createDocument", (native, self, given) => emptied(apply(native, self, given)));
  wrap(DOMParser.prototype, "parseFromString", (native, self, given) =>
    emptied(apply(native, self, [cleaned(asText(given[0])), given[1]])));

  // Elements that a text makes.
  const cleaning = (at) => (native, self, given) => {
    if (given.length > at && given[at] !== null) given[at] = cleaned(asText(given[at]));
    return apply(native, self, given);
  };
  for (const owner of [Element.prototype, ShadowRoot.prototype]) wrap(owner, "innerHTML", cleaning(0));
  wrap(Element.prototype, "outerHTML", cleaning(0));
  wrap(Element.prototype, "insertAdjacentHTML", cleaning(1));
  wrap(Range.prototype, "createContextualFragment", cleaning(0));
  wrap(Document.prototype, "execCommand", cleaning(2));
  // A tag may be written in pieces: the beginning of one waits for the rest of its name.
  let waiting = "";
  const writing = (native, self, given) => {
    let html = waiting;
    for (let k = 0; k < given.length; k++) html += asText(given[k]);
    const open = apply(lastIndexOf, html, ["<"]);
    const whole = open < 0 || endOfName(html, open + 2) >= 0 ? html.length : open;
    waiting = apply(substring, html, [whole]);
    return apply(native, self, [cleaned(apply(substring, html, [0, whole]))]);
  };
  wrap(Document.prototype, "write", writing);
  wrap(Document.prototype, "writeln", writing);

  // Where the browser has trusted types, every other text that becomes an element comes by here, and so do scripts in
  // addresses: the page that one makes would be a new window.
  if (window.trustedTypes) {
    window.trustedTypes.createPolicy("default", {
      createHTML: (html) => cleaned(html),
      createScript: (script, _type, sink) => (apply(indexOf, asText(sink), ["Location", 0]) < 0 ? script : null),
      createScriptURL: (url) => url,
    });
  }

  for (const name of ["XSLTProcessor", "WebTransport", "trustedTypes"]) delete window[name];
  // Newer ways from text to elements, some of which take it in pieces.
  for (const name of names) {
    if (!/^[A-Z]/.test(name) || typeof window[name] !== "function") continue;
    for (const owner of [window[name], window[name].prototype ?? {}]) {
      for (const way of Object.getOwnPropertyNames(owner)) {
        if (/HTML(Unsafe)?$/.test(way) && !/^(inner|outer|get|insertAdjacent)HTML$/.test(way)) delete owner[way];
      }
    }
  }
  document.currentScript.remove();
})();
