// requires: node@latest @anthropic-ai/sdk@latest zod@latest
// Anthropic's JavaScript client: messages, streams, the tool runner, parse, counts of tokens.
import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { z } from "zod";

const { BASE_URL, API_KEY: apiKey = "unused", MODEL: model } = process.env;
const client = new Anthropic({ baseURL: BASE_URL.replace(/\/v1$/, ""), apiKey, maxRetries: 0 });
const ASK = "What's the weather in Paris?";
const max_tokens = 300;
const user = (content) => ({ role: "user", content });

let ran = [], failing = false;
const object = (properties) => ({
  type: "object", properties, required: Object.keys(properties), additionalProperties: false,
});
const functions = {
  get_weather: {
    description: "Current weather of a city.",
    input_schema: object({ city: { type: "string" } }),
    run: ({ city }) => { if (failing) throw new Error("the station is closed"); return `22 degrees in ${city}`; },
  },
  set_light: {
    description: "Set the brightness of the light in a room.",
    input_schema: object({ room: { type: "string" }, percent: { type: "integer" } }),
    run: ({ room, percent }) => `the light in the ${room} is at ${percent} percent`,
  },
  find_person: {
    description: "Find out in which city a person lives.",
    input_schema: object({ name: { type: "string" } }),
    run: () => "Oslo",
  },
};
const tools = Object.entries(functions).map(([name, { description, input_schema }]) => ({
  name, description, input_schema,
}));
const call = (name, input) => { ran.push([name, input]); return functions[name].run(input); };
const runnable = () => tools.map(({ name, description, input_schema }) => betaTool({
  name, description, inputSchema: input_schema, run: (input) => call(name, input),
}));

function same(found, wanted) {
  const [a, b] = [found, wanted].map((one) => JSON.stringify(one));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}
function has(text, ...words) {
  for (const word of words)
    if (!String(text).includes(word)) throw new Error(`${JSON.stringify(text)} lacks ${word}`);
}
const calls = (message) =>
  message.content.filter((one) => one.type === "tool_use").map((one) => [one.name, one.input]);
const text = (message) =>
  message.content.filter((one) => one.type === "text").map((one) => one.text).join("");
const PARIS = ["get_weather", { city: "Paris" }], OSLO = ["get_weather", { city: "Oslo" }];
const Place = z.object({ city: z.string() });

const ask = (messages, more = {}) => client.messages.create({ model, max_tokens, tools, messages, ...more });
const streamed = (messages, more = {}) => client.messages.stream({ model, max_tokens, tools, messages, ...more });

async function loop(messages, send = ask) {
  for (let turn = 0; turn < 6; turn++) {
    const message = await send(messages);
    messages.push({ role: "assistant", content: message.content });
    const made = message.content.filter((one) => one.type === "tool_use");
    if (!made.length) return text(message);
    messages.push(user(made.map((one) => {
      const about = { type: "tool_result", tool_use_id: one.id };
      try { return { ...about, content: call(one.name, one.input) }; }
      catch (error) { return { ...about, content: error.message, is_error: true }; }
    })));
  }
  throw new Error("six turns and no answer");
}

const flows = {
  "one call": async () => {
    const message = await ask([user(ASK)]);
    same(calls(message), [PARIS]);
    same(message.stop_reason, "tool_use");
  },
  "two calls in one turn": async () => {
    const messages = [user("What's the weather in Paris and what's the weather in Oslo?")];
    has(await loop(messages), "Paris", "Oslo");
    same(messages[2].content.length, 2);
    same(ran, [PARIS, OSLO]);
  },
  "tool loop": async () => {
    has(await loop([user(ASK)]), "22");
    same(ran, [PARIS]);
  },
  "two-step loop": async () => {
    has(await loop([user("Find out where Ada lives and what the weather is like there.")]), "22");
    same(ran, [["find_person", { name: "Ada" }], OSLO]);
  },
  "streamed call": async () => {
    const stream = streamed([user(ASK)]);
    const inputs = [];
    stream.on("inputJson", (_delta, snapshot) => inputs.push(snapshot));
    same(calls(await stream.finalMessage()), [PARIS]);
    same(inputs.at(-1), PARIS[1]);
  },
  "streamed loop": async () => {
    has(await loop([user(ASK)], (messages) => streamed(messages).finalMessage()), "22");
    same(ran, [PARIS]);
  },
  "structured output": async () => {
    const output_config = { format: zodOutputFormat(Place) };
    const message = await client.messages.parse({ model, max_tokens, output_config, messages: [user("I live in Paris.")] });
    same(message.parsed_output, { city: "Paris" });
  },
  "forced tool": async () => {
    same(calls(await ask([user(ASK)], { tool_choice: { type: "tool", name: "get_weather" } })), [PARIS]);
  },
  "no tools": async () => {
    const message = await client.messages.create({ model, max_tokens, messages: [user("Say hello.")] });
    if (!text(message)) throw new Error("no text");
    same(message.stop_reason, "end_turn");
  },
  "tool error fed back": async () => {
    failing = true;
    has(await loop([user(ASK)]), "closed");
    same(ran, [PARIS]);
  },
  "follow-up question": async () => {
    const messages = [user(ASK)];
    await loop(messages);
    has(await loop([...messages, user("And what's the weather in Oslo?")]), "Oslo");
    same(ran, [PARIS, OSLO]);
  },
  "system message": async () => {
    const system = [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }];
    same(calls(await ask([user(ASK)], { system })), [PARIS]);
  },
  "tool runner": async () => {
    const runner = client.beta.messages.toolRunner({ model, max_tokens, tools: runnable(), messages: [user(ASK)] });
    has(text(await runner.runUntilDone()), "22");
    same(ran, [PARIS]);
  },
  "tool runner, streamed": async () => {
    const runner = client.beta.messages.toolRunner({ model, max_tokens, stream: true, tools: runnable(), messages: [user(ASK)] });
    let last;
    for await (const stream of runner) last = await stream.finalMessage();
    has(text(last), "22");
    same(ran, [PARIS]);
  },
  "count of tokens": async () => {
    const { input_tokens } = await client.messages.countTokens({ model, tools, messages: [user(ASK)] });
    const { usage } = await ask([user(ASK)]);
    same(input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
  },
  // No budget lets a tool run with arguments that were cut off or made up.
  "budget": async () => {
    let first;
    for (let most = 1; most <= 60; most++) {
      ran = [];
      const runner = client.beta.messages.toolRunner({ model, stream: true, max_tokens: most, max_iterations: 2, tools: runnable(), messages: [user(ASK)] });
      try { await runner.runUntilDone(); } catch (error) { if (!(error instanceof Anthropic.AnthropicError)) throw error; }
      if (ran.length) { same(ran, [PARIS]); first ??= most; }
    }
    if (!first) throw new Error("no call within 60 tokens");
    return `whole from ${first} tokens`;
  },
};

for (const [flow, run] of Object.entries(flows)) {
  ran = [];
  failing = false;
  let passed = true, note;
  try { note = await run(); } catch (error) { passed = false; note = String(error?.message ?? error).slice(0, 300); }
  console.log(JSON.stringify({ flow, passed, note: note ?? "" }));
}
