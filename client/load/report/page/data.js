// data.js - The result as charts want it.  Every name of the JSON is here.
//
// Times are microseconds.  A value among the lost ones, requests that failed,
// is Infinity.

const METRICS = [
  ['ttft', 'TTFT', 'time to first token', true],
  ['ttft_sent', 'TTFT from send', 'first token − send', true],
  ['itl', 'ITL', 'inter-token latency', true],
  ['tpot', 'TPOT', 'time per output token, mean of a request', true],
  ['e2e', 'E2E', 'end-to-end', true],
  ['e2e_sent', 'E2E from send', 'end − send', true],
  ['queue', 'Queue', 'waiting, as the server reports', true],
  ['lag', 'Own lag', 'send − intended start', true],
  ['prompt', 'Prompt', 'tokens', false],
  ['output', 'Output', 'tokens', false],
];
const OUTCOMES = ['ok', 'refused', 'failed', 'timeout', 'cancelled',
  'disconnected', 'unsent'];
const FAILURES = ['refused', 'failed', 'timeout', 'unsent'];

// The first and last value of a bucket (client/load/figures/histogram.h).
function bucket(i) {
  if (i < 2048) return [i, i];
  const shift = Math.floor((i - 2048) / 1024) + 1;
  const from = (1024 + (i - 2048) % 1024) * 2 ** shift;
  return [from, from + 2 ** shift - 1];
}

class Histogram {
  constructor(raw) {
    this.n = raw?.n ?? 0;
    this.lost = raw?.lost ?? 0;
    this.min = raw?.min ?? 0;
    this.max = raw?.max ?? 0;
    this.mean = this.n ? (raw?.sum ?? 0) / this.n : 0;
    this.at = []; // [first value, last value, count, values up to here]
    let i = 0, sum = 0;
    for (const part of (raw?.counts || '').split(',').filter(Boolean)) {
      const [step, count] = part.split(':').map((x) => parseInt(x, 36));
      i += step;
      sum += count;
      const [from, to] = bucket(i);
      this.at.push([from, to, count, sum]);
    }
  }

  get total() { return this.n + this.lost; }

  // undefined of no value
  quantile(q) {
    if (!this.total) return undefined;
    const rank = Math.max(1, Math.ceil(q * this.total - 1e-9));
    if (rank > this.n) return Infinity;
    if (rank === this.n) return this.max;
    let low = 0, high = this.at.length - 1;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (this.at[mid][3] >= rank) high = mid; else low = mid + 1;
    }
    const to = this.at[low]?.[1] ?? this.max;
    return Math.min(this.max, Math.max(this.min, to));
  }

  // Counts between edges[i] and edges[i + 1].
  bins(edges) {
    const out = new Array(edges.length - 1).fill(0);
    let i = 0;
    for (const [from, to, count] of this.at) {
      const middle = (from + to) / 2;
      while (i < out.length - 1 && middle >= edges[i + 1]) i++;
      if (middle <= edges[out.length]) out[i] += count;
    }
    return out;
  }
}

function readSet(raw) {
  return { total: raw?.total ?? 0, free: raw?.free ?? 0, held: raw?.held ?? 0,
    cached: raw?.cached ?? 0, granted: raw?.granted ?? 0 };
}

function readPoint(p) {
  return { at: p.at_us, workers: p.workers, waiting: p.waiting,
    running: p.running, blocks: readSet(p.blocks), slots: readSet(p.slots) };
}

function readRow(r) {
  const ended = Object.fromEntries(OUTCOMES.map((k) =>
    [k, r.ended?.[k] ?? 0]));
  return { from: r.from_us, to: r.to_us, due: r.due, ended, good: r.good,
    output: r.output, prompt: r.prompt, inFlight: r.in_flight_max,
    lag: r.lag_max_us, ttft: new Histogram(r.ttft),
    itl: new Histogram(r.itl), e2e: new Histogram(r.e2e) };
}

function readRun(r, number) {
  const metrics = {};
  for (const [key] of METRICS) {
    metrics[key] = new Histogram(r.metrics?.[key]);
    metrics[key].spans = r.metrics?.[key]?.intervals ?? {};
  }
  const outcomes = Object.fromEntries(OUTCOMES.map((k) =>
    [k, r.outcomes?.[k] ?? 0]));
  return { number, role: r.role, load: r.load, closed: r.closed, plan: r.plan,
    started: r.started, invalid: r.invalid, why: r.why_invalid,
    stopped: r.stopped, points: (r.points ?? []).map(readPoint),
    events: (r.events ?? []).map((e) =>
      ({ at: e.at_us, text: e.text, code: e.exit_code })),
    audited: r.audited, auditOk: r.audit_ok, audit: r.audit, metrics,
    outcomes, warm: r.warm, good: r.good, wanted: r.wanted,
    slowReaders: r.slow_readers, receipts: r.receipts, leaked: r.leaked,
    badStreams: r.bad_streams, resumed: r.resumed, moves: r.moves,
    promptTokens: r.n_prompt, outputTokens: r.n_output, cached: r.n_cached,
    checked: r.checked, differ: r.differ, gapMax: r.gap_max_us,
    from: r.from_us, to: r.to_us, rows: (r.rows ?? []).map(readRow),
    rowUs: r.row_us,
    levels: (r.levels ?? []).map((l) => ({ n: l.in_flight,
      ttft: new Histogram(l.ttft), itl: new Histogram(l.itl) })),
    whys: r.whys ?? [], requestsPerS: r.requests_per_s,
    tokensPerS: r.tokens_per_s, goodput: r.goodput };
}

function readResult(raw) {
  const o = raw.objectives ?? {};
  const limits = ['ttft', 'tpot', 'itl', 'e2e'].filter((k) => o[k + '_us'])
    .map((k) => [k, o[k + '_us']]);
  return { title: raw.title, target: raw.target, model: raw.model,
    command: raw.command, host: raw.host, limits, attain: o.attain,
    lagMax: raw.lag_max_us, runs: (raw.runs ?? []).map(readRun),
    search: raw.search ?? null };
}

function failures(run) {
  return FAILURES.reduce((sum, k) => sum + run.outcomes[k], 0);
}

function ended(run) {
  return OUTCOMES.reduce((sum, k) => sum + run.outcomes[k], 0);
}
