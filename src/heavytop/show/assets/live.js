// A live page: the equations of motion run in the page. Sliders change parameters and the start, a body can be pulled with the pointer.

const SPEEDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
const MOST_RECORDS = 24;
const MOST_ENTERED = 50; // trajectories
const BUDGET = 11; // milliseconds of a frame for steps
const REACH = { mouse: 22, touch: 36, pen: 28 };

// The motion itself: state, parameters, and the watch over it. It knows nothing of pictures.
class Motion {
  constructor(live, stepBytes, functionBytes, signals) {
    const { at, count } = live;
    const samples = Object.fromEntries(live.signals.map(({ name, rows }) => [name, rows]));
    this.live = live;
    this.at = at;
    this.step = new Step(stepBytes, live.step, { count, records: MOST_RECORDS + 2, samples });
    this.functions = new Functions(functionBytes, live.functions);
    for (const entry of live.signals) this.fill(entry, signals.subarray(entry.start, entry.start + entry.size));
    this.h = live.h;
    this.delta = new Float64Array(live.nw);
    this.v0 = Float64Array.from(live.start[at.v].slice(0, live.nv));
    this.p = this.step.buffers[at.p];
    this.p.set(live.parameters);
    this.restart();
  }

  // A signal at every step from samples at every few of them.
  fill({ name, rows, every, width }, samples) {
    const target = this.step.buffers[name], last = samples.length / width - 1;
    for (let row = 0; row < rows; row++) {
      const k = Math.min(Math.floor(row / every), Math.max(last - 1, 0)), next = Math.min(k + 1, last);
      const end = next === last ? rows - 1 : next * every;
      const s = end > k * every ? (row - k * every) / (end - k * every) : 0;
      for (let i = 0; i < width; i++) target[row * width + i] = samples[k * width + i] + s * (samples[next * width + i] - samples[k * width + i]);
    }
  }

  get q() { return this.step.buffers[this.at.q]; }
  get v() { return this.step.buffers[this.at.v]; }
  get np() { return this.live.step.sizes[this.at.p]; }
  get time() { return this.t0 + this.k * this.h; }

  // Parameters of one trajectory with the present time among them.
  parameters(row = 0) {
    const p = this.p.slice(row * this.np, (row + 1) * this.np);
    if (this.live.hasTime) p[this.np - 1] = this.time;
    return p;
  }

  restart() {
    const { live, at, step } = this;
    this.k = 0;
    this.t0 = live.startTime;
    for (const name of step.persistent) step.buffers[name].set(live.start[name]);
    step.buffers[at.h].fill(this.h);
    this.problem = null;
    this.release();
    this.toStart();
    this.openBooks();
    this.q0 = this.q.slice();
    this.events = live.events.length ? this.eventValues() : null;
  }

  // The state at the start with the present settings: loops are closed unless nothing has changed.
  toStart() {
    const { live, at } = this;
    this.changed = this.isChanged();
    for (const name of [at.q, at.v]) this.step.buffers[name].set(live.start[name]);
    if (live.count > 1 || !this.changed) return;
    this.q.set(this.functions.moved(live.start[at.q], this.delta)[0]);
    this.v.set(this.v0);
    this.assemble();
  }

  // The same as [q, v], while the motion stays where it is; `settings` are numbers [place, value] that are put back meanwhile.
  startWith(settings) {
    const kept = [this.q, this.v, this.p].map((list) => list.slice()), { problem } = this;
    for (const [index, value] of settings) this.p[index] = value;
    this.toStart();
    const found = [this.q.slice(), this.v.slice()];
    [this.q, this.v, this.p].forEach((list, i) => list.set(kept[i]));
    this.problem = problem;
    return found;
  }

  isChanged() {
    const { live, at } = this;
    return this.delta.some((x) => x !== 0) || this.v0.some((x, i) => x !== live.start[at.v][i]) || this.p.some((x, i) => x !== live.parameters[i]);
  }

  // Close the loops by Newton's method from where the bodies are.
  assemble() {
    const { functions, live } = this;
    if (!functions.project) return;
    for (let round = 0; round < 30; round++) {
      const [q, v] = functions.project(this.q, this.v, this.parameters());
      const moved = q.reduce((most, x, i) => Math.max(most, Math.abs(x - this.q[i])), 0);
      if (!q.every(Number.isFinite) || !v.every(Number.isFinite)) break;
      this.q.set(q);
      this.v.set(v);
      if (moved < 1e-13 && round) break;
    }
    if (!(this.openBy() <= live.limits.assembled)) this.problem = { why: "The loops cannot be closed with these values.", smaller: false };
  }

  // The largest residual of loops and constraints, relative to their sizes.
  openBy() {
    if (!this.functions.relative_residuals) return 0;
    const [position, velocity] = this.functions.relative_residuals(this.q, this.v, this.parameters());
    return Math.max(0, ...position.map(Math.abs), ...velocity.map(Math.abs));
  }

  // Begin the accounts of energy again: after a restart, and whenever a parameter has changed.
  openBooks() {
    const { at, step, live } = this;
    for (const name of live.accounts) step.buffers[name].fill(0);
    for (let row = 0; row < live.count; row++) {
      const part = (name, size) => step.buffers[name].subarray(row * size, (row + 1) * size);
      let closing = 0;
      if (at.watch !== null) {
        const size = live.step.sizes[at.watch];
        const first = this.functions.first_watch(part(at.q, live.nq), part(at.v, live.nv), this.parameters(row))[0];
        part(at.watch, size).set(first);
        closing = first[live.watch.closing];
      }
      if (at.ledger !== null) {
        part(at.ledger, live.blank.length).set(live.blank);
        if (closing > 0) part(at.ledger, live.blank.length)[live.books.since] *= 2;
      }
      if (at.law_failure !== null) part(at.law_failure, live.step.sizes[at.law_failure]).fill(0);
    }
    this.first = this.balance();
    this.worst = 0;
  }

