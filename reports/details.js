"use strict";
(() => {
  const store = document.getElementById("details-data");
  const dialog = document.getElementById("details");
  if (!store || !dialog) return;
  // the name of SVG looks like an address; nothing is ever fetched, and the page holds none
  const namespace = ["http:", "", "www.w3.org", "2000", "svg"].join("/");
  let known = null;
  const load = async () => {
    if (!known) {
      const bytes = Uint8Array.from(atob(store.textContent.trim()), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      known = JSON.parse(await new Response(stream).text());
    }
    return known;
  };
  const make = (name, text = "", attributes = {}) => {
    const element = document.createElement(name);
    element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const drawn = (tag, attributes) => {
    const element = document.createElementNS(namespace, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const spelled = (seconds) => {
    for (const [unit, scale] of [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3]])
      if (seconds < 999.5 * scale) return `${(seconds / scale).toPrecision(3)} ${unit}`;
    return `${seconds.toPrecision(3)} s`;
  };
  const label = (x, y, text, anchor = "start") => {
    const element = drawn("text", { x, y, "font-size": 11, fill: "currentColor", "text-anchor": anchor });
    element.textContent = text;
    return element;
  };
  const quantile = (sorted, share) => {
    const at = share * (sorted.length - 1), low = Math.floor(at);
    return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
  };
  // Tukey's box plot: quartiles, and whiskers to the last sample within 1.5 of their distance
  const box = (values, x, wide, y) => {
    const sorted = [...values].sort((a, b) => a - b);
    const [first, middle, third] = [0.25, 0.5, 0.75].map((share) => quantile(sorted, share));
    const reach = 1.5 * (third - first);
    const inside = sorted.filter((value) => value >= first - reach && value <= third + reach);
    const group = drawn("g", { class: "box", stroke: "var(--ink)", fill: "none" });
    const line = (x1, y1, x2, y2) => group.append(drawn("line", { x1, y1: y(y1), x2, y2: y(y2) }));
    line(x, inside[0], x, first);
    line(x, third, x, inside[inside.length - 1]);
    group.append(drawn("rect", { x: x - wide / 2, y: y(third), width: wide, height: Math.max(1, y(first) - y(third)) }));
    line(x - wide / 2, middle, x + wide / 2, middle);
    for (const value of sorted.filter((each) => !inside.includes(each)))
      group.append(drawn("circle", { class: "outlier", cx: x, cy: y(value), r: 2 }));
    return group;
  };
  const plot = (samples) => {
    const numbers = [...new Set(samples.map((each) => each[0]))];
    const boxes = Math.min(160, 30 * numbers.length);
    const [height, left, top, bottom] = [170, 74, 12, 28];
    const width = 560 - boxes - 24;
    const seconds = samples.map((each) => each[1]);
    const low = Math.min(...seconds), high = Math.max(...seconds);
    const svg = drawn("svg", { viewBox: `0 0 560 ${height}`, role: "img", "aria-label": "samples in order" });
    const y = (value) => top + (height - top - bottom) * (high > low ? (high - value) / (high - low) : 0.5);
    for (const value of high > low ? [low, high] : [low]) {
      svg.append(drawn("line", { x1: left, x2: width, y1: y(value), y2: y(value), stroke: "var(--rule)" }));
      svg.append(label(left - 6, y(value) + 4, spelled(value), "end"));
    }
    samples.forEach(([process, value], index) => {
      const x = left + 8 + (index * (width - left - 16)) / Math.max(1, samples.length - 1);
      const look = { cx: x, cy: y(value), r: 3, stroke: "var(--link)", fill: process % 2 ? "none" : "var(--link)" };
      svg.append(drawn("circle", look));
    });
    svg.append(label(left, height - 8, "blocks in order; filled and hollow: one process and the next"));
    numbers.forEach((number, index) => {
      const values = samples.filter((each) => each[0] === number).map((each) => each[1]);
      const step = boxes / numbers.length;
      svg.append(box(values, width + 24 + step * (index + 0.5), Math.min(18, 0.6 * step), y));
    });
    svg.append(label(width + 24, height - 8, "by process"));
    return svg;
  };
  const show = (found, texts, anchor) => {
    const body = dialog.querySelector(".body");
    body.replaceChildren();
    dialog.querySelector("h2").textContent = found.title;
    if (found.label) body.append(make("p", found.label, { class: "banner" }));
    const link = make("p");
    link.append(make("a", "link to this row", { href: `#${anchor}` }));
    body.append(make("h3", "Measure again"), make("pre", found.command, { class: "command" }), link);
    if (found.samples.length) body.append(make("h3", "Samples, time of a call"), plot(found.samples));
    for (const [title, lines] of [
      ["What else the machine did meanwhile", found.load], ["Crosses kernels", found.crossing],
    ]) {
      if (!lines) continue;
      const list = make("ul");
      for (const each of lines) list.append(make("li", each));
      body.append(make("h3", title), list);
    }
    for (const [kind, key] of Object.entries(found.texts)) {
      const box = make("details", "", { class: "source" });
      const text = texts[key] ?? "";
      box.append(make("summary", `${kind} (${text.split("\n").length} lines)`), make("pre", text));
      box.open = kind === "plan";
      body.append(box);
    }
    if (!Object.keys(found.texts).length) body.append(make("p", "The record keeps no plan or source of this row."));
  };
  const open = async (anchor) => {
    const { rows, texts } = await load();
    if (!rows[anchor]) return false;
    show(rows[anchor], texts, anchor);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    return true;
  };
  window.openDetails = open;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.open");
    if (button) open(button.closest("tr").id);
    if (event.target === dialog || event.target.closest("#details .close")) dialog.close();
    if (event.target.closest("#details a")) dialog.close();
  });
})();
