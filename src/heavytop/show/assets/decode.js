// Reading the data inside this file, and values between samples.

const base64Bytes = (id) => {
  const text = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
};

const inflate = async (bytes) => {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
};

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// A frame number with fraction, and the value of an angle, a vector or a pose there.
class Frames {
  constructor({ first, last, count }) {
    Object.assign(this, { first, last, count });
  }
  at(t) {
    const x = clamp(((t - this.first) / (this.last - this.first)) * (this.count - 1), 0, this.count - 1);
    const k = Math.min(Math.floor(x), this.count - 2);
    return { k, s: x - k };
  }
}

const lerp = (data, width, offset, size, { k, s }, out) => {
  const a = k * width + offset;
  for (let i = 0; i < size; i++) out[i] = data[a + i] + s * (data[a + width + i] - data[a + i]);
  return out;
};

// Shortest arc between unit quaternions w, x, y, z; neighbours have the same sign.
const slerp = (data, width, { k, s }, out) => {
  const a = k * width, b = a + width;
  let dot = 0;
  for (let i = 0; i < 4; i++) dot += data[a + i] * data[b + i];
  const angle = Math.acos(clamp(dot, -1, 1));
  const sine = Math.sin(angle);
  const first = sine > 1e-5 ? Math.sin((1 - s) * angle) / sine : 1 - s;
  const second = sine > 1e-5 ? Math.sin(s * angle) / sine : s;
  let norm = 0;
  for (let i = 0; i < 4; i++) {
    out[i] = first * data[a + i] + second * data[b + i];
    norm += out[i] * out[i];
  }
  norm = Math.sqrt(norm);
  for (let i = 0; i < 4; i++) out[i] /= norm;
  return out;
};

// 4x4 matrices are 16 numbers column by column.
const poseMatrix = ([w, x, y, z], [px, py, pz]) => [
  1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y), 0,
  2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x), 0,
  2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y), 0,
  px, py, pz, 1,
];

const multiply = (a, b) => {
  const c = new Array(16).fill(0);
  for (let j = 0; j < 4; j++)
    for (let i = 0; i < 4; i++)
      for (let k = 0; k < 4; k++) c[4 * j + i] += a[4 * k + i] * b[4 * j + k];
  return c;
};

const turnAboutZ = (angle) => {
  const c = Math.cos(angle), s = Math.sin(angle);
  return [c, s, 0, 0, -s, c, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1];
};

const normalized = (v) => {
  const n = Math.hypot(...v) || 1;
  return v.map((x) => x / n);
};

const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];

// Pose with z along a unit vector, the z column stretched by a factor.
const alongMatrix = (z, stretch, at) => {
  const helper = Math.abs(z[0]) < 0.7 ? [1, 0, 0] : [0, 1, 0];
  const x = normalized(cross(helper, z));
  const y = cross(z, x);
  return [...x, 0, ...y, 0, ...z.map((e) => e * stretch), 0, ...at, 1];
};

// Value of a curve between its samples (times increase).
const valueAt = (times, values, t) => {
  let low = 0, high = times.length - 1;
  if (t <= times[0]) return values[0];
  if (t >= times[high]) return values[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle] <= t) low = middle;
    else high = middle;
  }
  return values[low] + ((t - times[low]) / (times[high] - times[low])) * (values[high] - values[low]);
};

// Three significant digits, or four relative to the largest value, without an exponent where possible; a real minus sign.
const formatNumber = (x, largest = 0) => {
  if (x === 0) return "0";
  const size = Math.max(Math.abs(x), largest);
  if (size >= 1e5 || size < 1e-4) return x.toExponential(2).replace("e-", "e−").replace("e+", "e").replace(/^-/, "−");
  const digits = Math.min(Math.max((largest ? 3 : 2) - Math.floor(Math.log10(size)), 0), 6);
  const text = x.toFixed(digits);
  return Number(text) === 0 ? "0" : text.replace(/^-/, "−");
};

const element = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

const svg = (name, attributes = {}, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

// The speed, of 1, 2 and 5 times powers of ten, nearest to real time at which a motion takes 5 to 15 s.
const niceSpeed = (duration) => {
  const fits = [];
  for (let power = -6; power <= 6; power++)
    for (const m of [1, 2, 5]) {
      const speed = Number(`${m}e${power}`);
      if (duration / speed >= 5 && duration / speed <= 15) fits.push(speed);
    }
  return fits.sort((a, b) => Math.abs(Math.log(a)) - Math.abs(Math.log(b)))[0] ?? 1;
};
