// draw.js - Elements, numbers, scales and charts.
//
// Text of the result becomes text nodes, never markup.

const SVG = document.getElementById('svg').namespaceURI;

function fill(e, attrs, children) {
  for (const [k, v] of Object.entries(attrs ?? {})) {
    if (typeof v === 'function') e.addEventListener(k, v);
    else if (v === true) e.setAttribute(k, '');
    else if (v !== undefined && v !== null && v !== false) {
      e.setAttribute(k, v);
    }
  }
  for (const c of children.flat(9)) {
    if (c !== undefined && c !== null && c !== false) e.append(c);
  }
  return e;
}

function h(tag, attrs, ...children) {
  return fill(document.createElement(tag), attrs, children);
}

function s(tag, attrs, ...children) {
  return fill(document.createElementNS(SVG, tag), attrs, children);
}

// ---- numbers ----

function digits(x, n) {
  if (!Number.isFinite(x)) return '–';
  const a = Math.abs(x);
  const after = a === 0 ? 0
    : Math.min(3, Math.max(0, n - 1 - Math.floor(Math.log10(a) + 1e-9)));
  return x.toLocaleString('en-US', { minimumFractionDigits: after,
    maximumFractionDigits: after });
}

function count(x) {
  return Number.isFinite(x) ? Math.round(x).toLocaleString('en-US') : '–';
}

function many(n, what) {
  return `${count(n)} ${what}${n === 1 ? '' : 's'}`;
}

// [number, unit] of microseconds, three digits
function timeParts(us) {
  if (us === undefined || us === null || Number.isNaN(us)) return ['–', ''];
  if (us === Infinity) return ['lost', ''];
  if (us < 999.5) return [digits(us, us < 100 ? 2 : 3), 'µs'];
  if (us < 999500) return [digits(us / 1e3, 3), 'ms'];
  return [digits(us / 1e6, 3), 's'];
}

function time(us) {
  return timeParts(us).join(' ').trim();
}

function timeSpan(low, high) {
  const [a, ua] = timeParts(low), [b, ub] = timeParts(high);
  if (!(low > 0)) return `0–${b} ${ub}`;
  return ua === ub ? `${a}–${b} ${ub}` : `${a} ${ua}–${b} ${ub}`;
}

// An exact value, for tips.
function exact(us) {
  if (us === undefined || us === null) return '–';
  if (us === Infinity) return 'lost';
  return us < 1000 ? `${count(us)} µs` : `${(us / 1e3).toLocaleString('en-US',
    { minimumFractionDigits: 2, maximumFractionDigits: 2 })} ms`;
}

function clock(us) {
  const t = us / 1e6;
  if (t < 120) return t % 1 ? `${digits(t, 3)} s` : `${t} s`;
  const m = Math.floor(t / 60), rest = Math.round(t % 60);
  return m < 60 ? `${m}:${String(rest).padStart(2, '0')} min`
    : `${Math.floor(m / 60)}:${String(m % 60).padStart(2, '0')} h`;
}

function share(part, whole) {
  if (part === 0 && whole) return '0 %';
  if (!whole) return '–';
  const x = 100 * part / whole;
  if (part === whole) return '100 %';
  // Near all, never rounded up to it.
  const after = x > 99.9 ? 3 : x > 99 ? 2 : 1, scale = 10 ** after;
  return `${((x > 99 ? Math.floor : Math.round)(x * scale) / scale)
    .toFixed(after)} %`;
}

function short(x) {
  const a = Math.abs(x);
  if (a >= 1e6) return `${+(x / 1e6).toPrecision(3)}M`;
  if (a >= 1e4) return `${+(x / 1e3).toPrecision(3)}k`;
  return `${+x.toPrecision(3)}`;
}

function shortTime(us) {
  if (us === 0) return '0';
  if (us < 1e3) return `${+us.toPrecision(3)} µs`;
  if (us < 1e6) return `${+(us / 1e3).toPrecision(3)} ms`;
  return `${+(us / 1e6).toPrecision(3)} s`;
}

// ---- scales ----

function niceSteps(min, max, n) {
  const raw = (max - min) / Math.max(1, n);
  const unit = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 2.5, 5, 10].find((m) => m * unit >= raw) * unit;
  const out = [];
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max + 1e-9 * step;
    i++) out.push(+(i * step).toPrecision(12));
  return out;
}

