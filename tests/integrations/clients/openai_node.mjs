// requires: node@latest openai@latest zod@latest
// OpenAI's JavaScript client: chat, streams, runTools, parse, responses.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const { BASE_URL: baseURL, API_KEY: apiKey = "unused", MODEL: model } = process.env;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const ASK = "What's the weather in Paris?";
const SYSTEM = { role: "system", content: "Be brief." };
const user = (content) => ({ role: "user", content });

let ran = [];
const object = (properties) => ({
  type: "object", properties, required: Object.keys(properties), additionalProperties: false,
});
const functions = {
  get_weather: {
    description: "Current weather of a city.",
    parameters: object({ city: { type: "string" } }),
    run: ({ city }) => `22 degrees in ${city}`,
  },
  set_light: {
    description: "Set the brightness of the light in a room.",
    parameters: object({ room: { type: "string" }, percent: { type: "integer" } }),
    run: ({ room, percent }) => `the light in the ${room} is at ${percent} percent`,
  },
  find_person: {
    description: "Find out in which city a person lives.",
    parameters: object({ name: { type: "string" } }),
    run: () => "Oslo",
  },
};
const tools = Object.entries(functions).map(([name, { description, parameters }]) => ({
  type: "function", function: { name, description, parameters },
}));
const callable = (run = {}) => Object.entries(functions).map(([name, one]) => ({
  type: "function",
  function: {
    name, description: one.description, parameters: one.parameters, parse: JSON.parse,
    function: async (args) => { ran.push([name, args]); return (run[name] ?? one.run)(args); },
  },
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
  (message.tool_calls ?? []).map((one) => [one.function.name, JSON.parse(one.function.arguments)]);
const PARIS = ["get_weather", { city: "Paris" }];
const Place = z.object({ city: z.string() });

const flows = {
  "one call": async () => {
    const { choices } = await client.chat.completions.create({ model, tools, messages: [user(ASK)] });
    same(calls(choices[0].message), [PARIS]);
    same(choices[0].finish_reason, "tool_calls");
  },
  "two calls in one turn": async () => {
    const messages = [user("What's the weather in Paris and what's the weather in Oslo?")];
    const { choices } = await client.chat.completions.create({ model, tools, messages });
    same(calls(choices[0].message), [PARIS, ["get_weather", { city: "Oslo" }]]);
  },
  "tool loop": async () => {
    const runner = client.chat.completions.runTools({ model, tools: callable(), messages: [user(ASK)] });
    has(await runner.finalContent(), "22");
    same(ran, [PARIS]);
  },
  "two-step loop": async () => {
    const messages = [user("Find out where Ada lives and what the weather is like there.")];
    const runner = client.chat.completions.runTools({ model, tools: callable(), messages });
    has(await runner.finalContent(), "22");
    same(ran, [["find_person", { name: "Ada" }], ["get_weather", { city: "Oslo" }]]);
  },
  "streamed call": async () => {
    const stream = client.chat.completions.stream({ model, tools, messages: [user(ASK)] });
    same(calls((await stream.finalChatCompletion()).choices[0].message), [PARIS]);
  },
  "streamed loop": async () => {
    const runner = client.chat.completions.runTools({ model, stream: true, tools: callable(), messages: [user(ASK)] });
    let text = "";
    runner.on("content", (delta) => { text += delta; });
    has(await runner.finalContent(), "22");
    has(text, "22");
    same(ran, [PARIS]);
  },
  "structured output": async () => {
    const response_format = zodResponseFormat(Place, "place");
    const { choices } = await client.chat.completions.parse({ model, response_format, messages: [user("I live in Paris.")] });
    same(choices[0].message.parsed, { city: "Paris" });
  },
  "forced tool": async () => {
    const tool_choice = { type: "function", function: { name: "get_weather" } };
    const { choices } = await client.chat.completions.create({ model, tools, tool_choice, messages: [user(ASK)] });
    same(calls(choices[0].message), [PARIS]);
  },
  "no tools": async () => {
    const { choices } = await client.chat.completions.create({ model, messages: [user("Say hello.")] });
    if (!choices[0].message.content) throw new Error("no text");
    same(choices[0].finish_reason, "stop");
  },
  "tool error fed back": async () => {
    const run = { get_weather: () => { throw new Error("the station is closed"); } };
    const tools = callable(run).map((one) => {
      const { function: call } = one.function;
      one.function.function = (args) => call(args).catch((error) => `Error: ${error.message}`);
      return one;
    });
    const runner = client.chat.completions.runTools({ model, tools, messages: [user(ASK)] });
    has(await runner.finalContent(), "closed");
    same(ran, [PARIS]);
  },
  "follow-up question": async () => {
    const runner = client.chat.completions.runTools({ model, tools: callable(), messages: [user(ASK)] });
    await runner.finalContent();
    const messages = [...runner.messages, user("And what's the weather in Oslo?")];
    const second = client.chat.completions.runTools({ model, tools: callable(), messages });
    has(await second.finalContent(), "Oslo");
    same(ran, [PARIS, ["get_weather", { city: "Oslo" }]]);
  },
  "system message": async () => {
    const { choices } = await client.chat.completions.create({ model, tools, messages: [SYSTEM, user(ASK)] });
    same(calls(choices[0].message), [PARIS]);
  },
  "responses loop": async () => {
    const flat = tools.map(({ type, function: one }) => ({ type, ...one, strict: true }));
    const first = await client.responses.create({ model, tools: flat, input: [user(ASK)] });
    const [call] = first.output;
    same([call.name, JSON.parse(call.arguments)], PARIS);
    const result = { type: "function_call_output", call_id: call.call_id, output: "22 degrees in Paris" };
    const second = await client.responses.create({ model, tools: flat, input: [user(ASK), ...first.output, result] });
    has(second.output_text, "22");
    const format = zodTextFormat(Place, "place");
    const third = await client.responses.parse({ model, input: "I live in Paris.", text: { format } });
    same(third.output_parsed, { city: "Paris" });
  },
  // No budget lets a tool run with arguments that were cut off or made up.
  "budget": async () => {
    let first;
    for (let max_tokens = 1; max_tokens <= 60; max_tokens++) {
      ran = [];
      const runner = client.chat.completions.runTools({ model, stream: true, max_tokens, tools: callable(), messages: [user(ASK)] });
      try { await runner.finalContent(); } catch (error) { if (!(error instanceof OpenAI.OpenAIError)) throw error; }
      if (ran.length) { same(ran, [PARIS]); first ??= max_tokens; }
    }
    if (!first) throw new Error("no call within 60 tokens");
    return `whole from ${first} tokens`;
  },
};

for (const [flow, run] of Object.entries(flows)) {
  ran = [];
  let passed = true, note;
  try { note = await run(); } catch (error) { passed = false; note = String(error?.message ?? error).slice(0, 300); }
  console.log(JSON.stringify({ flow, passed, note: note ?? "" }));
}
