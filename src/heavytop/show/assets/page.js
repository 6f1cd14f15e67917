// The page: text, tables, controls and the one clock that everything follows.

const main = async () => {
  const byId = (id) => document.getElementById(id);
  // one of several trajectories, chosen by the address
  const first = JSON.parse(byId("document").textContent);
  const choices = first.choices || [""];
  const number = Number((/^#trajectory-(\d+)$/.exec(window.location.hash) || [0, 0])[1]);
  const chosen = number < choices.length ? number : 0;
  const data = (id) => (chosen ? `${id}-${chosen}` : id);
  const report = chosen ? JSON.parse(byId(data("document")).textContent) : first;
  byId("choices").hidden = choices.length < 2;
  byId("trajectory").append(...choices.map((name, k) => element("option", { value: k }, name)));
  byId("trajectory").value = chosen;
  byId("trajectory").addEventListener("change", (event) => {
    window.location.hash = `trajectory-${event.target.value}`;
    window.location.reload();
  });
  const { scene, palette } = report;
  const span = [scene.frames.first, scene.frames.last];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paper = window.matchMedia("print");
  const theme = () => (dark.matches && !paper.matches ? "dark" : "light");

  // text
  byId("title").textContent = report.title;
  byId("subtitle").textContent = report.subtitle;
  for (const [label, value] of report.highlights)
    byId("highlights").append(element("div", {}, element("dt", {}, label), element("dd", {}, value)));
  for (const { title, columns, rows } of report.tables) {
    const head = columns.length ? [element("thead", {}, element("tr", {}, ...columns.map((c) => element("th", { scope: "col" }, c))))] : [];
    const body = element("tbody", {}, ...rows.map(([first, ...rest]) => element("tr", {}, element("th", { scope: "row" }, first), ...rest.map((cell) => element("td", cell.length < 22 ? { class: "short" } : {}, cell)))));
    byId("tables").append(element("div", { class: "table" }, element("table", {}, element("caption", {}, title), ...head, body)));
  }
  for (const note of report.notes) byId("notes").append(element("p", {}, note));
  byId("notes").append(element("p", { class: "made" }, `heavytop ${report.version} · ${report.sliders ? "" : "space plays and pauses, ← → step, Home and End jump, "}F follows, O shows all`));

  const paintPage = () => {
    palette.series[theme()].forEach((color, k) => document.documentElement.style.setProperty(`--series-${k}`, color));
    for (const [role, colors] of Object.entries(palette.roles)) if (!role.startsWith("#")) document.documentElement.style.setProperty(`--role-${role.replace(" ", "-")}`, colors[theme()]);
  };
  paintPage();

  // legend of the view
  const legend = (kind, role, text) =>
    byId("legend").append(element("li", { class: `key-${kind}`, style: `--key: var(--role-${role.replace(" ", "-")})` }, element("i", { "aria-hidden": "true" }), text));
  for (const trail of scene.trails) legend(trail.dashed ? "dashed" : "solid", trail.role, trail.name);
  if (scene.ghosts.length) legend("ghost", "ghost", "reference pose");
  const forces = new Map(scene.arrows.map((arrow) => [arrow.role, arrow]));
  for (const [role, arrow] of forces) legend("arrow", role, `${role}s, ${formatNumber(1 / arrow.scale)} ${arrow.unit} per m`);
  if (scene.ground !== null) legend("grid", "axis", `grid ${scene.view.spacing} m`);
  byId("show-arrows").hidden = !scene.arrows.length;
  byId("show-ghosts").hidden = !scene.ghosts.length && !scene.trails.some((trail) => trail.dashed);
  byId("show-trails").hidden = !scene.trails.length;

  // data
  let block = new Float32Array(0);
  const state = { time: span[0], playing: false, speed: niceSpeed(span[1] - span[0]), ready: false };
  const listeners = [];
  try {
    block = new Float32Array(await inflate(base64Bytes(data("block"))));
  } catch (error) {
    byId("message").textContent = "This browser is too old to unpack the data of this page. Please update it.";
    throw error;
  }
  const array = ({ start, size }) => block.subarray(start, start + size);

  // the clock
  const stage = new Stage(byId("canvas"), byId("labels"), scene, block, palette);
  stage.snapshot = data("snapshot");
  const plots = report.panels.map((panel, k) => new Plot(panel, k, array, span, report.markers, palette, (t) => seek(t)));
  document.querySelector(".layout").classList.toggle("solo", !plots.length);
  byId("panels").append(...plots.map((plot) => plot.node));
  if (report.sliders) {
    const sliders = new Sliders(report.sliders, stage);
    if (report.sliders.joints.length) {
      byId("panels").append(sliders.node);
      document.querySelector(".layout").classList.remove("solo");
    }
    document.querySelector(".show").classList.add("still");
  }
  const degrees = byId("degrees");
  degrees.hidden = !plots.some((plot) => plot.panel.unit in ANGLES);
  degrees.setAttribute("aria-pressed", String(!plots.some((plot) => plot.panel.unit.startsWith("rad"))));
  degrees.addEventListener("click", () => {
    const on = degrees.getAttribute("aria-pressed") !== "true";
    degrees.setAttribute("aria-pressed", String(on));
    for (const plot of plots) plot.inDegrees(on);
    redraw();
  });
  const speeds = [...new Set([0.02, 0.1, 0.25, 0.5, 1, 2, state.speed])].sort((a, b) => a - b);
  byId("speed").append(...speeds.map((speed) => element("option", { value: speed }, `${speed}×`)));
  byId("speed").value = state.speed;
  const slider = byId("time");
  slider.min = span[0];
  slider.max = span[1];
  const digits = clamp(2 - Math.floor(Math.log10((span[1] - span[0]) / 2)), 1, 6);

  const update = (elapsed = 0) => {
    stage.setTime(state.time, elapsed);
    for (const plot of plots) plot.cursorAt(state.time);
    slider.value = state.time;
    slider.style.setProperty("--part", (state.time - span[0]) / (span[1] - span[0]));
    slider.setAttribute("aria-valuetext", `${state.time.toFixed(digits)} seconds`);
    byId("clock").textContent = `${state.time.toFixed(digits)} s`;
    for (const listener of listeners) listener(state.time);
  };
  const seek = (t) => {
    state.time = clamp(t, ...span);
    update();
  };
  let last = null;
  const tick = (stamp) => {
    if (!state.playing) return;
    const elapsed = last === null ? 0 : Math.min((stamp - last) / 1000, 0.1);
    last = stamp;
    state.time += elapsed * state.speed;
    if (state.time > span[1]) state.time = span[0] + (state.time - span[1]) % (span[1] - span[0]);
    update(elapsed);
    requestAnimationFrame(tick);
  };
  const play = (on) => {
    if (on === state.playing) return;
    state.playing = on;
    byId("play").setAttribute("aria-label", on ? "Pause" : "Play");
    byId("play-icon").setAttribute("d", on ? "M6 4h4.5v16H6zM13.5 4H18v16h-4.5z" : "M7 4l13 8-13 8z");
    last = null;
    if (on) requestAnimationFrame(tick);
  };

  // controls
  const camera = (mode) => {
    byId("camera").value = mode;
    stage.setCamera(mode);
  };
  stage.onGrab = () => {
    if (stage.mode === "overview") {
      stage.mode = "free";
      byId("camera").value = "free";
    }
  };
  byId("play").addEventListener("click", () => play(!state.playing));
  slider.addEventListener("input", () => { play(false); seek(Number(slider.value)); });
  byId("speed").addEventListener("change", (event) => { state.speed = Number(event.target.value); });
  byId("camera").addEventListener("change", (event) => camera(event.target.value));
  for (const what of ["arrows", "ghosts", "trails", "labels"]) {
    const button = byId(`show-${what}`);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      stage.show(what, on);
    });
  }
  byId("full").hidden = !document.fullscreenEnabled;
  byId("full").addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.querySelector(".show").requestFullscreen();
  });
  const select = (id, step) => {
    const box = byId(id);
    box.selectedIndex = clamp(box.selectedIndex + step, 0, box.options.length - 1);
    box.dispatchEvent(new Event("change"));
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const step = (event.shiftKey ? 0.1 : 0.01) * (span[1] - span[0]);
    const actions = {
      " ": () => play(!state.playing),
      ArrowLeft: () => { play(false); seek(state.time - step); },
      ArrowRight: () => { play(false); seek(state.time + step); },
      Home: () => seek(span[0]),
      End: () => { play(false); seek(span[1]); },
      f: () => camera("follow"),
      o: () => camera("overview"),
      "+": () => select("speed", 1),
      "-": () => select("speed", -1),
    };
    const action = actions[event.key];
    if (!action || (event.key === " " && event.target.tagName === "BUTTON")) return;
    event.preventDefault();
    action();
  });
  for (const { time, label } of report.markers) {
    const tick = element("span", { style: `--part: ${(time - span[0]) / (span[1] - span[0])}` }, element("b", {}, label));
    byId("ticks").append(tick);
  }

  // names of markers are omitted where they would overlap
  const tidyTicks = () => {
    let end = -Infinity;
    for (const name of byId("ticks").querySelectorAll("b")) {
      name.hidden = false;
      const box = name.getBoundingClientRect();
      name.hidden = box.left < end + 4;
      if (!name.hidden) end = box.right;
    }
  };
  // panels that do not fit next to the view follow below it, side by side
  const wide = window.matchMedia("(min-width: 861px)");
  const arrange = () => {
    const room = document.querySelector(".show").getBoundingClientRect().height;
    let height = 0;
    plots.forEach((plot, k) => {
      const own = plot.node.getBoundingClientRect().height + 12;
      const next = !wide.matches || paper.matches || k < 2 || report.sliders || height + own <= room + 0.35 * own;
      height = next ? height + own : Infinity;
      const place = byId(next ? "panels" : "more");
      if (plot.node.parentNode !== place) place.append(plot.node);
    });
    byId("more").hidden = !byId("more").children.length;
  };
  const redraw = () => {
    arrange();
    drawAll(plots);
    tidyTicks();
  };
  new ResizeObserver(redraw).observe(document.querySelector(".layout"));
  window.addEventListener("beforeprint", redraw);
  for (const medium of [dark, paper]) medium.addEventListener("change", () => { paintPage(); stage.paint(theme()); });
  redraw();
  update();

  // for tests and for other scripts on the page
  window.heavytop = {
    state, stage, seek, play, camera,
    onTime: (listener) => listeners.push(listener),
  };

  try {
    await stage.load();
    byId("message").hidden = true;
    stage.paint(theme());
    // K3D draws its objects again a little later, in the colours of the file: they are painted again before they are shown
    for (const wait of [60, 300, 1200]) setTimeout(() => { stage.paint(theme()); byId("canvas").classList.remove("waiting"); }, wait);
    const close = scene.view.radius > 10 * Math.max(scene.view.body, scene.view.near);
    update();
    camera(close ? "follow" : "overview");
    state.ready = true;
    const still = report.sliders || window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!still) play(true);
  } catch (error) {
    byId("message").textContent = error.message;
    document.querySelector(".show").classList.add("flat");
    state.failed = error.message;
  }
};

main();
