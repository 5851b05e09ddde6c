// parts.js - The sections of the page, but for those over time and load.

function section(id, title, lead, ...children) {
  return h('section', { id, 'aria-labelledby': `${id}-title` },
    h('div', { class: 'title' }, h('h2', { id: `${id}-title` }, title)),
    lead && h('p', { class: 'lead' }, lead), ...children);
}

function pill(ok, text) {
  return h('span', { class: ok ? 'pill' : 'pill no' }, sign(ok), text);
}

// A tick or a cross, so that nothing is told by colour alone.
function sign(ok) {
  return s('svg', { width: 14, height: 14, viewBox: '0 0 14 14',
    role: 'img', 'aria-label': ok ? 'yes' : 'no' }, s('path', {
    class: `line ${ok ? 'sgood' : 'sbad'}`,
    d: ok ? 'M2 7.5l3.5 3.5L12 3' : 'M3 3l8 8M11 3l-8 8' }));
}

function limitsText(result) {
  return result.limits.map(([k, us]) =>
    `${k.toUpperCase()} ≤ ${shortTime(us)}`).join(', ');
}

function runLoad(run) {
  if (!run.load) return 'trace';
  return run.closed ? `${count(run.load)} at once`
    : `${digits(run.load, 3)}/s`;
}

const ROLES = { plain: 'run', repeat: 'repeat', trial: 'trial',
  confirm: 'confirm', beyond: 'beyond' };

// ---- head ----

function verdict(result, run) {
  const failed = failures(run);
  const met = run.wanted ? run.good / run.wanted : 0;
  return h('div', { class: 'verdict' },
    run.invalid ? pill(false, 'INVALID') : pill(true, 'VALID'),
    run.stopped && pill(false, 'stopped early'),
    result.limits.length > 0 && run.wanted > 0 && pill(met >= result.attain,
      `${share(run.good, run.wanted)} met ${limitsText(result)} ` +
      `(goal ${digits(100 * result.attain, 2)} %)`),
    run.all > 0 && pill(failed === 0,
      `${count(failed)} failed of ${count(run.all)}`),
    run.checked > 0 && pill(run.differ === 0,
      `${count(run.checked - run.differ)} of ${count(run.checked)} outputs ` +
      'equal'));
}

function facts(list) {
  return h('dl', { class: 'facts' }, list.filter(([, v]) => v).map(
    ([k, v]) => [h('dt', null, k), h('dd', null, v)]));
}

// Words that break only where they must.
function words(text) {
  return h('code', { class: 'words' }, text.split(' ').flatMap((w, i) =>
    [i > 0 && ' ', h('span', null, w)]));
}

function commonFacts(result) {
  return [['Target', result.target], ['Model', result.model],
    ['Host', result.host],
    ['Command', result.command && words(result.command)]];
}

function runFacts(run) {
  return [['Plan', run.plan], ['Started', (run.started ?? '')
    .replace('T', ' ').replace('Z', ' UTC')], ['Measured',
    `${clock(run.to - run.from)}, ${count(run.all)} requests` +
    (run.warm ? `, and ${count(run.warm)} of the warm-up` : '')]];
}

// The head of a result with one run; of several runs, head and runHeader.
function head(result, run) {
  const one = result.runs.length === 1;
  return h('div', { class: 'head' }, h('h1', null, title(result)),
    one && [verdict(result, run), warning(run)],
    facts([...commonFacts(result), ...(one ? runFacts(run) : [])]));
}

function runHeader(result, run) {
  if (result.runs.length === 1) return null;
  return h('div', { class: 'one', id: 'one' }, h('h2', null,
    `Run ${run.number + 1} of ${result.runs.length}: ${runHead(run)}`),
  verdict(result, run), warning(run), facts(runFacts(run)));
}

function warning(run) {
  return run.invalid && h('p', { class: 'warn' },
    run.why || 'no reason given');
}

function title(result) {
  return result.title || `Load test of ${result.model || result.target}`;
}

// ---- cards ----

