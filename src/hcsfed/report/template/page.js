"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const keys = [...document.querySelectorAll(".key")];
  const at = document.querySelector(".legend .at");
  const off = new Set();
  root.classList.add("script");

  // Light, dark, or as the reader's system has it. Storage may be refused for local files.
  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  const paint = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.querySelector("span").textContent = theme;
    try { localStorage.setItem("hcsfed-theme", theme); } catch { /* remembered for this visit only */ }
  };
  let theme = "auto";
  try { theme = localStorage.getItem("hcsfed-theme") || "auto"; } catch { /* as above */ }
  if (!themes.includes(theme)) theme = "auto";
  paint(theme);
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    paint(theme);
  });

  // Numbers as the page's tables write them.
  const scaled = (v, names) => {
    let power = 0;
    while (v >= 999.5 && power < names.length - 1) { v /= 1000; power += 1; }
    return `${Number(v.toPrecision(3))}\u00a0${names[power]}`.trim();
  };
  const place = {
    rounds: (v) => `round ${Math.round(v)}`,
    bytes: (v) => `${scaled(v, ["B", "kB", "MB", "GB", "TB", "PB"])} uploaded`,
    steps: (v) => `${scaled(v, ["", "k", "M", "G", "T"])} local steps`,
    time: (v) => `${v < 90 ? `${Number(v.toPrecision(3))} s` : v < 5400 ? `${(v / 60).toFixed(1)} min` : `${(v / 3600).toFixed(1)} h`} of simulated time`,
  };
  const value = (v) => (data.what === "accuracy" ? (100 * v).toFixed(1) : v.toFixed(3));
  const unit = data.what === "accuracy" ? "\u202f%" : "";

  // A curve read at x, by a straight line between its points; null outside them.
  const read = (curve, x) => {
    const xs = curve.x, n = xs.length;
    if (x < xs[0] - 1e-9 || x > xs[n - 1] + 1e-9) return null;
    let i = 0;
    while (i < n - 2 && xs[i + 1] < x) i += 1;
    const j = Math.min(i + 1, n - 1);
    const part = xs[j] > xs[i] ? (x - xs[i]) / (xs[j] - xs[i]) : 0;
    const between = (values) => values[i] + part * (values[j] - values[i]);
    return { mean: between(curve.m), low: between(curve.l), high: between(curve.h) };
  };

  const element = (svg, name, attributes) => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, v] of Object.entries(attributes)) made.setAttribute(key, v);
    return made;
  };

  const clear = (svg) => {
    svg.querySelector(".cursor").replaceChildren();
    at.textContent = "";
    for (const key of keys) key.querySelector("output").textContent = "";
  };

  // Where a figure's axes lie, and the way from a value of x to its place and back.
  const axes = (svg) => {
    const [left, right, top, bottom, x0, x1, y0, y1] = svg.dataset.frame.split(" ").map(Number);
    const [there, back] = svg.dataset.scale === "log" ? [Math.log, Math.exp] : [(v) => v, (v) => v];
    const [start, end] = [there(x0), there(x1)];
    return {
      top, bottom, y0, y1,
      place: (x) => left + ((there(x) - start) / (end - start)) * (right - left),
      value: (place) => back(start + ((place - left) / (right - left)) * (end - start)),
    };
  };

  const show = (svg, x) => {
    const axis = svg.dataset.axis;
    const { top, bottom, y0, y1, place: along } = axes(svg);
    const across = along(x);
    const parts = [element(svg, "line", { x1: across, x2: across, y1: top, y2: bottom })];
    data.curves[axis].forEach((curve, i) => {
      const output = keys[i].querySelector("output");
      const here = curve && !off.has(i) ? read(curve, x) : null;
      output.textContent = "";
      if (!here) return;
      output.textContent = value(here.mean) + unit + (curve.band ? ` (${value(here.low)}–${value(here.high)})` : "");
      const height = bottom - ((Math.min(Math.max(here.mean, y0), y1) - y0) / (y1 - y0)) * (bottom - top);
      const colour = [...keys[i].classList].find((name) => /^s\d$/.test(name));
      parts.push(element(svg, "circle", { cx: across, cy: height, r: 4, class: colour }));
    });
    svg.querySelector(".cursor").replaceChildren(...parts);
    svg.dataset.at = x;
    at.textContent = `At ${place[axis](x)}:`;
  };

  // Places to stop at: every point of every curve that is shown.
  const stops = (axis) => {
    const all = data.curves[axis].flatMap((curve, i) => (curve && !off.has(i) ? curve.x : []));
    return [...new Set(all)].sort((a, b) => a - b);
  };
  const nearest = (places, x) => places.reduce((a, b) => (Math.abs(b - x) < Math.abs(a - x) ? b : a), places[0]);

  for (const svg of document.querySelectorAll("svg.curves")) {
    const follow = (event) => {
      const box = svg.getBoundingClientRect();
      const inside = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const places = stops(svg.dataset.axis);
      if (places.length) show(svg, nearest(places, axes(svg).value(inside)));
    };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", () => clear(svg));
    svg.addEventListener("blur", () => clear(svg));
    svg.addEventListener("keydown", (event) => {
      const places = stops(svg.dataset.axis);
      const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === "Escape") clear(svg);
      if (!move || !places.length) return;
      event.preventDefault();
      const now = svg.dataset.at ? places.indexOf(nearest(places, Number(svg.dataset.at))) : 0;
      show(svg, places[Math.min(Math.max(now + move, 0), places.length - 1)]);
    });
  }

  for (const key of keys) {
    key.disabled = false;
    key.addEventListener("click", () => {
      const group = Number(key.dataset.group);
      if (!off.delete(group)) off.add(group);
      key.setAttribute("aria-pressed", String(!off.has(group)));
      key.querySelector("output").textContent = "";
      for (const part of document.querySelectorAll(`.curves [data-group="${group}"]`)) {
        part.classList.toggle("off", off.has(group));
      }
    });
  }

  // Paper has no details to open.
  const opened = [];
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) { details.open = true; opened.push(details); }
  });
  addEventListener("afterprint", () => { for (const details of opened.splice(0)) details.open = false; });
})();
