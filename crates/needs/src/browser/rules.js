(() => {
  const wrong = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    const wide = [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > width + 1 && !e.closest(".scroll"));
    wrong.push("wider than the screen by " + (document.documentElement.scrollWidth - width) + " px: " + wide.slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join(" | "));
  }
  if (document.querySelectorAll("main").length !== 1) wrong.push("not one <main>");
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one <h1>");
  if (!document.title) wrong.push("no title");
  if (!document.documentElement.lang) wrong.push("no language");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  const twice = ids.filter((id, index) => ids.indexOf(id) !== index);
  if (twice.length) wrong.push("ids used twice: " + [...new Set(twice)].slice(0, 5).join(" "));
  for (const link of document.querySelectorAll("a[href^='#']")) {
    const id = decodeURIComponent(link.getAttribute("href").slice(1));
    if (id && !document.getElementById(id)) wrong.push("a link leads nowhere: #" + id);
  }
  for (const picture of document.querySelectorAll("img:not([alt]), svg.plot:not([role]), button:empty")) {
    wrong.push("has no text alternative: " + picture.outerHTML.slice(0, 120));
  }
  // Contrast of texts with their background: WCAG 2.2, success criterion 1.4.3; 3:1 for large ones.
  // A page has few colours, and reading one back from a canvas is slow: each is read once.
  const known = new Map();
  const rgba = (text) => known.get(text) ?? known.set(text, painted(text)).get(text);
  const painted = (text) => {
    const canvas = painted.canvas ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const grounds = new Map();
  const ground = (element) => {
    if (!element) return paper();
    if (!grounds.has(element)) {
      const paint = rgba(getComputedStyle(element).backgroundColor);
      grounds.set(element, paint[3] > 200 ? paint : ground(element.parentElement));
    }
    return grounds.get(element);
  };
  const paper = () => {
    return rgba(getComputedStyle(document.documentElement).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches ? "#121212" : "#fff");
  };
  const poor = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script,style,noscript,[hidden],title,desc")) continue;
    if (!element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = rgba(element instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const enough = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < enough) poor.set(element.tagName + "." + element.getAttribute("class") + " " + ratio.toFixed(1) + ":1", walker.currentNode.data.trim().slice(0, 40));
  }
  for (const [where, text] of [...poor].slice(0, 5)) wrong.push("poor contrast: " + where + " \"" + text + "\"");
  return wrong;
})()
