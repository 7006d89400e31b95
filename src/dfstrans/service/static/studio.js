"use strict";
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// ---- what all pages do -----------------------------------------------------------------------------------------------

function say(text, failed = false) {
  const said = $("#said");
  said.textContent = text;
  said.className = failed ? "failed" : "";
  said.hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { said.hidden = true; }, failed ? 12000 : 4000);
}

async function ask(address, options) {
  const answer = await fetch(address, options);
  const content = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(content?.detail || `the service answered ${answer.status}`);
  return content;
}

const send = (address, body, method = "POST") =>
  ask(address, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}) });

// Parts that change by themselves: a server-sent event says that something changed, and the part is fetched anew.
async function renew() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const focused = document.activeElement?.id;
  for (const part of $$("[data-live]")) $("#" + part.id, fresh) && part.replaceWith($("#" + part.id, fresh));
  if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus();
}
if ($("[data-live]")) {
  let first = true, waiting;
  const events = new EventSource("/api/v1/events");
  events.onmessage = () => {
    if (!first) { clearTimeout(waiting); waiting = setTimeout(renew, 100); }
    first = false;
    document.body.dataset.listening = "true";
  };
  addEventListener("pagehide", () => events.close());
}

document.addEventListener("click", async event => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("print" in button.dataset) print();
  if (!button.dataset.send || (button.dataset.sure && !confirm(button.dataset.sure))) return;
  button.disabled = true;
  try {
    await send(button.dataset.send, JSON.parse(button.dataset.body || "null"));
    say(button.dataset.done || "Done");
    await renew();
  } catch (error) { say(error.message, true); }
  button.disabled = false;
});

const filter = $("[data-filter]");
if (filter) filter.onchange = () => filter.requestSubmit();
if (filter) filter.onsubmit = () => { for (const one of filter.elements) one.disabled ||= one.value === ""; };

document.addEventListener("keydown", event => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const cases = $$("a.case"), at = cases.indexOf(document.activeElement);
  if (event.key === "/" && $("[type=search]")) { event.preventDefault(); $("[type=search]").focus(); }
  if (event.key === "j") cases[Math.min(at + 1, cases.length - 1)]?.focus();
  if (event.key === "k") cases[Math.max(at - 1, 0)]?.focus();
});

// ---- upload ----------------------------------------------------------------------------------------------------------

const KINDS = { csv: "text/csv", parquet: "application/vnd.apache.parquet", npz: "application/x-npz", json: "application/json" };

function upload(file, asset, list) {
  const line = document.createElement("li"), bar = document.createElement("progress"), text = document.createElement("span");
  bar.max = 1;
  bar.value = 0;
  text.textContent = ` ${file.name}: sending`;
  line.append(bar, text);
  list.append(line);
  const kind = KINDS[file.name.split(".").pop().toLowerCase()];
  return new Promise(finish => {
    const end = (words, failed) => { text.textContent = ` ${file.name}: ${words}`; text.className = failed ? "bad" : ""; bar.value = 1; finish(); };
    if (!kind) return end("expected CSV, Parquet, npz or JSON", true);
    const request = new XMLHttpRequest();
    const query = new URLSearchParams({ name: file.name, ...(asset && { asset }) });
    request.open("POST", `/api/v1/recordings?${query}`);
    request.setRequestHeader("Content-Type", kind);
    request.responseType = "json";
    request.upload.onprogress = sent => { if (sent.lengthComputable) bar.value = 0.9 * sent.loaded / sent.total; };
    request.upload.onload = () => { text.textContent = ` ${file.name}: scoring`; };
    request.onerror = () => end("the service does not answer", true);
    request.onload = () => {
      const answer = request.response;
      if (request.status >= 300) return end(answer?.detail || `the service answered ${request.status}`, true);
      const anomalous = answer.recordings.filter(one => one.anomalous).length;
      end(`${answer.recordings.length} received, ${answer.known} known before, ${anomalous} anomalous` +
        (answer.rejected.length ? `; ${answer.rejected.length} rejected: ${answer.rejected[0].reason}` : ""), answer.rejected.length > 0);
    };
    request.send(file);
  });
}

const drop = $("#upload");
if (drop) {
  const sendAll = async files => {
    for (const file of files) await upload(file, drop.elements.asset.value.trim(), $(".uploads", drop));
    drop.elements.files.value = "";
    await renew();
  };
  drop.onsubmit = event => event.preventDefault();
  drop.elements.files.onchange = () => sendAll([...drop.elements.files.files]);
  addEventListener("dragover", event => { event.preventDefault(); document.body.classList.add("dropping"); });
  addEventListener("dragleave", event => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
  addEventListener("drop", event => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    sendAll([...event.dataTransfer.files]);
  });
}

