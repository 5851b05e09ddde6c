// time.js - What happened over time: charts on one axis.

const QUANTILES = [
  [0.5, 'p50', 'line s1'],
  [0.9, 'p90', 'line thin dash s1'],
  [0.99, 'p99', 'line s2'],
];

const KINDS = [
  ['good', 'in objectives', 'solid f1'],
  ['ok', 'ok', 'solid f1'],
  ['slow', 'ok, objective missed', 'solid f5'],
  ['failed', 'failed', 'solid f2'],
  ['refused', 'refused', 'solid f4'],
  ['timeout', 'timed out', 'solid f2'],
  ['unsent', 'not sent', 'solid f4'],
  ['cancelled', 'cancelled', 'solid f6'],
  ['disconnected', 'disconnected', 'solid f6'],
  ['skipped', 'skipped', 'solid f6'],
];

function middle(r) {
  return (r.from + r.to) / 2;
}

// Stretches in which requests were in flight and no token came.
function silences(run) {
  const out = [];
  for (const r of run.rows) {
    if (r.output || !r.inFlight) continue;
    const last = out[out.length - 1];
    if (last && last[1] === r.from) last[1] = r.to; else out.push([r.from,
      r.to]);
  }
  return out;
}

function timeHead(r) {
  return `${clock(r.from)} – ${clock(r.to)}`;
}

function latencyOverTime(run, key, title, common, log) {
  const q = run.rows.map((r) => QUANTILES.map(([p]) => r[key].quantile(p)));
  const lost = run.rows.filter((_, k) => q[k][2] === Infinity);
  const points = (i) => run.rows.map((r, k) => [middle(r), q[k][i]]);
  return chart({ ...common, title, height: 132, yText: shortTime,
    y: scaleOf(q.flat(), log),
    keys: [...QUANTILES.map(([, name, cls]) => [cls, name]),
      ...(lost.length ? [['lost', 'p99 lost: requests failed']] : [])],
    layers: [...common.under,
      { kind: 'lost', points: lost.map((r) => [r.from, r.to]) },
      { kind: 'band', cls: 'band f1',
        points: run.rows.map((r, k) => [middle(r), q[k][0], q[k][2]]) },
      ...QUANTILES.map(([, , cls], i) => ({ kind: 'line', cls,
        points: points(i) })), ...common.over],
    probe: { xs: run.rows.map(middle), head: (i) => timeHead(run.rows[i]),
      rows: (i) => [...QUANTILES.map(([, name, cls], k) =>
        [cls, name, exact(q[i][k])]),
        ['', 'values', count(run.rows[i][key].n)],
        ...(run.rows[i][key].lost
          ? [['', 'lost', count(run.rows[i][key].lost)]] : [])] } });
}

// Requests by what became of them; a share of a row a second.
function outcomeParts(r, objectives) {
  const parts = { ...r.ended };
  if (objectives) {
    parts.good = r.good;
    parts.slow = r.ended.ok - r.good;
    delete parts.ok;
  }
  return parts;
}

function stack(rows, kinds, value) {
  const base = new Array(rows.length).fill(0);
  return kinds.map(([key, , cls]) => ({ kind: 'steps', cls,
    points: rows.map((r, i) => {
      const from = base[i];
      base[i] += value(r, key);
      return [r.from, r.to, from, base[i]];
    }) }));
}

function perSecond(r, n) {
  return n / ((r.to - r.from) / 1e6);
}

function requestsOverTime(run, objectives, common) {
  const parts = run.rows.map((r) => ({ ...r,
    parts: outcomeParts(r, objectives) }));
  const kinds = KINDS.filter(([key]) => parts.some((r) => r.parts[key]));
  return chart({ ...common, title: 'Requests per second, by intended start',
    height: 116, yText: short,
    y: scaleOf(run.rows.map((r) => perSecond(r, r.due))),
    keys: [...kinds.map(([, name, cls]) => [cls, name]),
      ['line thin s6', 'due']],
    layers: [...common.under, ...stack(parts, kinds,
      (r, key) => perSecond(r, r.parts[key] ?? 0)),
      { kind: 'outline', cls: 'line thin s6',
        points: run.rows.map((r) => [r.from, r.to, perSecond(r, r.due)]) },
      ...common.over],
    probe: { xs: run.rows.map(middle), head: (i) => timeHead(run.rows[i]),
      rows: (i) => [['line thin s6', 'due', count(run.rows[i].due)],
        ...kinds.map(([key, name, cls]) =>
          [cls, name, count(parts[i].parts[key] ?? 0)])] } });
}

function stepsOverTime(run, title, name, cls, value, common) {
  return chart({ ...common, title, height: 84, yText: short,
    y: scaleOf(run.rows.map(value)),
    layers: [...common.under,
      { kind: 'steps', cls: `band f${cls}`,
        points: run.rows.map((r) => [r.from, r.to, 0, value(r)]) },
      { kind: 'outline', cls: `line thin s${cls}`,
        points: run.rows.map((r) => [r.from, r.to, value(r)]) },
      ...common.over],
    probe: { xs: run.rows.map(middle), head: (i) => timeHead(run.rows[i]),
      rows: (i) => [[`line thin s${cls}`, name, short(value(run.rows[i]))]] },
  });
}

const POOL = [
  ['held', 'held by requests', 'solid f1'],
  ['granted', 'granted', 'solid f5'],
  ['cached', 'cached', 'solid f3'],
  ['free', 'free', 'solid f7'],
];

function pointsAsRows(run) {
  return run.points.map((p, i) => ({ ...p, from: p.at,
    to: run.points[i + 1]?.at ?? Math.max(run.to, p.at) }));
}