// Seconds or minutes that a person would choose.
function clockSteps(min, max, n) {
  const raw = (max - min) / 1e6 / Math.max(1, n);
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900,
    1800, 3600, 7200, 14400, 43200].find((x) => x >= raw) ?? 86400;
  const out = [];
  for (let t = Math.ceil(min / 1e6 / step) * step; t <= max / 1e6 + 1e-6;
    t += step) out.push(+(t * 1e6).toPrecision(12));
  return out;
}

function linear(min, max, steps = niceSteps) {
  const f = (x) => (x - min) / (max - min || 1);
  f.ticks = (n) => steps(min, max, n);
  f.min = min;
  f.max = max;
  f.invert = (u) => min + u * (max - min);
  return f;
}

function logarithmic(min, max) {
  const a = Math.log10(min), b = Math.log10(max);
  const f = (x) => (Math.log10(Math.max(x, min)) - a) / (b - a || 1);
  f.ticks = (n) => {
    const wide = b - a > n * 0.8, out = [];
    for (let e = Math.floor(a); e <= b; e++) {
      for (const m of wide ? [1] : b - a > 1.2 ? [1, 3] : [1, 2, 5]) {
        const x = +(m * 10 ** e).toPrecision(12);
        if (x >= min * 0.999 && x <= max * 1.001) out.push(x);
      }
    }
    return out;
  };
  f.min = min;
  f.max = max;
  f.invert = (u) => 10 ** (a + u * (b - a));
  return f;
}

// What is less than the largest value by more is drawn at the bottom, such as
// the time between two chunks that came in one packet.
const LOG_SPAN = 3000;

// A scale of values that starts at 0, or a logarithmic one around them.
function scaleOf(values, log) {
  let low = Infinity, high = 0;
  for (const v of values) {
    if (!Number.isFinite(v) || v === undefined || v === null) continue;
    if (v > high) high = v;
    if (v > 0 && v < low) low = v;
  }
  if (!log || high <= 0) return linear(0, (high || 1) * 1.06);
  low = Math.max(low, high / LOG_SPAN);
  if (high / low < 3) {
    const middle = Math.sqrt(high * low);
    [low, high] = [Math.min(low, middle / 2), Math.max(high, middle * 2)];
  }
  return logarithmic(low * 0.85, high * 1.2);
}

// ---- the tip ----

const tip = document.getElementById('tip');

function swatch(cls) {
  if (!cls) return s('svg', { width: 14, height: 10, 'aria-hidden': true });
  const line = cls.includes('line');
  return s('svg', { width: 14, height: 10, 'aria-hidden': true },
    line ? s('path', { class: cls, d: 'M0 5H14' })
      : s('rect', { class: cls, x: 2, width: 10, height: 10, rx: 2 }));
}

function showTip(x, y, head, rows) {
  tip.replaceChildren(h('div', { class: 'at' }, head),
    ...rows.map(([cls, name, value]) => h('div', { class: 'row' },
      swatch(cls), h('span', null, name), h('span', null, value))));
  tip.hidden = false;
  const w = tip.offsetWidth, tall = tip.offsetHeight;
  const right = x + 14 + w <= document.documentElement.clientWidth - 4;
  tip.style.left = `${Math.max(4, right ? x + 14 : x - 14 - w)}px`;
  tip.style.top = `${Math.max(4,
    Math.min(y - tall / 2, window.innerHeight - tall - 4))}px`;
}

function hideTip() {
  tip.hidden = true;
}

// ---- charts ----

const watcher = new ResizeObserver((entries) => requestAnimationFrame(() => {
  for (const e of entries) e.target.redraw();
}));

function drawAll(root) {
  for (const c of root.querySelectorAll('.chart')) c.redraw();
}

function pathOf(points, x, y) {
  let d = '', pen = false;
  for (const [px, py] of points) {
    if (!Number.isFinite(py)) {
      pen = false;
      continue;
    }
    d += `${pen ? 'L' : 'M'}${x(px).toFixed(1)} ${y(py).toFixed(1)}`;
    pen = true;
  }
  return d;
}