// ---- signals ---------------------------------------------------------------------------------------------------------

const signals = $("#signals"), panels = [], marks = [];
let shown = null, range = null, whole = 1, sensors = signals ? JSON.parse(signals.dataset.sensors) : [], asked = 0;
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const marking = () => $("#marking")?.checked;
const round = value => Number(value.toPrecision(6));

async function load(start = 0, end = null) {
  const mine = ++asked;
  const query = new URLSearchParams(sensors.map(one => ["sensor", one]));
  query.set("start", start);
  if (end !== null) query.set("end", end);
  try {
    const found = await ask(`${signals.dataset.plot}?${query}`);
    if (mine !== asked) return; // a later view was asked for
    shown = found;
    whole = found.length;
    range = [start, end ?? whole];
    draw();
  } catch (error) { say(error.message, true); }
}

function view(start, end) {
  const width = Math.min(end - start, whole);
  const from = Math.max(0, Math.min(start, whole - width));
  load(from, width >= whole ? null : from + width);
}

function shade(plot, spans, fill) {
  plot.ctx.fillStyle = fill;
  for (const [start, end] of spans) {
    const left = Math.max(plot.valToPos(start, "x", true), plot.bbox.left);
    const right = Math.min(plot.valToPos(end, "x", true), plot.bbox.left + plot.bbox.width);
    if (right > left) plot.ctx.fillRect(left, plot.bbox.top, Math.max(right - left, 2), plot.bbox.height);
  }
}

function panel(series, last) {
  const place = document.createElement("div"), title = document.createElement("h3"), value = document.createElement("span");
  place.className = "panel";
  title.append(series.title, value);
  place.append(title);
  signals.append(place);
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid") }, font: "12px system-ui" };
  const edge = { stroke: "transparent", width: 0, points: { show: false } };
  const plot = new uPlot({
    width: Math.max(place.clientWidth, 100), height: last ? 150 : 118, legend: { show: false }, padding: [6, 8, 0, 0],
    scales: { x: { time: false } },
    axes: [{ ...axis, size: last ? 46 : 24, label: last ? shown.time_title : undefined, labelSize: 20, labelFont: "12px system-ui" }, { ...axis, size: 56, space: 22 }],
    series: [{}, edge, edge, { stroke: colour("--signal"), width: 1.2, points: { show: false } }],
    bands: [{ series: [2, 1], fill: colour("--normal") }],
    cursor: { y: false, points: { show: false }, sync: { key: "signals" }, drag: { setScale: false, x: false, y: false }, bind: { mousedown: () => null, mouseup: () => null, click: () => null, dblclick: () => null } },
    hooks: {
      drawClear: [plot => {
        shade(plot, shown.moments, colour("--moment"));
        shade(plot, marks.filter(one => !one.sensors.length || one.sensors.includes(series.sensor)).map(one => [one.start, one.end]), colour("--fault"));
      }],
      setCursor: [plot => {
        const at = plot.cursor.idx, y = at == null ? null : plot.data[3][at];
        value.textContent = y == null ? "" : `${round(plot.data[0][at])}: ${round(y)}`;
      }],
    },
  }, [[], [], [], []], place);
  drags(plot, series.sensor);
  return { place, plot, sensor: series.sensor };
}

// A drag zooms or marks a fault, with a mouse, a pen or a finger.
function drags(plot, sensor) {
  let from = null;
  const at = event => Math.max(0, Math.min(event.clientX - plot.over.getBoundingClientRect().left, plot.over.clientWidth));
  plot.over.onpointerdown = event => {
    if (event.button) return;
    from = at(event);
    plot.over.setPointerCapture(event.pointerId);
  };
  plot.over.onpointermove = event => {
    if (from === null) return;
    plot.setSelect({ left: Math.min(from, at(event)), width: Math.abs(at(event) - from), top: 0, height: plot.over.clientHeight }, false);
  };
  plot.over.onpointercancel = () => { from = null; plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false); };
  plot.over.onpointerup = event => {
    if (from === null) return;
    const [left, right] = [from, at(event)].sort((a, b) => a - b);
    plot.over.onpointercancel();
    if (right - left < 4) return;
    const [start, end] = [plot.posToVal(left, "x"), plot.posToVal(right, "x")];
    if (marking()) mark({ start: Math.max(0, start), end: Math.min(whole, end), sensors: [sensor] });
    else view(start, end);
  };
  plot.over.ondblclick = () => load();
}

