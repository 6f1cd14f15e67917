// Modules of compiled code: functions of arrays, and steps of a motion. Addresses are bytes, numbers are 64 bits.

class Memory {
  constructor(instance, free) {
    this.memory = instance.exports.memory;
    this.end = free;
  }
  // Address of so many doubles, aligned to 16 bytes; the memory grows, so the reader makes its views again.
  take(doubles) {
    const at = Math.ceil(this.end / 16) * 16;
    this.end = at + 8 * Math.max(doubles, 1);
    const missing = this.end - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / 65536));
    return at;
  }
  view(at, doubles) {
    return new Float64Array(this.memory.buffer, at, doubles);
  }
}

// Functions (inputs) -> outputs; each call returns new arrays.
class Functions {
  constructor(bytes, { free, scratch, functions }) {
    const instance = new WebAssembly.Instance(new WebAssembly.Module(bytes));
    const memory = new Memory(instance, free);
    const area = memory.take(scratch / 8);
    for (const [name, { inputs, outputs }] of Object.entries(functions)) {
      const given = inputs.map((size) => memory.take(size)), made = outputs.map((size) => memory.take(size));
      this[name] = (...values) => {
        values.forEach((value, i) => memory.view(given[i], inputs[i]).set(value));
        instance.exports[name](...given, ...made, area);
        return made.map((at, i) => memory.view(at, outputs[i]).slice());
      };
    }
  }
}

// A loop over steps. Buffers are views of all trajectories, row by row; tables hold a number of samples for all of them.
class Step {
  constructor(bytes, meta, { count = 1, records = 2, samples = {} } = {}) {
    const { free, scratch, words, sizes, state, held, constants, tables, record } = meta;
    const instance = new WebAssembly.Instance(new WebAssembly.Module(bytes));
    const memory = new Memory(instance, free);
    Object.assign(this, { meta, count, records, go: instance.exports.run, persistent: [...state, ...held] });
    const places = {};
    const room = (name, rows) => [memory.take(rows * sizes[name]), rows * sizes[name]];
    const at = { words: memory.take(words.length), scratch: memory.take(scratch / 8), failed: memory.take(count) };
    for (const name of this.persistent) places[name] = room(name, count);
    for (const name of constants) places[name] = room(name, count);
    for (const name of tables) places[name] = room(name, samples[name] ?? 1);
    const kept = Object.fromEntries(record.map((name) => [name, room(name, records * count)]));
    // all room is taken: from here on views stay valid
    const views = (group) => Object.fromEntries(Object.entries(group).map(([name, [start, size]]) => [name, memory.view(start, size)]));
    this.buffers = views(places);
    this.recorded = views(kept);
    this.words = new BigInt64Array(memory.memory.buffer, at.words, words.length);
    this.numbers = memory.view(at.words, words.length);
    this.failed = new BigInt64Array(memory.memory.buffer, at.failed, count);
    this.place = Object.fromEntries(words.map((name, k) => [name, k]));
    this.address = at.words;
    const put = (name, value) => { this.words[this.place[name]] = BigInt(value); };
    put("count", count);
    put("scratch", at.scratch);
    put("failed", at.failed);
    for (const name of [...this.persistent, ...constants]) {
      put(`${name}.base`, places[name][0]);
      put(`${name}.row`, 8 * sizes[name]);
    }
    for (const name of tables) {
      put(`${name}.base`, places[name][0]);
      put(`${name}.row`, 0);
      put(`${name}.sample`, 8 * sizes[name]);
      put(`${name}.samples`, samples[name] ?? 1);
      put(`${name}.hold`, 1);
    }
    for (const name of record) {
      put(`${name}.record.base`, kept[name][0]);
      put(`${name}.record.row`, 8 * sizes[name]);
      put(`${name}.record.step`, 8 * sizes[name] * count);
    }
    this.put = put;
  }

  // Copies of the state of all trajectories.
  kept() {
    return this.persistent.map((name) => this.buffers[name].slice());
  }
  restore(kept) {
    this.persistent.forEach((name, i) => this.buffers[name].set(kept[i]));
  }

  // Steps number `first` to `first + steps - 1`, with a record before every `every`-th of them and at the end; the number of records.
  run(first, steps, every, startTime, stepSize) {
    const { put, place, numbers } = this;
    for (const [name, value] of Object.entries({ first, begin: first, end: first + steps + 1, final: first + steps, every })) put(name, value);
    numbers[place.start_time] = startTime;
    numbers[place.step_size] = stepSize;
    this.failed.fill(-1n);
    this.go(this.address);
    return Math.floor(steps / every) + 1;
  }
}