// Points without a neighbour, which a line does not show.
function alone(points) {
  const there = (i) => Number.isFinite(points[i]?.[1]);
  return points.filter((_, i) => there(i) && !there(i - 1) && !there(i + 1));
}

function bandPath(points, x, y) {
  let d = '';
  for (let i = 0; i < points.length;) {
    let j = i;
    while (j < points.length && Number.isFinite(points[j][1]) &&
      Number.isFinite(points[j][2])) j++;
    if (j > i) {
      const part = points.slice(i, j);
      d += pathOf(part.map((p) => [p[0], p[2]]), x, y) + pathOf(
        part.reverse().map((p) => [p[0], p[1]]), x, y).replace('M', 'L') +
        'Z';
    }
    i = Math.max(j, i + 1);
  }
  return d;
}

function stepsPath(rows, x, y) {
  let d = '';
  for (const [x0, x1, y0, y1] of rows) {
    if (!(y1 > y0)) continue;
    const a = x(x0).toFixed(1), b = x(x1).toFixed(1);
    d += `M${a} ${y(y0).toFixed(1)}V${y(y1).toFixed(1)}H${b}` +
      `V${y(y0).toFixed(1)}Z`;
  }
  return d;
}

const SHAPES = {
  circle: (x, y) => `M${x - 4.5} ${y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0`,
  diamond: (x, y) => `M${x - 6} ${y}l6 -6l6 6l-6 6Z`,
  cross: (x, y) => `M${x - 4.5} ${y - 4.5}l9 9m0 -9l-9 9`,
};

// What a layer draws, by its kind.
const LAYERS = {
  line: (l, x, y) => [s('path', { class: l.cls, d: pathOf(l.points, x, y) }),
    ...alone(l.points).map(([px, py]) => s('circle', { r: 2, cx: x(px),
      cy: y(py), class: l.cls.replace(/line|thin|dash/g, '')
        .replace('s', 'f') }))],
  band: (l, x, y) => s('path', { class: l.cls, d: bandPath(l.points, x, y) }),
  steps: (l, x, y) => s('path', { class: l.cls,
    d: stepsPath(l.points, x, y) }),
  outline: (l, x, y) => s('path', { class: l.cls, d: pathOf(
    l.points.flatMap(([x0, x1, v]) => [[x0, v], [x1, v]]), x, y) }),
  dots: (l, x, y, box) => l.points.filter((p) => p[1] >= 0)
    .map(([px, py, shape, cls]) => s('path', { class: cls ?? l.cls,
      d: SHAPES[shape ?? 'circle'](x(px), Math.max(box.top, y(py))) })),
  shade: (l, x, y, box) => l.points.map(([a, b]) => s('rect', {
    class: 'shade', x: x(a), y: box.top, width: Math.max(1, x(b) - x(a)),
    height: box.bottom - box.top })),
  lost: (l, x, y, box) => l.points.map(([a, b]) => s('rect', {
    class: 'lost', x: x(a), y: box.top, width: Math.max(2, x(b) - x(a)),
    height: 5 })),
  level: (l, x, y, box) => [s('path', { class: 'rule',
    d: `M${box.left} ${y(l.at)}H${box.right}` }),
    s('text', { class: 'say halo', x: box.right - 4, y: y(l.at) - 5,
      'text-anchor': 'end' }, l.text)],
  mark: (l, x, y, box) => {
    const at = x(l.at), flip = at > (box.left + box.right) / 2;
    return [s('path', { class: 'rule', d: `M${at} ${box.top}V${box.bottom}` }),
      s('text', { class: 'say halo', x: at + (flip ? -5 : 5),
        y: l.low ? box.bottom - 6 : box.top + 11, 'text-anchor': flip ? 'end' : 'start' }, l.text)];
  },
  event: (l, x, y, box) => l.points.map(([at]) => s('path', {
    class: 'event', d: `M${x(at)} ${box.top}V${box.bottom}` })),
};