  // Another value of a parameter: applied at once, the motion goes on from where it is.
  change(index, value) {
    for (let row = 0; row < this.live.count; row++) this.p[row * this.np + index] = value;
    this.changed = true;
    if (this.live.count === 1) this.assemble();
    this.openBooks();
  }

  setStep(h) {
    this.t0 = this.time;
    this.k = 0;
    this.h = h;
    this.step.buffers[this.at.h].fill(h);
  }

  // Kinetic, potential energy and the balance of energy of the first trajectory.
  energies() {
    if (!this.functions.energies) return null;
    const [[kinetic], [potential]] = this.functions.energies(this.q.subarray(0, this.live.nq), this.v.subarray(0, this.live.nv), this.parameters());
    return { kinetic, potential };
  }

  balance() {
    const e = this.energies();
    if (!e) return null;
    const { at, step } = this;
    const work = at.work === null ? [] : step.buffers[at.work].subarray(0, live_size(this.live, at.work));
    return e.kinetic + e.potential - (work[0] ?? 0) + (work[1] ?? 0) - (work[2] ?? 0);
  }

  // Error of the balance relative to the energy exchanged, as the ledger has it.
  drift() {
    const { at, live } = this;
    if (at.ledger === null) return null;
    const row = this.step.buffers[at.ledger], { kinetic, stored, worked } = live.books;
    const exchanged = row[kinetic] + row[stored] + row[worked];
    const error = Math.abs(this.balance() - this.first);
    this.worst = Math.max(this.worst, exchanged > 0 ? error / exchanged : 0);
    return this.worst;
  }

  // The inputs of the first trajectory at the present state: those of the next step, which is taken back.
  inputs() {
    const { step, at, live } = this, kept = step.kept();
    step.run(this.k, 1, 1, this.t0, this.h);
    step.restore(kept);
    const u = step.recorded[at.u].slice(0, live_size(live, at.u));
    return u.every(Number.isFinite) ? u : u.fill(0);
  }

  eventValues() {
    return this.functions.events([this.time], this.q.subarray(0, this.live.nq), this.v.subarray(0, this.live.nv))[0];
  }

  // Some steps; records every few of them. Returns the number of records. Where the motion is wrong, or ends at an event, the state is the last one
  // before that, and nothing is recorded.
  advance(steps, every) {
    const { step } = this, before = this.k, [kept, values] = [this.step.kept(), this.events];
    const n = step.run(this.k, steps, every, this.t0, this.h);
    this.k += steps;
    this.recorded = { first: before, every, count: n };
    this.inspect();
    if (!this.problem) return n;
    this.recorded.count = 0;
    this.k = before;
    step.restore(kept);
    if (!this.problem.event || steps === 1) return 0;
    // the last step before the event
    Object.assign(this, { problem: null, events: values });
    for (let i = 0; i < steps && !this.problem; i++) this.advance(1, 1);
    this.recorded.count = 0;
    return 0;
  }

  // What native runs report as an early end.
  inspect() {
    const { step, live, at } = this;
    const row = step.failed.findIndex((x) => x >= 0n);
    if (row >= 0) {
      this.problem = this.explain(row);
      return;
    }
    const said = Object.entries(live.verdicts).find(([, name]) => step.buffers[name].some((x) => x > 0));
    if (said) {
      const unsolved = said[0] === "unsolved";
      this.problem = { why: unsolved ? `The equations of a step were not solved: the step of ${formatNumber(this.h)} s is too large for these settings.` : PARADOX, smaller: unsolved };
      return;
    }
    if (at.ledger !== null) {
      const size = live.blank.length, { since, error, kinetic, stored, worked } = live.books;
      const part = (name, r) => { const long = live.step.sizes[name]; return step.buffers[name].subarray(r * long, (r + 1) * long); };
      for (let r = 0; r < live.count; r++) {
        const book = part(at.ledger, r);
        // a step enters its state only now and then; in crowds that is enough
        if (live.count <= MOST_ENTERED) book.set(this.functions.ledger(part(at.q, r), part(at.v, r), this.parameters(r), [this.time], ...(at.exchanged === null ? [] : [part(at.paid, r), part(at.exchanged, r)]), book)[0]);
        if (Math.abs(book[since]) < live.limits.never && !this.atRest()) {
          const exchanged = book[kinetic] + book[stored] + book[worked];
          this.problem = { why: `The balance of energy is wrong by ${percent(book[error] / exchanged)} of the energy exchanged: the step of ${formatNumber(this.h)} s is too large for these settings.`, smaller: true };
          return;
        }
      }
    }
    if (this.events) {
      const now = this.eventValues();
      live.events.forEach(({ name, direction, terminal }, i) => {
        const rises = this.events[i] < 0 && now[i] >= 0, falls = this.events[i] > 0 && now[i] <= 0;
        if (terminal && ((rises && direction >= 0) || (falls && direction <= 0))) this.problem = { why: `The motion ends here: ${name}.`, smaller: false, event: true };
      });
      this.events = now;
    }
  }

  atRest() {
    const size = 1 + this.q.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const speed = this.v.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const moved = this.q.reduce((most, x, i) => Math.max(most, Math.abs(x - this.q0[i])), 0);
    return Math.max(this.h * speed, moved) <= 1e-12 * size;
  }

  explain(row) {
    const { step, live, at } = this;
    const smaller = `The step of ${formatNumber(this.h)} s is too large for these settings.`;
    if (at.law_failure !== null) {
      const code = Math.round(step.buffers[at.law_failure][row * live.step.sizes[at.law_failure]]);
      if (code > 0) return { why: `The law has no input here: ${live.causes[code - 1] ?? `status ${code}`}.`, smaller: false };
    }
    if (at.watch !== null) {
      const { branch, miss, gain, loss, worst, fastest } = live.watch, size = live.step.sizes[at.watch];
      const seen = step.buffers[at.watch].subarray(row * size, (row + 1) * size);
      if (seen[gain] >= 1) return { why: PARADOX, smaller: false };
      if (seen[branch] < 0) return { why: `A loop flipped to the other side of its joint. ${smaller}`, smaller: true };
      if (seen[miss] > live.limits.open) return { why: `Loops and constraints are violated by ${formatNumber(seen[miss])}. ${smaller}`, smaller: true };
      if (seen[loss] > live.limits.lost) return { why: `The balance of energy was missed by ${percent(Math.max(seen[loss], seen[fastest] > 0 ? seen[worst] / seen[fastest] : 0))} of the largest kinetic energy. ${smaller}`, smaller: true };
    }
    return { why: `The motion is not finite from t = ${formatNumber(this.t0 + Number(step.failed[row]) * this.h)} s on. ${smaller}`, smaller: true };
  }

