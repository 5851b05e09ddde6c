// load.js - What depends on load: concurrency, the runs of a search or sweep.

function levelChart(run, key, title, log) {
  const levels = run.levels.filter((l) => l[key].total);
  if (levels.length === 0) return null;
  const q = levels.map((l) => QUANTILES.map(([p]) => l[key].quantile(p)));
  const range = (l) => l.n > 1 ? `${l.n}–${2 * l.n - 1}` : '1';
  return h('div', { class: 'sheet' }, chart({
    title: `${title} by requests in flight`, height: 170,
    x: linear(-0.4, levels.length - 0.6),
    xTicks: levels.map((l, i) => [i, range(l)]),
    y: scaleOf(q.flat(), log), yText: shortTime,
    keys: QUANTILES.map(([, name, cls]) => [cls, name]),
    layers: [...QUANTILES.map(([, , cls], k) => ({ kind: 'line', cls,
      points: levels.map((_, i) => [i, q[i][k]]) })),
    ...QUANTILES.map(([, , cls], k) => ({ kind: 'dots',
      cls: `${cls.replace(/dash|thin/g, '')} hollow`,
      points: levels.map((_, i) => [i, q[i][k]]) }))],
    probe: { xs: levels.map((_, i) => i),
      head: (i) => `${range(levels[i])} in flight`,
      rows: (i) => [...QUANTILES.map(([, name, cls], k) =>
        [cls, name, exact(q[i][k])]),
      ['', 'values', count(levels[i][key].n)]] } }));
}

function levels(run, log) {
  return h('div', { class: 'pair' }, levelChart(run, 'ttft', 'TTFT', log),
    levelChart(run, 'itl', 'ITL', log));
}

// ---- runs of several loads ----

function meets(result, run) {
  if (run.invalid || result.limits.length === 0) return undefined;
  return run.wanted > 0 && run.good >= result.attain * run.wanted;
}

function runShape(result, run) {
  const ok = meets(result, run);
  if (ok === false) return ['cross', 'line s2'];
  return [run.role === 'confirm' || run.role === 'beyond' ? 'diamond'
    : 'circle', ok ? 'solid f1' : 'line s6 hollow'];
}

function runHead(run) {
  return `${runLoad(run)} · ${ROLES[run.role] ?? run.role}`;
}

// The mean of the runs of each load; runs are in order of load.
function means(runs, value) {
  return [...new Set(runs.map((r) => r.load))].map((load) => {
    const same = runs.filter((r) => r.load === load).map(value);
    return [load, same.reduce((a, b) => a + b, 0) / same.length];
  });
}

function loadChart(result, runs, c) {
  const max = Math.max(...runs.map((r) => r.load));
  const best = result.search?.low;
  return h('div', { class: 'sheet' }, chart({ height: 180,
    x: linear(0, max * 1.06), xText: short, ...c,
    layers: [...(c.under ?? []),
      { kind: 'line', cls: 'line thin s6', points: means(runs, c.value) },
      ...(best ? [{ kind: 'mark', at: best, low: true,
        text: digits(best, 3) }]
        : []),
      { kind: 'dots', points: runs.map((r) => [r.load, c.value(r),
        ...runShape(result, r)]) }],
    probe: { xs: runs.map((r) => r.load), head: (i) => runHead(runs[i]),
      rows: (i) => [['', c.name, c.text(runs[i])],
        ['', 'good', `${count(runs[i].good)} of ${count(runs[i].wanted)}`]] },
  }));
}

function loadCharts(result) {
  const runs = result.runs.filter((r) => r.load > 0)
    .sort((a, b) => a.load - b.load);
  if (new Set(runs.map((r) => r.load)).size < 2) return null;
  const unit = runs[0].closed ? 'at once' : 'requests/s';
  const goals = result.limits.length > 0;
  const good = runs.map((r) => r.goodput);
  const max = Math.max(...runs.map((r) => r.load));
  return h('div', { class: 'pair three' },
    loadChart(result, runs, { title: goals
      ? `Goodput (requests/s) over load (${unit})`
      : `Requests/s over load (${unit})`,
    y: scaleOf(runs[0].closed ? good : [...good, max]), yText: short,
    under: runs[0].closed ? [] : [{ kind: 'line', cls: 'line thin dash s6',
      points: [[0, 0], [max, max]] }],
    name: goals ? 'goodput' : 'requests/s',
    value: (r) => goals ? r.goodput : r.requestsPerS,
    text: (r) => `${digits(goals ? r.goodput : r.requestsPerS, 4)}/s` }),
    goals && loadChart(result, runs, { title: `Share good over load (${unit})`,
      y: linear(0, 1.05), yTicks: [0, 0.25, 0.5, 0.75, 1],
      yText: (v) => `${+(100 * v).toPrecision(3)} %`, name: 'share good',
      under: [{ kind: 'level', at: result.attain,
        text: `goal ${digits(100 * result.attain, 2)} %` }],
      value: (r) => r.wanted ? r.good / r.wanted : NaN,
      text: (r) => share(r.good, r.wanted) }),
    loadChart(result, runs, { title: `TTFT p99 over load (${unit})`,
      y: scaleOf(runs.map((r) => r.metrics.ttft.quantile(0.99)), true),
      yText: shortTime, name: 'TTFT p99',
      under: result.limits.filter(([k]) => k === 'ttft').map(([, us]) =>
        ({ kind: 'level', at: us, text: `limit ${shortTime(us)}` })),
      value: (r) => r.metrics.ttft.quantile(0.99),
      text: (r) => exact(r.metrics.ttft.quantile(0.99)) }));
}