function draw() {
  const names = shown.series.map(one => one.sensor).join("\n");
  if (panels.map(one => one.sensor).join("\n") !== names) {
    for (const one of panels.splice(0)) { one.plot.destroy(); one.place.remove(); }
    shown.series.forEach((one, index) => panels.push(panel(one, index === shown.series.length - 1)));
  }
  shown.series.forEach((one, index) => {
    const x = one.values.map((_, point) => one.start + point * one.step), nothing = x.map(() => null);
    const { plot } = panels[index];
    plot.batch(() => {
      plot.setData([x, one.low || nothing, one.high || nothing, one.values], false);
      plot.setScale("x", { min: range[0], max: range[1] });
    });
  });
  signals.dataset.drawn = panels.length;
  signals.dataset.range = JSON.stringify(range);
  $("[data-all]").hidden = shown.sensors.length === shown.series.length;
}

function mark(fault) {
  const same = marks.find(one => one.start === fault.start && one.end === fault.end);
  if (same) same.sensors = [...new Set([...same.sensors, ...fault.sensors])];
  else marks.push({ start: round(fault.start), end: round(fault.end), sensors: fault.sensors });
  const anomaly = $("#feedback [value=anomaly]");
  if (!$("#feedback :checked[name=label]")) anomaly.checked = true;
  listMarks();
}

function listMarks() {
  $("#marks").replaceChildren(...marks.map(one => {
    const line = document.createElement("li"), remove = document.createElement("button");
    remove.type = "button";
    remove.textContent = "remove";
    remove.onclick = () => { marks.splice(marks.indexOf(one), 1); listMarks(); };
    line.append(`${one.start} – ${one.end}${one.sensors.length ? ": " + one.sensors.join(", ") : ""}`, remove);
    return line;
  }));
  for (const { plot } of panels) plot.redraw(false);
}

if (signals) {
  load();
  const moves = {
    left: (start, end) => view(start - (end - start) / 2, end - (end - start) / 2),
    right: (start, end) => view(start + (end - start) / 2, end + (end - start) / 2),
    in: (start, end) => view(start + (end - start) / 4, end - (end - start) / 4),
    out: (start, end) => view(start - (end - start) / 2, end + (end - start) / 2),
    whole: () => load(),
  };
  for (const button of $$("[data-view]")) button.onclick = () => range && moves[button.dataset.view](...range);
  for (const button of $$("[data-mark]")) button.onclick = () => mark(JSON.parse(button.dataset.mark));
  for (const button of $$("[data-zoom]")) button.onclick = () => {
    const [start, end] = JSON.parse(button.dataset.zoom);
    view(2 * start - end, 2 * end - start);
    signals.scrollIntoView({ block: "center" });
  };
  $("[data-all]").onclick = () => { sensors = []; load(range[0], range[1] >= whole ? null : range[1]); };
  const keys = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", 0: "whole" };
  signals.onkeydown = event => {
    if (!keys[event.key] || !range) return;
    event.preventDefault();
    moves[keys[event.key]](...range);
  };
  const resize = () => { for (const { place, plot } of panels) plot.setSize({ width: Math.max(place.clientWidth, 100), height: plot.height }); };
  addEventListener("resize", resize);
  addEventListener("beforeprint", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const one of panels.splice(0)) { one.plot.destroy(); one.place.remove(); }
    if (shown) draw();
  });
}

// ---- feedback --------------------------------------------------------------------------------------------------------

const feedback = $("#feedback");
if (feedback) {
  const fields = feedback.elements;
  feedback.onchange = event => { if (event.target.name === "label") $("#marking").checked = event.target.value === "anomaly"; };
  feedback.onsubmit = async event => {
    event.preventDefault();
    const said = { label: fields.label.value, fault_code: fields.fault_code.value.trim() || null, note: fields.note.value, faults: fields.label.value === "anomaly" ? marks : [] };
    try {
      await send(feedback.dataset.to + (fields.close ? `?close=${fields.close.checked}` : ""), said);
      location.assign(fields.close?.checked ? "/" : location.pathname);
    } catch (error) { say(error.message, true); }
  };
  document.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) feedback.requestSubmit();
    if (event.target.matches("input:not([type=radio], [type=checkbox]), textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const choice = $(`#feedback [data-key="${CSS.escape(event.key)}"]`);
    if (choice) choice.click();
  });
}