function card(what, [value, unit], note, bad) {
  return h('div', { class: 'card' }, h('div', { class: 'what' }, what),
    h('div', { class: bad ? 'value bad' : 'value' }, value,
      unit && h('small', null, unit)),
    note && h('div', { class: 'note' }, note));
}

function spanNote(metric, q) {
  const span = metric.spans[q];
  return span ? `95 %: ${timeSpan(span[0], span[1])}` : '';
}

function quantileCard(run, key, name, q, label) {
  const m = run.metrics[key], v = m.quantile(q);
  return card(`${name} ${label}`, timeParts(v), spanNote(m, label) ||
    `${count(m.total)} values`, v === Infinity);
}

function cards(result, run) {
  const failed = failures(run), lag = run.metrics.lag.quantile(0.99);
  return h('div', { class: 'cards' },
    card('Requests', [digits(run.requestsPerS, 3), '/s'],
      `${count(run.outcomes.ok)} ended ok`),
    card('Output tokens', [digits(run.tokensPerS, 4), '/s'],
      `${count(run.outputTokens)} in all`),
    result.limits.length > 0 && card('Goodput',
      [digits(run.goodput, 3), '/s'],
      `${share(run.good, run.wanted)} good`),
    quantileCard(run, 'ttft', 'TTFT', 0.5, 'p50'),
    quantileCard(run, 'ttft', 'TTFT', 0.99, 'p99'),
    quantileCard(run, 'itl', 'ITL', 0.5, 'p50'),
    quantileCard(run, 'itl', 'ITL', 0.99, 'p99'),
    quantileCard(run, 'e2e', 'E2E', 0.99, 'p99'),
    card('Failures', [count(failed), ''],
      share(failed, run.all) + ' of requests', failed > 0),
    card('Own lag p99', timeParts(lag),
      `limit ${shortTime(result.lagMax)}`, lag > result.lagMax));
}

// ---- latencies ----

const COLUMNS = [['p50', 0.5], ['p90', 0.9], ['p95', 0.95], ['p99', 0.99],
  ['p99.9', 0.999], ['max', 1]];

function latencyCell(m, [name, q]) {
  const v = m.quantile(q), span = m.spans[name];
  return h('td', { class: v === Infinity ? 'num bad' : 'num',
    'data-name': name, title: exact(v) }, time(v),
    span && h('small', null, timeSpan(span[0], span[1])));
}

function latencies(run) {
  const rows = METRICS.filter(([key, , , timed]) =>
    timed && run.metrics[key].total);
  const spans = rows.some(([key]) =>
    Object.values(run.metrics[key].spans).some(Boolean));
  return section('latency', 'Latency', 'From the intended start, so that a ' +
    'stall counts for every request that was due in it. Failed requests stay ' +
    'in the tail as “lost”.' + (spans ? ' Small figures: 95 % confidence ' +
    'intervals.' : ''),
  h('div', { class: 'sheet wide' }, h('table', { class: 'stack' },
    h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Metric'),
      h('th', { scope: 'col', class: 'num' }, 'mean'),
      COLUMNS.map(([name]) => h('th', { scope: 'col', class: 'num' }, name)),
      h('th', { scope: 'col', class: 'num' }, 'lost'))),
    h('tbody', null, rows.map(([key, name, what]) => {
      const m = run.metrics[key];
      return h('tr', null, h('th', { scope: 'row' }, name,
        h('small', null, what)),
      h('td', { class: 'num', 'data-name': 'mean' },
        m.n ? time(m.mean) : '–'),
      COLUMNS.map((c) => latencyCell(m, c)),
      h('td', { class: m.lost ? 'num bad' : 'num', 'data-name': 'lost' },
        count(m.lost)));
    })))));
}

// ---- distributions ----

const NINES = [[0.5, 'p50'], [0.9, 'p90'], [0.99, 'p99'],
  [0.999, 'p99.9'], [0.9999, 'p99.99']];

function depth(q) {
  return Math.log10(1 / (1 - q));
}

function percentName(q) {
  return `p${+(100 * q).toPrecision(6)}`;
}