  // The hand.
  hold({ hand, stiffness, damping }, point, place) {
    const { hand: first } = this.live;
    this.p.set([stiffness, damping, ...place, ...point], first);
    for (const index of this.live.holds) this.p[index] = 0;
    this.p[hand] = 1;
  }
  pull(place) {
    this.p.set(place, this.live.hand + 2);
  }
  release() {
    if (this.live.hand === null) return;
    this.p.fill(0, this.live.hand, this.live.hand + 8);
    for (const index of this.live.holds) this.p[index] = 0;
  }
}

// Real time, unless the motion is so fast or so slow that nothing could be seen.
const startSpeed = (duration) => {
  const nice = niceSpeed(duration);
  return nice < 0.1 || nice > 20 ? nice : 1;
};
const live_size = (live, name) => live.step.sizes[name];
const PARADOX = "Painlevé’s paradox: friction answers its own reaction, and no acceleration or several fulfil the equations. Lower the friction.";
const percent = (x) => `${formatNumber(100 * x)} %`;

// A curve window that runs along with the motion.
class Window {
  constructor(panel, index, palette) {
    this.source = panel.series;
    const empty = panel.series.map(({ name }) => ({ name, data: [] }));
    this.plot = new Plot({ ...panel, series: empty, times: [], references: [], bands: [], limits: null, bandLabel: "" }, index, (x) => x, [0, 1], [], palette, () => {});
    this.clear();
  }
  clear() {
    this.times = [];
    this.values = this.source.map(() => []);
  }
  add(t, values, span) {
    this.times.push(t);
    values.forEach((y, i) => this.values[i].push(y));
    let old = 0;
    while (this.times[old] < t - span) old++;
    if (old > 200) {
      this.times.splice(0, old);
      for (const list of this.values) list.splice(0, old);
    }
  }
  // The part of the record that is shown at a time; false while there is nothing to draw.
  show(now, span) {
    const { plot } = this;
    if (this.times.length < 2) return false;
    const first = this.times.findIndex((t) => t >= now - span);
    plot.times = this.times.slice(first);
    plot.series.forEach((curve, i) => {
      curve.values = this.values[i].slice(first);
      curve.largest = curve.values.reduce((most, y) => Math.max(most, Math.abs(y)), 0);
    });
    plot.noise = Math.max(1e-9 * Math.max(0, ...plot.series.map((curve) => curve.largest)), 1e-13);
    plot.span = [Math.max(now - span, plot.times[0]), now];
    plot.now = now;
    return plot.span[1] > plot.span[0];
  }
}

