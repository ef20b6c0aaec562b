"use strict";
(() => {
  const key = (row, index) => {
    const cell = row.cells[index];
    const text = cell.dataset.sort ?? cell.textContent.replace(/^#⋯?/, "").trim();
    const number = Number(text === "inf" ? Infinity : text);
    return { empty: text === "", number: Number.isNaN(number) ? null : number, text };
  };
  const compare = (left, right) => {
    if (left.number !== null && right.number !== null) return left.number - right.number;
    return left.text.localeCompare(right.text);
  };
  const sortBy = (head) => {
    const body = head.closest("table").tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const index = head.cellIndex;
    const rows = [...body.rows].map((row) => ({ row, key: key(row, index) }));
    rows.sort((a, b) => {
      if (a.key.empty !== b.key.empty) return a.key.empty ? 1 : -1; // nothing goes last
      return up ? compare(a.key, b.key) : compare(b.key, a.key);
    });
    body.append(...rows.map((each) => each.row));
  };
  const filter = (input) => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...input.closest("details").querySelectorAll("tbody tr")];
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) shown += 1;
    }
    const note = input.closest(".tools").querySelector(".shown");
    note.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  };
  const nearestFilter = () => {
    const distance = (input) => {
      const box = input.closest("details").getBoundingClientRect();
      return Math.abs(box.top) + (box.bottom < 0 ? 1e6 : 0);
    };
    const inputs = [...document.querySelectorAll("input[data-table]")];
    return inputs.sort((a, b) => distance(a) - distance(b))[0];
  };
  const addLinks = (details) => {
    for (const row of details.querySelectorAll("tbody tr[id]:not([data-linked])")) {
      row.dataset.linked = "";
      const link = document.createElement("a");
      link.className = "anchor";
      link.href = `#${row.id}`;
      link.textContent = "#";
      link.ariaLabel = "link to this row";
      row.cells[0].prepend(link);
      if (details.id !== "table-runs" || !document.getElementById("details-data")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "open";
      button.textContent = "⋯";
      button.ariaLabel = button.title = "plan, source, assembly, samples, command";
      link.after(button);
    }
  };
  const move = (from, step) => { // up and down between the rows' buttons
    const rows = [...from.closest("tbody").rows].filter((row) => !row.hidden);
    const next = rows[rows.indexOf(from.closest("tr")) + step];
    next?.querySelector("button.open")?.focus();
  };
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    target.hidden = false;
    target.scrollIntoView({ block: "center" });
  };
  document.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (head) sortBy(head);
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches("input[data-table]")) filter(event.target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input")) {
      if (event.key === "Escape") { event.target.value = ""; filter(event.target); event.target.blur(); }
      return;
    }
    if (event.target.matches("button.open") && /^Arrow(Up|Down)$/.test(event.key)) {
      event.preventDefault();
      move(event.target, event.key === "ArrowUp" ? -1 : 1);
    }
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    const input = nearestFilter();
    if (!input) return;
    event.preventDefault();
    input.closest("details").open = true;
    input.focus();
  });
  for (const each of document.querySelectorAll("details.data")) {
    if (each.open) addEventListener("load", () => addLinks(each)); // the first view comes first
    each.addEventListener("toggle", () => each.open && addLinks(each));
  }
  addEventListener("hashchange", reveal);
  const printed = 60; // longer tables are on paper only where they were opened; each has its CSV
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details.data"))
      if (each.querySelector("tbody").rows.length <= printed) each.open = true;
  });
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = document.querySelector("button.theme");
  const kept = (value) => { // storage may be forbidden to a file: then the choice lasts for this view
    try { return value ? localStorage.setItem("theme", value) : localStorage.getItem("theme"); } catch { return null; }
  };
  const paint = (theme) => { if (theme === "dark" || theme === "light") root.dataset.theme = theme; };
  button.hidden = false;
  button.addEventListener("click", () => { paint(isDark() ? "light" : "dark"); kept(root.dataset.theme); });
  reveal();
  addEventListener("load", () => setTimeout(() => { // what waits until the first view is there
    paint(kept());
    root.classList.add("loaded");
    reveal();
  }));
})();