function percentiles(run, name, series, log) {
  const qs = Array.from({ length: 161 }, (_, i) => 1 - 10 ** -(i / 40));
  const values = series.map(([key]) => qs.map((q) =>
    run.metrics[key].quantile(q)));
  const lost = qs.findIndex((_, i) => values[0][i] === Infinity);
  return chart({ title: `${name} by percentile`, height: 190,
    label: `${name} by percentile`,
    x: linear(0, 4), xTicks: NINES.map(([q, text]) => [depth(q), text]),
    y: scaleOf(values.flat(), log), yText: shortTime,
    keys: series.length > 1 && series.map(([, text, cls]) => [cls, text]),
    layers: [...(lost >= 0 ? [{ kind: 'shade',
      points: [[depth(qs[lost]), 4]] }] : []),
    // The first on top: it hides the others where they are equal.
    ...series.map(([, , cls], k) => ({ kind: 'line', cls,
      points: qs.map((q, i) => [depth(q), values[k][i]]) })).reverse()],
    probe: { xs: qs.map(depth), head: (i) => percentName(qs[i]),
      rows: (i) => series.map(([, text, cls], k) =>
        [cls, text, exact(values[k][i])]) } });
}

function edgesOf(m, log) {
  const n = 48;
  let high = m.max;
  for (const q of [0.999, 0.99]) {
    const v = m.quantile(q);
    if (v !== Infinity) {
      high = v;
      break;
    }
  }
  const from = Math.max(m.min, log ? high / LOG_SPAN : 0, log ? 1 : 0);
  high = Math.max(high, from * 1.02 + 1);
  return Array.from({ length: n + 1 }, (_, i) => log
    ? from * (high / from) ** (i / n) : from + (high - from) * i / n);
}

function histogram(run, key, name, limit, log) {
  const m = run.metrics[key], edges = edgesOf(m, log), bins = m.bins(edges);
  const inside = bins.reduce((a, b) => a + b, 0), last = edges.length - 1;
  const rows = bins.map((n, i) => [edges[i], edges[i + 1], 0, n]);
  const x = log ? logarithmic(edges[0], edges[last])
    : linear(edges[0], edges[last]);
  return chart({ title: `${name} histogram`, height: 110, x,
    xText: shortTime, y: scaleOf(bins), yText: short,
    layers: [{ kind: 'steps', cls: 'solid f1', points: rows },
      ...(limit && limit >= edges[0] && limit <= edges[last]
        ? [{ kind: 'mark', at: limit, text: `limit ${shortTime(limit)}` }]
        : [])],
    probe: { xs: rows.map(([a, b]) => log ? Math.sqrt(a * b) : (a + b) / 2),
      head: (i) => timeSpan(edges[i], edges[i + 1]),
      rows: (i) => [['solid f1', 'values', count(bins[i])],
        ['', 'of all', share(bins[i], m.total)],
        ...(m.n > inside
          ? [['', 'further right', count(m.n - inside)]] : [])] } });
}

const SHAPES_OF = [
  ['TTFT', [['ttft', 'from intended start', 'line s1'],
    ['ttft_sent', 'from send', 'line thin s2']], 'ttft'],
  ['ITL', [['itl', 'inter-token latency', 'line s1']], 'itl'],
  ['E2E', [['e2e', 'from intended start', 'line s1'],
    ['e2e_sent', 'from send', 'line thin s2']], 'e2e'],
];

function distributions(result, run, log) {
  return h('div', { class: 'pair three' }, SHAPES_OF.filter(([, , key]) =>
    run.metrics[key].total).map(([name, series, key]) =>
    h('div', { class: 'sheet' }, percentiles(run, name, series, log),
      run.metrics[key].n > 0 && histogram(run, key, name,
        result.limits.find(([k]) => k === key)?.[1], log),
      run.metrics[key].lost > 0 && h('p', { class: 'hint' },
        `${count(run.metrics[key].lost)} lost: failed requests, hatched.`))));
}

// ---- outcomes and checks ----

