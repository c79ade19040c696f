/* Makes runs on the server this page came from. */

const LIGHT = { name: "set_light", description: "Set the brightness of a room's lights.", parameters: { type: "object", properties: { room: { enum: ["kitchen", "bedroom", "bathroom", "hall"] }, percent: { type: "integer", minimum: 0, maximum: 100 } }, required: ["room", "percent"], additionalProperties: false } };
const CITY = { name: "get_weather", description: "Current weather of a city.", parameters: { type: "object", properties: { city: { type: "string", description: "The city" } }, required: ["city"], additionalProperties: false } };
const EXAMPLES = [
  { name: "Weather", request: "What is the weather in Paris in celsius?", tools: [
    { name: "get_weather", description: "Current weather of a city.", parameters: { type: "object", properties: { city: { type: "string", description: "The city" }, unit: { enum: ["celsius", "fahrenheit"], description: "Temperature unit" } }, required: ["city"], additionalProperties: false } },
    { name: "get_time", description: "Current time in a city.", parameters: { type: "object", properties: { city: { type: "string", description: "The city" } }, required: ["city"], additionalProperties: false } },
  ] },
  { name: "Calculator", request: "What is the sum of 265 and 345?", tools: [
    { name: "add_numbers", description: "Add two numbers.", parameters: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"], additionalProperties: false } },
    { name: "multiply_numbers", description: "Multiply two numbers.", parameters: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"], additionalProperties: false } },
    { name: "square_root", description: "The square root of a number.", parameters: { type: "object", properties: { a: { type: "number" } }, required: ["a"], additionalProperties: false } },
  ] },
  { name: "Lights and music", request: "Dim the kitchen lights to 30 percent", tools: [
    LIGHT,
    { name: "play_music", description: "Play music in a room.", parameters: { type: "object", properties: { title: { type: "string" }, room: { enum: ["kitchen", "bedroom", "bathroom", "hall"] } }, required: ["title"], additionalProperties: false } },
    { name: "set_alarm", description: "Set an alarm.", parameters: { type: "object", properties: { time: { type: "string", pattern: "^([01][0-9]|2[0-3]):[0-5][0-9]$", description: "As 07:30" } }, required: ["time"], additionalProperties: false } },
  ] },
  { name: "Two things at once", request: "Dim the kitchen lights to 30 percent and tell me the weather in Paris", tools: [LIGHT, CITY] },
  { name: "An agent's second turn", request: "", tools: [LIGHT, CITY], earlier: [
    { role: "user", content: "What is the weather in Paris and in Bern?" },
    { role: "assistant", content: null, tool_calls: [
      { id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city": "Paris"}' } },
      { id: "call_2", type: "function", function: { name: "get_weather", arguments: '{"city": "Bern"}' } } ] },
    { role: "tool", tool_call_id: "call_1", content: '{"sky": "clear", "celsius": 21}' },
    { role: "tool", tool_call_id: "call_2", content: '{"sky": "rain", "celsius": 12}' },
  ] },
  { name: "Nothing fits", request: "Who wrote Hamlet?", tools: [LIGHT, CITY] },
];

const data = JSON.parse(document.getElementById("data").textContent);
const form = {};
for (const id of ["example", "request", "tools", "choice", "parallel", "temperature", "seed", "most", "key", "run", "stop", "link", "earlier", "picture"]) form[id] = document.getElementById(id);
const INTRO = [
  element("h2", {}, "Nothing has run yet"),
  element("p", {}, "Press Run, and the answer appears here:"),
  data.steps ? element("ul", {},
    element("li", {}, "the calls, in the order the model makes them, or its answer in text;"),
    element("li", {}, "each token with who decided it: ", ...Object.keys(KINDS).flatMap((kind) => [element("span", { class: `token ${kind}` }, kind), " "]), "by the grammar, a draft or the model;"),
    element("li", {}, "what else was likely at a token, and what the grammar removed;"),
    element("li", {}, "the probability of each function, and what the answer cost."))
    : element("p", {}, "the calls, in the order the model makes them, or its answer in text. The model is on another server, which tells no tokens."),
  element("p", {}, "Then send the calls' results, as an agent would, and the conversation goes on."),
];
const view = new View(document.getElementById("result"), INTRO);
const narrow = matchMedia("(max-width: 56rem)");
let running = null;
/** The messages behind the request: answers, results, replies. */
let turns = [];
/** The picture that was picked, as a data URL. */
let picture = "";

/** A list of JSON in a field; `what` names the field. */
function listOf(text, what) {
  if (!text.trim()) return [];
  let list;
  try { list = JSON.parse(text); } catch (error) { throw new Error(`${what}: this is no JSON (${error.message}).`); }
  if (!Array.isArray(list)) throw new Error(`${what}: this must be a JSON list.`);
  return list;
}

/** Functions as OpenAI's API takes them; bare ones are wrapped. */
function toolsOf(text) {
  return listOf(text, "Functions").map((tool) => (tool && tool.type === "function" ? tool : { type: "function", function: tool }));
}

function fillChoices() {
  const before = form.choice.value;
  let names = [];
  try { names = toolsOf(form.tools.value).map((tool) => tool.function && tool.function.name).filter((name) => typeof name === "string"); } catch { return; }
  const options = [["auto", "the model decides"], ["required", "one of them"], ["none", "none"], ...names.map((name) => [`:${name}`, `only ${name}`])];
  form.choice.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  if (options.some(([value]) => value === before)) form.choice.value = before;
}

function state() {
  return {
    request: form.request.value, tools: form.tools.value, choice: form.choice.value || "auto", parallel: form.parallel.checked,
    temperature: Number(form.temperature.value), seed: Number(form.seed.value), most: Number(form.most.value),
    earlier: form.earlier.value, turns,
  };
}

function fill(given) {
  for (const name of ["request", "tools"]) if (typeof given[name] === "string") form[name].value = given[name];
  fillChoices();
  for (const name of ["temperature", "seed", "most"]) if (Number.isFinite(given[name])) form[name].value = given[name];
  if (typeof given.parallel === "boolean") form.parallel.checked = given.parallel;
  if (typeof given.choice === "string") form.choice.value = given.choice;
  if (!form.choice.value) form.choice.value = "auto";
  form.earlier.value = typeof given.earlier === "string" ? given.earlier : "";
  document.getElementById("before").open = Boolean(form.earlier.value) && !narrow.matches;
  turns = Array.isArray(given.turns) ? given.turns : [];
}

function encode(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function decode(text) {
  const bytes = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** All messages: the earlier ones, the request with its picture, and what came behind it. */
function conversation(given) {
  const messages = listOf(given.earlier, "Earlier messages");
  const text = given.request.trim() ? given.request : "";
  if (picture) messages.push({ role: "user", content: [...(text ? [{ type: "text", text }] : []), { type: "image_url", image_url: { url: picture } }] });
  else if (text) messages.push({ role: "user", content: text });
  if (!messages.length) throw new Error("There is nothing to ask: write a request.");
  return [...messages, ...given.turns];
}

function body(given, messages) {
  const tools = toolsOf(given.tools);
  const asked = {
    model: data.model, messages, stream: true,
    temperature: given.temperature, seed: given.seed, max_completion_tokens: given.most,
  };
  if (data.steps) asked.callmemaybe = { steps: true };
  if (tools.length) {
    asked.tools = tools;
    asked.parallel_tool_calls = given.parallel;
    asked.tool_choice = given.choice.startsWith(":") ? { type: "function", function: { name: given.choice.slice(1) } } : given.choice;
  }
  return asked;
}

/** The events of a stream, one JSON value at a time. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const text = part.replace(/^data: /, "");
      if (text !== "[DONE]") yield JSON.parse(text);
    }
  }
}

/** The content of a message for people: its text and its pictures. */
function contentOf(content) {
  if (!Array.isArray(content)) return content ? [element("p", {}, String(content))] : [];
  return content.map((part) => {
    const url = part && part.image_url && part.image_url.url;
    if (!url) return element("p", {}, String((part && part.text) || ""));
    // The page asks no other host, for a picture neither.
    return url.startsWith("data:") ? element("img", { src: url, alt: "Picture for the model" }) : element("p", {}, `Picture at ${url}`);
  });
}

/** Show the messages of a conversation; calls of one turn stand together. */
function showTurns(messages) {
  const names = {};
  view.turns.replaceChildren(...messages.filter((one) => one && typeof one === "object").map((message) => {
    const calls = (message.tool_calls || []).map((call, index, all) => {
      names[call.id] = `${all.length > 1 ? `call ${index + 1}, ` : ""}${call.function.name}`;
      return call.function;
    });
    const label = {
      user: "You", system: "Instructions", developer: "Instructions", tool: `Result of ${names[message.tool_call_id] || message.tool_call_id}`,
      assistant: calls.length ? `Model, ${plural(calls.length, "call", "calls at once")}` : "Model",
    }[message.role] || message.role;
    return element("li", { class: message.role === "user" ? "user" : null }, element("b", {}, label), ...contentOf(message.content),
      calls.length ? element("div", { class: "calls" }, ...calls.map(callBlock)) : null);
  }));
}

/** A field under the answer and the button that goes on with what is written there. */
function goOn(labels, button, messages) {
  const fields = labels.map((label, index) => [
    element("label", { for: `next-${index}` }, label), element("textarea", { id: `next-${index}`, rows: 2, spellcheck: "false" })]);
  const asking = element("form", { class: "next", autocomplete: "off" }, ...fields.flat(), element("div", { class: "buttons" }, element("button", { class: "main" }, button)));
  asking.addEventListener("submit", (event) => {
    event.preventDefault();
    turns = [...turns, ...messages(fields.map(([, field]) => field.value))];
    ask();
  });
  view.next.replaceChildren(asking);
}

/** Offer to go on: with a result for each call, or with a reply to a text. */
function offer(calls, text) {
  if (calls.length) {
    const made = { role: "assistant", content: text || null, tool_calls: calls.map(({ id, name, arguments: written }) => ({ id, type: "function", function: { name, arguments: written } })) };
    goOn(calls.map((call, index) => `Result of ${calls.length > 1 ? `call ${index + 1}, ` : ""}${call.name}`), calls.length === 1 ? "Send result" : "Send results",
      (values) => [made, ...values.map((content, index) => ({ role: "tool", tool_call_id: calls[index].id, content }))]);
  } else if (text) {
    goOn(["Reply"], "Send reply", ([content]) => [{ role: "assistant", content: text }, { role: "user", content }]);
  }
}

function run() {
  turns = [];
  ask();
}

/** Tell how an answer ended. */
function tell(finish, calls, text, refused, unread) {
  const words = {
    tool_calls: calls.length === 1 ? "One call." : `${calls.length} calls.`,
    stop: refused ? "The model refuses." : text ? "An answer in text." : "No function fits: nothing is called.",
    length: text ? "Cut off: the tokens were used up." : "Cut off: the tokens were used up, so there is no call.",
  };
  const left = unread ? ` This model reads one request only; it did not read: ${unread}.` : "";
  const rule = data.steps && text && !view.steps.length ? " The server made it by a rule; the model wrote no token." : "";
  view.say((words[finish] || "The answer ended early.") + rule + left, finish === "length" || Boolean(refused));
}

/** On a small screen the result is below the form: bring the last turn, and with it the answer, to the top. */
function reveal() {
  if (narrow.matches) (view.turns.lastElementChild || view.status).scrollIntoView();
}

async function ask() {
  if (running) running.abort();
  const mine = running = new AbortController();
  const given = state();
  history.replaceState(null, "", `#${encode(given)}`);
  view.begin("Asking the model…");
  view.turns.replaceChildren();
  form.stop.disabled = false;
  const calls = [];
  let text = "";
  let refused = "";
  let finish = null;
  try {
    const messages = conversation(given);
    showTurns(messages);
    reveal();
    const headers = { "content-type": "application/json" };
    if (form.key.value) headers.authorization = `Bearer ${form.key.value}`;
    const response = await fetch("v1/chat/completions", { method: "POST", headers, body: JSON.stringify(body(given, messages)), signal: mine.signal });
    if (!response.ok) throw new Error(`Refused by the server: ${(await response.json()).error.message}`);
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      const ours = event.callmemaybe;
      if (ours && ours.steps) ours.steps.forEach((step) => view.step(step));
      if (ours && ours.end) view.end(ours.end);
      for (const choice of event.choices) {
        text += choice.delta.content || "";
        refused += choice.delta.refusal || "";
        for (const call of choice.delta.tool_calls || []) {
          calls[call.index] = calls[call.index] || { id: call.id, name: "", arguments: "" };
          calls[call.index].name += call.function.name || "";
          calls[call.index].arguments += call.function.arguments || "";
        }
        finish = choice.finish_reason || finish;
      }
      view.answer(calls, text || refused);
    }
    tell(finish, calls, text, refused, response.headers.get("callmemaybe-unread"));
    if (finish === "tool_calls" || finish === "stop") offer(calls, text || refused);
  } catch (error) {
    if (running === mine) view.say(error.name === "AbortError" ? "Stopped." : error.message, error.name !== "AbortError");
  } finally {
    if (running === mine) { running = null; form.stop.disabled = true; reveal(); }
  }
}

document.getElementById("model").textContent = `Playground of ${data.model}`;
document.getElementById("keyRow").hidden = !data.needsKey;
themes(document.getElementById("theme"));
form.example.append(...EXAMPLES.map((one, index) => element("option", { value: index }, one.name)));
form.example.addEventListener("change", () => {
  const one = EXAMPLES[form.example.value];
  fill({ request: one.request, tools: JSON.stringify(one.tools, null, 1), choice: "auto", earlier: one.earlier ? JSON.stringify(one.earlier, null, 1) : "" });
});
form.picture.disabled = !data.pictures;
document.getElementById("noPicture").textContent = data.pictures ? "" : `${data.model} takes no pictures.`;
form.picture.addEventListener("change", () => {
  const file = form.picture.files[0];
  picture = "";
  if (!file) return;
  const reader = new FileReader();
  reader.addEventListener("load", () => { picture = reader.result; });
  reader.readAsDataURL(file);
});
if (narrow.matches) document.getElementById("functions").open = false;
form.tools.addEventListener("input", fillChoices);
document.getElementById("form").addEventListener("submit", (event) => { event.preventDefault(); run(); });
form.stop.addEventListener("click", () => running && running.abort());
form.link.addEventListener("click", async () => {
  history.replaceState(null, "", `#${encode(state())}`);
  try { await navigator.clipboard.writeText(location.href); view.say(picture ? "The link is copied, without the picture." : "The link is copied."); } catch { view.say("The link is in the address bar."); }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ((event.target.closest && event.target.closest("form")) || document.getElementById("form")).requestSubmit(); }
  if (event.key === "Escape" && running) running.abort();
});
function open() {
  try {
    if (location.hash.length > 1) { fill(decode(location.hash.slice(1))); ask(); return; }
  } catch { view.say("The link is damaged; here is an example instead.", true); }
  form.example.dispatchEvent(new Event("change"));
}
window.addEventListener("hashchange", open);
open();
