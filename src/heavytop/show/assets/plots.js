// Curves over time, as SVG: distinguished by colour and mark shape, references dashed, limits hatched, one cursor for all.

const MARK_PATHS = {
  circle: "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z",
  square: "M-2.9 -2.9h5.8v5.8h-5.8z",
  triangle: "M0 -3.8L3.7 2.8H-3.7z",
  diamond: "M0 -4.2L3.6 0L0 4.2L-3.6 0z",
  cross: "M-3 -3L3 3M-3 3L3 -3",
  plus: "M-3.8 0H3.8M0 -3.8V3.8",
  down: "M0 3.8L3.7 -2.8H-3.7z",
  star: "M0 -4L0 4M-3.5 -2L3.5 2M-3.5 2L3.5 -2",
};

// Round numbers between low and high, about the wanted number, at least two.
const niceTicks = (low, high, count) => {
  const raw = (high - low) / Math.max(count, 2);
  const power = 10 ** Math.floor(Math.log10(raw));
  const steps = [10, 5, 2, 1, 0.5, 0.2, 0.1].map((m) => m * power);
  for (const step of steps.slice(steps.findLastIndex((s) => s >= raw))) {
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(k * step);
    if (ticks.length > 1) return { ticks, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
  }
  return { ticks: [low, high], digits: 3 };
};

// Units of angles with the same in degrees; values of panels in degrees are divided to show radians.
const ANGLES = { rad: "°", "rad/s": "°/s", "°": "rad", "°/s": "rad/s" };

class Plot {
  constructor(panel, index, array, span, markers, palette, seek) {
    Object.assign(this, { panel, index, span, markers, palette, seek });
    this.times = array(panel.times);
    this.series = panel.series.map((entry, k) => ({
      name: entry.name,
      values: array(entry.data),
      wanted: panel.references.filter((r) => r.name === entry.name).map((r) => array(r.data))[0] || null,
      band: panel.bands.filter((b) => b.name === entry.name).map((b) => [array(b.low), array(b.high)])[0] || null,
      mark: palette.marks[k % palette.marks.length],
      hidden: false,
    }));
    // smaller values relative to the largest one of the panel are rounding errors, and shown as 0
    for (const curve of this.series) curve.largest = curve.values.reduce((most, y) => Math.max(most, Math.abs(y)), 0);
    const largest = Math.max(0, ...this.series.map((curve) => curve.largest));
    this.noise = Math.max(1e-9 * largest, 1e-13);
    this.hover = null;
    this.now = span[0];
    this.build();
  }

  // Angles in degrees or radians; other panels stay.
  inDegrees(on) {
    const { panel } = this;
    if (!(panel.unit in ANGLES) || panel.unit.startsWith("°") === on) return;
    const factor = on ? 180 / Math.PI : Math.PI / 180;
    const scaled = (list) => list && Float32Array.from(list, (y) => factor * y);
    for (const curve of this.series) {
      curve.values = scaled(curve.values);
      curve.wanted = scaled(curve.wanted);
      curve.band = curve.band && curve.band.map(scaled);
      curve.largest *= factor;
    }
    this.noise *= factor;
    this.panel = { ...panel, unit: ANGLES[panel.unit], limits: panel.limits && panel.limits.map((y) => factor * y) };
    this.unit.textContent = this.panel.unit;
  }

  build() {
    const { panel } = this;
    this.legend = element("div", { class: "curves" });
    for (const curve of this.series) {
      const sample = svg("svg", { viewBox: "0 0 26 12", class: "sample", "aria-hidden": "true" },
        svg("line", { x1: 0, x2: 26, y1: 6, y2: 6, class: "curve" }),
        svg("path", { d: MARK_PATHS[curve.mark], transform: "translate(13 6)", class: "mark" }));
      curve.value = element("output", {}, "");
      curve.button = element("button", { type: "button", class: "curve-name", "aria-pressed": "true" }, sample, element("span", {}, curve.name), curve.value);
      curve.button.title = "Show or hide this curve";
      curve.button.addEventListener("click", () => {
        curve.hidden = !curve.hidden;
        curve.button.setAttribute("aria-pressed", String(!curve.hidden));
        this.draw();
      });
      this.legend.append(curve.button);
    }
    this.picture = svg("svg", { class: "plot", role: "img", tabindex: "-1" });
    // parts that move with time are in separate layers above, so that curves are painted once and not in every frame
    this.cursor = element("div", { class: "cursor" });
    this.ghostCursor = element("div", { class: "cursor hover", hidden: "" });
    this.overlay = element("div", { class: "overlay", "aria-hidden": "true" }, this.ghostCursor, this.cursor);
    this.series.forEach((curve, k) => {
      curve.dot = element("div", { class: "dot", style: `--curve: var(--series-${k % 8})` });
      this.overlay.append(curve.dot);
    });
    const names = this.series.map((curve) => curve.name).join(", ");
    this.picture.setAttribute("aria-label", `${panel.title} in ${panel.unit} over time: ${names}`);
    this.unit = element("span", { class: "unit" }, panel.unit);
    const heading = element("h2", {}, panel.title, this.unit);
    const extras = [];
    if (this.series.some((curve) => curve.wanted)) extras.push("dashed: reference");
    if (panel.limits) extras.push("hatched: beyond the limits");
    if (panel.bandLabel && panel.bands.length) extras.push(panel.bandLabel);
    const numbers = element("a", { class: "numbers", href: "#", title: "Save the numbers of this plot as a table" }, "CSV");
    numbers.addEventListener("click", () => {
      numbers.download = `${panel.title.toLowerCase().replace(/[^a-z0-9]+/g, "_")}.csv`;
      numbers.href = URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" }));
    });
    const hint = element("span", { class: "hint" }, extras.join(" · "), extras.length ? " · " : "", numbers);
    this.node = element("figure", { class: "panel" }, element("figcaption", {}, heading, hint), this.legend, element("div", { class: "plot-box" }, this.picture, this.overlay));
    const timeOf = (event) => {
      const box = this.picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * this.width;
      return clamp(this.span[0] + ((x - this.left) / (this.right - this.left)) * (this.span[1] - this.span[0]), ...this.span);
    };
    this.picture.addEventListener("pointermove", (event) => {
      if (event.buttons && event.pointerType === "mouse") this.seek(timeOf(event));
      this.hover = event.pointerType === "mouse" ? timeOf(event) : null;
      this.cursorAt(this.now);
    });
    this.picture.addEventListener("pointerleave", () => { this.hover = null; this.cursorAt(this.now); });
    this.picture.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") this.seek(timeOf(event)); });
    this.picture.addEventListener("click", (event) => this.seek(timeOf(event)));
  }

  // The curves as drawn: a row for each time.
  csv() {
    const quoted = (text) => `"${text.replace(/"/g, '""')}"`;
    const columns = [["time in s", this.times]];
    for (const { name, values, wanted, band } of this.series) {
      const unit = this.panel.unit;
      columns.push([`${name} in ${unit}`, values]);
      if (wanted) columns.push([`reference of ${name} in ${unit}`, wanted]);
      if (band) columns.push([`least ${name} in ${unit}`, band[0]], [`greatest ${name} in ${unit}`, band[1]]);
    }
    const rows = [columns.map(([name]) => quoted(name)).join(",")];
    for (let i = 0; i < this.times.length; i++) rows.push(columns.map(([, values]) => Number(values[i].toPrecision(7))).join(","));
    return `${rows.join("\n")}\n`;
  }

  range() {
    let low = Infinity, high = -Infinity;
    for (const curve of this.series) {
      if (curve.hidden) continue;
      for (const list of [curve.values, curve.wanted || [], ...(curve.band || [])])
        for (const y of list) { low = Math.min(low, y); high = Math.max(high, y); }
    }
    if (!(low <= high)) return [0, 1];
    if (this.panel.limits) {
      // show a limit if the curves come near it, that is within a third of their range
      const [a, b] = this.panel.limits;
      const reach = Math.max(high - low, 1e-9);
      if (low - a < 0.35 * reach) low = Math.min(low, a);
      if (b - high < 0.6 * reach) high = Math.max(high, b);
    }
    if (high - low < 1e-9 * Math.max(1, Math.abs(high))) { low -= 0.5; high += 0.5; }
    const margin = 0.06 * (high - low);
    return [low >= 0 && low < margin ? -0.02 * (high - low) - (this.panel.limits ? margin : 0) : low - margin, high + margin];
  }

  // Size, range and ticks, and the margins for numbers on the left and names on the right.
  measure() {
    const box = this.picture.getBoundingClientRect();
    this.width = Math.max(Math.round(box.width), 240);
    this.height = Math.max(Math.round(box.height), 120);
    [this.low, this.high] = this.panel.bars ? [0, this.series.length] : this.range();
    this.yTicks = this.panel.bars ? { ticks: [], digits: 0 } : niceTicks(this.low, this.high, this.height / 42);
    this.tickText = (y) => y.toFixed(this.yTicks.digits).replace("-", "−");
    return {
      left: 14 + 7 * Math.max(0, ...this.yTicks.ticks.map((y) => this.tickText(y).length)),
      right: 14 + 6.6 * Math.max(...this.series.map((curve) => curve.name.length)),
    };
  }

  // All plots are drawn with the same margins, so that the same time is at the same position in each.
  // Given margins belong to sizes that were just measured: all plots are measured before the first is drawn, since that invalidates the layout.
  draw(margins) {
    if (margins) this.margins = margins;
    else this.measure();
    margins = this.margins;
    const { width, height, span, low, high, yTicks, tickText: text } = this;
    this.left = margins.left;
    this.right = width - margins.right;
    const named = margins.right > 20;
    const top = 8, bottom = height - 22;
    const px = (t) => this.left + ((t - span[0]) / (span[1] - span[0])) * (this.right - this.left);
    const py = (y) => bottom - ((y - low) / (high - low)) * (bottom - top);
    this.px = px;
    this.py = py;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const nodes = [];
    const id = `plot-${this.index}`;
    nodes.push(svg("defs", {},
      svg("pattern", { id: `${id}-hatch`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        svg("line", { x1: 0, x2: 0, y1: 0, y2: 6, class: "hatch" })),
      svg("clipPath", { id: `${id}-clip` }, svg("rect", { x: this.left, y: top, width: this.right - this.left, height: bottom - top }))));
    for (const y of yTicks.ticks) {
      nodes.push(svg("line", { class: Math.abs(y) < 1e-12 ? "rule zero" : "rule", x1: this.left, x2: this.right, y1: py(y), y2: py(y) }));
      nodes.push(svg("text", { class: "tick", x: this.left - 6, y: py(y) + 3.5, "text-anchor": "end" }, text(y)));
    }
    const xTicks = niceTicks(span[0], span[1], width / 90);
    for (const t of xTicks.ticks) {
      nodes.push(svg("line", { class: "rule", x1: px(t), x2: px(t), y1: bottom, y2: bottom + 4 }));
      nodes.push(svg("text", { class: "tick", x: px(t), y: bottom + 16, "text-anchor": "middle" }, t.toFixed(xTicks.digits) + (t === xTicks.ticks[xTicks.ticks.length - 1] ? " s" : "")));
    }
    for (const { time } of this.markers) nodes.push(svg("line", { class: "event", x1: px(time), x2: px(time), y1: top, y2: bottom }));
    if (this.panel.limits) {
      const [a, b] = this.panel.limits;
      const band = (y1, y2) => { if (y2 - y1 > 0) nodes.push(svg("rect", { class: "band", x: this.left, width: this.right - this.left, y: y1, height: y2 - y1, fill: `url(#${id}-hatch)` })); };
      if (b < high) { band(top, py(b)); nodes.push(svg("line", { class: "limit", x1: this.left, x2: this.right, y1: py(b), y2: py(b) })); }
      if (a > low) { band(py(a), bottom); nodes.push(svg("line", { class: "limit", x1: this.left, x2: this.right, y1: py(a), y2: py(a) })); }
    }
    const group = svg("g", { "clip-path": `url(#${id}-clip)` });
    this.series.forEach((curve, k) => {
      curve.dot.hidden = curve.hidden || Boolean(this.panel.bars);
      if (curve.hidden) return;
      const style = `--curve: var(--series-${k % 8})`;
      if (this.panel.bars) {
        group.append(svg("path", { class: "bar", style, d: this.bars(curve.values, k) }));
        return;
      }
      if (curve.band) group.append(svg("path", { class: "range", style, d: this.area(...curve.band) }));
      if (curve.wanted) group.append(svg("path", { class: "curve wanted", style, d: this.path(curve.wanted) }));
      group.append(svg("path", { class: "curve", style, d: this.path(curve.values) }));
      const count = this.series.length > 1 ? 6 : 0;
      for (let m = 0; m < count; m++) {
        const t = span[0] + ((m + (k + 1) / (this.series.length + 1)) / count) * (span[1] - span[0]);
        group.append(svg("path", { class: "mark", style, d: MARK_PATHS[curve.mark], transform: `translate(${px(t)} ${py(valueAt(this.times, curve.values, t))})` }));
      }
    });
    nodes.push(group);
    if (named) this.endLabels(nodes, py, top, bottom);
    for (const line of [this.cursor, this.ghostCursor]) {
      line.style.top = `${top}px`;
      line.style.height = `${bottom - top}px`;
    }
    this.series.forEach((curve, k) => curve.button.style.setProperty("--curve", `var(--series-${k % 8})`));
    this.picture.replaceChildren(...nodes);
    this.cursorAt(this.now);
  }

  path(values) {
    let d = "";
    for (let i = 0; i < values.length; i++) d += `${i ? "L" : "M"}${this.px(this.times[i]).toFixed(1)} ${this.py(values[i]).toFixed(1)}`;
    return d;
  }

  area(low, high) {
    let d = this.path(high);
    for (let i = low.length - 1; i >= 0; i--) d += `L${this.px(this.times[i]).toFixed(1)} ${this.py(low[i]).toFixed(1)}`;
    return `${d}Z`;
  }

  // The centre of the row of bar k, from above.
  row(k) {
    return this.series.length - k - 0.5;
  }

  // Rectangles over the times at which the values are 1.
  bars(values, k) {
    const half = Math.min(0.35 * Math.abs(this.py(1) - this.py(0)), 8), y = this.py(this.row(k));
    let d = "";
    for (let i = 0; i < values.length; i++) {
      if (values[i] < 0.5) continue;
      const from = i;
      while (i + 1 < values.length && values[i + 1] >= 0.5) i++;
      const a = this.px(this.times[from]), b = Math.max(this.px(this.times[Math.min(i + 1, values.length - 1)]), a + 1);
      d += `M${a.toFixed(1)} ${(y - half).toFixed(1)}H${b.toFixed(1)}V${(y + half).toFixed(1)}H${a.toFixed(1)}Z`;
    }
    return d;
  }

  // Names at the right ends, pushed apart until they do not overlap.
  endLabels(nodes, py, top, bottom) {
    const labels = this.series.map((curve, k) => ({ curve, k, y: clamp(py(this.panel.bars ? this.row(k) : curve.values[curve.values.length - 1]), top + 4, bottom) }))
      .filter(({ curve }) => !curve.hidden).sort((a, b) => a.y - b.y);
    for (let i = 1; i < labels.length; i++) labels[i].y = Math.max(labels[i].y, labels[i - 1].y + 12);
    for (let i = labels.length - 1; i >= 0; i--) labels[i].y = Math.min(labels[i].y, i === labels.length - 1 ? bottom : labels[i + 1].y - 12);
    for (const { curve, k, y } of labels)
      nodes.push(svg("text", { class: "end", x: this.right + 6, y: y + 3.5, style: `--curve: var(--series-${k % 8})` }, curve.name));
  }

  cursorAt(t) {
    this.now = t;
    if (!this.px) return;
    this.cursor.style.transform = `translateX(${this.px(t)}px)`;
    const hovering = this.hover !== null;
    this.ghostCursor.hidden = !hovering;
    const at = hovering ? this.hover : t;
    if (hovering) this.ghostCursor.style.transform = `translateX(${this.px(at)}px)`;
    this.series.forEach((curve, k) => {
      const y = valueAt(this.times, curve.values, at);
      const text = this.panel.bars ? (y >= 0.5 ? "closed" : "open") : formatNumber(Math.abs(y) < this.noise ? 0 : y, curve.largest);
      if (curve.value.textContent !== text) curve.value.textContent = text;
      curve.dot.style.transform = `translate(${this.px(at)}px, ${this.py(this.panel.bars ? this.row(k) : y)}px)`;
    });
  }
}

const drawAll = (plots) => {
  if (!plots.length) return;
  const rooms = plots.map((plot) => plot.measure());
  const left = Math.max(...rooms.map((room) => room.left));
  const right = Math.max(...rooms.map((room) => room.right));
  // names at the ends only if they leave enough room for the curves; the legend above has them too
  const margins = { left, right: right > 0.22 * plots[0].width ? 14 : right };
  for (const plot of plots) plot.draw(margins);
};
