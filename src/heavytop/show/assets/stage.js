// The 3-D view. K3D decodes the snapshot, makes three.js objects and handles the mouse; this class moves the objects.
//
// K3D's time series rebuild objects on every change of time and support neither attached parts nor growing curves, so each frame
// writes the matrices of the three.js objects and then lets K3D draw. K3D also calls controls.update() in its own loop,
// which draws again if the camera has moved since; calling it here first makes that second drawing unnecessary.

class Stage {
  constructor(host, labels, scene, block, palette) {
    Object.assign(this, { host, labels, scene, palette });
    this.frames = new Frames(scene.frames);
    this.array = ({ start, size }) => block.subarray(start, start + size);
    this.shown = { arrows: true, ghosts: true, trails: true, labels: false };
    this.mode = "overview";
    this.time = scene.frames.first;
    this.world = null;
    this.tags = [];
    this.turned = new Map();
    this.widthPerDepth = { value: 0 };
    this.seen = []; // further points that the overview must show
  }

  async load() {
    const probe = document.createElement("canvas").getContext("webgl2");
    if (!probe) throw new Error("This browser has no WebGL 2, so there is no 3-D view. The plots and numbers are complete.");
    const source = new TextDecoder().decode(await inflate(base64Bytes("viewer")));
    let library = null;
    // the viewer is an AMD module: it calls define(name, dependencies, factory)
    new Function("define", source)((name, dependencies, factory) => {
      library = factory();
    });
    // K3D adds style sheets for formulas, with fonts that do not exist here, and for a menu; neither is used
    for (const sheet of document.head.querySelectorAll("style")) if (sheet.textContent.includes("KaTeX")) sheet.remove();
    this.k3d = await library.CreateK3DAndLoadBinarySnapshot(base64Bytes(this.snapshot || "snapshot"), this.host);
    this.world = this.k3d.getWorld();
    this.adopt();
    this.light();
    this.world.controls.maxPolarAngle = 0.53 * Math.PI;
    this.world.controls.addEventListener("start", () => this.onGrab());
    this.host.style.background = "none";
    for (const node of this.host.querySelectorAll("*")) node.style.background = "none";
    new ResizeObserver(() => this.resize()).observe(this.host);
    this.resize();
    // K3D sets its own camera once, shortly after the snapshot is loaded
    await new Promise((done) => setTimeout(done, 30));
    this.setCamera(this.mode);
  }

  onGrab() {}

  // Ground, shadows and paths have their own colour, independent of the light. K3D gives every mesh a lit material and does not
  // expose three.js; its lines have the plain material, so one short line in the snapshot provides the class of its material.
  flatten() {
    const lender = this.objects.get("plain");
    const Plain = lender.material.constructor;
    lender.visible = false;
    this.objects.delete("plain");
    for (const [name, object] of this.objects) {
      if (!/^(ground|shadow|trail):/.test(name)) continue;
      object.traverse((part) => {
        if (!part.material) return;
        const { side } = part.material;
        part.material.dispose();
        part.material = new Plain({ side });
        if (name.startsWith("trail:")) this.widen(part.material);
      });
    }
  }

  // Paths are tubes; from far away they keep the least visible width.
  widen(material) {
    material.onBeforeCompile = (shader) => {
      shader.uniforms.widthPerDepth = this.widthPerDepth;
      shader.uniforms.tubeRadius = { value: this.scene.view.trailWidth };
      shader.vertexShader = shader.vertexShader
        .replace("void main() {", "uniform float widthPerDepth;\nuniform float tubeRadius;\nvoid main() {")
        .replace("#include <begin_vertex>", `#include <begin_vertex>
          transformed += normal * max(0.0, -(modelViewMatrix * vec4(position, 1.0)).z * widthPerDepth - tubeRadius);`);
    };
  }