function outcomes(run) {
  const all = run.all;
  const whys = [...run.whys].sort((a, b) => b.n - a.n);
  const table = (names, rows) => h('div', { class: 'sheet wide' },
    h('table', null, h('thead', null, h('tr', null, names.map(([n, cls]) =>
      h('th', { scope: 'col', class: cls }, n)))), h('tbody', null, rows)));
  return section('outcomes', 'Outcomes', null, h('div', { class: 'pair' },
    table([['Outcome'], ['requests', 'num'], ['share', 'num']],
      OUTCOMES.filter((k) => run.outcomes[k]).map((k) => h('tr', null,
        h('th', { scope: 'row' }, k), h('td', { class: 'num' },
          count(run.outcomes[k])), h('td', { class: 'num' },
          share(run.outcomes[k], all))))),
    whys.length > 0 && table([['Reason'], ['outcome'], ['code', 'num'],
      ['requests', 'num']], whys.map((w) => h('tr', null,
      h('td', { class: 'text' }, w.why), h('td', null, w.outcome),
      h('td', { class: 'num' }, w.code || '–'),
      h('td', { class: 'num' }, count(w.n)))))));
}

// [ok or undefined, text] of everything that was proved or counted.
function checkList(run) {
  const o = run.outcomes, out = [];
  if (run.checked) {
    out.push([!run.differ, `${many(run.checked, 'output')} compared with a ` +
      `solo run: ${count(run.differ)} differ`]);
  }
  if (o.cancelled) {
    out.push([run.receipts ? !run.leaked : undefined,
      `${many(o.cancelled, 'request')} cancelled, ` +
      `${many(run.receipts, 'receipt')}, ${count(run.leaked)} leaked`]);
  }
  if (o.disconnected) {
    out.push([undefined, `${many(o.disconnected, 'request')} disconnected`]);
  }
  if (run.audited) out.push([run.auditOk, `Audit: ${run.audit}`]);
  if (run.chunked) {
    out.push([false, `The tokens of ${many(run.chunked, 'answer')} are not ` +
      'known: each chunk counts as one']);
  }
  out.push([!run.badStreams, `${many(run.badStreams, 'stream')} with tokens ` +
    'lost, doubled or after the end']);
  if (run.resumed || run.moves) {
    out.push([true, `${many(run.resumed, 'request')} resumed after a lost ` +
      `connection, ${many(run.moves, 'move')} to other workers, longest ` +
      `pause ${time(run.gapMax)}`]);
  }
  if (run.slowReaders) {
    out.push([undefined, many(run.slowReaders, 'slow reader')]);
  }
  return out;
}

function checks(result, run) {
  const lag = run.metrics.lag.quantile(0.99);
  return section('checks', 'Checks', null, h('div', { class: 'sheet' },
    h('ul', { class: 'checks' }, [...checkList(run), [!run.invalid,
      run.invalid ? `Invalid: ${run.why}` : `Own lag p99 ${time(lag)}, ` +
      `limit ${shortTime(result.lagMax)}: the generator kept its schedule`],
    [undefined, `${count(run.promptTokens)} prompt tokens ` +
      `(${share(run.cached, run.promptTokens)} reused), ` +
      `${count(run.outputTokens)} output tokens`]].map(([ok, text]) =>
      h('li', null, ok === undefined ? s('svg', { width: 14, height: 14,
        viewBox: '0 0 14 14', 'aria-hidden': true }, s('circle', {
        class: 'f6', cx: 7, cy: 7, r: 2.5 })) : sign(ok),
      h('span', null, text))))));
}

function foot(result) {
  return h('footer', null, h('p', null, 'TTFT: time to first token. ITL: ' +
    'time between two chunks of a request. TPOT: (last − first token) / ' +
    '(tokens − 1). E2E: end of the response. All but “from send” and ITL ' +
    'count from the intended start. Own lag: send − intended start, the ' +
    'delay that the generator itself added.'), h('p', null,
    'Quantiles are exact within 0.1 %, from HDR histograms in this file ' +
    `(script element “result”). ${document.querySelector(
      'meta[name=generator]').content}`));
}
