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
  'disconnected', 'unsent', 'skipped'];
const FAILURES = ['refused', 'failed', 'timeout', 'unsent'];

function base36(text) {
  return parseInt(text || '0', 36);
}

// The first and last value of a bucket (client/load/figures/histogram.h).
function bucket(i) {
  if (i < 2048) return [i, i];
  const shift = Math.floor((i - 2048) / 1024) + 1;
  const from = (1024 + (i - 2048) % 1024) * 2 ** shift;
  return [from, from + 2 ** shift - 1];
}

// "lost,min,max,sum;step:count,step,.." in base 36; a count of 1 is left out (client/load/figures/histogram_text.c).
// Buckets are read when they are needed: a result has thousands of histograms.
class Histogram {
  constructor(text) {
    const [head, buckets] = (text ?? '').split(';');
    const [lost, min, max, sum] = head.split(',');
    [this.lost, this.min, this.max, this.sum] = [lost, min, max, sum].map(
      base36);
    this.text = buckets ?? '';
  }

  // [first value, last value, count, values up to here]
  get at() {
    if (this.read) return this.read;
    let i = 0, sum = 0;
    this.read = this.text.split(',').filter(Boolean).map((part) => {
      const [step, count] = part.split(':');
      const [from, to] = bucket(i += base36(step));
      sum += base36(count ?? '1');
      return [from, to, base36(count ?? '1'), sum];
    });
    return this.read;
  }

  get n() { return this.at.length ? this.at[this.at.length - 1][3] : 0; }
  get total() { return this.n + this.lost; }
  get mean() { return this.n ? this.sum / this.n : 0; }

  // undefined of no value
  quantile(q) {
    if (!this.total) return undefined;
    const rank = Math.max(1, Math.ceil(q * this.total - 1e-9));
    if (rank > this.n) return Infinity;
    if (rank === this.n) return this.max;
    if (rank === 1) return this.min;
    let low = 0, high = this.at.length - 1;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (this.at[mid][3] >= rank) high = mid; else low = mid + 1;
    }
    return Math.min(this.max, this.at[low][1]);
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

function readSet(p, name) {
  return Object.fromEntries(['total', 'free', 'held', 'cached', 'granted']
    .map((part) => [part, p[`${name}_${part}`]]));
}

function readPoint(p) {
  return { at: p.at_us, workers: p.n_workers, waiting: p.n_waiting,
    running: p.n_running, suspended: p.n_suspended ?? 0,
    pages: readSet(p, 'pages'), slots: readSet(p, 'slots') };
}

function readRow(r) {
  return { from: r.from_us, to: r.to_us, due: r.n_due, ended: r.outcomes,
    good: r.n_good, output: r.n_output, prompt: r.n_prompt,
    inFlight: r.in_flight_max, lag: r.lag_max_us,
    ttft: new Histogram(r.ttft), itl: new Histogram(r.itl),
    e2e: new Histogram(r.e2e) };
}

// Confidence intervals in microseconds or tokens, by the names of columns.
function readSpans(m, timed) {
  return Object.fromEntries(Object.entries(m?.intervals ?? {}).map(
    ([k, span]) => [k === 'p999' ? 'p99.9' : k,
      span.map((x) => timed ? x * 1000 : x)]));
}

function readMetrics(raw) {
  return Object.fromEntries(METRICS.map(([key, , , timed]) => {
    const m = new Histogram(raw?.[key]?.histogram);
    m.spans = readSpans(raw?.[key], timed);
    return [key, m];
  }));
}

function readLevel(l) {
  return { n: l.in_flight, ttft: new Histogram(l.ttft),
    itl: new Histogram(l.itl) };
}

function readTally(t, rates) {
  const outcomes = Object.fromEntries(OUTCOMES.map((k) =>
    [k, t.outcomes?.[k] ?? 0]));
  const all = OUTCOMES.reduce((sum, k) => sum + outcomes[k], 0);
  return { metrics: readMetrics(t.metrics), outcomes, all,
    wanted: all - outcomes.cancelled - outcomes.disconnected -
      outcomes.skipped,
    warm: t.n_warm, good: t.n_good, slowReaders: t.n_slow_readers,
    receipts: t.n_receipts, leaked: t.n_leaked, badStreams: t.n_bad_streams,
    chunked: t.n_chunked ?? 0,
    resumed: t.n_resumed, moves: t.n_moves, promptTokens: t.n_prompt,
    outputTokens: t.n_output, cached: t.n_cached, checked: t.n_checked,
    differ: t.n_differ, gapMax: t.gap_max_us, from: t.from_us ?? 0,
    to: t.to_us ?? 0,
    rows: (t.rows ?? []).map(readRow), levels: (t.levels ?? []).map(readLevel),
    whys: t.whys ?? [], requestsPerS: rates?.requests_per_s,
    tokensPerS: rates?.output_tokens_per_s, goodput: rates?.goodput_per_s };
}

function readRun(r, number) {
  const tally = readTally(r.tally ?? {}, r.rates);
  return { ...tally, number, role: r.role, load: r.load, closed: r.closed,
    plan: r.plan, started: r.started, invalid: r.invalid || tally.all === 0,
    why: r.why_invalid || (tally.all === 0 ? 'nothing was measured' : ''),
    stopped: r.stopped, points: (r.points ?? []).map(readPoint),
    events: (r.events ?? []).map((e) =>
      ({ at: e.at_us, text: e.text, code: e.exit_code })),
    audited: r.audited, auditOk: r.audit_ok, audit: r.audit };
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