  // Find the objects by the names given when the page was written and prepare them. Colons separate their parts: names of bodies have none.
  adopt() {
    this.objects = new Map();
    for (const [id, json] of Object.entries(this.world.ObjectsListJson)) {
      const object = this.world.ObjectsById[id];
      object.matrixAutoUpdate = false;
      object.frustumCulled = false;
      object.traverse((part) => { part.frustumCulled = false; });
      this.objects.set(json.name, object);
    }
    this.flatten();
    // flat things on the ground: drawn first, in this order, without depth, so they can neither flicker nor hide anything
    const order = { "ground:platform": -5, "ground:grid": -4, "ground:axis": -3 };
    for (const [name, object] of this.objects) {
      const kind = name.split(":")[0];
      const rank = order[name] ?? (kind === "shadow" ? -2 : kind === "ghost" ? 2 : kind === "blur" ? 3 : 0);
      object.renderOrder = rank;
      object.traverse((part) => {
        part.renderOrder = rank;
        if (!part.material) return;
        if (rank < 0) part.material.depthWrite = false;
        if (rank > 0) part.material.depthWrite = kind === "ghost";
      });
    }
    const parts = (group, name) =>
      [...this.objects].filter(([key]) => key.startsWith(`${group}:${name}:`)).map(([, object]) => object);
    const body = (group) => (entry) => ({
      ...entry,
      data: this.array(entry.data),
      parts: parts(group, entry.name),
      blur: group === "body" ? parts("blur", entry.name) : [],
      shadow: group === "body" ? parts("shadow", entry.name) : [],
      matrix: null,
    });
    this.bodies = this.scene.bodies.map(body("body"));
    this.ghosts = this.scene.ghosts.map(body("ghost"));
    this.arrows = this.scene.arrows.map((arrow) => ({
      ...arrow,
      data: this.array(arrow.data),
      shaft: this.objects.get(`arrow:${arrow.name}:shaft`),
      head: this.objects.get(`arrow:${arrow.name}:head`),
      tag: this.tag(arrow.name, "tag-force"),
    }));
    this.trails = this.scene.trails.map((trail) => ({ ...trail, object: this.objects.get(`trail:${trail.name}`) }));
    this.ghostTag = this.ghosts.length ? this.tag("reference", "tag-ghost") : null;
    this.axisTags = this.scene.ground === null ? [] : this.scene.axes.map((axis) => this.tag(axis, "tag-axis"));
  }

  tag(text, kind) {
    const node = element("span", { class: `tag ${kind}` }, text);
    this.labels.append(node);
    this.tags.push(node);
    return node;
  }

  // A sun fixed in the world, from above, so that the shading shows up and down; K3D's lamps turn with the camera.
  light() {
    const { scene, keyLight, fillLight, headLight, backLight } = this.world;
    for (const [lamp, place, power] of [[keyLight, [0.35, -0.6, 1], 2.3], [fillLight, [-0.7, 0.5, 0.25], 0.75], [backLight, [0, 0, -1], 0.35]]) {
      scene.add(lamp, lamp.target);
      lamp.position.set(...place);
      lamp.target.position.set(0, 0, 0);
      lamp.intensity = power;
    }
    headLight.intensity = 0.5;
    scene.traverse((lamp) => { if (lamp.isAmbientLight) lamp.intensity = 1.3; });
  }

  paint(theme) {
    if (!this.world) return;
    for (const [name, object] of this.objects) {
      object.traverse((part) => {
        if (!part.material || !part.material.color) return;
        const hex = parseInt(this.palette.roles[this.roleOf(name)][theme].slice(1), 16);
        const rgb = [(hex >> 16) & 255, (hex >> 8) & 255, hex & 255].map((c) => c / 255);
        part.material.color.r = rgb[0];
        part.material.color.g = rgb[1];
        part.material.color.b = rgb[2];
        // arrows and ghosts emit a little light, so that they are visible from their dark side
        const own = { arrow: 0.5, ghost: 0.5, blur: 0.6 }[name.split(":")[0]] || 0;
        if (!part.material.emissive) return;
        part.material.emissive.copy(part.material.color).multiplyScalar(own);
        part.material.color.multiplyScalar(1 - own);
        part.material.roughness = 0.55;
      });
    }
    this.draw();
  }

  roleOf(name) {
    const [kind, first, last] = name.split(":");
    if (kind === "ground") return first === "platform" ? "ground" : first;
    if (kind === "arrow") return this.scene.arrows.find((arrow) => arrow.name === first).role;
    if (kind === "trail") return this.scene.trails.find((trail) => trail.name === first).role;
    return last;
  }

  resize() {
    if (!this.world) return;
    this.world.renderer.setPixelRatio(Math.min(window.devicePixelRatio || 1, 2));
    this.k3d.resizeHelper();
    // radius in metres of 1.3 pixels at a depth of one metre
    this.widthPerDepth.value = (1.3 * 2 * Math.tan((this.world.camera.fov * Math.PI) / 360)) / Math.max(this.host.clientHeight, 1);
    if (this.mode === "overview") this.setCamera("overview");
    else this.draw();
  }

  // Distance at which a sphere fits into the picture.
  distanceFor(radius) {
    const { camera } = this.world;
    const vertical = (camera.fov * Math.PI) / 360;
    const horizontal = Math.atan(Math.tan(vertical) * camera.aspect);
    return radius / Math.sin(Math.min(vertical, horizontal));
  }

