// Charts of the last ten minutes, drawn by uPlot. Colours come from the style sheet, so that both themes fit.
"use strict";
const units = (value, unit, digits = 3) => {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  // A sum that should be 0 may differ by rounding errors.
  if (Math.abs(value) < 5e-10) return ("0 " + unit).trim();
  if (!unit) return String(Number(value.toPrecision(digits)));
  const steps = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
  const size = Math.abs(value);
  const [factor, prefix] = steps.find(([factor]) => size >= factor * 0.9995) ?? steps[steps.length - 1];
  return String(Number((value / factor).toPrecision(digits))) + " " + prefix + unit;
};
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HEIGHT = 220;
const charts = new Map();

// Curves by chart: [name, value of a point]. Names that only the daemon knows, such as reasons, come from the points.
const named = (points, key, most) => {
  const sums = new Map();
  for (const point of points) {
    for (const [name, value] of Object.entries(point[key] ?? {})) sums.set(name, (sums.get(name) ?? 0) + (value ?? 0));
  }
  const largest = [...sums].sort((a, b) => b[1] - a[1]).slice(0, most).map(([name]) => name);
  return largest.map((name) => [name, (point) => point[key]?.[name] ?? null]);
};
const KINDS = [
  { id: "rates", title: "Packets", unit: "pps", lines: () => [["received", (p) => p.in], ["sent", (p) => p.out], ["dropped", (p) => p.drop]] },
  { id: "watts", title: "Power", unit: "W", lines: (points) => [["all", (p) => p.watts], ...named(points, "parts", 4), ["rest", (p) => p.rest]] },
  { id: "latency", title: "Latency", unit: "s", log: true, lines: () => [["median", (p) => p.p50], ["95 %", (p) => p.p95], ["99 %", (p) => p.p99]] },
  { id: "frequency", title: "Frequency of cores", unit: "Hz", lines: () => [["slowest", (p) => p.hertz?.[0]], ["mean", (p) => p.hertz?.[1]], ["fastest", (p) => p.hertz?.[2]]] },
  { id: "cores", title: "Cores", unit: "", lines: () => [["active", (p) => p.active], ["busy", (p) => p.busy]] },
  { id: "drops", title: "Drops by reason", unit: "pps", lines: (points) => named(points, "drops", 6) },
];

// Start of a stage of a demonstration: its number is above the line.
let begins = [];
const markStages = (u) => {
  if (begins.length < 2) return;
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--soft");
  ctx.setLineDash([4, 4]);
  ctx.font = Math.round(11 * devicePixelRatio) + "px system-ui, sans-serif";
  for (const [time, stage] of begins) {
    const x = Math.round(u.valToPos(time, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(String(stage), x + 3 * devicePixelRatio, bbox.top + 11 * devicePixelRatio);
  }
  ctx.restore();
};

const make = (kind, names, holder) => {
  const label = (u, values) => values.map((value) => value === null ? "" : units(value, kind.unit));
  const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--faint"), width: 1 }, ticks: { stroke: () => colour("--faint"), width: 1 } };
  const series = names.map((name, index) => ({
    label: name.length > 36 ? name.slice(0, 35) + "…" : name,
    stroke: () => colour("--s" + index % 6),
    width: 2,
    dash: index === 0 ? undefined : [[6, 3], [2, 3], [10, 4, 2, 4], [8, 2], [3, 6]][(index - 1) % 5],
    points: { show: false },
    value: (u, value) => units(value, kind.unit),
  }));
  // Powers and rates begin at 0; latencies of very different sizes share a logarithmic axis.
  const decade = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
  const lines = kind.log ? { ...axis.grid, filter: (u, splits) => splits.map((value) => decade(value) ? value : null) } : axis.grid;
  const y = kind.log ? { distr: 3 } : { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] };
  return new uPlot({
    width: holder.clientWidth,
    height: HEIGHT,
    hooks: { draw: [markStages] },
    cursor: { sync: { key: "wattline" }, drag: { x: false, y: false } },
    scales: { x: { time: true }, y },
    axes: [{ ...axis, values: [[60, "{HH}:{mm}"], [1, "{HH}:{mm}:{ss}"]], space: 70, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300] }, { ...axis, grid: lines, size: 74, values: label }],
    series: [{ value: (u, at) => at === null ? "–" : new Date(at * 1000).toTimeString().slice(0, 8) }, ...series],
  }, [[]], holder);
};

const draw = (points) => {
  begins = points.filter((point, index) => point.stage && point.stage !== points[index - 1]?.stage).map((point) => [point.t, point.stage]);
  // Nothing is known between two stages: a point without values breaks the lines.
  points = points.flatMap((point, index) => index && point.stage && point.stage !== points[index - 1].stage ? [{ t: point.t - 0.001 }, point] : [point]);
  const times = points.map((point) => point.t);
  for (const kind of KINDS) {
    const lines = kind.lines(points).map(([name, of]) => [name, points.map((point) => of(point) ?? null)]);
    const known = lines.filter(([, values]) => values.some((value) => value !== null && (!kind.log || value > 0)));
    const names = known.map(([name]) => name);
    let chart = charts.get(kind.id);
    if (!names.length) {
      if (chart) chart.figure.hidden = true;
      continue;
    }
    if (!chart) {
      const figure = document.createElement("figure");
      figure.id = "chart-" + kind.id;
      const caption = document.createElement("figcaption");
      caption.textContent = kind.title;
      const holder = document.createElement("div");
      holder.setAttribute("role", "img");
      figure.append(caption, holder);
      // In the order of the kinds, whenever each becomes known.
      const after = KINDS.slice(KINDS.indexOf(kind) + 1).map((later) => charts.get(later.id)?.figure).find(Boolean);
      document.getElementById("charts").insertBefore(figure, after ?? null);
      chart = { figure, holder, names: "" };
      charts.set(kind.id, chart);
      new ResizeObserver(() => chart.plot?.setSize({ width: holder.clientWidth, height: HEIGHT })).observe(holder);
    }
    chart.figure.hidden = false;
    if (chart.names !== names.join("\n")) {
      chart.plot?.destroy();
      chart.plot = make(kind, names, chart.holder);
      chart.names = names.join("\n");
    }
    const values = known.map(([, values]) => kind.log ? values.map((value) => value > 0 ? value : null) : values);
    chart.plot.setData([times, ...values]);
    // Without a pointer on the chart, the legend has the newest values.
    if (chart.plot.cursor.idx === null || chart.plot.cursor.left < 0) chart.plot.setLegend({ idx: times.length - 1 });
    const latest = known.map(([name, all]) => name + " " + units(all[all.length - 1], kind.unit));
    chart.holder.setAttribute("aria-label", kind.title + " now: " + latest.join(", "));
  }
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.plot?.redraw()));
