/* Shows the runs of a trace file. */

const { runs } = JSON.parse(document.getElementById("data").textContent);
const view = new View(document.getElementById("result"));
const list = document.getElementById("prompts");
const filter = document.getElementById("filter");
let current = -1;

function show(index) {
  current = index;
  const run = runs[index];
  view.begin("");
  run.steps.forEach((step) => view.step(step));
  const end = run.end || {};
  view.end(end);
  view.answer(run.call ? [run.call] : [], "");
  view.say(run.failure || (run.call ? run.request : `${run.request}: nothing is called.`), Boolean(run.failure));
  for (const button of list.querySelectorAll("button")) button.setAttribute("aria-current", String(Number(button.dataset.index) === index));
  history.replaceState(null, "", `#${index + 1}`);
}

function fill() {
  const wanted = filter.value.toLowerCase();
  list.replaceChildren(...runs.map((run, index) => [run, index])
    .filter(([run]) => run.request.toLowerCase().includes(wanted))
    .map(([run, index]) => {
      const button = element("button", { type: "button", "data-index": index, "aria-current": String(index === current) }, `${index + 1}. ${run.request}`);
      button.addEventListener("click", () => show(index));
      return element("li", {}, button);
    }));
}

themes(document.getElementById("theme"));
filter.addEventListener("input", fill);
fill();
const first = Number(location.hash.slice(1));
if (runs.length) show(first >= 1 && first <= runs.length ? first - 1 : 0);
else view.say("The trace holds no finished prompt.", true);
