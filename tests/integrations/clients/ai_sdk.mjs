// requires: node@latest ai@latest @ai-sdk/openai-compatible@latest @ai-sdk/openai@latest zod@latest
// Vercel's AI SDK, with the provider for compatible servers and with OpenAI's (chat and responses).
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

const { BASE_URL: baseURL, API_KEY: apiKey = "unused", MODEL: name } = process.env;
globalThis.AI_SDK_LOG_WARNINGS = false;
const openai = createOpenAI({ baseURL, apiKey });
const compatible = { baseURL, apiKey, name: "callmemaybe" };
const models = {
  compatible: createOpenAICompatible({ ...compatible, supportsStructuredOutputs: true })(name),
  chat: openai.chat(name),
  responses: openai.responses(name),
};
// The server stores no responses.
const providerOptions = { openai: { store: false } };
const ASK = "What's the weather in Paris?";
const PARIS = ["get_weather", { city: "Paris" }];
const OSLO = ["get_weather", { city: "Oslo" }];
const Place = z.object({ city: z.string() });

let ran = [];
function made(run = ({ city }) => `22 degrees in ${city}`) {
  const seen = (name, act) => async (args) => { ran.push([name, args]); return act(args); };
  return {
    get_weather: tool({
      description: "Current weather of a city.", inputSchema: Place, execute: seen("get_weather", run),
    }),
    set_light: tool({
      description: "Set the brightness of the light in a room.",
      inputSchema: z.object({ room: z.string(), percent: z.number().int() }),
      execute: seen("set_light", ({ room, percent }) => `the light in the ${room} is at ${percent} percent`),
    }),
    find_person: tool({
      description: "Find out in which city a person lives.",
      inputSchema: z.object({ name: z.string() }), execute: seen("find_person", () => "Oslo"),
    }),
  };
}
const open = () => Object.fromEntries(
  Object.entries(made()).map(([name, { execute, ...rest }]) => [name, rest]),
);
const calls = (result) => result.toolCalls.map((one) => [one.toolName, one.input]);
const options = (more) => ({ providerOptions, maxRetries: 0, prompt: ASK, ...more });
const loop = (more) => options({ tools: made(), stopWhen: isStepCount(5), ...more });

function same(found, wanted) {
  const [a, b] = [found, wanted].map((one) => JSON.stringify(one));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}
function has(text, ...words) {
  for (const word of words)
    if (!String(text).includes(word)) throw new Error(`${JSON.stringify(text)} lacks ${word}`);
}
async function streamed(more) {
  let failure;
  const result = streamText({ ...more, onError: ({ error }) => { failure = error; } });
  await result.consumeStream();
  if (failure) throw failure;
  return result;
}

const flows = {
  "one call": async (model) => {
    const result = await generateText(options({ model, tools: open() }));
    same(calls(result), [PARIS]);
    same(result.finishReason, "tool-calls");
  },
  "two calls in one turn": async (model) => {
    const prompt = "What's the weather in Paris and what's the weather in Oslo?";
    same(calls(await generateText(options({ model, tools: open(), prompt }))), [PARIS, OSLO]);
  },
  "tool loop": async (model) => {
    has((await generateText(loop({ model }))).text, "22");
    same(ran, [PARIS]);
  },
  "two-step loop": async (model) => {
    const prompt = "Find out where Ada lives and what the weather is like there.";
    has((await generateText(loop({ model, prompt }))).text, "22");
    same(ran, [["find_person", { name: "Ada" }], OSLO]);
  },
  "streamed call": async (model) => {
    const result = await streamed(options({ model, tools: open() }));
    same((await result.toolCalls).map((one) => [one.toolName, one.input]), [PARIS]);
  },
  "streamed loop": async (model) => {
    has(await (await streamed(loop({ model }))).text, "22");
    same(ran, [PARIS]);
  },
  "structured output": async (model) => {
    const result = await generateText(options({ model, prompt: "I live in Paris.", output: Output.object({ schema: Place }) }));
    same(result.output, { city: "Paris" });
  },
  "structured output after tools": async (model) => {
    const result = await generateText(loop({ model, output: Output.object({ schema: z.object({ city: z.string(), degrees: z.number().int() }) }) }));
    same(ran, [PARIS]);
    same(result.output, { city: "Paris", degrees: 22 });
  },
  "forced tool": async (model) => {
    const toolChoice = { type: "tool", toolName: "get_weather" };
    same(calls(await generateText(options({ model, tools: open(), toolChoice }))), [PARIS]);
  },
  "no tools": async (model) => {
    const result = await generateText(options({ model, prompt: "Say hello." }));
    if (!result.text) throw new Error("no text");
    same(result.finishReason, "stop");
  },
  "tool error fed back": async (model) => {
    const tools = made(() => { throw new Error("the station is closed"); });
    has((await generateText(loop({ model, tools }))).text, "closed");
    same(ran, [PARIS]);
  },
  "follow-up question": async (model) => {
    const first = await generateText(loop({ model }));
    const messages = [
      { role: "user", content: ASK }, ...first.responseMessages ?? first.response.messages,
      { role: "user", content: "And what's the weather in Oslo?" },
    ];
    has((await generateText(loop({ model, prompt: undefined, messages }))).text, "Oslo");
    same(ran, [PARIS, OSLO]);
  },
  "system message": async (model) => {
    has((await generateText(loop({ model, instructions: "Be brief." }))).text, "22");
    same(ran, [PARIS]);
  },
  // No budget lets a tool run with arguments that were cut off or made up.
  "budget": async (model) => {
    let first;
    for (let maxOutputTokens = 1; maxOutputTokens <= 60; maxOutputTokens++) {
      ran = [];
      try { await streamed(loop({ model, maxOutputTokens })); }
      catch (error) { if (!/length|max_output_tokens|minimum/i.test(error.message)) throw error; }
      if (ran.length) { same(ran, [PARIS]); first ??= maxOutputTokens; }
    }
    if (!first) throw new Error("no call within 60 tokens");
    return `whole from ${first} tokens`;
  },
};

for (const [flow, run] of Object.entries(flows)) {
  const failed = [], notes = new Set();
  for (const [provider, model] of Object.entries(models)) {
    ran = [];
    try { notes.add(await run(model) ?? ""); } catch (error) { failed.push(`${provider}: ${error?.message ?? error}`); }
  }
  const note = (failed.length ? failed : [...notes]).join("; ").slice(0, 300);
  console.log(JSON.stringify({ flow, passed: !failed.length, note }));
}