function drawAxes(c, x, y, box) {
  const out = [], wide = box.right - box.left;
  for (const t of c.yTicks ?? c.y.ticks(Math.max(2.6, c.height / 34))) {
    out.push(s('path', { class: 'grid',
      d: `M${box.left} ${y(t)}H${box.right}` }), s('text', {
      x: box.left - 7, y: y(t) + 4, 'text-anchor': 'end' }, c.yText(t)));
  }
  const ticks = c.xTicks ?? c.x.ticks(Math.max(2, wide / 80)).map(
    (t) => [t, c.xText(t)]);
  let last = -Infinity;
  for (const [t, text] of ticks) {
    const at = x(t);
    if (!c.bare) {
      out.push(s('path', { class: 'axis',
        d: `M${at} ${box.bottom}v4` }));
    }
    const half = text.length * 3.4;
    const center = Math.min(at, box.width - half - 1);
    if (c.bare || center - half < last + 4) continue;
    last = center + half;
    out.push(s('text', { x: center, y: box.bottom + 17,
      'text-anchor': 'middle' }, text));
  }
  out.push(s('path', { class: 'axis',
    d: `M${box.left} ${box.bottom}H${box.right}` }));
  return out;
}

function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const mid = (low + high) >> 1;
    if (xs[mid] > x) high = mid; else low = mid;
  }
  return Math.abs(xs[high] - x) < Math.abs(xs[low] - x) ? high : low;
}

// A chart.  c has: label, title, keys [[cls, name]], height, x, y (scales),
// xText, yText, layers, bare (no x labels), group (charts that share a cross),
// probe { xs, head(i), rows(i) }: what a tip shows at the ith of xs.
function chart(c) {
  const plot = s('svg', { class: 'plot', role: 'img', tabindex: 0,
    'aria-label': c.label ?? c.title });
  const root = h('div', { class: 'chart' }, h('div', { class: 'over' },
    h('h3', null, c.title), c.keys && h('ul', { class: 'key' },
      c.keys.map(([cls, name]) => h('li', null, cls && swatch(cls), name)))),
  plot);
  const group = c.group ?? new Set();
  let box, width = 0, at = -1;

  const px = (v) => box.left + c.x(v) * (box.right - box.left);
  const py = (v) => box.bottom - c.y(v) * (box.bottom - box.top);

  root.redraw = () => {
    const now = Math.round(root.clientWidth);
    if (!now || (now === width)) return;
    width = now;
    const height = c.height + (c.bare ? 8 : 26);
    box = { left: 56, right: width - 10, top: 6, bottom: c.height + 2, width };
    plot.setAttribute('viewBox', `0 0 ${width} ${height}`);
    plot.replaceChildren(...drawAxes(c, px, py, box), ...c.layers.flatMap(
      (l) => LAYERS[l.kind](l, px, py, box)).filter(Boolean),
      cross);
  };
  const cross = s('path', { class: 'cross' });

  root.cross = (x) => {
    at = x === undefined ? -1 : nearest(c.probe.xs, x);
    cross.setAttribute('d', at < 0 || !box ? ''
      : `M${px(c.probe.xs[at])} ${box.top}V${box.bottom}`);
  };
  const leave = () => {
    hideTip();
    for (const other of group) other.cross(undefined);
  };
  const show = (i, y) => {
    const rect = plot.getBoundingClientRect();
    for (const other of group) other.cross(c.probe.xs[i]);
    showTip(rect.left + px(c.probe.xs[i]) * rect.width / width,
      y ?? rect.top + rect.height / 2, c.probe.head(i), c.probe.rows(i));
  };
  const point = (e) => {
    const rect = plot.getBoundingClientRect();
    const u = ((e.clientX - rect.left) * width / rect.width - box.left) /
      (box.right - box.left);
    show(nearest(c.probe.xs, c.x.invert(Math.min(1, Math.max(0, u)))),
      e.clientY);
  };
  if (c.probe?.xs.length) {
    group.add(root);
    fill(plot, { pointermove: point, pointerdown: point,
      pointerleave: leave, blur: leave, keydown: (e) => {
        const n = c.probe.xs.length;
        const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10,
          PageDown: 10, Home: -n, End: n }[e.key];
        if (e.key === 'Escape') leave();
        if (!step) return;
        e.preventDefault();
        show(Math.min(n - 1, Math.max(0, at < 0 ? 0 : at + step)));
      } }, []);
  }
  watcher.observe(root);
  return root;
}