function searchLine(result) {
  const f = result.search, runs = result.runs;
  if (!f) return null;
  const unit = runs[0]?.closed ? ' at once' : ' requests/s';
  if (f.invalid) {
    return [pill(false, 'search ended'), 'The generator could not make a ' +
      'larger load within its lag limit' +
      (f.low ? `; ${digits(f.low, 3)}${unit} met.` : '.')];
  }
  if (!f.low) return [pill(false, 'none'), 'No load met the objectives.'];
  if (f.capped) {
    return [pill(true, 'no limit found'), h('strong', null,
      `${digits(f.low, 3)}${unit}`), 'meets the objectives, and no larger ' +
      'load was to be tried.'];
  }
  return [pill(f.confirmed, f.confirmed ? 'confirmed' : 'not confirmed'),
    h('strong', null, `${digits(f.low, 3)}${unit}`),
    h('span', { class: 'soft' }, `is the largest load at which ` +
      `${digits(100 * result.attain, 2)} % of the requests meet ` +
      `${limitsText(result)}` + (f.high
      ? `; ${digits(f.high, 3)} misses` : ''))];
}

function runsTable(result, current, choose) {
  const goals = result.limits.length > 0;
  // A phone leaves out what is "more".
  const names = [['Run'], ['load'], ['requests/s', 'more'],
    ['tokens/s', 'more'], ...(goals ? [['good', 'more'], ['verdict']] : []),
    ['TTFT p50', 'more'], ['TTFT p99'], ['ITL p50', 'more'],
    ['ITL p99', 'more'], ['E2E p99', 'more'], ['failed', 'more'], ['']];
  const cell = (x, cls) => h('td', { class: `num ${cls ?? ''}` }, x);
  return h('div', { class: 'sheet wide' }, h('table', { class: 'runs' },
    h('thead', null, h('tr', null, names.map(([n, cls], i) => h('th', {
      scope: 'col', class: `${i ? 'num' : ''} ${cls ?? ''}` }, n)))),
    h('tbody', null, result.runs.map((r, i) => {
      const q = (key, p) => r.metrics[key].quantile(p);
      const ok = meets(result, r);
      return h('tr', { class: r === current ? 'on' : '' },
        h('th', { scope: 'row' }, `${i + 1} ${ROLES[r.role] ?? r.role}`),
        cell(runLoad(r)), cell(digits(r.requestsPerS, 3), 'more'),
        cell(digits(r.tokensPerS, 4), 'more'), goals && [
          cell(share(r.good, r.wanted), 'more'),
          cell(r.invalid ? 'invalid' : ok ? 'meets' : 'misses',
            ok ? '' : 'bad')],
        cell(time(q('ttft', 0.5)), 'more'), cell(time(q('ttft', 0.99))),
        cell(time(q('itl', 0.5)), 'more'), cell(time(q('itl', 0.99)), 'more'),
        cell(time(q('e2e', 0.99)), 'more'),
        cell(count(failures(r)), failures(r) > 0 ? 'more bad' : 'more'),
        h('td', { class: 'num' }, h('button', { type: 'button',
          'aria-label': `Show run ${i + 1}`, disabled: r === current,
          click: () => choose(i) }, r === current ? 'shown' : 'show')));
    }))));
}

function runsSection(result, current, choose) {
  if (result.runs.length < 2) return null;
  const line = searchLine(result);
  return section('runs', result.search ? 'Search for the largest load'
    : 'Runs', null, line && h('div', { class: 'verdict' }, line),
  loadCharts(result), result.limits.length > 0 && h('p', { class: 'hint' },
    'Crosses miss the objectives; diamonds are runs that confirm the result, ' +
    'or go beyond it.'), runsTable(result, current, choose));
}
