"use strict";
/* Shows one run: its tokens, what was likely at each, the choice of the function, the passes. */

const KINDS = {
  forced: "The grammar allowed nothing else; the model was not asked.",
  drafted: "Guessed ahead, and confirmed by the model.",
  chosen: "Chosen by the model among what the grammar allows.",
};

/** Between these two tokens stands a function's form, as the embedded model's format has it. */
const FORM = ["<|args|>", "<|fill|>"];
/** The embedded model ends each answer with it. A compound request is asked whole, and then in parts. */
const END = "<|end|>";
const FORM_IS = "the parameters of the chosen function, written once more for the model to fill in";

function element(name, attributes = {}, ...children) {
  const made = name === "svg" || ["rect", "text", "title", "g"].includes(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Text of a token with everything visible. */
function visible(text) {
  if (text === "") return "∅";
  return text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥")
    .replace(/[\u0000-\u001f\u007f]/g, (c) => String.fromCharCode(0x2400 + (c.charCodeAt(0) & 0x1f)));
}

function percent(share) {
  if (share >= 0.9995 && share < 1) return "> 99.9 %";
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

function bar(share) {
  const picture = element("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", height: 10, "aria-hidden": "true" });
  picture.append(element("rect", { class: "rest", width: 100, height: 10, opacity: 0.35 }));
  picture.append(element("rect", { class: "share", width: Math.max(0.5, 100 * share), height: 10 }));
  return picture;
}

function milliseconds(seconds) {
  return seconds >= 1 ? `${seconds.toFixed(2)} s` : `${(1000 * seconds).toFixed(1)} ms`;
}

/** A call as it was written: reading its arguments would round their numbers. */
function callBlock(call) {
  return element("pre", {}, element("span", { class: "name" }, call.name), `(${call.arguments})`);
}

class View {
  /** `intro` are the elements shown before the first run. */
  constructor(root, intro = []) {
    this.turns = element("ol", { class: "turns", "aria-label": "Conversation" });
    this.intro = element("div", { class: "intro" }, ...intro);
    this.status = element("p", { class: "status", role: "status" });
    this.calls = element("div", { class: "calls" });
    this.legend = element("ul", { class: "legend", "aria-label": "Who decided each token" });
    this.list = element("div", {
      class: "tokens mono", role: "listbox", tabindex: "0", "aria-label": "Tokens in order; arrow keys move through them",
    });
    this.detail = element("div", { class: "detail", "aria-live": "polite", "aria-label": "The token that is looked at" });
    this.form = element("p", { class: "hint form" }, element("span", { class: "token forced form" }, "Slanted"),
      ` tokens are ${FORM_IS}. The grammar writes them; they are not part of the call, whose arguments begin behind ${FORM[1]}.`);
    this.parts = element("p", { class: "hint" }, "The model makes one call at a time. It was asked about the whole request, "
      + `and then about parts of it; each answer ends with ${END}, and the calls above are those that were kept.`);
    this.next = element("div");
    this.functions = element("div");
    this.passes = element("div");
    this.inside = element("div", { class: "inside" },
      element("h2", {}, "Tokens"), this.legend, this.list, this.form, this.parts, this.detail,
      element("h2", {}, "Which function"), this.functions,
      element("h2", {}, "Forward passes"), this.passes,
    );
    root.append(element("h2", { class: "hidden" }, "Result"), this.intro, this.turns, this.status, this.calls, this.next, this.inside);
    this.list.addEventListener("keydown", (event) => this.move(event));
    this.list.addEventListener("mouseover", (event) => this.touch(event));
    this.list.addEventListener("click", (event) => this.touch(event));
    this.list.addEventListener("focus", () => { if (this.selected < 0 && this.tokens.length) this.select(0); });
    this.begin("");
    this.intro.hidden = false;
  }

  begin(status) {
    this.intro.hidden = this.inside.hidden = this.form.hidden = this.parts.hidden = true;
    this.isForm = false;
    this.next.replaceChildren();
    this.steps = [];
    this.tokens = [];
    this.selected = -1;
    this.texts = [];
    this.calls.replaceChildren();
    this.list.replaceChildren();
    this.functions.replaceChildren(element("p", { class: "status" }, "Nothing was chosen yet."));
    this.passes.replaceChildren();
    this.detail.replaceChildren(element("p", { class: "hint" }, "Point at a token, or press Tab and the arrow keys, to see what else was likely there and what the grammar removed."));
    this.say(status);
    this.count();
  }

  say(text, isBad = false) {
    this.status.textContent = text;
    this.status.classList.toggle("bad", isBad);
  }

  /** Show one more step of the decoder, as traces write it. */
  step(step) {
    this.steps.push(step);
    const parts = step.parts && step.parts.length ? step.parts : [step.text];
    this.inside.hidden = false;
    for (const [place, part] of parts.entries()) {
      if (part === FORM[0]) { this.isForm = true; this.form.hidden = false; }
      const isForm = this.isForm;
      if (part === FORM[1]) this.isForm = false;
      const index = this.tokens.length;
      const token = element("span", {
        class: `token ${step.kind}${isForm ? " form" : ""}`, role: "option", id: `token-${index}`, "aria-selected": "false",
        "data-index": index, "aria-label": `${part || "empty"}, ${step.kind}`,
      }, /^\s*$/.test(part) ? visible(part) : part.replace(/[\u0000-\u0009\u000b-\u001f]/g, visible));
      this.tokens.push({ step, part, token, place, isForm });
      this.list.append(token);
    }
    this.count();
    this.line();
  }

  /** Show calls and text as they stand: [{name, arguments}] and a string. */
  answer(calls, text) {
    const blocks = calls.map(callBlock);
    if (text) blocks.push(element("pre", {}, text));
    this.calls.replaceChildren(...blocks);
  }

  /** Show how it ended: `distribution` is [[name or null, probability], ...]. */
  end(end) {
    const rows = (end.distribution || []).map(([name, share]) => element("tr", {},
      element("th", { scope: "row", class: name === null ? null : "mono" }, name === null ? "no function" : name),
      element("td", { class: "bar" }, bar(share)), element("td", { class: "share" }, percent(share))));
    if (rows.length) {
      this.functions.replaceChildren(element("table", { class: "functions" },
        element("caption", {}, "Probability of each function, and of none, before the first was chosen"),
        element("tbody", {}, ...rows.slice(0, 12))));
      if (rows.length > 12) this.functions.append(element("p", { class: "status" }, `and ${rows.length - 12} less likely`));
    } else {
      const asked = this.asked();
      this.functions.replaceChildren(element("p", { class: "status" }, asked > 1
        ? `The model chose ${asked} times: for the whole request, and for parts of it.` : "There was no choice among functions."));
    }
    this.parts.hidden = this.asked() < 2;
    this.line(end);
  }

  /** How often the model was asked: about a compound request and about its parts, one after the other. */
  asked() {
    return this.tokens.filter((one) => one.part === END).length;
  }

  count() {
    const counts = { forced: 0, drafted: 0, chosen: 0 };
    for (const { step } of this.tokens) counts[step.kind] += 1;
    this.legend.replaceChildren(...Object.keys(KINDS).map((kind) => element("li", { title: KINDS[kind] },
      element("span", { class: `token ${kind}` }, kind), ` ${counts[kind]}`)));
  }

  /** The time line: one bar a pass, as wide as it took, with the tokens it brought. */
  line(end = null) {
    const asked = [];
    for (const step of this.steps) {
      const size = (step.parts || [step.text]).length;
      if (step.passes > 0) asked.push({ kind: step.kind, seconds: step.seconds, tokens: 0, count: step.passes });
      if (asked.length) asked[asked.length - 1].tokens += size;
    }
    const total = asked.reduce((sum, one) => sum + one.seconds, 0);
    const count = asked.reduce((sum, one) => sum + one.count, 0);
    if (!count) { this.passes.replaceChildren(element("p", { class: "status" }, "The model was not asked: nothing was open.")); return; }
    const words = [`${this.tokens.length} tokens in ${plural(count, "forward pass", "forward passes")}`, `${milliseconds(total)} in the model`];
    // As many units as pixels, so that the numbers can be read on a small screen.
    const across = this.passes.clientWidth || 1000;
    const picture = element("svg", { viewBox: `0 0 ${across} 46`, role: "img", "aria-label": words.join(", ") });
    let at = 0;
    for (const one of asked) {
      const width = across * (total ? one.seconds / total : one.count / count);
      const what = `${plural(one.count, "pass", "passes")}, ${milliseconds(one.seconds)}, ${one.tokens} tokens until the next (first: ${one.kind})`;
      const group = element("g", {}, element("title", {}, what));
      for (let pass = 0; pass < one.count; pass += 1) {
        group.append(element("rect", { class: `pass ${one.kind}`, x: at + pass * width / one.count, y: 0, width: Math.max(1, width / one.count), height: 28, rx: 3 }));
      }
      if (width / one.count > 18) group.append(element("text", { x: at + width - width / one.count / 2, y: 18, "text-anchor": "middle" }, `${one.tokens}`));
      picture.append(group);
      at += width;
    }
    picture.append(element("text", { class: "axis", x: 0, y: 43 }, "0"),
      element("text", { class: "axis", x: across, y: 43, "text-anchor": "end" }, milliseconds(total)));
    if (end && end.passes > count) words.push(`${plural(end.passes - count, "pass", "passes")} more wrote none of these tokens`);
    if (end && end.seconds) words.push(`${milliseconds(end.seconds)} in all`);
    const joint = asked.some((one) => one.count > 1) ? " Passes that chose a function together share their time evenly; the last has the number." : "";
    this.passes.replaceChildren(element("p", { class: "status" }, `${words.join(" · ")}. A bar is a pass, the number the tokens it brought.${joint}`), picture);
  }

  touch(event) {
    const token = event.target.closest ? event.target.closest(".token") : null;
    if (token) this.select(Number(token.dataset.index));
  }

  move(event) {
    const last = this.tokens.length - 1;
    const to = { ArrowRight: this.selected + 1, ArrowDown: this.selected + 1, ArrowLeft: this.selected - 1, ArrowUp: this.selected - 1, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.select(Math.min(last, Math.max(0, to)));
  }

  select(index) {
    if (this.selected >= 0) this.tokens[this.selected].token.setAttribute("aria-selected", "false");
    this.selected = index;
    const { step, part, token, place, isForm } = this.tokens[index];
    token.setAttribute("aria-selected", "true");
    this.list.setAttribute("aria-activedescendant", token.id);
    const facts = [];
    // For the name of a function the step counts names; the tokens with which they may begin are others.
    const isName = step.allowed && step.after && ((step.parts || []).length > 1 || step.after.length > step.allowed);
    if (step.allowed) facts.push(isName ? `one of ${plural(step.allowed, "name", "names")}` : `${step.allowed} allowed`);
    if (step.logprob !== null && step.logprob !== undefined) facts.push(`probability ${percent(Math.exp(step.logprob))} under the model`);
    if (step.parts && step.parts.length > 1) facts.push(`one of ${step.parts.length} tokens written together`);
    const shown = [element("p", {}, element("code", { class: `token ${step.kind}` }, visible(part)), ` token ${index + 1}: `, KINDS[step.kind], facts.length ? ` (${facts.join(", ")})` : "")];
    if (isForm) shown.push(element("p", { class: "hint" }, `It belongs to the form: ${FORM_IS}.`));
    if (step.before && place === 0) shown.push(this.likely(step));
    else if (step.before) shown.push(element("p", { class: "hint" }, "It came with the token before it; what else was likely is shown there."));
    this.detail.replaceChildren(...shown);
  }

  likely(step) {
    const kept = new Set(step.after.map(([text]) => text));
    const row = ([text, share], isKept) => element("tr", {},
      element("td", { class: isKept ? "mono" : "mono removed" }, visible(text), isKept ? null : element("span", { class: "hidden" }, " (removed)")),
      element("td", { class: "bar" }, bar(share)), element("td", { class: "share" }, percent(share)));
    return element("div", { class: "two" },
      element("table", { class: "before" }, element("caption", {}, "Likeliest for the model (struck out: removed by the mask)"),
        element("tbody", {}, ...step.before.map((one) => row(one, kept.has(one[0]))))),
      element("table", { class: "after" }, element("caption", {}, "Likeliest of what is allowed"),
        element("tbody", {}, ...step.after.map((one) => row(one, true)))));
  }
}

function plural(count, one, many) { return `${count} ${count === 1 ? one : many}`; }

/** The button that goes through light, dark, and as the system has it. */
function themes(button) {
  const order = ["auto", "light", "dark"];
  let now = "auto";
  try { now = localStorage.getItem("theme") || "auto"; } catch { /* files have no storage */ }
  const set = () => {
    if (now === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = now;
    button.textContent = `Theme: ${now}`;
  };
  button.addEventListener("click", () => {
    now = order[(order.indexOf(now) + 1) % order.length];
    try { localStorage.setItem("theme", now); } catch { /* as above */ }
    set();
  });
  set();
}
