// Shows the daemon's answers. Every string is inserted as text: names of interfaces and reasons of failures come from outside.
"use strict";
const KEPT = 600;
const at = (id) => document.getElementById(id);
let points = [];
let changes = [];
let seen = 0;

const element = (name, text, where) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  where?.append(made);
  return made;
};
const duration = (seconds) => {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return units(seconds, "s");
  const [days, hours, minutes] = [seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60].map(Math.floor);
  const parts = [[days, "d"], [hours, "h"], [minutes, "min"], [Math.floor(seconds % 60), "s"]];
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first < 0 ? 3 : first).slice(0, 2).map(([count, unit]) => count + " " + unit).join(" ");
};
const share = (ratio) => ratio === null || ratio === undefined ? "–" : (100 * ratio).toFixed(0) + " %";
const known = (value) => value !== null && value !== undefined;

const tile = (name, value, more) => {
  const box = element("div", undefined, at("tiles"));
  element("dt", name, box);
  const shown = element("dd", value, box);
  if (more) element("small", more, shown);
};

// A table with a heading; rows of texts, the first column left-aligned. Nothing without rows.
const table = (id, title, heads, rows, wide) => {
  let box = at(id);
  if (!rows.length) return box?.remove();
  if (!box) {
    box = element("section", undefined, at("tables"));
    box.id = id;
    if (wide) box.className = "wide";
    element("h2", title, box);
    const scroll = element("div", undefined, box);
    scroll.className = "scroll";
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", title);
    const made = element("table", undefined, scroll);
    const head = element("tr", undefined, element("thead", undefined, made));
    heads.forEach((text) => { element("th", text, head).scope = "col"; });
    element("tbody", undefined, made);
  }
  const body = document.createElement("tbody");
  for (const row of rows) {
    const line = element("tr", undefined, body);
    row.forEach((cell, column) => {
      const made = element("td", cell, line);
      if (column > 0 && /^(–|-?[\d.,]+( [^ ,]+)?)$/.test(cell)) made.className = "n";
    });
  }
  box.querySelector("tbody").replaceWith(body);
};

// A decision in words: cores, frequencies and waiting, after and before. The first known decision has no
// predecessor: its values may have been in force all along.
const clock = (range) => range && (range[0] === range[1] ? units(range[1], "Hz") : units(range[0], "Hz") + " to " + units(range[1], "Hz"));
const waits = (change) => change.wait + (known(change.nap_seconds) ? " " + units(change.nap_seconds, "s") : "");
const noun = (change) => (change.cores_active === 1 ? " core" : " cores");
const described = (change, before) => {
  const parts = [[(it) => String(it.cores_active), noun(change)], [(it) => clock(it.frequency_hertz), ""], [waits, ""]];
  const all = parts.map(([part, unit]) => [before && part(before), part(change), unit]).filter(([, now]) => known(now) && now !== "");
  const changed = all.filter(([was, now]) => was !== now);
  const whole = all.map(([, now, unit]) => now + unit).join(", ");
  if (!before) return "in force: " + whole;
  return changed.length ? changed.map(([was, now, unit]) => (known(was) ? was + " → " : "") + now + unit).join(", ") : "nothing: " + whole;
};

// The running stage of a demonstration, and the results of earlier ones.
const showStages = (stages) => {
  at("stage").hidden = !stages;
  if (!stages) return;
  const over = known(stages.progress_ratio) ? ": " + share(stages.progress_ratio) + " over" : "";
  at("stage").textContent = stages.number ? "Stage " + stages.number + " of " + stages.of + ": " + stages.name + (stages.meanwhile ? ", now " + stages.meanwhile : over) : "Starting";
  table("stages", "Stages that are over", ["stage", "received", "lost", "power", "latency, 99 % within", "processor time per packet"], (stages.done ?? []).map((done) => [
    done.stage, done.offered_packets.toLocaleString("en") + " packets", done.lost_packets.toLocaleString("en") + " packets",
    known(done.power_watts) ? units(done.power_watts, "W", 4) + ", " + done.source : "–", units(done.latency_p99_seconds, "s"), units(done.cpu_seconds_per_packet, "s"),
  ]), true);
};

