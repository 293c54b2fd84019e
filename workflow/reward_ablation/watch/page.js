"use strict";
// The page of `reward-ablation watch`. Texts of models and of data sets become text nodes only, never HTML.
const $ = (id) => document.getElementById(id);
const snapshot = $("data") && JSON.parse($("data").textContent);
const REFRESH = 5000, MOST_POINTS = 60, WIDTH = 360, HEIGHT = 170, LEFT = 44, BOTTOM = 22;
let about = null, next = 0, epoch = null; // what the server has said
let shown = { rows: [], all: 0 }, chosen = null, sorting = { column: 0, descending: true };
const points = []; // by run: the means of all series by step
const leftOut = new Set(); // numbers of arms

function make(tag, attributes = {}, ...children) {
  const drawn = ["svg", "path", "line", "text"].includes(tag);
  const element = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name === "arm") element.style.setProperty("--arm", about.arms[value].colour);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  element.append(...children);
  return element;
}
// Three digits, and all of a whole number.
function number(value) {
  if (value === null || value === undefined) return "–";
  const whole = Math.trunc(Math.abs(value)).toString().length;
  return String(Number.isInteger(value) ? value : +value.toPrecision(Math.min(100, Math.max(3, whole))));
}
// The digits in which neighbouring ticks differ.
const tickLabel = (value, tick) => String(+value.toFixed(Math.min(100, Math.max(0, -Math.floor(Math.log10(tick) + 1e-9)))));
const nameOf = (run) => `${about.arms[about.runs[run].arm].name}, seed ${about.runs[run].seed}`;
const armLine = (arm, d) => make("path", { class: "line", arm, d, "stroke-dasharray": about.arms[arm].dash });
const swatch = (arm) => make("svg", { class: "swatch", viewBox: "0 0 26 10", "aria-hidden": "true" }, armLine(arm, "M0 5H26"));

function take(answer) {
  if (!about) build(answer.about);
  $("counts").textContent = answer.counts;
  $("now").textContent = answer.now;
  $("lines").replaceChildren(...answer.lines.map((line) => make("li", {}, line)));
  answer.states.forEach(showState);
  for (const [run, step, ...values] of answer.points)
    if (step === undefined) points[run].clear();
    else points[run].set(step, values);
  if (answer.points.length) { draw(); listSteps(); }
}

async function refresh() {
  let wait = REFRESH;
  try {
    if ((!$("refresh").checked || document.hidden) && about) return;
    const response = await fetch(`study.json?since=${next}`);
    if (!response.ok) throw new Error(`status ${response.status}`);
    const answer = await response.json();
    if (epoch && answer.epoch !== epoch) return location.reload();
    epoch = answer.epoch;
    take(answer);
    next = answer.next;
    if (answer.more) wait = 50;
    $("trouble").textContent = "";
  } catch (error) {
    $("trouble").textContent = `The server does not answer (${error.message}); this is what it said last.`;
  } finally {
    setTimeout(refresh, wait);
  }
}

function build(study) {
  about = study;
  study.runs.forEach((run, index) => {
    points.push(new Map());
    const show = () => { $("run").value = index; listSteps(); $("heading-texts").focus(); };
    const label = `${nameOf(index)}: show its completions`;
    const button = make("button", { type: "button", "aria-label": label, onclick: show }, swatch(run.arm), nameOf(index));
    const facts = make("div", { class: "facts" }, make("span", { class: "state" }),
      make("progress", { max: 1, "aria-label": "steps done" }), make("span", { class: "quiet" }));
    $("runs").append(make("tr", {}, make("th", { scope: "row" }, button), make("td", {}, facts)));
    $("run").append(make("option", { value: index }, nameOf(index)));
  });
  study.arms.forEach((arm, index) => {
    if (study.runs.some((run) => run.arm === index)) $("legend").append(legendButton(arm, index));
  });
  study.series.forEach((name, column) => {
    const sort = () => { sorting = { column, descending: sorting.column !== column || !sorting.descending }; list(); };
    $("texts").tHead.rows[0].append(make("th", { scope: "col" }, make("button", { type: "button", onclick: sort }, name)));
  });
}