  // Target and distance of the camera, so that every position of a body is in the picture and as large as possible.
  fit(azimuth, elevation) {
    const { center, radius, body } = this.scene.view;
    const { ground } = this.scene;
    const points = this.seen.map(([x, y, z]) => [x, y, z, 0]);
    for (const { name, radius: own, data, parent } of [...this.bodies, ...this.ghosts]) {
      if (parent !== undefined) continue;
      const size = name === this.scene.follow ? Math.max(body, own) : own;
      const step = 7 * Math.max(1, Math.floor(data.length / 7 / 400));
      for (let k = 4; k < data.length; k += step) points.push([data[k], data[k + 1], data[k + 2], size]);
    }
    // the ground below, unless it is far away
    if (ground !== null && center[2] - ground < Math.max(2 * radius, 5 * body)) points.push([center[0], center[1], ground, 0.2 * body]);
    const back = [Math.cos(elevation) * Math.cos(azimuth), Math.cos(elevation) * Math.sin(azimuth), Math.sin(elevation)];
    const right = [-Math.sin(azimuth), Math.cos(azimuth), 0];
    const up = cross(back, right);
    const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    const along = (axis) => points.map((p) => dot(p, axis));
    const middle = (list) => (Math.min(...list.map((x, k) => x - points[k][3])) + Math.max(...list.map((x, k) => x + points[k][3]))) / 2;
    const [x, y, z] = [along(right), along(up), along(back)];
    const [x0, y0, z0] = [middle(x), middle(y), dot(center, back)];
    const tangent = Math.tan((this.world.camera.fov * Math.PI) / 360);
    const aspect = this.host.clientWidth / Math.max(this.host.clientHeight, 1);
    const room = 0.93;
    let distance = 5 * body;
    for (let k = 0; k < points.length; k++) {
      const forward = z[k] - z0;
      const wide = (Math.abs(x[k] - x0) + points[k][3]) / (tangent * aspect * room);
      const high = (Math.abs(y[k] - y0) + points[k][3]) / (tangent * room);
      distance = Math.max(distance, forward + wide, forward + high);
    }
    return { target: [0, 1, 2].map((i) => right[i] * x0 + up[i] * y0 + back[i] * z0), distance };
  }

  setCamera(mode) {
    this.mode = mode;
    if (!this.world) return;
    const { camera, controls } = this.world;
    const { radius, body, near, azimuth, elevation } = this.scene.view;
    camera.aspect = this.host.clientWidth / Math.max(this.host.clientHeight, 1);
    camera.near = 0.05 * body;
    camera.far = 60 * radius;
    const look = (target, distance, angle) => {
      const h = distance * Math.cos(angle);
      camera.up.set(0, 0, 1);
      camera.position.set(target[0] + h * Math.cos(azimuth), target[1] + h * Math.sin(azimuth), target[2] + distance * Math.sin(angle));
      controls.target.set(...target);
    };
    if (mode === "overview") {
      const { target, distance } = this.fit(azimuth, elevation);
      look(target, distance, elevation);
    } else if (mode === "follow") {
      look(this.followed(), this.distanceFor(Math.max(2.4 * body, 1.1 * (near || 0))), 0.24);
    }
    camera.updateProjectionMatrix();
    controls.update();
    this.draw();
  }

  followed() {
    const body = this.bodies.find((entry) => entry.name === this.scene.follow);
    return (body && body.matrix ? body.matrix.slice(12, 15) : this.scene.view.center).map(Number);
  }

  setTime(t, elapsed = 0) {
    this.time = t;
    if (!this.world) return;
    const before = this.followed();
    const at = this.frames.at(t);
    this.place(this.bodies, at, elapsed);
    this.place(this.ghosts, at, 0);
    for (const arrow of this.arrows) this.placeArrow(arrow, at);
    const part = (t - this.frames.first) / (this.frames.last - this.frames.first);
    const { trailSegments, trailIndices } = this.scene.view;
    for (const trail of this.trails) {
      trail.object.visible = this.shown.trails && (!trail.dashed || this.shown.ghosts);
      if (trail.dashed) continue;
      trail.object.traverse((mesh) => mesh.geometry && mesh.geometry.setDrawRange(0, Math.round(part * trailSegments) * trailIndices));
    }
    if (this.mode === "follow") {
      const after = this.followed();
      const { camera, controls } = this.world;
      for (const [i, axis] of ["x", "y", "z"].entries()) {
        camera.position[axis] += after[i] - before[i];
        controls.target[axis] += after[i] - before[i];
      }
      controls.update();
    }
    this.draw();
  }

  put(object, matrix) {
    object.matrix.fromArray(matrix);
    object.matrixWorldNeedsUpdate = true;
  }

