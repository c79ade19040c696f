/* Makes runs on the server this page came from. */

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
    { name: "set_light", description: "Set the brightness of a room's lights.", parameters: { type: "object", properties: { room: { enum: ["kitchen", "bedroom", "bathroom", "hall"] }, percent: { type: "integer", minimum: 0, maximum: 100 } }, required: ["room", "percent"], additionalProperties: false } },
    { name: "play_music", description: "Play music in a room.", parameters: { type: "object", properties: { title: { type: "string" }, room: { enum: ["kitchen", "bedroom", "bathroom", "hall"] } }, required: ["title"], additionalProperties: false } },
    { name: "set_alarm", description: "Set an alarm.", parameters: { type: "object", properties: { time: { type: "string", pattern: "^([01][0-9]|2[0-3]):[0-5][0-9]$", description: "As 07:30" } }, required: ["time"], additionalProperties: false } },
  ] },
];

const data = JSON.parse(document.getElementById("data").textContent);
const form = {};
for (const id of ["example", "request", "tools", "choice", "parallel", "temperature", "seed", "most", "key", "run", "stop", "link"]) form[id] = document.getElementById(id);
const view = new View(document.getElementById("result"));
let running = null;

/** Functions as OpenAI's API takes them; bare ones are wrapped. */
function toolsOf(text) {
  const list = text.trim() ? JSON.parse(text) : [];
  if (!Array.isArray(list)) throw new Error("Functions: this must be a JSON list.");
  return list.map((tool) => (tool && tool.type === "function" ? tool : { type: "function", function: tool }));
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
  };
}

function fill(given) {
  for (const name of ["request", "tools"]) if (typeof given[name] === "string") form[name].value = given[name];
  fillChoices();
  for (const name of ["temperature", "seed", "most"]) if (Number.isFinite(given[name])) form[name].value = given[name];
  if (typeof given.parallel === "boolean") form.parallel.checked = given.parallel;
  if (typeof given.choice === "string") form.choice.value = given.choice;
  if (!form.choice.value) form.choice.value = "auto";
}

function encode(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function decode(text) {
  const bytes = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

function body(given) {
  const tools = toolsOf(given.tools);
  const asked = {
    model: data.model, messages: [{ role: "user", content: given.request }], stream: true,
    temperature: given.temperature, seed: given.seed, max_completion_tokens: given.most, callmemaybe: { steps: true },
  };
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

async function run() {
  if (running) running.abort();
  const mine = running = new AbortController();
  const given = state();
  history.replaceState(null, "", `#${encode(given)}`);
  view.begin("Asking the model…");
  form.stop.disabled = false;
  const calls = [];
  let text = "";
  let finish = null;
  try {
    const headers = { "content-type": "application/json" };
    if (form.key.value) headers.authorization = `Bearer ${form.key.value}`;
    const response = await fetch("v1/chat/completions", { method: "POST", headers, body: JSON.stringify(body(given)), signal: mine.signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      const ours = event.callmemaybe;
      if (ours && ours.steps) ours.steps.forEach((step) => view.step(step));
      if (ours && ours.end) view.end(ours.end);
      for (const choice of event.choices) {
        text += choice.delta.content || "";
        for (const call of choice.delta.tool_calls || []) {
          calls[call.index] = calls[call.index] || { name: "", arguments: "" };
          calls[call.index].name += call.function.name || "";
          calls[call.index].arguments += call.function.arguments || "";
        }
        finish = choice.finish_reason || finish;
      }
      view.answer(calls, text);
    }
    const words = { tool_calls: `${calls.length === 1 ? "One call." : `${calls.length} calls.`}`, stop: text ? "An answer in text." : "No function fits: nothing is called.", length: "Cut off: the tokens were used up, so there is no call." };
    view.say(words[finish] || "The answer ended early.", finish === "length");
  } catch (error) {
    if (running === mine) view.say(error.name === "AbortError" ? "Stopped." : error.message, error.name !== "AbortError");
  } finally {
    if (running === mine) { running = null; form.stop.disabled = true; }
  }
}

document.getElementById("model").textContent = `Playground of ${data.model}`;
document.getElementById("keyRow").hidden = !data.needsKey;
themes(document.getElementById("theme"));
form.example.append(...EXAMPLES.map((one, index) => element("option", { value: index }, one.name)));
form.example.addEventListener("change", () => {
  const one = EXAMPLES[form.example.value];
  fill({ request: one.request, tools: JSON.stringify(one.tools, null, 1), choice: "auto" });
});
form.tools.addEventListener("input", fillChoices);
document.getElementById("form").addEventListener("submit", (event) => { event.preventDefault(); run(); });
form.stop.addEventListener("click", () => running && running.abort());
form.link.addEventListener("click", async () => {
  history.replaceState(null, "", `#${encode(state())}`);
  try { await navigator.clipboard.writeText(location.href); view.say("The link is copied."); } catch { view.say("The link is in the address bar."); }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); document.getElementById("form").requestSubmit(); }
  if (event.key === "Escape" && running) running.abort();
});
function open() {
  try {
    if (location.hash.length > 1) { fill(decode(location.hash.slice(1))); run(); return; }
  } catch { view.say("The link is damaged; here is an example instead.", true); }
  form.example.dispatchEvent(new Event("change"));
}
window.addEventListener("hashchange", open);
open();
