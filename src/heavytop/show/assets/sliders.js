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
    this.node = element("figure", { class: "panel sliders" }, element("figcaption", {}, element("h2", {}, "Joints")));
    this.joints.forEach((joint, k) => this.node.append(this.row(joint, k)));
    this.move();
  }

  row(joint, k) {
    const shown = element("output", {}, `${formatNumber(joint.value)} ${joint.unit}`);
    const box = element("input", { type: "range", min: joint.low, max: joint.high, step: "any", value: joint.value, "aria-label": joint.name });
    box.addEventListener("input", () => {
      this.values[k] = Number(box.value);
      shown.textContent = `${formatNumber(this.values[k])} ${joint.unit}`;
      this.move();
    });
    return element("label", {}, element("span", {}, joint.name), box, shown);
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