  place(bodies, at, elapsed) {
    const quaternion = [0, 0, 0, 0], position = [0, 0, 0];
    const ghost = bodies === this.ghosts;
    for (const body of bodies) {
      if (body.parent === undefined) {
        slerp(body.data, 7, at, quaternion);
        lerp(body.data, 7, 4, 3, at, position);
        body.matrix = this.given?.get(body.name) ?? poseMatrix(quaternion, position);
      }
    }
    for (const body of bodies) {
      if (body.parent !== undefined) this.spin(body, bodies, at, elapsed);
      for (const object of body.parts) {
        this.put(object, body.matrix);
        object.visible = !ghost || this.shown.ghosts;
      }
      for (const object of body.blur) this.put(object, body.matrix);
      for (const object of body.shadow) this.castShadow(object, body.matrix);
    }
  }

  // A part that turns on another body. If it turns too fast for the eye between two frames, it is drawn as a disc, with
  // blades that turn in the right sense at the largest visible speed.
  spin(body, bodies, at, elapsed) {
    const parent = bodies.find((entry) => entry.name === body.parent);
    const angle = lerp(body.data, 1, 0, 1, at, [0])[0] + body.first;
    const state = this.turned.get(body.name) || { angle, shown: angle, fast: 0 };
    const step = angle - state.angle;
    const largest = 0.7;
    if (elapsed > 0 && Math.abs(step) > largest) {
      state.shown += Math.sign(step) * largest;
      state.fast = Math.min(1, state.fast + 0.2);
    } else {
      state.shown = angle;
      state.fast = elapsed > 0 ? Math.max(0, state.fast - 0.2) : state.fast;
    }
    state.angle = angle;
    this.turned.set(body.name, state);
    body.matrix = multiply(multiply(parent.matrix, body.mount), turnAboutZ(state.shown));
    for (const object of body.blur) object.visible = state.fast > 0.1;
  }

  castShadow(object, matrix) {
    const { ground } = this.scene;
    object.visible = ground !== null && matrix[14] > ground;
    if (!object.visible) return;
    const flat = matrix.slice();
    for (const row of [2, 6, 10]) flat[row] = 0;
    flat[14] = ground;
    this.put(object, flat);
  }

  placeArrow(arrow, at) {
    const origin = lerp(arrow.data, 6, 0, 3, at, [0, 0, 0]);
    const vector = lerp(arrow.data, 6, 3, 3, at, [0, 0, 0]);
    const size = Math.hypot(...vector);
    const length = size * arrow.scale;
    const head = Math.min(this.scene.view.arrowHead, 0.6 * length);
    const visible = this.shown.arrows && length > 1e-4 * this.scene.view.body;
    arrow.shaft.visible = arrow.head.visible = visible;
    arrow.size = size;
    arrow.tip = origin.map((x, i) => x + arrow.scale * vector[i]);
    if (!visible) return;
    const z = vector.map((x) => x / size);
    this.put(arrow.shaft, alongMatrix(z, length - head, origin));
    const shrink = head / this.scene.view.arrowHead;
    const matrix = alongMatrix(z, 1, origin.map((x, i) => x + (length - head) * z[i]));
    for (let i = 0; i < 12; i++) matrix[i] *= shrink;
    this.put(arrow.head, matrix);
  }

  draw() {
    if (!this.world) return;
    this.world.render();
    this.placeTags();
  }

  placeTags() {
    const { camera } = this.world;
    camera.updateMatrixWorld();
    const width = this.host.clientWidth, height = this.host.clientHeight;
    const Vector = camera.position.constructor;
    const taken = [];
    const put = (node, point, visible) => {
      node.hidden = !visible;
      if (!visible) return;
      const p = new Vector(...point).project(camera);
      const x = ((p.x + 1) / 2) * width, y = ((1 - p.y) / 2) * height;
      // a label that would cover an earlier one is omitted
      const box = [x, y, x + 7 * node.textContent.length, y + 15];
      const covers = taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
      node.hidden = covers || p.z > 1 || Math.abs(p.x) > 1 || Math.abs(p.y) > 1;
      if (node.hidden) return;
      taken.push(box);
      node.style.transform = `translate(${x}px, ${y}px)`;
    };
    const on = this.shown.labels;
    for (const arrow of this.arrows) {
      if (on && arrow.tip) arrow.tag.textContent = `${arrow.name}  ${formatNumber(arrow.size)} ${arrow.unit}`;
      put(arrow.tag, arrow.tip || [0, 0, 0], on && this.shown.arrows && Boolean(arrow.tip));
    }
    const { view, ground } = this.scene;
    if (this.ghostTag) {
      const ghost = this.ghosts[0].matrix;
      put(this.ghostTag, ghost ? [ghost[12], ghost[13], ghost[14] - 0.6 * view.body] : [0, 0, 0], on && this.shown.ghosts && Boolean(ghost));
    }
    for (const [k, node] of this.axisTags.entries()) {
      const end = [0, 0, ground];
      end[k] = view.center[k] + view.platform * 1.03;
      put(node, end, true);
    }
  }

  show(what, visible) {
    this.shown[what] = visible;
    this.setTime(this.time);
  }
}