function legendButton(arm, index) {
  const toggle = ({ currentTarget }) => {
    const back = leftOut.delete(index);
    if (!back) leftOut.add(index);
    currentTarget.setAttribute("aria-pressed", String(back));
    draw();
  };
  return make("button", { type: "button", "aria-pressed": "true", title: arm.weights, onclick: toggle }, swatch(index), arm.name);
}

function showState([state, done, facts], run) {
  const [name, bar, more] = $("runs").rows[run].cells[1].firstChild.children;
  name.textContent = state;
  more.textContent = facts;
  bar.hidden = done === null;
  if (done !== null) bar.value = done;
}

function draw() {
  const last = snapshot ? snapshot.last : points.reduce((most, steps) => Math.max(most, ...steps.keys()), 1);
  const width = snapshot ? snapshot.width : Math.ceil(last / MOST_POINTS);
  $("panels").replaceChildren(...about.series.map((name, series) => panel(name, series, last, width)));
  $("note").textContent = "Thin lines are seeds. The bold line of an arm is the mean of its seeds, at steps that all of "
    + `these have reached.${width > 1 ? ` Each point is the mean of ${width} steps.` : ""} A button hides or shows an arm.`;
}

function binned(steps, series, width) {
  const bins = new Map();
  for (const [step, values] of steps) {
    if (values[series] === null) continue;
    const bin = Math.floor((step - 1) / width), [sum, count] = bins.get(bin) || [0, 0];
    bins.set(bin, [sum + values[series], count + 1]);
  }
  const ordered = [...bins].sort((a, b) => a[0] - b[0]);
  return new Map(ordered.map(([bin, [sum, count]]) => [bin * width + (width + 1) / 2, sum / count]));
}

function curvesOf(arm, series, width) {
  const runs = points.filter((_, run) => about.runs[run].arm === arm);
  const seeds = runs.map((steps) => binned(steps, series, width)).filter((bins) => bins.size);
  if (!seeds.length) return null;
  const common = [...seeds[0].keys()].filter((step) => seeds.every((bins) => bins.has(step)));
  const mean = new Map(common.map((step) => [step, seeds.reduce((sum, bins) => sum + bins.get(step), 0) / seeds.length]));
  return { arm, mean, seeds: seeds.length > 1 ? seeds : [] };
}