const liveMain = async () => {
  const report = JSON.parse(document.getElementById("document").textContent);
  const byId = (id) => document.getElementById(id);
  const { scene, palette, live } = report;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (dark.matches ? "dark" : "light");
  const single = live.count === 1;

  byId("title").textContent = report.title;
  byId("subtitle").textContent = report.subtitle;
  const tile = (label) => {
    const value = element("dd", {}, "–");
    byId("highlights").append(element("div", {}, element("dt", {}, label), value));
    return (text) => { if (value.textContent !== text) value.textContent = text; };
  };
  const tiles = { energy: live.at.ledger === null ? null : tile("energy drift"), open: live.constrained ? tile("loops and constraints") : null, pace: tile("of real time") };
  for (const { title, columns, rows } of report.tables) {
    const head = columns.length ? [element("thead", {}, element("tr", {}, ...columns.map((c) => element("th", { scope: "col" }, c))))] : [];
    const body = element("tbody", {}, ...rows.map(([first, ...rest]) => element("tr", {}, element("th", { scope: "row" }, first), ...rest.map((cell) => element("td", cell.length < 22 ? { class: "short" } : {}, cell)))));
    byId("tables").append(element("div", { class: "table" }, element("table", {}, element("caption", {}, title), ...head, body)));
  }
  for (const note of report.notes) byId("notes").append(element("p", {}, note));
  byId("notes").append(element("p", { class: "made" }, `heavytop ${report.version} · space runs and pauses, → steps, R restarts, + − change the speed, F follows, O shows all`));
  const paintPage = () => {
    palette.series[theme()].forEach((color, k) => document.documentElement.style.setProperty(`--series-${k}`, color));
    for (const [role, colors] of Object.entries(palette.roles)) if (!role.startsWith("#")) document.documentElement.style.setProperty(`--role-${role.replace(" ", "-")}`, colors[theme()]);
  };
  paintPage();
  const legend = (kind, role, text) =>
    byId("legend").append(element("li", { class: `key-${kind}`, style: `--key: var(--role-${role.replace(" ", "-")})` }, element("i", { "aria-hidden": "true" }), text));
  live.paths.forEach(({ name, role }) => legend("solid", role, name));
  for (const trail of scene.trails) legend("dashed", trail.role, trail.name);
  if (scene.ground !== null) legend("grid", "axis", `grid ${scene.view.spacing} m`);
  byId("show-arrows").hidden = !scene.arrows.length;
  byId("show-trails").hidden = !live.paths.length;
  byId("hint").hidden = !single;

  let motion, block;
  try {
    const [data, stepCode, functionCode, signals] = await Promise.all(["block", "step-code", "function-code", "signals"].map(async (id) => inflate(base64Bytes(id))));
    block = new Float32Array(data);
    motion = new Motion(live, new Uint8Array(stepCode), new Uint8Array(functionCode), new Float64Array(signals));
  } catch (error) {
    byId("message").textContent = `This browser cannot run the simulation (${error.message}). Please update it.`;
    window.heavytop = { state: { failed: error.message } };
    throw error;
  }

  const stage = new Stage(byId("canvas"), byId("labels"), scene, block, palette);
  stage.frames.at = () => ({ k: 0, s: 0 });
  const state = { playing: false, speed: startSpeed(live.duration), ready: false, frames: 0, steps: 0 };
  const windows = live.panels.map((panel, k) => new Window(panel, k, palette));
  byId("panels").append(...windows.map((w) => w.plot.node));

  // --- drawing -----------------------------------------------------------------------------------------------------------

  const column = (rows) => [0, 1, 2, 3].flatMap((j) => [0, 1, 2, 3].map((i) => rows[4 * i + j]));
  const scaled = (m, s) => m.map((x, i) => (i < 12 ? x * s : x));
  const apply = (m, [x, y, z]) => [0, 1, 2].map((i) => m[i] * x + m[4 + i] * y + m[8 + i] * z + m[12 + i]);
  const rotate = (m, [x, y, z]) => [0, 1, 2].map((i) => m[i] * x + m[4 + i] * y + m[8 + i] * z);
  const tipsOf = (row) => motion.functions.tips(motion.q.subarray(row * live.nq, (row + 1) * live.nq), motion.parameters(row))[0];
  const inverse = (m, p) => { const d = p.map((x, i) => x - m[12 + i]); return [0, 1, 2].map((i) => m[4 * i] * d[0] + m[4 * i + 1] * d[1] + m[4 * i + 2] * d[2]); };
  // the overview of a batch shows where all trajectories start
  if (!single)
    for (let row = 0; row < live.count; row++) {
      const tips = tipsOf(row);
      for (let i = 0; i < tips.length; i += 3) stage.seen.push(rotate(live.root, tips.subarray(i, i + 3)));
    }
  let poses = [];
  const posesOf = (q, p) => motion.functions.poses(q, p).map((rows) => multiply(live.root, column(rows)));
  // In the overview the camera goes back where a body leaves the picture.
  const keepInView = () => {
    if (!stage.world || stage.mode !== "overview") return;
    aim();
    const out = [];
    for (const { name } of live.bodies) {
      const m = stage.given.get(name), [x, y] = project(m.slice(12, 15));
      if (!(Math.abs((2 * x) / stage.host.clientWidth - 1) < 0.97 && Math.abs((2 * y) / stage.host.clientHeight - 1) < 0.97)) out.push(m.slice(12, 15));
    }
    if (out.length && out.flat().every(Number.isFinite)) {
      stage.seen.push(...out);
      stage.setCamera("overview");
    }
  };
  const place = () => {
    const p = motion.parameters();
    const sizes = motion.functions.sizes(p)[0];
    poses = posesOf(motion.q.subarray(0, live.nq), p);
    const given = new Map(live.bodies.map(({ name, frame, offset }) => [name, multiply(scaled(poses[frame], sizes[frame]), offset)]));
    for (const line of live.lines) {
      const a = apply(poses[line.a], line.atA), b = apply(poses[line.b], line.atB);
      const along = b.map((x, i) => x - a[i]), length = Math.hypot(...along), z = length > 0 ? along.map((x) => x / length) : [0, 0, 1];
      for (const { name, from, share, reach, sense } of line.parts) {
        const start = from === "a" ? a : b, shift = share * Math.max(length - reach, 0);
        given.set(name, multiply(alongMatrix(z.map((x) => sense * x), 1, start.map((x, i) => x + shift * z[i])), line.offset));
      }
    }
    stage.given = given;
    keepInView();
    for (const [k, arrow] of (stage.arrows ?? []).entries()) {
      const { frame, at, axis, index } = live.arrows[k];
      const force = shown.u ? shown.u[index] : 0;
      const data = [...apply(poses[frame], at), ...rotate(poses[frame], axis).map((x) => x * force)];
      arrow.data = Float32Array.from([...data, ...data]);
    }
  };

  const overlay = byId("overlay"), pen = overlay.getContext("2d");
  const paths = live.paths.map(() => []);
  // Pixels and depth of a point, through the camera as it was when `aim` was last called.
  let lens = null, frame = [1, 1];
  const aim = () => {
    const { camera } = stage.world;
    camera.updateMatrixWorld();
    lens = multiply(camera.projectionMatrix.elements, camera.matrixWorldInverse.elements);
    frame = [stage.host.clientWidth, stage.host.clientHeight];
  };
  const project = ([x, y, z]) => {
    const w = lens[3] * x + lens[7] * y + lens[11] * z + lens[15];
    const part = (i) => (lens[i] * x + lens[4 + i] * y + lens[8 + i] * z + lens[12 + i]) / w;
    return [((part(0) + 1) / 2) * frame[0], ((1 - part(1)) / 2) * frame[1], w > 0 ? part(2) : 2];
  };
  const trace = (at) => live.paths.forEach(({ frame, center }, k) => {
    paths[k].push(apply(at[frame], center));
    if (paths[k].length > 1200) paths[k].shift();
  });
  const sketch = () => {
    if (!stage.world) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2), width = stage.host.clientWidth, height = stage.host.clientHeight;
    if (overlay.width !== Math.round(width * ratio) || overlay.height !== Math.round(height * ratio)) {
      overlay.width = Math.round(width * ratio);
      overlay.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    aim();
    if (byId("show-trails").getAttribute("aria-pressed") === "true")
      paths.forEach((points, k) => {
        pen.strokeStyle = palette.roles[live.paths[k].role][theme()];
        pen.lineWidth = 1.8;
        pen.globalAlpha = 0.75;
        pen.beginPath();
        points.forEach((point, i) => {
          const [x, y] = project(point);
          if (i) pen.lineTo(x, y);
          else pen.moveTo(x, y);
        });
        pen.stroke();
      });
    pen.globalAlpha = 1;
    if (!single) {
      const view = multiply(lens, live.root);
      pen.fillStyle = palette.roles["path 0"][theme()];
      pen.globalAlpha = 0.6;
      for (let row = 0; row < live.count; row++) {
        const tips = tipsOf(row);
        for (let i = 0; i < tips.length; i += 3) {
          const [x, y, z] = [tips[i], tips[i + 1], tips[i + 2]], part = (j) => view[j] * x + view[4 + j] * y + view[8 + j] * z + view[12 + j];
          const w = part(3);
          pen.fillRect(((part(0) / w + 1) / 2) * width - 1.5, ((1 - part(1) / w) / 2) * height - 1.5, 3, 3);
        }
      }
      pen.globalAlpha = 1;
    }
    if (held) {
      const [x, y] = project(apply(poses[held.body.frame], held.point)), [a, b] = project(held.place);
      pen.strokeStyle = pen.fillStyle = palette.roles.force[theme()];
      pen.lineWidth = 2;
      pen.beginPath();
      for (let i = 0; i <= 24; i++) {
        const s = i / 24, swing = i > 1 && i < 23 ? 5 * (i % 2 ? 1 : -1) : 0, n = Math.hypot(a - x, b - y) || 1;
        pen.lineTo(x + s * (a - x) - (swing * (b - y)) / n, y + s * (b - y) + (swing * (a - x)) / n);
      }
      pen.stroke();
      pen.beginPath();
      pen.arc(a, b, 6, 0, 7);
      pen.fill();
    }
  };

  // --- the hand ----------------------------------------------------------------------------------------------------------

  let held = null;
  const shown = { u: null };
  const vertices = new Map();
  const verticesOf = (name) => {
    if (!vertices.has(name)) {
      const meshes = [];
      const entry = stage.bodies.find((body) => body.name === name);
      for (const object of entry ? entry.parts : [])
        object.traverse(({ geometry }) => {
          const list = geometry?.attributes?.position?.array;
          if (!list) return;
          const points = Array.from({ length: list.length / 3 }, (_, i) => [list[3 * i], list[3 * i + 1], list[3 * i + 2]]);
          meshes.push({ points, faces: geometry.index ? geometry.index.array : points.map((_, i) => i) });
        });
      vertices.set(name, meshes);
    }
    return vertices.get(name);
  };
  const place_of = (event) => { const box = stage.host.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  // The body under the pointer: the nearest triangle there, else the nearest corner or edge within reach.
  const hit = (x, y, reach) => {
    let best = null, near = null;
    aim();
    const offer_near = (body, distance, a, b, s, depth) => {
      if (distance <= reach && depth < 1 && (!near || distance < near.distance)) near = { body, distance, depth, point: a.map((u, i) => u + s * (b[i] - u)) };
    };
    for (const body of live.bodies) {
      if (body.hand === null) continue;
      const matrix = stage.given.get(body.name);
      for (const { points, faces } of verticesOf(body.name)) {
        const placed = points.map((vertex) => apply(matrix, vertex)), flat = placed.map(project);
        for (let f = 0; f + 2 < faces.length; f += 3) {
          const corners = [faces[f], faces[f + 1], faces[f + 2]], [a, b, c] = corners.map((i) => flat[i]);
          const area = (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]);
          const u = ((b[0] - x) * (c[1] - y) - (c[0] - x) * (b[1] - y)) / area, v = ((c[0] - x) * (a[1] - y) - (a[0] - x) * (c[1] - y)) / area;
          const weights = [u, v, 1 - u - v];
          if (area !== 0 && weights.every((w) => w >= 0)) {
            const depth = u * a[2] + v * b[2] + weights[2] * c[2];
            if (depth < 1 && (!best || depth < best.depth)) best = { body, depth, point: [0, 1, 2].map((i) => corners.reduce((sum, k, j) => sum + weights[j] * placed[k][i], 0)) };
          } else if (!best) {
            corners.forEach((i, j) => {
              const k = corners[(j + 1) % 3], [p, q] = [flat[i], flat[k]];
              const long = (q[0] - p[0]) ** 2 + (q[1] - p[1]) ** 2;
              const s = long > 0 ? clamp(((x - p[0]) * (q[0] - p[0]) + (y - p[1]) * (q[1] - p[1])) / long, 0, 1) : 0;
              offer_near(body, Math.hypot(p[0] + s * (q[0] - p[0]) - x, p[1] + s * (q[1] - p[1]) - y), placed[i], placed[k], s, p[2] + s * (q[2] - p[2]));
            });
          }
        }
      }
    }
    return best ?? near;
  };
  const beyond = (x, y, depth) => {
    const Vector = stage.world.camera.position.constructor;
    const p = new Vector((2 * x) / stage.host.clientWidth - 1, 1 - (2 * y) / stage.host.clientHeight, depth).unproject(stage.world.camera);
    return [p.x, p.y, p.z];
  };
  const grab = (x, y, kind, id) => {
    const found = single && stage.world ? hit(x, y, REACH[kind] ?? 24) : null;
    if (!found) return false;
    const frame = poses[found.body.frame];
    held = { body: found.body, point: inverse(frame, found.point), depth: found.depth, place: found.point, id };
    motion.hold(found.body, held.point, inverse(live.root, held.place));
    byId("hint").hidden = true;
    stage.host.classList.add("holding");
    if (!state.playing && !motion.problem) play(true);
    return true;
  };
  const drag = (x, y) => {
    held.place = beyond(x, y, held.depth);
    motion.pull(inverse(live.root, held.place));
    if (!state.playing) sketch();
  };
  const drop = () => {
    held = null;
    motion.release();
    stage.host.classList.remove("holding");
    if (!state.playing) sketch();
  };
  byId("canvas").addEventListener("pointerdown", (event) => {
    if (event.button > 0 || held || !grab(...place_of(event), event.pointerType, event.pointerId)) return;
    event.stopPropagation();
    event.preventDefault();
    byId("canvas").setPointerCapture(event.pointerId);
  }, { capture: true });
  byId("canvas").addEventListener("pointermove", (event) => {
    if (!held || event.pointerId !== held.id) return;
    event.stopPropagation();
    drag(...place_of(event));
  }, { capture: true });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"])
    byId("canvas").addEventListener(end, (event) => { if (held && event.pointerId === held.id) { event.stopPropagation(); drop(); } }, { capture: true });

  // --- time --------------------------------------------------------------------------------------------------------------

  const windowSpan = () => Math.max(8 * state.speed, 20 * motion.h);
  const sources = (at) => {
    const e = live.hasEnergies ? { kinetic: at.kinetic, potential: at.potential } : {};
    return { q: at.q, v: at.v, u: at.u, kinetic: [e.kinetic], potential: [e.potential], total: [e.kinetic + e.potential], balance: [at.balance] };
  };
  const valueOf = (series, from, at) => {
    if (series.from === "angle") return Math.atan2(from.q[series.index + 1], from.q[series.index]);
    if (series.from === "tilt") {
      const m = at[series.index];
      return (Math.acos(clamp(m[4 * series.axis + 2], -1, 1)) * 180) / Math.PI;
    }
    return from[series.from][series.index];
  };
  const record = (t, q, v, u) => {
    const e = live.hasEnergies ? motion.functions.energies(q, v, motion.parameters()) : [[0], [0]];
    const from = sources({ q, v, u, kinetic: e[0][0], potential: e[1][0], balance: 0 });
    const p = motion.parameters();
    if (live.hasTime) p[p.length - 1] = t;
    const at = posesOf(q, p);
    trace(at);
    for (const w of windows) w.add(t, w.source.map((series) => valueOf(series, from, at)), windowSpan());
  };
  const collect = () => {
    const { first, every, count } = motion.recorded, { at } = live, { recorded } = motion.step, n = live.count;
    for (let r = 1; r < count; r++) {
      const row = (name) => { const size = live_size(live, name); return recorded[name].subarray(r * n * size, r * n * size + size); };
      shown.u = row(at.u);
      record(motion.t0 + (first + r * every) * motion.h, row(at.q), row(at.v), shown.u);
    }
  };
  const digits = clamp(2 - Math.floor(Math.log10(live.duration / 2)), 1, 6);
  let drawn = 0;
  const rounding = (x) => (x < 1e-15 ? "0" : x.toExponential(1).replace("e-", "e−").replace("e+", "e"));
  const say = () => {
    byId("clock").textContent = `${motion.time.toFixed(digits)} s`;
    const drift = motion.drift();
    if (tiles.energy) tiles.energy(drift === null ? "–" : rounding(drift));
    if (tiles.open) tiles.open(rounding(motion.openBy()));
    tiles.pace(state.playing ? `${formatNumber(state.pace ?? state.speed)}×` : `${state.speed}×, paused`);
    byId("notice").hidden = !motion.problem;
    if (motion.problem) {
      if (byId("notice-text").textContent !== motion.problem.why) byId("notice-text").textContent = motion.problem.why;
      byId("smaller").hidden = !motion.problem.smaller || !live.stepIsFree;
    }
  };
  const plotAll = () => drawAll(windows.filter((w) => w.show(motion.time, windowSpan())).map((w) => w.plot));
  const update = (elapsed = 0, force = true, paint = true) => {
    place();
    if (paint) stage.setTime(stage.time, elapsed);
    sketch();
    const now = performance.now();
    if (force || now - drawn > 90) {
      drawn = now;
      say();
      plotAll();
    }
  };
  const begin = () => {
    shown.u = null;
    motion.restart();
    for (const list of paths) list.length = 0;
    for (const w of windows) w.clear();
    place();
    record(motion.time, motion.q.slice(0, live.nq), motion.v.slice(0, live.nv), motion.inputs());
    owed = 0;
    if (motion.problem) play(false);
    update();
  };
  let owed = 0, cost = 0, last = null;
  const run = (seconds) => {
    owed += seconds / motion.h;
    let steps = Math.floor(owed);
    const most = cost > 0 ? Math.max(1, Math.floor(BUDGET / cost)) : 50;
    if (steps > most) {
      steps = most;
      owed = steps;
    }
    if (steps < 1) return 0;
    owed -= steps;
    const every = Math.max(1, Math.ceil(steps / (single ? 4 : 1)));
    const whole = Math.max(every, Math.floor(steps / every) * every);
    const clock = performance.now();
    motion.advance(whole, every);
    const each = (performance.now() - clock) / whole;
    cost = cost ? 0.9 * cost + 0.1 * each : each;
    owed += steps - whole;
    state.steps += whole;
    collect();
    return whole * motion.h;
  };
  // All trajectories of a batch move as points in every frame; the bodies of the first are painted in 3-D at most a fifth of the time, which matters
  // where a machine paints without a graphics processor. The longest frame since the last painting is about the time that it took.
  let painted = 0, longest = 0;
  const due = (stamp, elapsed) => {
    longest = Math.max(longest, elapsed > 0.025 ? 1000 * elapsed : 0);
    if (!single && stamp - painted < 5 * longest) return false;
    painted = stamp;
    longest *= 0.7;
    return true;
  };
  const tick = (stamp) => {
    if (!state.playing) return;
    const elapsed = last === null ? 1 / 60 : Math.min((stamp - last) / 1000, 0.1);
    last = stamp;
    const gone = run(elapsed * state.speed);
    state.pace = state.pace === undefined || elapsed <= 0 ? state.speed : 0.95 * state.pace + (0.05 * gone) / elapsed;
    state.frames++;
    if (motion.problem) play(false);
    update(elapsed, !state.playing, due(stamp, elapsed) || !state.playing);
    if (state.playing) requestAnimationFrame(tick);
  };
  const play = (on) => {
    if (on === state.playing) return;
    if (on && motion.problem) begin();
    if (on && motion.problem) return;
    state.playing = on;
    state.pace = state.speed;
    byId("play").setAttribute("aria-label", on ? "Pause" : "Run");
    byId("play-icon").setAttribute("d", on ? "M6 4h4.5v16H6zM13.5 4H18v16h-4.5z" : "M7 4l13 8-13 8z");
    last = null;
    if (on) requestAnimationFrame(tick);
    else say();
  };
  const single_step = () => {
    play(false);
    if (motion.problem) return;
    const steps = Math.max(1, Math.round(state.speed / 60 / motion.h));
    motion.advance(steps, steps);
    collect();
    update();
  };
  const speed = (value) => {
    state.speed = value;
    byId("speed").textContent = `${value}×`;
    say();
  };
  const faster = (sense) => {
    const all = [...new Set([...SPEEDS, state.speed])].sort((a, b) => a - b);
    speed(all[clamp(all.indexOf(state.speed) + sense, 0, all.length - 1)]);
  };

  // --- settings ----------------------------------------------------------------------------------------------------------

  const settings = live.numbers.map((number) => ({ ...number, now: number.value }));
  const setters = {
    p: ({ index, now }) => motion.change(index, now),
    delta: ({ index, now, zero }) => { motion.delta[index] = now - zero; },
    v: ({ index, now }) => { motion.v0[index] = now; },
    h: ({ now }) => motion.setStep(now),
    signal: ({ name_of, index, now }) => {
      const table = motion.step.buffers[name_of], width = live.signals.find((entry) => entry.name === name_of).width;
      for (let i = index; i < table.length; i += width) table[i] = now;
    },
    scaled: ({ targets, now, value }) => {
      for (const [index, base] of targets) motion.p[index] = base * (now / value);
      motion.openBooks();
    },
  };
  const restarts = (number) => number.to === "delta" || number.to === "v";
  const put = (number, value, quiet = false) => {
    if (!Number.isFinite(value)) return;
    number.now = clamp(value, number.low, number.high);
    number.box.value = number.log ? Math.log10(number.now) : number.now;
    number.output.textContent = `${formatNumber(number.now)} ${number.unit}`.trim();
    number.row.classList.toggle("changed", number.now !== number.value);
    setters[number.to](number);
    if (quiet) return;
    if (restarts(number)) begin();
    else if (motion.problem) { say(); play(false); }
    else if (!state.playing) update();
    remember();
  };
  const groups = new Map();
  for (const number of settings) {
    const label = `${number.name}${number.unit ? ` in ${number.unit}` : ""}`;
    const range = number.log ? { min: Math.log10(number.low), max: Math.log10(number.high) } : { min: number.low, max: number.high };
    number.box = element("input", { type: "range", ...range, step: "any", "aria-label": label });
    number.output = element("output", {}, "");
    number.row = element("label", { title: label }, element("span", {}, number.name), number.box, number.output);
    number.box.addEventListener("input", () => {
      const raw = Number(number.box.value);
      const value = number.log ? 10 ** raw : raw;
      // near its first value the slider snaps to it
      const close = Math.abs(raw - (number.log ? Math.log10(number.value) : number.value)) < 0.008 * (range.max - range.min);
      put(number, close ? number.value : Number(value.toPrecision(4)));
    });
    number.row.addEventListener("dblclick", () => put(number, number.value));
    if (!groups.has(number.group)) groups.set(number.group, []);
    groups.get(number.group).push(number);
  }
  let first = true;
  for (const [title, list] of groups) {
    const box = element("details", { class: "panel sliders", ...(first || list.length <= 4 ? { open: "" } : {}) }, element("summary", {}, title, element("span", { class: "unit" }, `${list.length}`)), element("div", { class: "rows" }, ...list.map((number) => number.row)));
    first = false;
    byId("sliders").append(box);
  }

  // the link: only numbers that differ, by the names of this page
  const changed = () => Object.fromEntries(settings.filter((n) => n.now !== n.value).map((n) => [n.id, n.now]));
  const remember = () => {
    const text = Object.keys(changed()).length ? `#${encodeURIComponent(JSON.stringify(changed()))}` : "";
    try {
      history.replaceState(null, "", text || location.pathname + location.search);
    } catch { /* a page inside another document has no address */ }
  };
  // A smaller step than the slider has at first.
  const widen = (number, value) => {
    number.low = Math.min(number.low, Math.max(value, 1e-4 * number.value));
    number.box.min = Math.log10(number.low);
  };
  const recall = () => {
    let given = null;
    try {
      given = JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}");
    } catch { /* not an address of this page: the first settings */ }
    for (const number of settings) {
      const value = given !== null && typeof given === "object" && Object.hasOwn(given, number.id) ? given[number.id] : number.value;
      if (number.to === "h" && value > 0) widen(number, value);
      put(number, typeof value === "number" && Number.isFinite(value) ? value : number.value, true);
    }
  };
  window.addEventListener("hashchange", () => { recall(); begin(); });
  const offer = async (text) => {
    byId("text-area").value = text;
    byId("text-said").textContent = "";
    if (!byId("text").open) byId("text").showModal?.();
    try {
      await navigator.clipboard.writeText(text);
      byId("text-said").textContent = "Copied.";
    } catch {
      byId("text-area").select();
    }
  };

  const numberText = (x) => (Number.isInteger(x) && Math.abs(x) < 1e15 ? `${x}.0` : `${x}`);
  const listText = (list) => `[${Array.from(list, numberText).join(", ")}]`;
  // The program of the present settings. What the run itself does not take is changed in the run that goes on, as this page does.
  const python = () => {
    const { source } = live, lines = ["import heavytop as ht", ...source.head];
    const at = (kind) => settings.filter((n) => n.kind === kind), differs = (n) => n.now !== n.value;
    const named = (list) => `{${list.map((n) => `${JSON.stringify(n.name)}: ${numberText(n.now)}`).join(", ")}}`;
    for (const n of at("system").filter(differs)) lines.push(...(source.changes[n.id] ?? []).map((line) => line.replaceAll("VALUE", numberText(n.now))));
    const given = { p: (n) => [[n.name, n.now]], signal: (n) => [[n.name, n.now]], scaled: ({ targets, now, value }) => targets.map(([, base, name]) => [name, base * (now / value)]) };
    const later = [...at("system").filter((n) => differs(n) && !source.changes[n.id]), ...at("law").filter(differs), ...at("gain").filter((n) => !n.option && n.now !== n.usual)];
    lines.push(...source.model);
    const parameters = at("parameter").filter((n) => n.now !== n.usual);
    if (parameters.length) lines.push(`parameters = ${named(parameters)}`);
    const rows = (list, size) => (single ? listText(list.slice(0, size)) : `[${Array.from({ length: live.count }, (_, row) => listText(list.slice(row * size, (row + 1) * size))).join(", ")}]`);
    const [q, v] = motion.startWith(later.filter((n) => n.to === "p").map((n) => [n.index, n.value]));
    lines.push(`start = (${rows(q, live.nq)}, ${rows(v, live.nv)})`);
    if (source.run.length) lines.push(...source.run);
    else {
      lines.push(...source.law);
      const args = [`until=${numberText(live.duration)}`, `step=${numberText(motion.h)}`, ...source.arguments];
      if (parameters.length) args.push("parameters=parameters");
      const gains = at("gain").filter((n) => n.option && n.now !== n.usual);
      if (gains.length) args.push(`gains=${named(gains)}`);
      if (at("input").some((n) => n.now !== 0)) args.push(`inputs=${listText(at("input").map((n) => n.now))}`);
      lines.push(`run = ht.simulate(model, start, ${args.join(", ")})`);
    }
    if (later.length && single) {
      lines.push(`live = ${source.live}`, ...later.flatMap((n) => given[n.to](n)).map(([name, value]) => `live.change(${JSON.stringify(name)}, ${numberText(value)})`));
      lines.push("live.restart()", `live.advance(${numberText(live.duration)})`, 'print(live.time, live.q, live.v, live.drift, live.problem, sep="\\n")');
    } else {
      for (const n of later) lines.push(`# ${JSON.stringify(n.name)} = ${numberText(n.now)}: set it where system and law are described`);
      lines.push(`print(${source.show}.outcome)`, `${source.show}.show("live.html", live=True)`);
    }
    return `${lines.join("\n")}\n`;
  };

  // --- controls ----------------------------------------------------------------------------------------------------------

  const camera = (mode) => {
    byId("camera").value = mode;
    stage.setCamera(mode);
    sketch();
  };
  stage.onGrab = () => {
    if (stage.mode === "overview") {
      stage.mode = "free";
      byId("camera").value = "free";
    }
  };
  const on = (id, action) => byId(id).addEventListener("click", action);
  on("play", () => play(!state.playing));
  on("step", single_step);
  on("restart", () => begin());
  on("again", () => { begin(); play(true); });
  on("smaller", () => {
    const number = settings.find((n) => n.to === "h");
    widen(number, number.now / 4);
    put(number, number.now / 4, true);
    remember();
    begin();
    play(true);
  });
  on("slower", () => faster(-1));
  on("faster", () => faster(1));
  on("python", () => offer(python()));
  on("link", () => { remember(); offer(location.href); });
  on("reset", () => { for (const number of settings) put(number, number.value, true); remember(); begin(); });
  on("text-copy", () => offer(byId("text-area").value));
  on("text-close", () => byId("text").close());
  byId("camera").addEventListener("change", (event) => camera(event.target.value));
  on("show-arrows", () => {
    const next = byId("show-arrows").getAttribute("aria-pressed") !== "true";
    byId("show-arrows").setAttribute("aria-pressed", String(next));
    stage.show("arrows", next);
  });
  on("show-trails", () => {
    const next = byId("show-trails").getAttribute("aria-pressed") !== "true";
    byId("show-trails").setAttribute("aria-pressed", String(next));
    stage.show("trails", next);
    sketch();
  });
  byId("full").hidden = !document.fullscreenEnabled;
  on("full", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.querySelector(".show").requestFullscreen();
  });
  document.addEventListener("keydown", (event) => {
    const tag = event.target.tagName;
    if (event.ctrlKey || event.metaKey || event.altKey || tag === "SELECT" || tag === "TEXTAREA" || byId("text").open) return;
    if (tag === "INPUT" && event.key.startsWith("Arrow")) return;
    const actions = {
      " ": () => play(!state.playing),
      ArrowRight: single_step,
      r: () => begin(),
      f: () => camera("follow"),
      o: () => camera("overview"),
      "+": () => faster(1),
      "-": () => faster(-1),
    };
    const action = actions[event.key];
    if (!action || (event.key === " " && (tag === "BUTTON" || tag === "SUMMARY"))) return;
    event.preventDefault();
    action();
  });
  new ResizeObserver(() => { plotAll(); sketch(); }).observe(document.querySelector(".layout"));
  dark.addEventListener("change", () => { paintPage(); stage.paint(theme()); sketch(); });

  recall();
  speed(state.speed);
  begin();
  window.heavytop = { state, stage, motion, settings, play, begin, run, speed, put, python, camera, grab, drag, drop, update, poses: () => poses };

  try {
    await stage.load();
    byId("message").hidden = true;
    const settle = () => {
      stage.paint(theme());
      byId("canvas").classList.remove("waiting");
      sketch();
    };
    stage.paint(theme());
    for (const wait of [60, 300, 1200]) setTimeout(settle, wait);
    camera(scene.view.radius > 10 * scene.view.body ? "follow" : "overview");
    update();
    state.ready = true;
    if (!window.matchMedia("(prefers-reduced-motion: reduce)").matches && !motion.problem) play(true);
  } catch (error) {
    byId("message").textContent = error.message;
    document.querySelector(".show").classList.add("flat");
    state.failed = error.message;
  }
};

if (document.body.classList.contains("live")) liveMain();
