// Sliders for the joints of a model at rest: the poses of its bodies follow from the tree of frames.

const turnAbout = ([x, y, z], angle) => {
  const c = Math.cos(angle), s = Math.sin(angle), d = 1 - c;
  return [
    c + x * x * d, y * x * d + z * s, z * x * d - y * s, 0,
    x * y * d - z * s, c + y * y * d, z * y * d + x * s, 0,
    x * z * d + y * s, y * z * d - x * s, c + z * z * d, 0,
    0, 0, 0, 1,
  ];
};

const rigidInverse = (m) => {
  const r = [m[0], m[4], m[8], 0, m[1], m[5], m[9], 0, m[2], m[6], m[10], 0];
  const t = [0, 1, 2].map((i) => -(m[4 * i] * m[12] + m[4 * i + 1] * m[13] + m[4 * i + 2] * m[14]));
  return [...r, ...t, 1];
};

class Sliders {
  constructor({ root, edges, joints, bodies }, stage) {
    Object.assign(this, { root, edges, joints, bodies, stage });
    this.values = joints.map((joint) => joint.value);
    this.degrees = false;
    this.shown = [];
    const box = element("input", { type: "checkbox" });
    box.addEventListener("input", () => {
      this.degrees = box.checked;
      this.joints.forEach((_, k) => this.write(k));
    });
    const turns = joints.some((joint) => joint.unit === "rad");
    const choice = turns ? [element("label", { class: "unit" }, box, "degrees")] : [];
    this.node = element("figure", { class: "panel sliders" }, element("figcaption", {}, element("h2", {}, "Joints"), ...choice));
    this.joints.forEach((joint, k) => this.node.append(this.row(joint, k)));
    this.move();
  }

  row(joint, k) {
    const shown = element("output", {});
    const range = element("small", { class: joint.limited ? "limits" : "limits none" });
    this.shown.push([shown, range]);
    const box = element("input", { type: "range", min: joint.low, max: joint.high, step: "any", value: joint.value, "aria-label": joint.name });
    box.addEventListener("input", () => {
      this.values[k] = Number(box.value);
      this.write(k);
      this.move();
    });
    this.write(k);
    return element("label", {}, element("span", {}, joint.name), box, shown, range);
  }

  // The value and the limits of a joint, in rad, degrees or m.
  write(k) {
    const joint = this.joints[k], [shown, range] = this.shown[k], turned = this.degrees && joint.unit === "rad";
    const text = (x) => formatNumber(turned ? (x * 180) / Math.PI : x);
    shown.textContent = `${text(this.values[k])} ${turned ? "°" : joint.unit}`;
    range.textContent = joint.limited ? `${text(joint.low)} … ${text(joint.high)}` : "no limits";
  }

  move() {
    const poses = new Map([["world", this.root]]);
    for (const { frame, parent, forward, at, joint, ratio, offset, axis, slides } of this.edges) {
      let link = at;
      if (joint !== undefined) {
        const x = ratio * this.values[joint] + offset;
        link = multiply(at, slides ? [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, ...axis.map((e) => x * e), 1] : turnAbout(axis, x));
      }
      poses.set(frame, multiply(poses.get(parent), forward ? link : rigidInverse(link)));
    }
    this.stage.given = new Map(Object.entries(this.bodies).map(([name, { frame, offset }]) => [name, multiply(poses.get(frame), offset)]));
    this.stage.setTime(this.stage.time, 0);
  }
}