function panel(name, series, last, width) {
  const drawn = about.arms.map((_, arm) => arm).filter((arm) => !leftOut.has(arm));
  const curves = drawn.map((arm) => curvesOf(arm, series, width)).filter(Boolean);
  const values = curves.flatMap(({ mean, seeds }) => [mean, ...seeds].flatMap((bins) => [...bins.values()]));
  if (!values.length) return make("figure", {}, make("figcaption", {}, name), make("p", { class: "note" }, "no scores yet"));
  let low = Math.min(...values), high = Math.max(...values);
  if (high - low < 1e-9) { low -= 0.5; high += 0.5; }
  const raw = (high - low) / 3, power = 10 ** Math.floor(Math.log10(raw));
  const tick = power * [1, 2, 5, 10].find((size) => size * power >= raw);
  low = Math.floor(low / tick) * tick;
  high = Math.ceil(high / tick) * tick;
  const x = (step) => LEFT + ((step - 1) / Math.max(1, last - 1)) * (WIDTH - LEFT - 6);
  const y = (value) => 8 + ((high - value) / (high - low)) * (HEIGHT - BOTTOM - 8);
  const path = (bins) => [...bins].map(([step, value], n) => `${n ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const ends = curves.map(({ arm, mean }) => `${about.arms[arm].name} ${number([...mean.values()].at(-1))}`);
  const picture = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${name} by step; last: ${ends.join(", ")}` });
  for (let value = low; value < high + tick / 2; value += tick)
    picture.append(make("line", { class: "grid", x1: LEFT, x2: WIDTH - 6, y1: y(value), y2: y(value) }),
      make("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, tickLabel(Math.abs(value) < tick / 1e6 ? 0 : value, tick)));
  for (const step of last > 1 ? [1, Math.round((last + 1) / 2), last] : [1])
    picture.append(make("text", { x: x(step), y: HEIGHT - 6, "text-anchor": step === last && last > 1 ? "end" : "middle" }, String(step)));
  for (const { arm, seeds } of curves) picture.append(...seeds.map((bins) => make("path", { class: "line thin", arm, d: path(bins) })));
  for (const { arm, mean } of curves) picture.append(armLine(arm, path(mean)));
  return make("figure", {}, make("figcaption", {}, name), picture);
}

function listSteps() {
  const run = $("run").value, before = [...$("step").options].map((option) => option.text);
  const steps = (snapshot ? Object.keys(snapshot.texts[run] || {}) : [...points[run].keys()].sort((a, b) => a - b)).map(String);
  const other = chosen === null || chosen.split(" ")[0] !== run;
  const fresh = other || !before.length || before.some((step, place) => step !== steps[place]);
  if (fresh) $("step").replaceChildren();
  $("step").append(...steps.slice($("step").length).map((step) => make("option", {}, step)));
  if (fresh) $("step").value = steps.at(-1);
  if (`${run} ${$("step").value}` !== chosen) chooseStep();
}

async function chooseStep() {
  const run = $("run").value, step = $("step").value, asked = (chosen = `${run} ${step}`);
  let answer = { rows: [], all: 0 };
  if (snapshot) answer = (snapshot.texts[run] || {})[step] || answer;
  else if (step) {
    const response = await fetch(`rows.json?run=${run}&step=${step}`).catch(() => null);
    if (response && response.ok) answer = await response.json();
  }
  if (asked !== chosen) return; // another step was chosen meanwhile
  shown = { ...answer, rows: answer.rows.map((row, index) => completion(row, index + 1)) };
  list();
}

function completion([values, cut, text, prompt, gold], place) {
  const preview = make("div", { class: "preview", dir: "auto" }, text.slice(0, 400) || "(empty)");
  const whole = make("div", { hidden: "", id: `whole-${place}` });
  const open = (event) => {
    const opened = preview.hidden = !preview.hidden;
    whole.hidden = !opened;
    event.currentTarget.setAttribute("aria-expanded", String(opened));
    if (!whole.childElementCount)
      for (const [name, part] of [["prompt", prompt], ["right answer", gold], ["completion", text]])
        whole.append(make("strong", {}, name), make("pre", { dir: "auto", tabindex: "0", "aria-label": name }, part || "–"));
  };
  const button = make("button", { type: "button", "aria-expanded": "false", "aria-controls": whole.id, onclick: open,
    "aria-label": `Completion ${place}: prompt, right answer and whole text` }, String(place));
  const scores = values.map((value) => make("td", {}, number(value)));
  if (cut) scores.at(-1).append(" (cut off)");
  const body = make("tbody", {}, make("tr", { class: "scores" }, make("td", {}, button), ...scores),
    make("tr", { class: "text" }, make("td", { colspan: values.length + 1 }, make("div", { class: "texts" }, preview, whole))));
  return { values, body, words: `${prompt}\n${gold}\n${text}`.toLowerCase() };
}

function list() {
  const { column, descending } = sorting, words = $("filter").value.toLowerCase();
  const rows = shown.rows.filter((row) => row.words.includes(words));
  const key = ({ values }) => (values[column] === null ? -Infinity : (descending ? 1 : -1) * values[column]); // unknown: last
  rows.sort((a, b) => (key(a) === key(b) ? 0 : key(b) - key(a)));
  for (const cell of $("texts").tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  $("texts").tHead.rows[0].cells[column + 1].setAttribute("aria-sort", descending ? "descending" : "ascending");
  for (const body of [...$("texts").tBodies]) body.remove();
  $("texts").append(...rows.map((row) => row.body));
  const sample = shown.rows.length < shown.all ? `, a sample of the step's ${shown.all}` : "";
  $("summary").textContent = `Listed: ${rows.length} of ${shown.rows.length} completions${sample}. A number opens one.`;
}

$("run").addEventListener("change", listSteps);
$("step").addEventListener("change", chooseStep);
$("filter").addEventListener("input", list);
if (snapshot) { take(snapshot); listSteps(); } else refresh();