function poolOverTime(run, key, title, common) {
  const rows = pointsAsRows(run);
  return chart({ ...common, title, height: 100, yText: short,
    y: scaleOf(rows.map((p) => p[key].total)),
    keys: POOL.map(([, name, cls]) => [cls, name]),
    layers: [...stack(rows, POOL, (p, part) => p[key][part]), ...common.over],
    probe: { xs: rows.map((p) => p.at), head: (i) => clock(rows[i].at),
      rows: (i) => [...POOL.map(([part, name, cls]) => [cls, name,
        `${count(rows[i][key][part])} · ${share(rows[i][key][part],
          rows[i][key].total)}`]),
        ['', 'total', count(rows[i][key].total)]] } });
}

const QUEUE = [
  ['waiting', 'waiting', 'line s2'],
  ['running', 'running', 'line s1'],
];
const SUSPENDED = ['suspended', 'suspended', 'line s3'];

// "2 → 1 → 2": the numbers of workers in their order.
function workersText(run) {
  const all = run.points.map((p) => p.workers);
  const steps = all.filter((n, i) => n !== all[i - 1]);
  return (steps.length > 6 ? [...steps.slice(0, 5), '…', steps.at(-1)]
    : steps).join(' → ');
}

function queueOverTime(run, common) {
  const rows = pointsAsRows(run);
  const lines = rows.some((p) => p.suspended) ? [...QUEUE, SUSPENDED] : QUEUE;
  return chart({ ...common, title: 'Requests in the cluster', height: 92,
    yText: short, y: scaleOf(rows.flatMap((p) => [p.waiting, p.running])),
    keys: [...lines.map(([, name, cls]) => [cls, name]),
      ['', `workers: ${workersText(run)}`]],
    layers: [...lines.map(([key, , cls]) => ({ kind: 'outline', cls,
      points: rows.map((p) => [p.from, p.to, p[key]]) })), ...common.over],
    probe: { xs: rows.map((p) => p.at), head: (i) => clock(rows[i].at),
      rows: (i) => [...lines.map(([key, name, cls]) =>
        [cls, name, count(rows[i][key])]),
        ['', 'workers', count(rows[i].workers)]] } });
}

// The flags of events above the charts.
function eventStrip(run, common) {
  const root = h('div', { class: 'chart', 'aria-hidden': 'true' });
  const plot = s('svg', { class: 'plot' });
  root.append(plot);
  let width = 0;
  root.redraw = () => {
    const now = Math.round(root.clientWidth);
    if (!now || now === width) return;
    width = now;
    plot.setAttribute('viewBox', `0 0 ${width} 22`);
    const x = (v) => 56 + common.x(v) * (width - 66);
    plot.replaceChildren(...run.events.flatMap((e, i) => {
      const at = x(e.at), next = run.events[i + 1];
      const letters = (px) => Math.floor((px - 26) / 6.4);
      const right = letters((next ? x(next.at) : width) - at);
      const left = i ? 0 : letters(at);
      const flip = e.text.length > right && left > right;
      const room = flip ? left : right;
      const text = e.text.length <= room ? e.text
        : room > 8 ? `${e.text.slice(0, room - 1)}…` : '';
      return [s('path', { class: 'event', d: `M${at} 14V22` }),
        s('circle', { class: 'flag', cx: at, cy: 9, r: 8 }),
        s('text', { class: 'flag-text', x: at, y: 13,
          'text-anchor': 'middle' }, i + 1),
        s('text', { class: 'say', x: flip ? at - 12 : at + 12, y: 13,
          'text-anchor': flip ? 'end' : 'start' }, text)];
    }));
  };
  watcher.observe(root);
  return root;
}

function eventList(run) {
  return h('ul', { class: 'events' }, run.events.map((e, i) =>
    h('li', null, h('b', null, i + 1), h('span', { class: 'soft' },
      clock(e.at)), h('span', null, h('code', null, e.text),
      e.code >= 0 && h('span', { class: e.code ? 'bad' : 'soft' },
        ` exit code ${e.code}`)))));
}

function timeCharts(result, run, log) {
  const from = Math.min(0, run.rows[0].from);
  const to = Math.max(run.rows[run.rows.length - 1].to,
    run.points[run.points.length - 1]?.at ?? 0,
    run.events[run.events.length - 1]?.at ?? 0);
  const quiet = silences(run);
  const common = { x: linear(from, to, clockSteps), xText: clock, bare: true,
    group: new Set(),
    under: [{ kind: 'shade', points: quiet }],
    over: [{ kind: 'event', points: run.events.map((e) => [e.at]) }] };
  const end = { ...common, bare: false };
  const rate = (key) => (r) => perSecond(r, r[key]);
  return [
    h('div', { class: 'sheet' }, run.events.length > 0 &&
      eventStrip(run, common),
      latencyOverTime(run, 'ttft', 'TTFT', common, log),
      latencyOverTime(run, 'itl', 'ITL', common, log),
      latencyOverTime(run, 'e2e', 'E2E', end, log),
      run.events.length > 0 && eventList(run),
      quiet.length > 0 && h('p', { class: 'hint' },
        'Hatched: requests were in flight and no token came.')),
    h('div', { class: 'sheet' },
      requestsOverTime(run, result.limits.length > 0, common),
      stepsOverTime(run, 'In flight, most of each interval', 'in flight', 4,
        (r) => r.inFlight, common),
      stepsOverTime(run, 'Output tokens per second', 'output tokens/s', 3,
        rate('output'), end)),
    run.points.length > 1 && h('div', { class: 'sheet' },
      queueOverTime(run, common),
      poolOverTime(run, 'pages', 'Pool of pages', run.points.some(
        (p) => p.slots.total) ? common : end),
      run.points.some((p) => p.slots.total) &&
        poolOverTime(run, 'slots', 'Pool of slots', end)),
  ];
}
