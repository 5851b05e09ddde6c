// page.js - Puts the page together.

const result = readResult(JSON.parse(
  document.getElementById('result').textContent));
const main = document.getElementById('main');
// The run that confirms a search counts most.
let current = Math.max(0, result.runs.findLastIndex((r) =>
  r.role === 'confirm'));
const logScale = { time: true, shape: true };

// A section whose charts change between a linear and a logarithmic axis.
function scaled(id, name, lead, which, draw) {
  const place = h('div');
  const fillPlace = () => place.replaceChildren(
    ...[draw(logScale[which])].flat().filter(Boolean));
  const box = h('input', { type: 'checkbox', change: () => {
    logScale[which] = box.checked;
    fillPlace();
    drawAll(place);
  } });
  box.checked = logScale[which];
  fillPlace();
  const out = section(id, name, lead, place);
  out.querySelector('.title').append(h('div', { class: 'tools' },
    h('label', null, box, 'logarithmic')));
  return out;
}

function theme() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ??
    (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'))
    === 'dark';
  const name = () => dark() ? 'Light' : 'Dark';
  const b = h('button', { type: 'button', 'aria-label': 'Change colours',
    click: () => {
      root.dataset.theme = dark() ? 'light' : 'dark';
      b.textContent = name();
    } }, name());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change',
    () => { b.textContent = name(); });
  return b;
}

const LINKS = [['runs', 'Runs'], ['one', 'Run'], ['time', 'Over time'],
  ['latency', 'Latency'], ['shape', 'Distributions'],
  ['levels', 'Concurrency'], ['outcomes', 'Outcomes'], ['checks', 'Checks']];

function bar() {
  const many = result.runs.length > 1;
  const select = h('select', { id: 'run', 'aria-label': 'Run',
    change: () => choose(+select.value) }, result.runs.map((r, i) =>
    h('option', { value: i }, `${i + 1} of ${result.runs.length} · ` +
      `${runHead(r)}${r.invalid ? ' · invalid' : ''}`)));
  select.value = current;
  document.getElementById('bar').replaceChildren(h('div', {
    class: many ? 'bar many' : 'bar' }, h('span', { class: 'name' },
    'sluice-load'), h('nav', { 'aria-label': 'Sections' },
    LINKS.filter(([id]) => document.getElementById(id)).map(([id, name]) =>
      h('a', { href: `#${id}` }, name))),
  many && h('label', null, 'Run', select), toggle));
}

const toggle = theme();

function choose(i) {
  current = i;
  show();
  document.getElementById('one')?.scrollIntoView();
}

function show() {
  const run = result.runs[current];
  hideTip();
  watcher.disconnect();
  if (!run) {
    main.replaceChildren(h('div', { class: 'head' },
      h('h1', null, title(result)), facts(commonFacts(result)),
      h('p', { class: 'empty' }, 'This result has no run.')), foot(result));
    bar();
    return;
  }
  main.replaceChildren(...[head(result, run),
    runsSection(result, run, choose), runHeader(result, run),
    cards(result, run),
    run.rows.length > 0 && scaled('time', 'Over time', null, 'time',
      (log) => timeCharts(result, run, log)),
    run.all > 0 && latencies(run),
    run.all > 0 && scaled('shape', 'Distributions', null, 'shape', (log) =>
      distributions(result, run, log)),
    run.levels.some((l) => l.ttft.total || l.itl.total) && scaled('levels',
      'By concurrency', 'By the number of requests in flight when a ' +
      'request was sent.', 'levels',
      (log) => levels(run, log)),
    run.all > 0 && outcomes(run), checks(result, run), foot(result)].filter(Boolean));
  bar();
  drawAll(main);
}

document.title = `${title(result)} · sluice-load`;
show();
document.documentElement.dataset.ready = 'yes';
