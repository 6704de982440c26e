// Adds interaction to a page: values under the pointer, plots and their data as files, sorting and filtering of tables, rows by verdict. The page is readable without it.
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  const hide = () => { tip.hidden = true; };
  // Points of a plot: [x and y in the plot's pixels, name, x and y as data].
  const pointsOf = (plot) => plot.wattline ??= [...plot.querySelectorAll("g[data-at]")].flatMap((series) =>
    series.dataset.at.split(" ").filter(Boolean).map((point) => [...point.split(",").slice(0, 2).map(Number), series.dataset.name, ...point.split(",").slice(2)]));
  const show = (plot, px) => {
    const points = pointsOf(plot);
    if (!points.length) return hide();
    const nearest = points.reduce((a, b) => Math.abs(b[0] - px) < Math.abs(a[0] - px) ? b : a);
    const near = new Map();
    for (const point of points) {
      const known = near.get(point[2]);
      const away = Math.abs(point[0] - nearest[0]);
      if (away < 12 && (!known || away < Math.abs(known[0] - nearest[0]))) near.set(point[2], point);
    }
    tip.textContent = [plot.dataset.x + ": " + nearest[3], ...[...near.values()].sort((a, b) => a[1] - b[1]).map((p) => p[2] + ": " + p[4])].join("\n");
    tip.hidden = false;
    const box = plot.getBoundingClientRect();
    const scale = box.width / plot.viewBox.baseVal.width;
    const left = Math.min(box.left + nearest[0] * scale + 12, innerWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(4, left) + scrollX + "px";
    tip.style.top = box.top + scrollY + 8 + "px";
    plot.at = nearest[0];
  };
  for (const plot of document.querySelectorAll("svg.plot")) {
    if (!plot.querySelector("g[data-at]")) continue;
    plot.setAttribute("tabindex", "0");
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      show(plot, (event.clientX - box.left) / box.width * plot.viewBox.baseVal.width);
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") return hide();
      if (!step) return;
      event.preventDefault();
      const stops = [...new Set(pointsOf(plot).map((point) => point[0]))].sort((a, b) => a - b);
      const from = stops.indexOf(plot.at ?? stops[0]);
      show(plot, stops[Math.min(stops.length - 1, Math.max(0, from + step))]);
    });
  }
  // A table of comma-separated values (RFC 4180). A text that a spreadsheet would take for a formula gets an apostrophe.
  const cell = (text) => {
    const safe = /^[=+@\t\r-]/.test(text) && !/^-?[\d.]+(e[-+]?\d+)?$/.test(text) ? "'" + text : text;
    return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };
  const rowsOf = (plot) => {
    const bars = plot.querySelector("g[data-bars]");
    if (bars) {
      const { groups, series } = JSON.parse(bars.dataset.bars);
      return [[plot.dataset.x, ...series.map(([name]) => name + ": " + plot.dataset.y)], ...groups.map((group, index) => [group, ...series.map(([, values]) => values[index] ?? "")])];
    }
    const rows = [["series", plot.dataset.x, plot.dataset.y]];
    for (const series of plot.querySelectorAll("g[data-at]")) {
      for (const point of series.dataset.at.split(" ").filter(Boolean)) rows.push([series.dataset.name, ...point.split(",").slice(2)]);
    }
    return rows;
  };
  for (const plot of document.querySelectorAll("svg.plot")) {
    const rows = () => rowsOf(plot).map((row) => row.map((text) => cell(String(text))).join(",")).join("\r\n") + "\r\n";
    if (!plot.querySelector("g[data-bars],g[data-at]")) continue;
    const box = document.createElement("div");
    box.className = "plot-box";
    plot.replaceWith(box);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Data (CSV)";
    button.setAttribute("aria-label", "Data as CSV: " + plot.getAttribute("aria-label"));
    const save = (kind, type, text) => {
      const link = document.createElement("a");
      link.download = (plot.dataset.title || "plot").replace(/[^A-Za-z0-9]+/g, "-").slice(0, 60) + kind;
      link.href = "data:" + type + ";charset=utf-8," + encodeURIComponent(text);
      link.click();
    };
    button.addEventListener("click", () => save(".csv", "text/csv", rows()));
    // A saved plot includes the style of the page, and its names stay to the right.
    const picture = document.createElement("button");
    picture.type = "button";
    picture.textContent = "Plot (SVG)";
    picture.setAttribute("aria-label", "Plot as SVG: " + plot.getAttribute("aria-label"));
    picture.addEventListener("click", () => {
      const copy = plot.cloneNode(true);
      const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
      style.textContent = document.querySelector("style").textContent;
      copy.prepend(style);
      save(".svg", "image/svg+xml", new XMLSerializer().serializeToString(copy));
    });
    box.append(plot, button, picture);
  }
  // On a narrow screen, names are below their plot instead of to the right, and a title that is too long
  // is condensed. The numbers are pixels of the plot.
  const narrow = matchMedia("(max-width:40rem)");
  const fit = () => document.querySelectorAll("svg.plot").forEach((plot) => {
    const [names, title] = [plot.querySelector(".names"), plot.querySelector(".title")];
    if (!names || !title) return;
    plot.wide ??= plot.getAttribute("viewBox");
    plot.setAttribute("viewBox", plot.wide);
    const each = names.querySelectorAll(".name");
    [names, ...each].forEach((moved) => moved.removeAttribute("transform"));
    title.removeAttribute("textLength");
    if (!narrow.matches) return;
    let free = null;
    for (const name of each) {
      const top = Number(name.dataset.top);
      free ??= top;
      name.setAttribute("transform", `translate(0 ${free - top})`);
      free += Number(name.dataset.height);
    }
    const box = names.getBBox();
    if (!box.width) return;
    const [width, grown, below] = [580, 1.25, Number(names.dataset.below)];
    const room = width - 8 - Number(title.getAttribute("x"));
    if (title.getComputedTextLength() > room) {
      title.setAttribute("textLength", room);
      title.setAttribute("lengthAdjust", "spacingAndGlyphs");
    }
    names.setAttribute("transform", `translate(${74 - box.x * grown} ${below - box.y * grown}) scale(${grown})`);
    plot.setAttribute("viewBox", `0 0 ${width} ${Math.ceil(below + box.height * grown + 12)}`);
  });
  fit();
  narrow.addEventListener("change", fit);
  // There, a row with a verdict is a card whose cells name their column; so is the only row of a table.
  for (const table of document.querySelectorAll(".scroll table")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
    if (!table.querySelector(".v") && table.querySelectorAll("tbody tr").length !== 1) continue;
    table.classList.add("cards");
    table.querySelectorAll("tbody tr").forEach((row) => [...row.cells].forEach((cell, index) => {
      cell.dataset.head = heads[index] ?? "";
      if (cell.querySelector(".v")) cell.classList.add("verdict");
    }));
  }
  // Heads sort their column: numbers by size, everything else by text, missing values last.
  const amount = (text) => {
    const number = /^[-+]?[\d,]*\.?\d+(e[-+]?\d+)?/i.exec(text.replace("\u2212", "-"));
    return number ? Number(number[0].replaceAll(",", "")) : null;
  };
  const order = (a, b) => {
    const [one, other] = [amount(a), amount(b)];
    if (one !== null && other !== null) return one - other;
    return (one === null) - (other === null) || a.localeCompare(b);
  };
  for (const table of document.querySelectorAll(".scroll table")) {
    const [body, heads] = [table.tBodies[0], [...table.querySelectorAll("thead th")]];
    if (body.rows.length < 3) continue;
    heads.forEach((head, column) => {
      head.tabIndex = 0;
      head.classList.add("sorts");
      const sort = () => {
        const falls = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falls ? "descending" : "ascending");
        const text = (row) => (row.cells[column]?.textContent ?? "").trim();
        const rows = [...body.rows].map((row) => [text(row), row]);
        rows.sort(([a], [b]) => order(a, b) * (falls && (amount(a) === null) === (amount(b) === null) ? -1 : 1));
        body.append(...rows.map(([, row]) => row));
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
    if (body.rows.length < 15) continue;
    const words = document.createElement("input");
    words.type = "search";
    words.placeholder = "rows with these words";
    words.setAttribute("aria-label", "Show only rows with these words");
    words.addEventListener("input", () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.classList.toggle("off", !wanted.every((word) => text.includes(word)));
      }
    });
    table.closest(".scroll").before(words);
  }
  // Each row has a link to itself.
  for (const row of document.querySelectorAll("tbody tr[id]")) {
    const link = document.createElement("a");
    link.href = "#" + encodeURIComponent(row.id);
    link.className = "here";
    link.setAttribute("aria-label", "Link to this row");
    row.cells[0]?.append("\u00a0", link);
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details.claims").forEach((details) => { details.open = true; }));
  // Rows of one verdict or basis: first the claims, then the figures with such a check. All else is hidden.
  const buttons = document.querySelectorAll("button[data-verdict],button[data-basis]");
  const chosen = document.getElementById("chosen");
  const choose = (kind, wanted) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", wanted !== "" && button.dataset[kind] === wanted));
    const rows = [...document.querySelectorAll("tr[data-verdict]")].filter((row) => !row.closest("#chosen"));
    rows.forEach((row) => { row.hidden = wanted !== "" && row.dataset[kind] !== wanted; });
    if (!chosen) return;
    chosen.querySelector("tbody").replaceChildren(...rows.filter((row) => row.closest("details.claims") && !row.hidden).map((row) => {
      const copy = row.cloneNode(true);
      copy.removeAttribute("id");
      return copy;
    }));
    chosen.hidden = wanted === "";
    document.querySelectorAll(".figure").forEach((figure) => { figure.hidden = wanted !== "" && !figure.querySelector("tr[data-verdict]:not([hidden])"); });
    document.querySelectorAll(".unchosen").forEach((part) => { part.hidden = wanted !== ""; });
  };
  buttons.forEach((button) => button.addEventListener("click", () => {
    const kind = "verdict" in button.dataset ? "verdict" : "basis";
    const wanted = button.getAttribute("aria-pressed") === "true" ? "" : button.dataset[kind];
    history.replaceState(null, "", wanted ? "#" + kind + "=" + wanted : location.pathname);
    choose(kind, wanted);
  }));
  // A link to a row clears the filters that hide it: words, a chosen verdict. The browser opens closed details.
  const reveal = () => {
    let row = null;
    try { row = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { return; }
    if (!row?.matches("tbody tr")) return;
    const words = row.closest(".scroll")?.previousElementSibling;
    if (row.classList.contains("off") && words?.matches("input[type=search]")) {
      words.value = "";
      words.dispatchEvent(new Event("input"));
    }
    if (row.closest("[hidden]")) choose("verdict", "");
    row.scrollIntoView({ block: "center" });
  };
  const asked = /^#(verdict|basis)=([a-z-]+)$/.exec(location.hash);
  if (asked) choose(asked[1], asked[2]);
  reveal();
  addEventListener("hashchange", reveal);
})();