const show = (frame) => {
  const { rates, point, power, govern, stages } = frame;
  at("name").textContent = frame.name;
  if (frame.build) at("build").textContent = frame.build;
  document.title = "Wattline: " + frame.name;
  if (frame.silent) return lost("it does not answer: the values shown are old");
  seen = Date.now();
  at("state").className = "";
  at("state").textContent = "live, running for " + duration(frame.uptime_seconds);
  showStages(stages);
  // Between two stages nothing is forwarded; the charts keep the old values.
  if (stages && !rates) {
    at("tiles").replaceChildren();
    at("note").hidden = true;
    ["changes", "ports", "workers", "reasons", "parts", "knobs"].forEach((id) => at(id)?.remove());
  }
  if (!rates) return;
  at("tiles").replaceChildren();
  tile("received", units(point.in, "pps"));
  tile("sent", units(point.out, "pps"));
  tile("dropped", units(point.drop, "pps"));
  const state = rates.power;
  if (state) {
    tile("power", known(state.power_watts) ? units(state.power_watts, "W", 4) : "unavailable", known(state.power_watts) ? state.source + ", " + state.accuracy : "no meter here; that is not 0 W");
    if (known(power?.energy_joules)) tile("energy", units(power.energy_joules, "J"), "since the start");
  }
  const tail = point.p99 ?? point.p95;
  if (known(tail)) tile("latency", units(tail, "s"), known(point.p99) ? "99 % within" : "95 % within");
  if (known(point.active)) tile("cores active", point.active + " of " + rates.workers.length);
  if (state) tile("policy", state.policy, govern?.rule && govern.rule !== "policy" ? "overruled: " + govern.rule : undefined);
  const notes = [];
  if (known(power?.scale)) notes.push("An emulated machine in model time, " + power.scale + " times slower than real time: watts and latencies are those of the model, packets per second those that really pass here.");
  for (const rival of govern?.rivals ?? []) notes.push(rival.name + " sets " + rival.sets + ", too.");
  at("note").textContent = notes.join(" ");
  at("note").hidden = !notes.length;

  changes = power?.last_changes ? power.last_changes.slice().reverse() : [];
  table("changes", "Decisions", ["at", "what changed", "why"], changes.map((change, index) =>
    [duration(change.at_seconds), described(change, changes[index + 1]), change.reason]), true);
  table("ports", "Ports", ["port", "state", "received", "sent", "in", "out"], rates.ports.map((port) =>
    [port.name, port.state || "–", units(port.offered_rate_pps, "pps"), units(port.forwarded_rate_pps, "pps"), units(port.received_bits_per_second, "bit/s"), units(port.transmitted_bits_per_second, "bit/s")]));
  table("workers", "Cores", ["core", "active", "packets", "busy", "sleeps", "frequency", "of it kernel"], rates.workers.map((worker, index) =>
    [String(index), worker.active ? "yes" : "no", units(worker.received_rate_pps, "pps"), share(worker.work_ratio), units(worker.sleeps_per_second, "/s"), units(worker.frequency_hertz, "Hz"), share(worker.kernel_work_share)]), true);
  table("reasons", "Drops", ["reason", "since the start", "now"], rates.drops.concat(rates.losses).map((drop) =>
    [drop.reason, drop.packets.toLocaleString("en"), units(drop.rate_pps, "pps")]));
  const parts = Object.entries(power?.power_by_component_watts ?? {});
  if (known(power?.power_rest_watts)) parts.push(["rest", power.power_rest_watts]);
  table("parts", "Watts by component", ["component", "power", "source"], parts.map(([name, watts]) => [name, units(watts, "W"), state?.source ?? "–"]));
  table("sources", "Sources of latency", ["source", "heard", "requests", "95 %", "99 %"], (govern?.latency ?? []).map((source) =>
    [source.name, source.silent ? "silent" : "yes", String(source.samples ?? 0), units(source.latency_p95_seconds, "s"), units(source.latency_p99_seconds, "s")]));
  table("knobs", "Settings", ["knob", "settings", "altered", "failed", "last problem"], (power?.knobs ?? []).map((knob) =>
    [knob.knob, String(knob.steps), String(knob.altered + knob.foreign), String(knob.failed), knob.last_problem ?? "none"]));
};
const lost = (why) => {
  at("state").className = "lost";
  at("state").textContent = why;
};

const source = new EventSource("/events");
source.addEventListener("history", (event) => {
  points = JSON.parse(event.data);
  draw(points);
});
source.addEventListener("message", (event) => {
  const frame = JSON.parse(event.data);
  show(frame);
  if (!frame.point || frame.point.t <= (points[points.length - 1]?.t ?? 0)) return;
  points.push(frame.point);
  points = points.slice(-KEPT);
  if (!document.hidden) draw(points);
});
source.addEventListener("error", () => lost("connection lost; trying again"));
document.addEventListener("visibilitychange", () => document.hidden || draw(points));
// A connection can hang without an error.
setInterval(() => { if (seen && Date.now() - seen > 10000) lost("nothing heard for " + duration((Date.now() - seen) / 1000)); }, 2000);
