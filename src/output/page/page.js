// The browser side of a report page: opens the data of the page, makes its tables
// sortable and filterable, and draws charts in front of them.
//
// Input: the page as written (see the contract below) and d3 5, loaded before this script.
// Output: the same page, with controls and figures. Without this script it is also complete.
//
// The page:
//
//   <html lang="en"> <body> <header> h1, inputs, verdicts and doubts </header> <main>
//     <section data-table="kernels" data-document="0">      data-document: absent means 0
//       <h2>kernels</h2>
//       <table> <thead><tr> <th scope="col" class="number">self us</th> ..
//       <tbody> <tr><td class="number">128.59</td> ..
//       <p class="note cut">500 more rows</p> <p class="note">..</p>*
//   </main>
//   script type="application/octet-stream" id="data": base64 of raw deflate
//   script: d3;  script: this file (in which the end tag of a script must not be written)
//
// data-table names the array of the document that the section shows; figures about it go under its
// heading. "-" is unknown.
//
// The data: {"documents": [RESULT, ..], "tables": [TABLE, ..]}. A RESULT has the form of --format
// json. Times are integers of picoseconds up to 2^63; those that a double would round stay text
// (ParseExact). The TABLEs describe the page's tables, in order: {"columns": [{"unit": "ps",
// "exact": ["128590123", ..], "first": [..], "rest": ["12.50", ..]}, ..]}:
//
//   exact   unrounded values of the cells of every row, by which a column sorts ("": unknown;
//           no list: the cells are exact)
//   first   the shown part of the cells of every row, until a reader asks for more
//   rest    the cells of the rows that the HTML omits
//
// "drawn": {NAME: [..]} has additional data for figures, as the member `drawn` of the first
// document: timelines of energy, the race of a tuning. "kept": {NAME: {"all": 160000, "rows": [..]}}
// describes the first document's lists that are too long for a page: the number of all rows, and
// the indices of the rows that the page has. "timeline": see below.
//
// Every text goes through textContent and every style through the CSSOM: the page's
// Content-Security-Policy allows no inline style, no handler, no request.
//
// A timeline (timeline_data.h). All its times are whole ticks, so that trailing zeros cost no bytes.
// Values are stored by column, and as differences if these are small, because this compresses best:
//
//   "timeline": {
//     "tick_ps": 1000, "start": 0, "end": 4781497,        in ticks from the capture's start
//     "rounded": false,                                   true: times are rounded to ticks
//     "lanes_left_out": 0,                                lanes that the page omits
//     "events_left_out": 0,                               host events that are nested too deep
//     "names": ["fusion.1", ..],                          longest total time first
//     "lanes": [{
//       "device": "GPU:0", "name": "Stream #16", "clock": "profile",
//       "count": 123456,                                  events in the lane
//       "of": "executions",                               or "steps", "runs", "host"
//       "level": 2,                 nesting level of a host's events; absent: 0
//       "bins": {"width": 4096,                           ticks; only bins in which events start
//         "grain": 64,                see below; absent: 1
//         "index": [3,1,1,..],        difference to the bin before (the first: to 0)
//         "first": [17,..],           first start - start of the bin
//         "span": [3900,..],          last end - first start; may go beyond the bin
//         "idle": [210,..],           span - union of the executions
//         "more": [11,..],            events - 1
//         "name": [0,..]},            name of the longest event
//       "events": {"least": 900,      every event of at least this many ticks; 0: all events
//         "start": [20,..],           difference to the start before (the first: to 0)
//         "duration": [950,..], "name": [0,..]}
//     }]
//   }
//
// C++ sends only the finest level. The browser sums up the coarser ones, each four times as wide, in
// milliseconds. A bin of one event represents this event exactly. In bins of several events, first,
// span and idle are whole grains (first rounded down, span and idle up): a 64th of the width is
// finer than a pixel, and halves the bytes. Events of at least `least` ticks are listed
// individually. If these are all events (least: 0), the bins can be absent. The size of the page
// determines `least`: ten million events become about 400,000 bins and the longest events, and the
// tips of bins state that they are sums. Measured in the page (base64 of deflate) with generated GPU
// lanes: 8 bytes per event, 5 per bin with grains. 2.7 million events, stored as 490,000 bins and
// 200,000 single events, make a page of 4.1 MB. It is ready after 1.2 to 1.7 s, and a zoom step
// takes 2 to 18 ms, on two shared processors.
'use strict';
(() => {

// ---------------------------------------------------------------- data

// Characters that a reader cannot see, as the C++ function Printable has them.
const kInvisible = new RegExp(
    '[\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}\\p{Zl}\\p{Zp}\\u00a0\\u034f\\u115f\\u1160\\u1680\\u17b4\\u17b5' +
    '\\u180b-\\u180f\\u2000-\\u200a\\u202f\\u205f\\u2065\\u2800\\u3000\\u3164\\ufdd0-\\ufdef' +
    '\\ufe00-\\ufe0f\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff\\u{1fffe}\\u{1ffff}\\u{2fffe}\\u{2ffff}' +
    '\\u{3fffe}-\\u{10ffff}]', 'gu');
const kShortEscapes = {'\n': '\\n', '\r': '\\r', '\t': '\\t'};

// Names of the data as readers see them: "\\x1b[2J", "\\xc2\\xa0".
function Visible(text) {
  return text.replace(kInvisible, (c) => kShortEscapes[c] || Array.from(
      new TextEncoder().encode(c), (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join(''));
}

// The same for all texts and member names within a value. Lists of numbers are long and contain no
// text.
function MakeVisible(value) {
  if (typeof value === 'string') return Visible(value);
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return typeof value[0] === 'number' ? value : value.map(MakeVisible);
  return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [Visible(key), MakeVisible(each)]));
}

// The document of the page, with integers beyond 2^53 as text.
async function OpenData() {
  const holder = document.getElementById('data');
  if (!holder) return {documents: [], tables: []};
  const packed = atob(holder.textContent.replace(/\s+/g, ''));
  const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const text = await new Response(stream).text();
  const mayHideText = /\\[bfnrtu]|[^\x20-\x7e\n]/.test(text);
  return mayHideText ? MakeVisible(ParseExact(text)) : ParseExact(text);
}

// JSON.parse, but integers of 16 digits and more become strings. The slow parser runs only if there
// is such an integer.
function ParseExact(text) {
  if (!/[:,[]\s*-?\d{16,}\s*[,}\]]/.test(text)) return JSON.parse(text);
  const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  return JSON.parse(text.replace(token, (t) => /^-?\d{16,}$/.test(t) ? `"${t}"` : t));
}

// A double, or null if unknown.
function Num(value) {
  if (value === null || value === undefined || value === '') return null;
  const number = Number(value);
  return Number.isNaN(number) ? null : number;
}

// "GPU:0" for "/device:GPU:0"; "CPU:0" for "/host:CPU".
function DeviceName(row) {
  const name = String(row.plane).replace(/^\/(device|host):/, '');
  if (row.ordinal === null || row.ordinal === undefined || /:\d+$/.test(name)) return name;
  return `${name}:${row.ordinal}`;
}

// A list that is too long for the page: {all, rows}, the number of all rows and the kept ones.
const Kept = (result, name) => result.kept && result.kept[name];

// Names of rows' devices as in tables: with the host if there are several hosts, else with the
// input.
function DeviceNamer(rows) {
  const told = rows.filter((row) => row.plane);
  const several = (key) => new Set(told.map((row) => row[key])).size > 1;
  const hosts = several('host'), inputs = !hosts && several('input');
  return (row) => DeviceName(row) + (hosts && row.host ? `@${row.host}` : '') +
                  (inputs ? ` #${row.input + 1}` : '');
}

// ---------------------------------------------------------------- text

const kScales = [
  {unit: 'ns', ps: 1e3, most: 3}, {unit: 'us', ps: 1e6, most: 6},
  {unit: 'ms', ps: 1e9, most: 9}, {unit: 's', ps: 1e12, most: 12},
];

// Four to five significant digits, as the tables have them.
function Decimals(value, scale) {
  const size = Math.abs(value);
  let decimals = size >= 100000 ? 0 : size >= 1000 ? 1 : size >= 100 ? 2 : 3;
  if (size > 0 && size < 1) decimals = 3 - Math.floor(Math.log10(size));
  return Math.min(decimals, scale.most);
}

function ScaleOf(ps) {
  const size = Math.abs(ps);
  return [...kScales].reverse().find((scale) => size >= scale.ps) ||
         kScales[size === 0 ? 1 : 0];
}

// Rounds like printf: a tie goes to the even digit, while toFixed rounds up.
function Fixed(value, decimals) {
  const text = value.toFixed(decimals);
  const rest = Math.abs(value) * 10 ** decimals % 1;
  if (Math.abs(rest - 0.5) > 1e-6) return text;
  const digits = value.toFixed(Math.min(100, decimals + 40));
  const cut = digits.length - Math.min(40, 100 - decimals);
  if (!/^50*$/.test(digits.slice(cut))) return text;
  const kept = digits.slice(0, cut).replace(/\.$/, '');
  return '02468'.includes(kept[kept.length - 1]) ? kept : text;
}

// The unit of the table's column with this prefix; null: no such column.
function ScaleOfColumn(header) {
  const units = Array.from(document.querySelectorAll('th'), (th) => th.textContent)
      .filter((text) => text.startsWith(`${header} `)).map((text) => text.split(' ').pop());
  return kScales.find((scale) => units.includes(scale.unit));
}

// "12.346 us"; "unknown" for null. `of`: the unit.
function TimeText(value, plus = '', of = undefined) {
  const ps = Num(value);
  if (ps === null) return 'unknown';
  const scale = of || ScaleOf(ps);
  const decimals = Decimals(ps / scale.ps, scale);
  const digits = Fixed(ps / scale.ps, of ? Math.min(3, decimals) : decimals);
  return `${ps > 0 ? plus : ''}${digits} ${scale.unit}`;
}

// Ticks of a time axis: one unit for all of them.
function TimeTicks(domain, of = undefined) {
  const scale = of || ScaleOf(Math.max(Math.abs(domain[0]), Math.abs(domain[1])));
  const format = d3.format(',');
  return (ps) => `${format(Number((ps / scale.ps).toPrecision(9)))} ${scale.unit}`;
}

function PercentText(share) {
  return share === null ? 'unknown' : `${(share * 100).toFixed(1)} %`;
}

// "+6.69 %" for 1.0669.
function ChangeText(ratio) {
  const percent = (ratio - 1) * 100;
  const size = Math.abs(percent);
  const digits = size >= 1e6 ? percent.toExponential(1) : percent.toFixed(size >= 9.95 ? 1 : 2);
  return `${percent > 0 ? '+' : ''}${digits} %`;
}

// "1.31 T", as the tables have rates.
function RateText(value) {
  if (value === null) return 'unknown';
  if (value === 0) return '0';
  const prefixes = ['', ' k', ' M', ' G', ' T', ' P', ' E'];
  let at = 0;
  for (; Math.abs(value) >= 999.5 && at + 1 < prefixes.length; ++at) value /= 1000;
  const size = Math.abs(value);
  return Fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + prefixes[at];
}

// The middle gives way, so that names that differ at their ends stay apart.
const kFigureFont = '12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

function Shortened(text, most) {
  const letters = Array.from(text);
  if (letters.length <= most) return text;
  const head = Math.ceil((most - 1) / 2), tail = most - 1 - head;
  return letters.slice(0, head).join('') + '…' +
         letters.slice(letters.length - tail).join('');
}

// Each name as `shorten` makes it; of those that look alike then, what comes after what they share.
function Apart(names, shorten) {
  const shown = new Map(names.map((name) => [name, shorten(name)]));
  const alike = d3.nest().key((name) => shown.get(name)).entries(Array.from(shown.keys()));
  for (const {values} of alike.filter((each) => each.values.length > 1)) {
    const [one, ...others] = values;
    let at = 0;
    while (others.every((name) => name[at] === one[at])) ++at;
    for (const name of values) {
      shown.set(name, shorten(`${name.slice(0, 4)}…${name.slice(Math.max(0, at - 3))}`));
    }
  }
  return (name) => shown.get(name);
}

function Counted(count, what) {
  return `${d3.format(',')(count)} ${what}${count === 1 ? '' : 's'}`;
}

// ---------------------------------------------------------------- elements

function Element(name, options = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === 'text') element.textContent = value;
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// ---------------------------------------------------------------- tables

const kPageRows = 200;
const kFewRows = 6;  // not searchable
const kPaperWidth = 1030;  // A4 across, less its margins, in pixels

// The sort key of a cell: a number or words; null is unknown.
function CellValue(cell, isNumber) {
  const text = cell.trim();
  if (!isNumber) return text === '-' ? null : text;
  const match = /[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?/i.exec(text);
  return match ? match[0].replace(/,/g, '') : null;
}

// Numbers by size, compared exactly if doubles are equal; words by language; unknown last in both
// directions.
function Compare(a, b, isNumber, direction) {
  const noA = a === null || a === undefined, noB = b === null || b === undefined;
  if (noA || noB) return noA - noB;
  if (!isNumber) return direction * kCollator.compare(String(a), String(b));
  const difference = Number(a) - Number(b);
  if (difference !== 0 || typeof a !== 'string' || typeof b !== 'string') {
    return direction * difference;
  }
  if (!/^-?\d+$/.test(a) || !/^-?\d+$/.test(b)) return 0;
  const exact = BigInt(a) - BigInt(b);
  return direction * (exact > 0n ? 1 : exact < 0n ? -1 : 0);
}
const kCollator = new Intl.Collator('en', {numeric: true});

// Columns, with their entry of the page's data: `told`, {unit, exact, first, rest} each.
function ColumnsOf(table, told) {
  return Array.from(table.tHead.rows[table.tHead.rows.length - 1].cells, (th, i) => ({
    exact: [], first: [], rest: [], ...told[i], th, isNumber: th.classList.contains('number')}));
}

// Rows of the table: {texts, values, at, tr}; tr is null if the HTML omits the row.
function RowsOf(table, columns) {
  const row = (texts, at, tr) => ({texts, at, tr, values: columns.map(({exact, isNumber}, i) =>
    exact.length ? exact[at] || null : CellValue(texts[i], isNumber))});
  const given = Array.from(table.tBodies[0].rows, (tr, at) =>
    row(Array.from(tr.cells, (cell) => cell.textContent), at, tr));
  return given.concat(d3.range(columns[0].rest.length).map((i) =>
    row(columns.map((column) => Indented(column.rest[i])), given.length + i, null)));
}

// Spaces in front stay.
const Indented = (text) => text.replace(/^ +/, (spaces) => '\u00a0'.repeat(spaces.length));

// A long text is shown whole when it is selected, and on paper.
function Fold(cell, text, short) {
  cell.replaceChildren(Element(
    'span', {class: 'long', role: 'button', tabindex: 0, 'aria-expanded': 'false',
             'aria-label': text},
    Element('span', {class: 'short', text: short}), Element('span', {class: 'whole', text})));
}

function RowElement(row, columns) {
  if (!row.tr) {
    row.tr = Element('tr');
    row.texts.forEach((text, i) => {
      row.tr.append(Element('td', {text, class: columns[i].isNumber ? 'number' : 'text'}));
    });
  }
  if (!row.folded) {
    row.texts.forEach((text, i) => {
      const short = Indented(columns[i].first[row.at] || text);
      if (short !== text) Fold(row.tr.cells[i], text, short);
    });
  }
  row.folded = true;
  return row.tr;
}

// One table with its controls. State: order, filter and how many rows are shown.
class Table {
  constructor(element, index, told) {
    this.section = element.closest('section');
    this.element = element;
    this.index = index;
    this.columns = ColumnsOf(element, told);
    this.rows = RowsOf(element, this.columns);
    this.completed = this.columns[0].rest.length > 0;
    this.shown = this.rows;
    this.most = kPageRows;
    this.sorted = null;  // {column, direction}
    this.filter = '';
    this.AddControls();
    this.AddSorting();
    this.Show();
  }

  AddControls() {
    const id = `filter-${this.index}`;
    this.input = Element('input', {type: 'search', id, autocomplete: 'off', spellcheck: 'false'});
    this.input.addEventListener('input', () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.Filter(this.input.value),
                              this.rows.length > 5000 ? 150 : 0);
    });
    this.count = Element('output', {class: 'count', for: id, 'aria-live': 'polite'});
    const label = Element('label', {for: id, text: 'Find in the table'});
    this.controls = Element('div', {class: 'controls'}, label, this.input, this.count);
    this.more = Element('button', {type: 'button', text: `${kPageRows} more rows`});
    this.more.addEventListener('click', () => this.Grow(kPageRows));
    this.all = Element('button', {type: 'button', text: 'All rows'});
    this.all.addEventListener('click', () => this.Grow(Infinity));
    this.growth = Element('div', {class: 'controls growth'}, this.more, this.all);
    const scroll = Element('div', {
      class: 'scroll', role: 'region', tabindex: '0', 'aria-label': `Table: ${this.Title()}`});
    this.element.replaceWith(scroll);
    scroll.append(this.element);
    scroll.before(this.controls);
    scroll.after(this.growth);
    if (this.rows.length < kFewRows) this.controls.hidden = true;
    this.section.classList.add('live');
    if (this.completed) this.section.classList.add('completed');
  }

  Title() {
    const heading = this.section.querySelector('h2');
    return heading ? heading.textContent : this.section.dataset.table;
  }

  AddSorting() {
    this.columns.forEach((column, i) => {
      const button = Element('button', {type: 'button', class: 'sort'});
      button.append(...column.th.childNodes);
      button.addEventListener('click', () => this.SortBy(i));
      column.th.append(button);
    });
    this.AddWhole(this.element.tBodies[0]);
  }

  // The unrounded or complete value of a cell, shown when pointed at; a long text opens when
  // selected.
  AddWhole(body) {
    body.addEventListener('mouseover', (event) => this.SayExactly(event));
    body.addEventListener('focusin', (event) => {
      const box = event.target.getBoundingClientRect();
      if (event.target.matches('.long')) this.SayLong(event.target, box.left, box.bottom - 10);
    });
    for (const gone of ['mouseout', 'focusout']) body.addEventListener(gone, () => tip.Hide());
    const open = (event) => {
      const long = event.target.closest('.long');
      if (!long || String(getSelection())) return;
      long.setAttribute('aria-expanded', long.classList.toggle('open'));
      tip.Hide();
    };
    body.addEventListener('click', open);
    body.addEventListener('keydown', (event) => {
      if (!['Enter', ' '].includes(event.key) || !event.target.matches('.long')) return;
      event.preventDefault();
      open(event);
    });
  }

  SayLong(long, x, y) {
    if (!long.classList.contains('open')) tip.Show([long.getAttribute('aria-label')], x, y);
  }

  SayExactly(event) {
    const long = event.target.closest('.long');
    if (long) this.SayLong(long, event.clientX, event.clientY);
    const cell = event.target.closest('td');
    const column = cell && this.columns[cell.cellIndex];
    if (!column || !column.unit || cell.title) return;
    const row = this.shown.find((candidate) => candidate.tr === cell.parentNode);
    const value = row && row.values[cell.cellIndex];
    if (value !== null && value !== undefined) cell.title = `${value} ${column.unit}`;
  }

  // Numbers begin with the largest, words with A; then the other way round.
  SortBy(i) {
    const first = this.columns[i].isNumber ? -1 : 1;
    const again = this.sorted && this.sorted.column === i;
    const direction = again ? -this.sorted.direction : first;
    this.sorted = {column: i, direction};
    const {isNumber} = this.columns[i];
    this.rows = this.rows.slice().sort((a, b) =>
      Compare(a.values[i], b.values[i], isNumber, direction));
    for (const {th} of this.columns) th.removeAttribute('aria-sort');
    this.columns[i].th.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
    this.Filter(this.filter);
  }

  Filter(text) {
    this.filter = text;
    const wanted = text.trim().toLowerCase();
    this.shown = wanted === '' ? this.rows : this.rows.filter((row) =>
      row.texts.some((cell) => cell.toLowerCase().includes(wanted)));
    this.most = kPageRows;
    this.Show();
  }

  Grow(rows) {
    this.most = Math.min(this.shown.length, this.most + rows);
    this.Show();
  }

  // Paper has no buttons: it gets every row, in letters so small that all columns fit.
  Print() {
    this.Show(Infinity);
    const {classList, style} = this.element;
    classList.add('paper');
    style.width = 'min-content';
    style.fontSize = `${7 * Math.min(1, kPaperWidth / this.element.offsetWidth)}pt`;
    style.width = '';
  }

  Show(most = this.most) {
    const visible = this.shown.slice(0, most);
    this.element.tBodies[0].replaceChildren(
      ...visible.map((row) => RowElement(row, this.columns)));
    const left = this.shown.length - visible.length;
    this.growth.hidden = left === 0;
    this.more.hidden = left <= kPageRows;
    this.all.textContent = `All ${d3.format(',')(this.shown.length)} rows`;
    const format = d3.format(',');
    this.count.textContent = left === 0 && this.shown.length === this.rows.length
      ? Counted(this.rows.length, 'row')
      : `${format(visible.length)} of ${Counted(this.rows.length, 'row')}` +
        (this.filter.trim() ? `, ${format(this.shown.length)} found` : '');
  }
}

// `told`: the entries of all tables of the page.
function MakeTables(told) {
  const tables = Array.from(document.querySelectorAll('section table'), (table, i) =>
    new Table(table, i, told[i] ? told[i].columns : []));
  addEventListener('beforeprint', () => tables.forEach((table) => table.Print()));
  addEventListener('afterprint', () => tables.forEach((table) => {
    table.element.classList.remove('paper');
    table.element.style.fontSize = '';
    table.Show();
  }));
  return tables;
}

// ---------------------------------------------------------------- figures

// One for all figures: what the pointer or the keyboard is at. Also read out.
const tip = {
  element: null,
  Show(lines, x, y) {
    if (!this.element) {
      this.element = Element('div', {class: 'tip', role: 'status'});
      document.body.append(this.element);
    }
    this.element.replaceChildren(...lines.map((text, i) =>
      Element(i === 0 ? 'strong' : 'span', {text})));
    this.element.hidden = false;
    const {width, height} = this.element.getBoundingClientRect();
    const left = Math.min(x + 14, document.documentElement.clientWidth - width - 8);
    const top = y + 18 + height > innerHeight ? y - height - 10 : y + 18;
    this.element.style.left = `${Math.max(4, left)}px`;
    this.element.style.top = `${Math.max(4, top)}px`;
  },
  Hide() { if (this.element) this.element.hidden = true; },
};

// A figure: {name, title, finding, how, legend, draw(svg, width) -> height}; `whole`: of all rows,
// whatever the page has of them. The finding, in words, is the caption's first sentence and the
// picture's accessible name.
class Figure {
  constructor(spec) {
    this.spec = spec;
    this.element = Element('figure', {'data-figure': spec.name});
    this.element.append(this.Caption());
    if (spec.legend && spec.legend.length) this.element.append(Legend(spec.legend));
    this.svg = d3.create('svg')
        .attr('role', 'img').attr('aria-label', `${spec.title}: ${spec.finding}`)
        .attr('tabindex', 0).attr('focusable', 'true');
    this.element.append(this.svg.node());
    this.at = -1;
    this.Listen();
  }

  Caption() {
    const {title, finding, how} = this.spec;
    const caption = Element('figcaption', {}, Element('strong', {text: title}), ' ',
                            Element('span', {class: 'finding', text: finding}));
    if (how) caption.append(' ', Element('span', {class: 'how', text: how}));
    return caption;
  }

  // Draws again if the width has changed.
  Draw() {
    const width = Math.max(280, Math.floor(this.element.clientWidth) || 900);
    if (width === this.width) return;
    this.width = width;
    this.svg.selectAll('*').remove();
    AddHatch(this.svg);
    const height = Math.ceil(this.spec.draw(this.svg, width));
    this.svg.attr('viewBox', `0 0 ${width} ${height}`).attr('width', width)
        .attr('height', height);
    this.marks = this.svg.selectAll('.mark').nodes();
    this.at = -1;
  }

  Listen() {
    const node = this.svg.node();
    node.addEventListener('pointermove', (event) => {
      const mark = event.target.closest('.mark');
      if (mark) this.Point(mark, event.clientX, event.clientY);
      else this.Leave();
    });
    node.addEventListener('pointerleave', () => this.Leave());
    node.addEventListener('blur', () => this.Leave());
    node.addEventListener('keydown', (event) => this.Key(event));
    node.addEventListener('click', (event) => this.Act(event.target.closest('.mark')));
  }

  // The action of a figure when a mark is selected, if it has one.
  Act(mark) {
    if (!mark || !this.spec.act) return;
    this.spec.act(d3.select(mark).datum());
    this.Leave();
    this.width = 0;
    this.Draw();
  }

  Key(event) {
    const steps = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
    const last = this.marks.length - 1;
    if (event.key === 'Escape') return this.Leave();
    if (event.key === 'Enter') return this.Act(this.marks[this.at]);
    if (event.key === 'Home') this.at = 0;
    else if (event.key === 'End') this.at = last;
    else if (event.key in steps) {
      this.at = Math.min(last, Math.max(0, this.at + steps[event.key]));
    } else return undefined;
    event.preventDefault();
    if (last < 0) return undefined;
    const mark = this.marks[this.at];
    const box = mark.getBoundingClientRect();
    return this.Point(mark, box.left + box.width / 2, box.top + box.height / 2);
  }

  Point(mark, x, y) {
    if (this.pointed && this.pointed !== mark) this.pointed.classList.remove('pointed');
    this.pointed = mark;
    mark.classList.add('pointed');
    tip.Show(d3.select(mark).datum().tip, x, y);
  }

  Leave() {
    if (this.pointed) this.pointed.classList.remove('pointed');
    this.pointed = null;
    tip.Hide();
  }
}

function Legend(entries) {
  const list = Element('ul', {class: 'legend'});
  for (const {text, fill} of entries) {
    const key = d3.create('svg').attr('width', 14).attr('height', 14).attr('aria-hidden', 'true');
    AddHatch(key);
    key.append('rect').attr('width', 14).attr('height', 14).call(Fill, fill);
    list.append(Element('li', {}, key.node(), Element('span', {text})));
  }
  return list;
}

// Unknown values are hatched, never 0 and never a colour.
let hatches = 0;
function AddHatch(svg) {
  const id = `hatch-${++hatches}`;
  svg.node().hatch = id;
  const pattern = svg.append('defs').append('pattern').attr('id', id)
      .attr('width', 6).attr('height', 6).attr('patternUnits', 'userSpaceOnUse')
      .attr('patternTransform', 'rotate(45)');
  pattern.append('rect').attr('width', 6).attr('height', 6).attr('class', 'hatch-ground');
  pattern.append('rect').attr('width', 2).attr('height', 6).attr('class', 'hatch-line');
}

// Colours are classes of the style sheet, which knows light and dark.
function Fill(selection, fill) {
  selection.each(function () {
    const name = typeof fill === 'function' ? fill(d3.select(this).datum()) : fill;
    const shape = d3.select(this).classed(`fill-${name}`, true).classed('shape', true);
    if (name !== 'unknown') return;
    const owner = this.ownerSVGElement;
    shape.attr('fill', `url(#${owner.hatch})`);
  });
}

// How wide a text is in figures, in pixels.
const ruler = document.createElement('canvas').getContext('2d');
function WidthOf(text) {
  ruler.font = kFigureFont;
  return ruler.measureText(text).width;
}

// Shortened to at most so many pixels.
function FittedText(text, space) {
  let letters = Math.max(1, Math.ceil(space / 4));
  let shown = Shortened(text, letters);
  while (letters > 6 && WidthOf(shown) > space) shown = Shortened(text, --letters);
  return shown;
}

// The left margin for names, and the shown part of each name.
function NameMargin(names, width) {
  const longest = d3.max(names, (name) => WidthOf(Shortened(name, 80))) || 1;
  const space = Math.min(longest + 14, Math.max(86, width * 0.32));
  return {space, shown: Apart(names, (name) => FittedText(name, space - 10))};
}

function RowName(svg, name, margin, y, tipLines) {
  const text = svg.append('text').attr('class', 'name').attr('x', margin.space - 8).attr('y', y)
      .attr('dy', '0.35em').attr('text-anchor', 'end').text(margin.shown(name));
  if (tipLines) text.append('title').text(name);
}

function BottomAxis(svg, x, y, width, format) {
  const ticks = Math.max(2, Math.floor((x.range()[1] - x.range()[0]) / 90));
  const axis = d3.axisBottom(x).ticks(ticks).tickSizeOuter(0);
  if (format) axis.tickFormat(format);
  svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${y})`).call(axis);
}

// Vertical lines behind the marks.
function Grid(svg, x, top, bottom) {
  const ticks = x.ticks(Math.max(2, Math.floor((x.range()[1] - x.range()[0]) / 90)));
  svg.append('g').attr('class', 'grid').selectAll('line').data(ticks).enter().append('line')
      .attr('x1', (v) => x(v)).attr('x2', (v) => x(v)).attr('y1', top).attr('y2', bottom);
}

// Horizontal bars. rows: {name, value, fill, tip, note, ci}; value null is unknown.
function DrawBars(svg, width, rows, format) {
  const margin = NameMargin(rows.map((row) => row.name), width);
  const step = 24, top = 4, right = 82, bottom = top + step * rows.length;
  const ends = rows.map((row) => Math.max(row.value || 0, row.ci ? row.ci[1] : 0));
  const x = d3.scaleLinear().domain([0, d3.max(ends) || 1]).range([margin.space, width - right]);
  Grid(svg, x, top, bottom);
  rows.forEach((row, i) => {
    const y = top + i * step;
    RowName(svg, row.name, margin, y + step / 2, true);
    const known = row.value !== null;
    svg.append('rect').datum(row).attr('class', 'mark').attr('x', x.range()[0]).attr('y', y + 4)
        .attr('width', known ? Math.max(1, x(row.value) - x(0)) : 40).attr('height', step - 8)
        .attr('data-value', row.value).call(Fill, known ? row.fill : 'unknown');
    svg.append('text').attr('class', 'value').attr('y', y + step / 2).attr('dy', '0.35em')
        .attr('x', (known ? x(ends[i]) : x(0) + 40) + 6).text(row.note || TimeText(row.value));
    if (row.ci) {
      svg.append('line').attr('class', 'range').attr('y1', y + step / 2).attr('y2', y + step / 2)
          .attr('x1', x(Math.max(0, row.ci[0]))).attr('x2', x(row.ci[1]));
    }
  });
  BottomAxis(svg, x, bottom, width, format || TimeTicks(x.domain()));
  return bottom + 26;
}

// Stacked bars. rows: {name, parts: [{key, text, value, fill}], total}; as shares of each total,
// or as times on one axis.
function DrawStacks(svg, width, rows, asShares) {
  const margin = NameMargin(rows.map((row) => row.name), width);
  const step = 28, top = 4, right = 82, bottom = top + step * rows.length;
  const most = asShares ? 1 : d3.max(rows, (row) => row.total) || 1;
  const x = d3.scaleLinear().domain([0, most]).range([margin.space, width - right]);
  Grid(svg, x, top, bottom);
  rows.forEach((row, i) => {
    const y = top + i * step;
    RowName(svg, row.name, margin, y + step / 2, true);
    DrawStack(svg, row, x, y + 4, step - 8, asShares);
    svg.append('text').attr('class', 'value').attr('y', y + step / 2).attr('dy', '0.35em')
        .attr('x', x(asShares ? 1 : row.total || 0) + 6)
        .text(row.total === null ? 'unknown' : TimeText(row.total));
  });
  BottomAxis(svg, x, bottom, width, asShares ? d3.format('.0%') : TimeTicks(x.domain()));
  return bottom + 26;
}

function DrawStack(svg, row, x, y, height, asShares) {
  if (row.total === null || row.parts.length === 0) {
    svg.append('rect').datum({tip: [row.name, 'time unknown']}).attr('class', 'mark')
        .attr('x', x(0)).attr('y', y).attr('width', x(x.domain()[1]) - x(0))
        .attr('height', height).call(Fill, 'unknown');
    return;
  }
  const scale = asShares ? 1 / (row.total || 1) : 1;
  let before = 0;
  for (const part of row.parts) {
    const share = row.total ? part.value / row.total : 0;
    const left = x(before * scale), right = x((before + part.value) * scale);
    svg.append('rect').attr('class', 'mark').attr('x', left).attr('y', y)
        .datum({tip: [row.name, `${part.text}: ${TimeText(part.value)}`, PercentText(share)]})
        .attr('width', Math.max(0, right - left)).attr('height', height)
        .attr('data-part', part.key).attr('data-value', part.value).call(Fill, part.fill);
    if (right - left > 44) {
      svg.append('text').attr('class', `inside on-${part.fill}`).attr('x', (left + right) / 2)
          .attr('y', y + height / 2).attr('dy', '0.35em').text(`${Math.round(share * 100)} %`);
    }
    before += part.value;
  }
}

// Rows with equal names get the function, then the program, as far as these differ.
function Distinct(rows) {
  for (const more of ['of', 'program']) {
    const count = d3.nest().key((row) => row.name).rollup((same) => same.length).object(rows);
    for (const row of rows) {
      if (count[row.name] > 1 && row[more]) row.name += ` · ${row[more]}`;
    }
  }
  return rows;
}

// ---------------------------------------------------------------- views: where

const kParts = [
  {key: 'compute_ps', text: 'compute', fill: 'compute'},
  {key: 'collective_exposed_ps', text: 'exposed collective', fill: 'collective'},
  {key: 'copy_exposed_ps', text: 'exposed copy', fill: 'copy'},
  {key: 'other_ps', text: 'other', fill: 'other'},
  {key: 'foreign_ps', text: 'other functions', fill: 'foreign'},
];
const kIdleParts = [
  {key: 'idle_host_ps', text: 'idle, host late', fill: 'idle-host'},
  {key: 'idle_launch_ps', text: 'idle, launched', fill: 'idle-launch'},
  {key: 'idle_unknown_ps', text: 'idle, cause unknown', fill: 'unknown'},
];
const kIdle = {key: 'idle_ps', text: 'idle', fill: 'idle'};
const kBusy = {key: 'busy_ps', text: 'busy', fill: 'busy'};

// The exact partition of a row's span: its parts add up to the total. If launches are unknown
// (null), idle time is one part with an unknown cause.
function Partition(row) {
  const total = Num(row.span_ps);
  if (total === null || Num(row.compute_ps) === null) return {total: null, parts: []};
  const taken = (part) => ({...part, value: Num(row[part.key])});
  const parts = kParts.map(taken).filter((part) => part.value !== null);
  const idle = kIdleParts.map(taken).filter((part) => part.value !== null);
  if (idle.length === 0 && Num(row.idle_ps) !== null) idle.push(taken(kIdle));
  return {total, parts: parts.concat(idle).filter((part) => part.value > 0)};
}

// Busy and not, of a report's device.
function BusyPartition(row) {
  const first = Num(row.first_ps), last = Num(row.last_ps), busy = Num(row.busy_ps);
  if (first === null || last === null) return {total: null, parts: []};
  const total = last - first;
  return {total, parts: [{...kBusy, value: busy}, {...kIdle, value: total - busy}]
      .filter((part) => part.value > 0)};
}

function LegendOf(rows) {
  const used = new Set(rows.flatMap((row) => row.parts.map((part) => part.key)));
  return [kBusy, ...kParts, ...kIdleParts, kIdle].filter((part) => used.has(part.key));
}

// "TPU:0: 82.2 % exposed copy, 14.8 % idle, cause unknown, 2.6 % compute"
function LargestParts(row) {
  const parts = row.parts.filter((part) => part.value >= row.total * 5e-4)
      .sort((a, b) => b.value - a.value).slice(0, 3);
  return `${row.name}: ` + (parts.map((part) =>
    `${PercentText(part.value / row.total)} ${part.text}`).join('; ') || 'no time was recorded');
}

// The row that did most, of which a headline speaks.
function Busiest(rows) {
  const busy = (row) => d3.sum(row.parts, (part) => /^idle/.test(part.key) ? 0 : part.value);
  return rows.slice().sort((a, b) => busy(b) - busy(a))[0];
}

const kMostRows = 16;

function PartitionView(name, title, rows, what, of) {
  if (rows.length === 0) return null;
  const shown = rows.slice(0, kMostRows);
  const known = shown.filter((row) => row.total !== null);
  const left = rows.length - shown.length;
  const causes = known.some((row) => row.parts.some((part) => part.key === 'idle_unknown_ps'));
  return {
    name, title,
    finding: (known.length ? LargestParts(Busiest(known)) : `no ${what} has a known time`) + '.',
    how: `Right: shares of ${of}. The parts add up exactly.` +
         (causes ? ' Hatched: idle without a known launch, so the cause is unknown.' : '') +
         (known.length < shown.length ? ' A completely hatched bar has no known time.' : '') +
         (left > 0 ? ` ${Counted(left, `more ${what}`)} in the table.` : ''),
    legend: LegendOf(known),
    draw: (svg, width) => DrawStacks(svg, width, shown, true),
  };
}

function WhereDevices(result) {
  const nameOf = DeviceNamer(result.devices);
  const rows = result.devices.map((row) => ({name: nameOf(row), ...Partition(row)}));
  return PartitionView('where-devices', 'Where each device\'s time went', rows, 'device',
                       'the time from the first start to the last end of the device');
}

function WhereFunctions(result) {
  const nameOf = DeviceNamer(result.devices);
  const several = result.devices.length > 1;
  const rows = result.functions
      .map((row) => ({name: row.function + (several ? ` ${nameOf(row)}` : ''),
                      program: row.program_id, ...Partition(row)}))
      .sort((a, b) => (b.total || 0) - (a.total || 0));
  return PartitionView('where-functions', 'Where each function\'s time went', Distinct(rows),
                       'function', 'the spans of its runs');
}

// One small panel a device, one column a step; of many steps those that C++ chose.
function WhereSteps(result) {
  if (!result.steps || result.steps.length === 0) return null;
  const nameOf = DeviceNamer(result.devices);
  const count = (Kept(result, 'steps') || {all: result.steps.length}).all;
  const drawn = result.drawn && result.drawn.steps || result.steps;
  const all = d3.nest().key(nameOf).entries(drawn);
  const devices = all.slice(0, 8).map(({key, values}) => ({
    name: key,
    steps: values.map((row) => ({name: `${key}, step ${row.name}`, ...Partition(row)})),
  }));
  const steps = devices.flatMap((device) => device.steps).filter((step) => step.total !== null);
  if (steps.length === 0) return null;
  const high = d3.max(steps, (step) => step.total);
  const longest = steps.find((step) => step.total === high);
  return {
    name: 'where-steps', title: 'Each step',
    whole: true,
    finding: `${Counted(count, 'step')}; the longest is ${longest.name}, ` +
             `${TimeText(high)}.`,
    how: 'Ordered by start. The height of a column is the time of the step.' +
         (count > drawn.length ? ' Of several steps in a row, only the longest is drawn.' : '') +
         (all.length > devices.length
             ? ` ${Counted(all.length - devices.length, 'more device')} in the table.` : ''),
    legend: LegendOf(steps),
    draw: (svg, width) => DrawSteps(svg, width, devices, high),
  };
}

function DrawSteps(svg, width, devices, high) {
  const panel = 110, gap = 26, left = 70, top = 18;
  devices.forEach((device, d) => {
    const bottom = top + d * (panel + gap) + panel;
    const right = Math.min(width - 8, left + 70 * device.steps.length);
    const x = d3.scaleBand().domain(d3.range(device.steps.length)).range([left, right])
        .paddingInner(device.steps.length > 120 ? 0 : 0.12);
    const y = d3.scaleLinear().domain([0, high]).range([bottom, bottom - panel]);
    svg.append('text').attr('class', 'panel').attr('x', left).attr('y', bottom - panel - 6)
        .text(device.name);
    svg.append('g').attr('class', 'axis').attr('transform', `translate(${left},0)`)
        .call(d3.axisLeft(y).ticks(3).tickFormat(TimeTicks(y.domain())).tickSizeOuter(0));
    device.steps.forEach((step, i) => {
      let before = 0;
      for (const part of step.parts) {
        const from = y(before), to = y(before + part.value);
        svg.append('rect').attr('class', 'mark').attr('x', x(i)).attr('y', to)
            .datum({tip: [step.name, `${part.text}: ${TimeText(part.value)}`,
                          `${PercentText(part.value / step.total)} of ${TimeText(step.total)}`]})
            .attr('width', Math.max(0.5, x.bandwidth())).attr('height', Math.max(0, from - to))
            .attr('data-part', part.key).attr('data-value', part.value).call(Fill, part.fill)
            .classed('thin', x.bandwidth() < 5);
        before += part.value;
      }
    });
  });
  return top + devices.length * (panel + gap) - gap + 8;
}

// ---------------------------------------------------------------- views: report

function ReportDevices(result) {
  const active = result.devices.filter((row) => row.executions !== 0);
  if (active.length === 0) return null;
  const nameOf = DeviceNamer(result.devices);
  const rows = active.slice(0, 32).map((row) => ({name: nameOf(row), ...BusyPartition(row)}));
  const known = rows.filter((row) => row.total !== null);
  const quiet = result.devices.length - active.length;
  const most = Busiest(known);
  return {
    name: 'report-devices', title: 'Time of each device',
    finding: (most ? LargestParts(most) + (most.total ? `, of ${TimeText(most.total)}` : '')
                   : 'no device has a known time') + '.',
    how: 'Relative to first start to last end of each device.' +
         (active.length > rows.length
             ? ` ${Counted(active.length - rows.length, 'more device')} in the table.` : '') +
         (quiet ? ` ${Counted(quiet, 'device')} without executions.` : ''),
    legend: LegendOf(known),
    draw: (svg, width) => DrawStacks(svg, width, rows, false),
  };
}

// The runs of the longest functions: median, its interval, and the single runs if the report has
// them.
function ReportFunctions(result) {
  const nameOf = DeviceNamer(result.functions), drawn = result.drawn && result.drawn.samples;
  const several = new Set(result.functions.filter((row) => row.plane).map(nameOf)).size > 1;
  const metric = `${(result.options && result.options.metric) || 'active'}_ps`;
  const total = (row) => row[metric].mean * row[metric].n;
  const known = result.functions.filter((row) => row[metric] && Num(row[metric].median) !== null);
  const rows = known.sort((a, b) => total(b) - total(a)).slice(0, 12)
      .map((row) => FunctionRow(row, several ? `${row.function} ${nameOf(row)}` : row.function,
                                metric, drawn || result.samples || []));
  if (rows.length === 0) return null;
  for (const row of Distinct(rows)) row.tip[0] = row.name;
  const without = result.functions.length - known.length;
  const first = rows[0];
  const sampled = rows.some((row) => row.samples.length);
  return {
    name: 'report-functions', title: 'Runs of the functions that took longest',
    finding: `${first.name}: median ${TimeText(first.median)}` +
             (first.ci ? `, 95 % interval ${TimeText(first.ci[0])} to ${TimeText(first.ci[1])}`
                       : ', interval unknown') +
             `, ${Counted(first.runs, 'run')}.`,
    how: 'Ordered by the total of all runs. Diamond: median; thick bar: its 95 % interval;' +
         ' line: shortest to longest run' +
         (sampled ? '; dots: single runs, hollow if suspect; many runs are a histogram.'
                  : '.') +
         (known.length > rows.length
             ? ` ${Counted(known.length - rows.length, 'more row')} not drawn.` : '') +
         (sampled && drawn ? ' Of many runs, only every k-th is drawn.' : '') +
         (without ? ` ${Counted(without, 'function')} without a known time.` : '') +
         (LogSpread(rows) ? ' The axis is logarithmic.' : ''),
    draw: (svg, width) => DrawRuns(svg, width, rows),
  };
}

function FunctionRow(row, name, metric, samples) {
  const {median, min, max, n, median_ci95: ci} = row[metric];
  const own = samples.filter((sample) =>
    ['plane', 'host', 'input', 'function', 'program_id'].every((k) => sample[k] === row[k]) &&
    Num(sample[metric]) !== null);
  const known = Array.isArray(ci) && ci.every((end) => Num(end) !== null);
  return {
    name, program: row.program_id, median: Num(median), min: Num(min), max: Num(max), runs: n,
    ci: known ? ci.map(Num) : null,
    samples: own.map((s) => ({run: s.run, value: Num(s[metric]), suspect: s.suspect,
                              exact: s[metric]})),
    tip: [name, `median ${TimeText(median)}` +
                (known ? `, 95 % ${TimeText(ci[0])} to ${TimeText(ci[1])}` : ', interval unknown'),
          `${TimeText(min)} to ${TimeText(max)}, ${Counted(n, 'run')}`],
  };
}

const LogSpread = (rows) =>
  d3.min(rows, (row) => row.min) > 0 &&
  d3.max(rows, (row) => row.max) / d3.min(rows, (row) => row.min) > 30;

function DrawRuns(svg, width, rows) {
  const margin = NameMargin(rows.map((row) => row.name), width);
  const step = 30, top = 4, right = 20, bottom = top + step * rows.length;
  const high = d3.max(rows, (row) => d3.max([row.max, ...row.samples.map((s) => s.value)]));
  const low = d3.min(rows, (row) => d3.min([row.min, ...row.samples.map((s) => s.value)]));
  const log = LogSpread(rows) && low > 0;
  const x = (log ? d3.scaleLog().domain([low, high]).nice()
                 : d3.scaleLinear().domain([0, high]).nice()).range([margin.space, width - right]);
  Grid(svg, x, top, bottom);
  rows.forEach((row, i) => DrawRunsRow(svg, row, x, top + i * step + step / 2, margin));
  const format = TimeTicks(x.domain());
  const wide = (x.range()[1] - x.range()[0]) / 90;
  const crowded = log && x.ticks(wide).length > wide * 1.6;
  BottomAxis(svg, x, bottom, width, (v) => crowded && !IsPowerOfTen(v) ? '' : format(v));
  return bottom + 26;
}

const IsPowerOfTen = (v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9;

function DrawRunsRow(svg, row, x, y, margin) {
  RowName(svg, row.name, margin, y, true);
  svg.append('line').attr('class', 'range').attr('x1', x(row.min)).attr('x2', x(row.max))
      .attr('y1', y).attr('y2', y);
  if (row.ci) {
    svg.append('rect').datum(row).attr('class', 'mark').attr('x', x(row.ci[0])).attr('y', y - 5)
        .attr('width', Math.max(2, x(row.ci[1]) - x(row.ci[0]))).attr('height', 10)
        .attr('data-low', row.ci[0]).attr('data-high', row.ci[1]).call(Fill, 'interval');
  }
  if (row.samples.length > kMostDots) DrawRunsHistogram(svg, row, x, y);
  else DrawRunsDots(svg, row, x, y);
  svg.append('path').datum(row).attr('class', 'mark').attr('data-value', row.median)
      .attr('d', d3.symbol().type(d3.symbolDiamond).size(70)())
      .attr('transform', `translate(${x(row.median)},${y})`).call(Fill, 'median');
}

const kMostDots = 150;

function DrawRunsDots(svg, row, x, y) {
  row.samples.forEach((sample) => {
    // Set apart by the run's number, so that the same page has the same dots.
    const aside = ((sample.run * 7) % 11 - 5) * 1.6;
    svg.append('circle').attr('cx', x(sample.value)).attr('cy', y + aside).attr('r', 2.6)
        .datum({tip: [row.name, `run ${sample.run}: ${TimeText(sample.value)}`,
                      `${sample.exact} ps${sample.suspect ? ', suspect' : ''}`]})
        .attr('class', 'mark').attr('data-run', sample.run).attr('data-value', sample.exact)
        .call(Fill, sample.suspect ? 'hollow' : 'sample');
  });
}

// For many runs, a histogram: bars of four pixels, the highest as high as the row.
function DrawRunsHistogram(svg, row, x, y) {
  const edges = d3.range(x.range()[0], x.range()[1], 4).map((at) => x.invert(at));
  const bins = d3.histogram().value((sample) => sample.value).domain(x.domain())
      .thresholds(edges)(row.samples).filter((bin) => bin.length);
  const height = d3.scaleLinear().domain([0, d3.max(bins, (bin) => bin.length)]).range([0, 13]);
  for (const bin of bins) {
    svg.append('rect').attr('class', 'mark histogram').attr('x', x(bin.x0))
        .attr('width', Math.max(1, x(bin.x1) - x(bin.x0))).attr('y', y - height(bin.length))
        .attr('height', height(bin.length)).attr('data-count', bin.length)
        .datum({tip: [row.name, `${Counted(bin.length, 'run')} of ${TimeText(bin.x0)} to ` +
                                TimeText(bin.x1)]})
        .call(Fill, 'sample');
  }
}

// Each kernel of a function once, over all devices and, as in a report's table, all programs.
// Shares are relative to the self time of all devices, not only of these rows.
function KernelsOfAllDevices(kernels, programs) {
  const own = (row) => Num(row.self_ps) === null ? Num(row.total_ps) : Num(row.self_ps);
  const whole = d3.nest().key((row) => JSON.stringify([row.plane, row.ordinal, row.host, row.input]))
      .rollup((rows) => {
        const known = rows.filter((row) => Num(row.share) > 0);
        const largest = known.sort((a, b) => b.share - a.share)[0];
        return largest ? own(largest) / largest.share : d3.sum(rows, own);
      }).entries(kernels);
  const all = d3.sum(whole, ({value}) => value);
  return d3.nest()
      .key((row) => JSON.stringify([row.kernel, row.function, programs ? row.program_id : null]))
      .entries(kernels)
      .map(({values}) => {
        const self = d3.sum(values, own);
        return {...values[0], self, share: all > 0 ? self / all : null,
                program_id: programs ? values[0].program_id : null,
                total: d3.sum(values, (row) => Num(row.total_ps)),
                count: d3.sum(values, (row) => Num(row.count)),
                devices: new Set(values.map(DeviceName)).size};
      })
      .sort((a, b) => b.self - a.self);
}

function ReportKernels(result) {
  const sorted = KernelsOfAllDevices(result.kernels, result.schema !== 'xplane-time.report.v1');
  if (sorted.length === 0) return null;
  const fills = {compute: 'compute', collective: 'collective', copy: 'copy'};
  const rows = sorted.slice(0, 20).map((row) => ({
    name: row.kernel, of: row.function, program: row.program_id, value: row.self,
    fill: fills[row.category] || 'other',
    tip: [row.kernel, `self ${TimeText(row.self)}, total ${TimeText(row.total)}` +
                      (row.devices > 1 ? ` on ${row.devices} devices` : ''),
          `${Counted(row.count, 'execution')}, ${PercentText(row.share)} of self time`,
          `${row.category || 'unknown category'}${row.function ? `, of ${row.function}` : ''}`],
  }));
  const first = sorted[0];
  const used = new Set(rows.map((row) => row.fill));
  return {
    name: 'report-kernels', title: 'Kernels by self time',
    finding: `${Shortened(first.kernel, 60)} took longest: ${TimeText(first.self)}, ` +
             `${PercentText(first.share)} of the self time` +
             (first.devices > 1 ? ` of all devices.` : '.'),
    how: sorted.length > 20 ? `${Counted(sorted.length - 20, 'more kernel')} not drawn.` : '',
    legend: [...kParts].filter((part) => used.has(part.fill))
        .map((part) => ({text: part.text.replace('exposed ', ''), fill: part.fill})),
    draw: (svg, width) => DrawBars(svg, width, Distinct(rows)),
  };
}

// ---------------------------------------------------------------- views: headroom

function HeadroomOps(result) {
  const nameOf = DeviceNamer(result.devices);
  return result.ops.map((row) => {
    const flops = Num(row.flops), bytes = Num(row.bytes), rate = Num(row.flops_per_s);
    const device = nameOf(row);
    return {
      name: row.op, of: row.function, program: row.program_id, device, rate,
      intensity: flops && bytes ? flops / bytes : null,
      total: Num(row.total_ps), recoverable: Num(row.recoverable_ps), bound: row.bound,
      share: d3.max([Num(row.flops_share), Num(row.bytes_share)]),
      tip: [row.op, `${device}${row.function ? `, ${row.function}` : ''}`,
            `${RateText(rate)} FLOP/s, ${RateText(Num(row.bytes_per_s))} B/s`,
            `total ${TimeText(row.total_ps)}, recoverable ${TimeText(row.recoverable_ps)}`,
            `bound: ${row.bound || 'unknown'}${row.reason ? `; ${row.reason}` : ''}`],
    };
  });
}

const kBoundFills = {memory: 'memory', compute: 'compute', neither: 'neither'};

// Only the fills in use.
function BoundLegend(fills) {
  return [{text: 'bound by memory', fill: 'memory'}, {text: 'bound by compute', fill: 'compute'},
          {text: 'bound by neither', fill: 'neither'}, {text: 'bound unknown', fill: 'unknown'}]
      .filter(({fill}) => fills.includes(fill));
}

// The ops' time by device: with a roof, and without one by reason.
function HeadroomAnswered(result) {
  const nameOf = DeviceNamer(result.devices);
  const sums = new Map(result.devices.map((row) => [nameOf(row), new Map()]));
  for (const row of result.ops) {
    const of = sums.get(nameOf(row)), why = row.reason || '';
    if (of) of.set(why, (of.get(why) || 0) + Num(row.total_ps));
  }
  const rows = Array.from(sums, ([name, of]) => ({name, total: d3.sum(Array.from(of.values())),
    parts: Array.from(of, ([why, value]) => ({
      key: why || 'roof', value, fill: why ? 'unknown' : 'busy',
      text: why ? `no roof: ${why.replace(/_/g, ' ')}` : 'has a roof'}))
        .sort((a, b) => (b.key === 'roof') - (a.key === 'roof') || b.value - a.value)}))
      .filter((row) => row.total > 0).slice(0, kMostRows);
  if (rows.every((row) => row.parts.every((part) => part.key === 'roof'))) return null;
  return {
    name: 'headroom-answered', title: 'Time with and without a roof',
    finding: `${LargestParts(Busiest(rows))}.`,
    how: 'All ops. Hatched: time without a roof. Its recoverable part is unknown, not 0.',
    legend: [{text: 'has a roof', fill: 'busy'}, {text: 'no roof', fill: 'unknown'}],
    draw: (svg, width) => DrawStacks(svg, width, rows, true),
  };
}

function HeadroomRoofline(result) {
  const ops = HeadroomOps(result);
  const dots = ops.filter((op) => op.intensity > 0 && op.rate > 0)
      .sort((a, b) => b.total - a.total).slice(0, 500);
  if (dots.length === 0) return null;
  const roofs = RoofsOf(result, dots);
  const largest = dots[0];
  const without = ops.length - dots.length;
  return {
    name: 'headroom-roofline', title: 'Roofline',
    finding: `${without ? 'Of the ops drawn, ' : ''}${largest.name} took longest, ${TimeText(largest.total)}, at ` +
             `${RateText(largest.rate)} FLOP/s` + (largest.share === undefined
               ? '; its share of a roof is unknown.'
               : `, ${PercentText(largest.share)} of a roof.`),
    how: 'One dot per op; its area shows its time. Lines: limits of the device.' +
         (without ? ` ${Counted(without, 'op')} without known FLOPs or bytes: only in the table.`
                  : ''),
    legend: BoundLegend(dots.map((op) => kBoundFills[op.bound] || 'unknown')),
    draw: (svg, width) => DrawRoofline(svg, width, dots, roofs),
  };
}

// One roof for all devices with the same peaks.
function RoofsOf(result, dots) {
  const nameOf = DeviceNamer(result.devices);
  const there = new Set(dots.map((op) => op.device));
  const roofs = new Map();
  for (const row of result.devices) {
    const flops = Num(row.peak_flops_per_s), bytes = Num(row.peak_bytes_per_s);
    if (!there.has(nameOf(row)) || (flops === null && bytes === null)) continue;
    const key = `${flops} ${bytes}`;
    if (!roofs.has(key)) roofs.set(key, {flops, bytes, devices: [], sources: row});
    roofs.get(key).devices.push(nameOf(row));
  }
  return Array.from(roofs.values());
}

function RooflineScales(width, height, dots, roofs) {
  const flops = roofs.map((roof) => roof.flops).filter((peak) => peak !== null);
  const ridges = roofs.filter((roof) => roof.flops && roof.bytes)
      .map((roof) => roof.flops / roof.bytes);
  const pad = (extent, by) => [extent[0] / by, extent[1] * by];
  const x = d3.scaleLog().range([64, width - 16])
      .domain(pad(d3.extent([...dots.map((op) => op.intensity), ...ridges]), 4));
  const y = d3.scaleLog().range([height - 44, 12])
      .domain(pad(d3.extent([...dots.map((op) => op.rate), ...flops]), 4));
  return {x, y};
}

function DrawRoofline(svg, width, dots, roofs) {
  const height = Math.min(460, Math.max(300, width * 0.5));
  const {x, y} = RooflineScales(width, height, dots, roofs);
  DrawLogAxes(svg, x, y, width, height);
  svg.append('clipPath').attr('id', `${svg.node().hatch}-clip`).append('rect')
      .attr('x', x.range()[0]).attr('y', y.range()[1])
      .attr('width', x.range()[1] - x.range()[0]).attr('height', y.range()[0] - y.range()[1]);
  const inside = svg.append('g').attr('clip-path', `url(#${svg.node().hatch}-clip)`);
  roofs.forEach((roof, i) => DrawRoof(svg, inside, roof, x, y, i));
  const r = d3.scaleSqrt().domain([0, d3.max(dots, (op) => op.total) || 1]).range([3, 16]);
  inside.selectAll('circle').data(dots).enter().append('circle').attr('class', 'mark dot')
      .attr('cx', (op) => x(op.intensity)).attr('cy', (op) => y(op.rate))
      .attr('r', (op) => r(op.total)).attr('data-op', (op) => op.name)
      .attr('data-intensity', (op) => op.intensity).attr('data-rate', (op) => op.rate)
      .call(Fill, (op) => kBoundFills[op.bound] || 'unknown');
  return height;
}

function DrawLogAxes(svg, x, y, width, height) {
  // Powers of ten; if there are few, also 2 and 5 times these.
  const powers = (scale) => {
    const [low, high] = scale.domain();
    const all = d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1);
    const every = Math.max(1, Math.ceil(all.length / 8));
    return all.filter((p) => p % every === 0)
        .flatMap((p) => (all.length > 4 ? [1] : [1, 2, 5]).map((digit) => digit * 10 ** p))
        .filter((v) => v >= low && v <= high);
  };
  const text = (v) => v >= 1 ? RateText(v).replace(/\.00?(?= |$)/, '').replace(/\.0(?= |$)/, '')
                             : String(Number(v.toPrecision(2)));
  svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${y.range()[0]})`)
      .call(d3.axisBottom(x).tickValues(powers(x)).tickFormat(text).tickSizeOuter(0));
  svg.append('g').attr('class', 'axis').attr('transform', `translate(${x.range()[0]},0)`)
      .call(d3.axisLeft(y).tickValues(powers(y)).tickFormat(text).tickSizeOuter(0));
  svg.append('text').attr('class', 'axis-title').attr('x', (x.range()[0] + x.range()[1]) / 2)
      .attr('y', height - 6).attr('text-anchor', 'middle').text('intensity, FLOP a byte');
  svg.append('text').attr('class', 'axis-title').attr('text-anchor', 'middle')
      .attr('transform', `translate(13,${(y.range()[0] + y.range()[1]) / 2}) rotate(-90)`)
      .text('FLOP/s');
}

function DrawRoof(svg, inside, roof, x, y, i) {
  const [low, high] = x.domain();
  const at = (intensity) => Math.min(roof.flops === null ? Infinity : roof.flops,
                                     roof.bytes === null ? Infinity : roof.bytes * intensity);
  const ridge = roof.flops && roof.bytes ? roof.flops / roof.bytes : low;
  const points = [low, Math.min(high, Math.max(low, ridge)), high];
  inside.append('path').attr('class', `roof roof-${i % 4}`)
      .attr('d', d3.line().x((v) => x(v)).y((v) => y(at(v)))(points));
  const device = roof.devices.length > 2 ? Counted(roof.devices.length, 'device')
                                         : roof.devices.join(', ');
  const label = svg.append('text').attr('class', 'roof-label').attr('text-anchor', 'end')
      .attr('x', x.range()[1] - 4);
  const flops = roof.flops === null ? '' : `${RateText(roof.flops)}FLOP/s`;
  const bytes = roof.bytes === null ? '' : `${RateText(roof.bytes)}B/s`;
  label.attr('y', y(at(high)) - 6 - 13 * i)
      .text(`${device}: ${[flops, bytes].filter(Boolean).join(', ')}`);
}

function HeadroomRecoverable(result) {
  const ops = HeadroomOps(result).filter((op) => op.recoverable !== null && op.recoverable > 0)
      .sort((a, b) => b.recoverable - a.recoverable);
  if (ops.length === 0) return null;
  const several = new Set(ops.map((op) => op.device)).size > 1;
  const rows = ops.slice(0, 20).map((op) => ({
    name: several ? `${op.name} ${op.device}` : op.name, of: op.of, program: op.program,
    value: op.recoverable, fill: kBoundFills[op.bound] || 'unknown', tip: op.tip}));
  const sum = d3.sum(ops, (op) => op.recoverable);
  return {
    name: 'headroom-recoverable', title: 'Recoverable time, at most',
    finding: `${TimeText(sum)} in total; ${rows[0].name} ${TimeText(rows[0].value)}.`,
    how: 'An upper bound: no kernel reaches its roof.' +
         (ops.length > 20 ? ` ${Counted(ops.length - 20, 'more op')} in the table.` : ''),
    legend: BoundLegend(rows.map((row) => row.fill)),
    draw: (svg, width) => DrawBars(svg, width, Distinct(rows)),
  };
}

// ---------------------------------------------------------------- views: diff

const kMatches = {
  overlap: '(overlap)', foreign: '(other functions)', idle: '(idle)', idle_host: '(idle, host)',
  idle_launch: '(idle, launch)', idle_unknown: '(idle, unknown)',
};

function DiffName(row) {
  const side = row.head || row.base;
  const name = side ? side.op || side.kernel : kMatches[row.match] || row.match;
  if (row.match === 'new' || row.match === 'gone') return `${name} (${row.match})`;
  return kMatches[row.match] || name;
}

// Steps from the base's total to the head's, in the order of the result, which puts first what
// is most beyond chance; those that do not fit are one.
function DiffSteps(result) {
  const rows = result.rows.map((row) => ({name: DiffName(row), delta: Num(row.delta_ps), row}))
      .filter((row) => row.delta !== null && row.delta !== 0);
  const base = Num(result.total.base_ps), head = Num(result.total.head_ps);
  const shown = rows.slice(0, 18);
  const steps = shown.map(({name, delta, row}) => ({
    name, delta, of: (row.head || row.base || {}).function, tip: DiffTip(name, row),
    proved: row.verdict === 'more' || row.verdict === 'less'}));
  const rest = head - base - d3.sum(shown, (row) => row.delta);
  const others = rows.length - shown.length;
  if (others > 0) {
    steps.push({name: `(${others} more)`, delta: rest,
                tip: [`${others} more`, TimeText(rest, '+')]});
  }
  Distinct(steps);
  let at = base;
  for (const step of steps) { step.from = at; at += step.delta; step.to = at; }
  return {base, head, steps};
}

function DiffTip(name, row) {
  const side = (which) => row[which] ? TimeText(row[which].ps) : 'absent';
  const ends = Array.isArray(row.delta_ci_ps) ? row.delta_ci_ps : null;
  return [name, `${TimeText(row.delta_ps, '+')}: ${side('base')} to ${side('head')}`,
          ends ? `interval ${TimeText(ends[0], '+')} to ${TimeText(ends[1], '+')}`
               : 'interval unknown',
          `${row.verdict.replace('_', ' ')}${row.reason ? `: ${row.reason}` : ''}`];
}

const kDiffVerdicts = {
  no_verdict: 'no verdict', unproven: 'unproven, it may be chance', more: 'more, proved',
  less: 'less, proved', small: 'too small to judge',
};

function DiffWaterfall(result) {
  if (Num(result.total.base_ps) === null || Num(result.total.head_ps) === null) return null;
  const {base, head, steps} = DiffSteps(result);
  const scale = ScaleOfColumn('change');
  const change = base > 0 ? ` (${ChangeText(head / base)})` : '';
  const first = steps.slice().sort((a, b) => Math.abs(b.delta) - Math.abs(a.delta))[0];
  const axis = FromZero(base, head, steps) ? '' : 'The axis does not begin at 0. ';
  return {
    name: 'diff-waterfall', title: `From base to head, time of a ${result.per}`,
    finding: `${TimeText(base, '', scale)} to ${TimeText(head, '', scale)}, ` +
             `${TimeText(head - base, '+', scale)}${change}; ` +
             `${kDiffVerdicts[result.total.verdict] || result.total.verdict}` +
             (first ? `. The largest change: ${first.name}, ${TimeText(first.delta, '+', scale)}.`
                    : '.'),
    how: axis + 'Largest above noise first. ' + (steps.some((step) => !step.proved) ? 'Pale: not proved.' : ''),
    legend: [{text: 'more', fill: 'more'}, {text: 'less', fill: 'less'},
             {text: 'total', fill: 'total'}],
    draw: (svg, width) => DrawWaterfall(svg, width, base, head, steps, scale),
  };
}

const Levels = (base, head, steps) => [base, head, ...steps.map((step) => step.to)];

// Changes that are small beside the totals would not be seen on an axis from 0.
function FromZero(base, head, steps) {
  const [low, high] = d3.extent(Levels(base, head, steps));
  return high - low > 0.25 * high;
}

function DrawWaterfall(svg, width, base, head, steps, scale) {
  const [low, high] = d3.extent(Levels(base, head, steps));
  const zero = FromZero(base, head, steps);
  const pad = (high - low) * 0.15 || high * 0.05 || 1;
  const margin = NameMargin([...steps.map((step) => step.name), 'base', 'head'], width);
  const x = d3.scaleLinear().domain([zero ? 0 : low - pad, zero ? high : high + pad])
      .range([margin.space, width - 92]);
  const step = 24, top = 4, bottom = top + step * (steps.length + 2);
  Grid(svg, x, top, bottom);
  const total = (name, value, i) => {
    const y = top + i * step;
    RowName(svg, name, margin, y + step / 2, false);
    const bar = svg.append('rect').datum({tip: [`${name}, total`, TimeText(value, '', scale)]})
        .attr('class', 'mark').attr('y', y + 4).attr('height', step - 8).attr('data-value', value);
    if (zero) bar.attr('x', x(0)).attr('width', Math.max(1, x(value) - x(0)));
    else bar.attr('x', x(value) - 3).attr('width', 6);
    bar.call(Fill, 'total');
    svg.append('text').attr('class', 'value').attr('x', x(value) + 8).attr('y', y + step / 2)
        .attr('dy', '0.35em').text(TimeText(value, '', scale));
  };
  total('base', base, 0);
  steps.forEach((change, i) =>
    DrawChange(svg, change, x, top + (i + 1) * step, step, margin, scale));
  total('head', head, steps.length + 1);
  BottomAxis(svg, x, bottom, width, TimeTicks(x.domain(), scale));
  return bottom + 26;
}

function DrawChange(svg, change, x, y, step, margin, scale) {
  RowName(svg, change.name, margin, y + step / 2, true);
  const left = Math.min(x(change.from), x(change.to));
  const right = Math.max(x(change.from), x(change.to));
  svg.append('line').attr('class', 'connect').attr('x1', x(change.from)).attr('y1', y - 4)
      .attr('x2', x(change.from)).attr('y2', y + 4);
  svg.append('rect').datum(change).attr('class', 'mark').attr('x', left).attr('y', y + 4)
      .attr('width', Math.max(1.5, right - left)).attr('height', step - 8)
      .attr('data-value', change.delta).call(Fill, change.delta > 0 ? 'more' : 'less')
      .classed('pale', !change.proved);
  svg.append('text').attr('class', 'value').attr('x', right + 6).attr('y', y + step / 2)
      .attr('dy', '0.35em').text(TimeText(change.delta, '+', scale));
}

// ---------------------------------------------------------------- views: compare and pick

const kVerdictFills = {
  faster: 'less', less: 'less', slower: 'more', more: 'more', same: 'total', picked: 'less',
  tied: 'total', tie: 'total',
};

// Ratios to 1 with their intervals, around a band of changes that do not count.
// rows: {name, ratio, ci, verdict, tip}.
function DrawIntervals(svg, width, rows, band, title) {
  const margin = NameMargin(rows.map((row) => row.name), width);
  const narrow = width <= 560, words = narrow ? 12 : 120;  // verdicts: behind, or below the name
  const step = narrow ? 42 : 28, top = 4, bottom = top + step * rows.length;
  const x = d3.scaleLinear().domain(IntervalDomain(rows, band))
      .range([margin.space, width - words]);
  svg.append('rect').attr('class', 'band').attr('y', top).attr('height', bottom - top)
      .attr('x', x(-band)).attr('width', Math.max(1, x(band) - x(-band)));
  Grid(svg, x, top, bottom);
  svg.append('line').attr('class', 'zero').attr('x1', x(0)).attr('x2', x(0)).attr('y1', top)
      .attr('y2', bottom);
  rows.forEach((row, i) => {
    const y = top + i * step + step / 2;
    RowName(svg, row.name, margin, narrow ? y - 8 : y, true);
    DrawInterval(svg, row, x, y);
    svg.append('text').attr('class', 'value').attr('text-anchor', narrow ? 'end' : 'start')
        .attr('x', narrow ? margin.space - 8 : width - words + 10).attr('y', narrow ? y + 8 : y)
        .attr('dy', '0.35em').text(row.verdict.replace(/_/g, ' '));
  });
  BottomAxis(svg, x, bottom, width, (v) => ChangeText(1 + v).replace(/\.0+ /, ' '));
  const side = (anchor, at, text) => svg.append('text').attr('class', 'axis-title')
      .attr('x', at).attr('y', bottom + 40).attr('text-anchor', anchor).text(text);
  if (x(0) > 70) side('end', x(0) - 8, `← ${title[0]}`);
  side('start', x(0) + 8, `${title[1]} →`);
  return bottom + 48;
}

// Wide enough for the ratios and most intervals; what goes far beyond ends in an arrow.
function IntervalDomain(rows, band) {
  const effects = rows.filter((row) => row.ratio !== null).map((row) => row.ratio - 1);
  const size = Math.max(4 * band, ...effects.map((effect) => 3 * Math.abs(effect)));
  const ends = rows.filter((row) => row.ci).flatMap((row) => row.ci.map((end) => end - 1))
      .map((end) => Math.max(-Math.min(size, 1), Math.min(size, end)));
  const [low, high] = d3.extent([...effects, ...ends, -2 * band, 2 * band]);
  const pad = (high - low) * 0.04 || 0.01;
  return [Math.max(Math.min(-1, low), low - pad), high + pad];
}

function DrawInterval(svg, row, x, y) {
  if (row.ratio === null) {
    svg.append('text').datum(row).attr('class', 'value mark').attr('x', x(0) + 8).attr('y', y)
        .attr('dy', '0.35em').text('no ratio');
    return;
  }
  const fill = kVerdictFills[row.verdict] || 'open';
  const [low, high] = x.domain();
  const inside = (v) => x(Math.min(high, Math.max(low, v)));
  if (row.ci) {
    const ends = row.ci.map((end) => end - 1);
    svg.append('line').datum(row).attr('class', `mark whisker line-${fill}`).attr('y1', y)
        .attr('y2', y).attr('x1', inside(ends[0])).attr('x2', inside(ends[1]))
        .attr('data-low', row.ci[0]).attr('data-high', row.ci[1]);
    ends.forEach((end, side) => {
      const beyond = side === 0 ? end < low : end > high;
      const at = inside(end), out = side === 0 ? -7 : 7;
      svg.append('path').attr('class', `whisker line-${fill}`).attr('d', beyond
        ? `M${at - out},${y - 5}L${at},${y}L${at - out},${y + 5}` : `M${at},${y - 5}V${y + 5}`);
    });
  }
  svg.append('path').datum(row).attr('class', 'mark').attr('data-value', row.ratio)
      .attr('d', d3.symbol().type(d3.symbolDiamond).size(row.ci ? 90 : 60)())
      .attr('transform', `translate(${inside(row.ratio - 1)},${y})`)
      .call(Fill, row.ci ? fill : 'hollow');
}

function RatioRow(row, name, extra) {
  const ratio = Num(row.ratio);
  const ci = Array.isArray(row.ratio_ci) && row.ratio_ci.every((end) => Num(end) !== null)
    ? row.ratio_ci.map(Num) : null;
  const verdict = row.verdict || row.status || 'unknown';
  return {name, ratio, ci, verdict,
          tip: [name, `${verdict.replace(/_/g, ' ')}${row.reason ? `: ${row.reason}` : ''}`,
                ratio === null ? 'no ratio'
                  : `${ChangeText(ratio)}, ` +
                    (ci ? `interval ${ChangeText(ci[0])} to ${ChangeText(ci[1])}`
                        : 'interval unknown'),
                ...extra]};
}

function CompareIntervals(result) {
  const several = new Set(result.rows.map((row) => row.device)).size > 1;
  const programs = d3.nest().key((row) => `${row.device} ${row.function}`)
      .rollup((rows) => rows.length).object(result.rows);
  const energy = result.options.objective === 'energy';
  const rows = result.rows.slice(0, 40).map((row) => RatioRow(
    row, row.function + (programs[`${row.device} ${row.function}`] > 1 ? ` #${row.program}` : '') +
         (several && row.device ? ` ${row.device}` : ''),
    energy ? [] : [`${TimeText(row.base && row.base.centre_ps)} to ` +
                   `${TimeText(row.head && row.head.centre_ps)}`]));
  if (rows.length === 0) return null;
  const band = Num(result.options.min_effect) || 0;
  const left = result.rows.length - rows.length;
  return {
    name: 'compare-intervals', title: energy ? 'Energy of head compared with base' : 'Head compared with base',
    finding: `${result.explanation}.`,
    how: `Diamond: change; line: its interval; grey band: changes up to ${PercentText(band)}, which` +
         ' do not count; arrow: the interval continues.' +
         (rows.some((row) => row.ratio !== null && !row.ci)
           ? ' Hollow: without an interval.' : '') +
         (left ? ` ${Counted(left, 'more row')} in the table.` : ''),
    draw: (svg, width) => DrawIntervals(
      svg, width, rows, band, energy ? ['less energy', 'more'] : ['faster', 'slower']),
  };
}

function PickIntervals(result) {
  const rows = result.variants.slice(0, 40).map((row) => RatioRow(
    row, `${row.variant_id}${row.function ? ` ${row.function}` : ''}`,
    [`typical ${TimeText(row.centre_ps)}, ${Counted(row.samples, 'run')}`,
     `probability to be the best: ${row.p_best === null ? 'unknown' : row.p_best}`]));
  if (rows.length === 0) return null;
  const band = Num(result.options.delta) || 0;
  const left = result.variants.length - rows.length;
  return {
    name: 'pick-intervals', title: 'Variants compared with the pick',
    finding: `${result.explanation}.`,
    how: `Diamond: how much slower than the pick; line: its interval; grey band: a tie, up to ` +
         `${PercentText(band)}; arrow: the interval continues.` +
         (left ? ` ${Counted(left, 'more variant')} in the table.` : ''),
    draw: (svg, width) => DrawIntervals(svg, width, rows, band, ['faster', 'slower than the pick']),
  };
}

// ---------------------------------------------------------------- views: tree

const kNodeHeight = 24;

// Rows with `parent` as a hierarchy under one root; several devices form a separate level. The time
// of rows that the page omits belongs to the row above them.
function TreeOf(result) {
  const rows = result.tree, kept = Kept(result, 'tree'), below = {};
  if (kept) {
    for (const row of rows) below[row.parent] = (below[row.parent] || 0) + Num(row.total_ps);
  }
  const own = (row, id) => kept ? Math.max(0, Num(row.total_ps) - (below[id] || 0)) : Num(row.self_ps);
  const nameOf = DeviceNamer(rows);
  const devices = Array.from(new Set(rows.map(nameOf)));
  const several = devices.length > 1;
  const nodes = [{id: 'all', parent: '', name: 'all', self: 0}];
  if (several) {
    devices.forEach((name) => nodes.push({id: `d ${name}`, parent: 'all', name, self: 0}));
  }
  rows.forEach((row, i) => {
    const id = kept ? kept.rows[i] : i;
    nodes.push({
      id: String(id), name: row.name, row, self: own(row, id) || 0,
      parent: row.parent !== null ? String(row.parent) : several ? `d ${nameOf(row)}` : 'all'});
  });
  return d3.stratify().id((node) => node.id).parentId((node) => node.parent)(nodes)
      .sum((node) => node.self);
}

function TreeIcicle(result) {
  if (!result.tree || result.tree.length === 0) return null;
  const root = d3.partition()(TreeOf(result));
  if (!(root.value > 0)) return null;
  const unknown = result.tree.filter((row) => Num(row.self_ps) === null).length;
  const largest = root.leaves().sort((a, b) => b.value - a.value)[0];
  const view = {focus: root};
  return {
    name: 'tree-icicle', title: 'Nested parts of the time',
    finding: `${TimeText(root.value)} in total; the largest self time is ` +
             `${Shortened(largest.data.name, 60)}, ${TimeText(largest.value)}.`,
    how: 'Width: self time plus the time of all parts below. Programs of one function are' +
         ' merged. Click or Enter zooms into a part; a click on a part above zooms out.' +
         (unknown ? ` ${Counted(unknown, 'row')} with unknown self time: no width.` : ''),
    draw: (svg, width) => DrawIcicle(svg, width, root, view.focus),
    act: (node) => { view.focus = node === view.focus && node.parent ? node.parent : node; },
  };
}

function NodeTip(node, root) {
  const {row, name} = node.data;
  return [name, `${TimeText(node.value)}, ${PercentText(node.value / root.value)} of all`,
          ...(row ? [`self ${TimeText(row.self_ps)}, total ${TimeText(row.total_ps)}, ` +
                     Counted(row.count, 'time')] : []),
          ...(row && row.status !== 'ok' ? [row.status] : []),
          ...(row && row.lines && row.lines.length ? [row.lines[0]] : [])];
}

// The parts of `focus`, and the rows above it.
function DrawIcicle(svg, width, root, focus) {
  const x = d3.scaleLinear().domain([focus.x0, focus.x1]).range([1, width - 1]).clamp(true);
  const shown = root.descendants().filter((node) => x(node.x1) - x(node.x0) >= 0.8);
  const top = root.children || [];
  for (const node of shown) {
    const left = x(node.x0), wide = x(node.x1) - left, y = node.depth * kNodeHeight;
    node.tip = NodeTip(node, root);
    const trunk = node.ancestors().reverse().find((above) => top.includes(above));
    const fill = trunk ? `name-${top.indexOf(trunk) % 6}` : 'idle';
    svg.append('rect').datum(node).attr('class', 'mark node').attr('x', left).attr('y', y + 1)
        .attr('width', wide).attr('height', kNodeHeight - 2).attr('data-value', node.value)
        .call(Fill, fill);
    const letters = Math.floor((wide - 8) / 7.4);
    if (letters < 3) continue;
    svg.append('text').attr('class', 'node-name').attr('x', left + 5)
        .attr('y', y + kNodeHeight / 2).attr('dy', '0.35em')
        .text(Shortened(node.data.name, letters));
  }
  return (d3.max(shown, (node) => node.depth) + 1) * kNodeHeight + 2;
}

// ---------------------------------------------------------------- views: power and energy

const kMostPanels = 8, kPanelHeight = 110, kLeftOfPanel = 62;

// "12.3 W": three digits that count, as tables of energy have them.
function FigureText(value, unit) {
  if (value === null) return 'unknown';
  const size = Math.abs(value);
  const decimals = size === 0 || size >= 1e5 ? 0
    : Math.min(9, Math.max(0, 2 - Math.floor(Math.log10(size))));
  return `${Fixed(value, decimals)} ${unit}`;
}

const SecondsText = (s) => TimeText(s * 1e12);

// Panels of power over time, one below the other, on one axis. panels: {name, bins: [{from, to,
// mean, least, most, more}], bands: [{from, to, name}], lanes: [{name, from, to, share}]}, times in
// seconds; mean null is a gap.
function DrawPanels(svg, width, panels, end) {
  const x = d3.scaleLinear().domain([0, end]).range([kLeftOfPanel, width - 12]);
  let top = 22;
  for (const panel of panels) {
    const bottom = top + kPanelHeight;
    const y = d3.scaleLinear().domain([0, panel.high || 1]).nice().range([bottom, top]);
    svg.append('text').attr('class', 'panel').attr('x', kLeftOfPanel).attr('y', top - 7)
        .text(Shortened(panel.name, Math.floor(width / 9)));
    for (const band of panel.bands || []) {
      svg.append('rect').attr('class', 'band').attr('x', x(band.from)).attr('y', top)
          .attr('width', Math.max(1, x(band.to) - x(band.from))).attr('height', kPanelHeight);
    }
    DrawPower(svg, panel, x, y);
    svg.append('g').attr('class', 'axis').attr('transform', `translate(${kLeftOfPanel},0)`)
        .call(d3.axisLeft(y).ticks(4).tickFormat((v) => `${v} W`).tickSizeOuter(0));
    top = DrawLanes(svg, panel.lanes || [], x, bottom + 4) + 34;
  }
  BottomAxis(svg, x, top - 34, width, (s) => TimeTicks([0, end * 1e12])(s * 1e12));
  return top;
}

// Bins without a known value; adjacent ones are merged.
function GapsOf(bins) {
  const gaps = [];
  for (const bin of bins.filter(({mean}) => mean === null)) {
    const last = gaps[gaps.length - 1];
    if (last && bin.from - last.to < (bin.to - bin.from) / 2) last.to = bin.to;
    else gaps.push({...bin});
  }
  return gaps;
}

// The gaps, the range of each bin, the means, and the part that a model explains.
function DrawPower(svg, {name, bins}, x, y) {
  const [bottom, top] = y.range();
  for (const bin of GapsOf(bins)) {
    svg.append('rect').datum({tip: [name, 'unknown', `${SecondsText(bin.from)} to ` +
                                                     SecondsText(bin.to)]})
        .attr('class', 'mark gap').attr('x', x(bin.from)).attr('y', top)
        .attr('width', Math.max(1, x(bin.to) - x(bin.from))).attr('height', bottom - top)
        .call(Fill, 'unknown');
  }
  const middle = (bin) => x((bin.from + bin.to) / 2), known = (value) => (bin) => bin.mean !== null &&
    bin[value] !== undefined;
  const line = (value) => d3.line().defined(known(value)).x(middle).y((bin) => y(bin[value]))(bins);
  if (bins.some(known('most'))) {
    svg.append('path').attr('class', 'spread').attr('d', d3.area().defined(known('most')).x(middle)
        .y0((bin) => y(bin.least)).y1((bin) => y(bin.most))(bins));
  }
  svg.append('path').attr('class', 'power').attr('d', line('mean'));
  if (bins.some(known('model'))) {
    svg.append('path').attr('class', 'power model').attr('d', line('model'));
  }
  svg.append('g').selectAll('rect').data(bins.filter(known('mean')).map((bin) => ({...bin, tip: [
    name, `${FigureText(bin.mean, 'W')} on average` +
          (bin.most === undefined ? '' : `, ${FigureText(bin.least, 'W')} to ` +
                                         FigureText(bin.most, 'W')) +
          (bin.model === undefined ? '' : `, ${FigureText(bin.model, 'W')} explained`),
    `${SecondsText(bin.from)} to ${SecondsText(bin.to)}`]}))).enter().append('rect')
      .attr('class', 'mark bin').attr('x', (bin) => x(bin.from)).attr('y', top)
      .attr('width', (bin) => Math.max(0.5, x(bin.to) - x(bin.from)))
      .attr('height', bottom - top).attr('data-value', (bin) => bin.mean);
}

// Executions, below the power; a fuller colour means a larger share of the time.
function DrawLanes(svg, lanes, x, top) {
  lanes.forEach((lane, i) => {
    const y = top + i * 30;
    svg.append('text').attr('class', 'value').attr('x', kLeftOfPanel).attr('y', y + 11)
        .text(Shortened(lane.name, Math.floor((x.range()[1] - kLeftOfPanel) / 7)));
    for (const part of lane.parts) {
      svg.append('rect').datum({tip: [lane.name, `ran ${PercentText(part.share)} of the time`,
                                      `${SecondsText(part.from)} to ${SecondsText(part.to)}`]})
          .attr('class', 'mark').attr('x', x(part.from)).attr('y', y + 14)
          .attr('width', Math.max(0.5, x(part.to) - x(part.from))).attr('height', 11)
          .call(Fill, `name-${i % 6}`).classed('thin', true)
          .style('fill-opacity', 0.25 + 0.75 * Math.min(1, part.share));
    }
  });
  return top + lanes.length * 30;
}

const kPowerLegend = [{text: 'mean', fill: 'blue'}, {text: 'gap: unknown', fill: 'unknown'}];

function PowerSeries(result) {
  const all = (result.series || []).filter((row) => row.mean_w.some((w) => w !== null));
  if (all.length === 0) return null;
  const start = d3.min(all, (row) => Num(row.begin_ns));
  const s = (ns) => (ns - start) / 1e9;
  const ends = all.map((row) => Num(row.begin_ns) + row.column_ns * row.mean_w.length);
  const bands = result.windows.filter((row) => row.name !== null).slice(0, 40)
      .map((row) => ({from: s(row.begin_ns), to: s(row.end_ns)}));
  const high = d3.nest().key((row) => row.domain).rollup((rows) =>
    d3.max(rows, (row) => d3.max(row.max_w))).object(all);
  const panels = all.slice(0, kMostPanels).map((row) => ({
    name: [row.source, row.device, row.domain].filter((part) => part).join(' '),
    high: high[row.domain], bands, bins: row.mean_w.map((mean, i) => ({
      mean, least: row.min_w[i], most: row.max_w[i],
      from: s(Num(row.begin_ns) + i * row.column_ns),
      to: s(Num(row.begin_ns) + (i + 1) * row.column_ns)}))}));
  const peak = d3.max(all, (row) => d3.max(row.max_w));
  const gaps = d3.sum(panels, ({bins}) => bins.filter((bin) => bin.mean === null).length) /
               d3.sum(panels, ({bins}) => bins.length);
  return {
    name: 'power-series', title: 'Power over time',
    finding: `single readings up to ${FigureText(peak, 'W')}; ${gaps > 0 ? `unknown for ${PercentText(gaps)} ` +
             'of the time.' : 'no gap.'}`,
    how: 'Line: mean; pale: minimum to maximum; hatched: unknown. The peak in the table is a' +
         ' mean over ten updates of the sensor.' + (bands.length ? ' Grey: named windows.' : '') +
         (all.length > panels.length
             ? ` ${Counted(all.length - panels.length, 'more sensor')} in the data.` : ''),
    legend: gaps > 0 ? kPowerLegend : [],
    draw: (svg, width) => DrawPanels(svg, width, panels, s(d3.max(ends))),
  };
}

// Runs of columns in which something ran as much.
function LaneParts(busy, column) {
  const parts = [], level = (share) => share < 1e-6 ? 0 : Math.max(1, Math.round(share * 10));
  busy.forEach((share, i) => {
    const last = parts[parts.length - 1];
    if (last && last.level === level(share)) last.to = (i + 1) * column;
    else parts.push({level: level(share), share, from: i * column, to: (i + 1) * column});
  });
  return parts.filter((part) => part.level > 0);
}

function TimelineBins({from_s: from, to_s: to, measured_w: mean, explained_w: model, capture_s}) {
  const bins = [], least = capture_s * 1e-4;  // a rounding residue, not visible
  let known = 0;
  from.forEach((begin, i) => {
    if (begin - known > least) bins.push({from: known, to: begin, mean: null});
    bins.push({from: begin, to: to[i], mean: mean[i], model: model[i]});
    known = Math.max(known, to[i]);
  });
  if (capture_s - known > least) bins.push({from: known, to: capture_s, mean: null});
  return bins;
}

function EnergyTimelines(result) {
  const all = (result.drawn && result.drawn.timelines || []).filter((row) => row.from_s.length);
  if (all.length === 0) return null;
  const nameOf = DeviceNamer(all);
  const panels = all.slice(0, kMostPanels).map((row) => ({
    name: nameOf(row), bins: TimelineBins(row),
    high: d3.max([...row.measured_w, ...row.explained_w]),
    lanes: row.lanes.slice(0, 6).map((lane) => ({
      name: lane.name, parts: LaneParts(lane.busy, row.capture_s / lane.busy.length)}))}));
  const lanes = d3.max(all, (row) => row.lanes.length);
  return {
    name: 'energy-timeline', title: 'Power and executions',
    finding: panels.map(({name, high}) => `${name}: at most ${FigureText(high, 'W')}`).join('; ') +
             '.',
    how: 'Line: measured; dashed: explained by executions; hatched: not covered, or a gap. Below:' +
         ' executions; a fuller colour means a larger share of the time.' +
         (lanes > 6 ? ' Only the six longest.' : '') +
         (all.length > panels.length
             ? ` ${Counted(all.length - panels.length, 'more device')} are not drawn.` : ''),
    draw: (svg, width) => DrawPanels(svg, width, panels, d3.max(all, (row) => row.capture_s)),
  };
}

const EnergyBars = (table, name) => (result) => {
  const sorted = result[table].filter((row) => Num(row.energy_j) !== null)
      .sort((a, b) => b.energy_j - a.energy_j);
  const nameOf = DeviceNamer(result[table]);
  const several = new Set(result[table].map(nameOf)).size > 1;
  const alone = sorted.slice(0, 20).map((row) => ({
    name: row[name] + (several ? ` ${nameOf(row)}` : ''), of: row.function,
    program: row.program_id, value: row.energy_j, ci: row.energy_j_ci95, fill: 'compute',
    share: row.share,
    note: FigureText(row.energy_j, 'J'),
    tip: [row[name], FigureText(row.energy_j, 'J') + (row.energy_j_ci95
      ? `, 95 % ${FigureText(row.energy_j_ci95[0], 'J')} to ` +
        FigureText(row.energy_j_ci95[1], 'J') : ', interval unknown'),
          `${FigureText(row.mean_w, 'W')} on average, ${Counted(row.count, 'execution')}`]}));
  const groups = (table === 'kernels' ? result.groups : []).map((row) => ({
    name: `group ${row.group}: ${row.kernels.join(', ')}` + (several ? ` ${nameOf(row)}` : ''),
    value: row.energy_j, ci: row.energy_j_ci95, fill: 'unknown',
    note: FigureText(row.energy_j, 'J'),
    tip: [row.kernels.join(', '), `${FigureText(row.energy_j, 'J')}; only the sum is known`]}));
  const rows = [...alone, ...groups].sort((a, b) => b.value - a.value);
  if (rows.length === 0) return null;
  const unknown = result[table].length - sorted.length;
  return {
    name: `energy-${table}`, title: `Energy by ${name}`,
    finding: `${Shortened(rows[0].name, 60)} used most: ${rows[0].note}` +
             (Num(rows[0].share) === null ? '.' : `, ${PercentText(rows[0].share)}.`),
    how: 'Line: the 95 % interval.' + (groups.length ? ' Hatched: only the sum is known.' : '') +
         (sorted.length > 20 ? ` ${Counted(sorted.length - 20, `more ${name}`)} in the table.` : '') +
         (unknown ? ` ${Counted(unknown, name)} without a separate energy.` : ''),
    draw: (svg, width) => DrawBars(svg, width, Distinct(rows), (v) => `${v} J`),
  };
};

// ---------------------------------------------------------------- views: tuning and grids

const kMostRacers = 12;

// How each variant stood after so many runs, beside whichever was the pick then.
function TuneRace(result) {
  const race = result.drawn && result.drawn.race || [];
  if (race.length < 2 || !result.pick) return null;
  const names = new Map(result.variants.map((row) => [row.id, RacerName(row)]));
  const standing = new Map();
  for (const stage of race) {
    for (const row of stage.variants) {
      const ratio = row.id === stage.pick ? 1 : Num(row.ratio);
      if (ratio === null) continue;
      if (!standing.has(row.id)) standing.set(row.id, []);
      const leads = row.id === stage.pick, ci = leads ? null : row.ratio_ci;
      const interval = ci ? `interval ${ChangeText(ci[0])} to ${ChangeText(ci[1])}`
                          : 'interval unknown';
      standing.get(row.id).push({runs: stage.runs, ratio, ci, tip: [
        names.get(row.id) || row.id,
        leads ? 'leads' : `${ChangeText(ratio)} beside ${names.get(stage.pick)}, ${interval}`,
        `after ${Counted(stage.runs, 'run')}, ${Counted(stage.rounds, 'round')}`]});
    }
  }
  const rows = result.variants.filter((row) => standing.has(row.id))
      .sort((a, b) => (b.id === result.pick) - (a.id === result.pick) ||
                      (Num(a.ratio) || Infinity) - (Num(b.ratio) || Infinity))
      .slice(0, kMostRacers)
      .map((row) => ({id: row.id, name: names.get(row.id), out: row.eliminated,
                      points: Racing(standing.get(row.id), row, race),
                      picked: row.id === result.pick}));
  const left = standing.size - rows.length, band = Num(result.delta) || 0;
  const dropped = rows.filter((row) => row.out).length;
  return {
    name: 'tune-race', title: 'The race',
    finding: `${names.get(result.pick)} after ${Counted(result.runs, 'run')}: ${result.claim}; ` +
             `${dropped} of ${Counted(rows.length, 'variant')} dropped.`,
    how: 'Line: difference from the pick at that time; pale: its interval; grey band: a tie,' +
         ` up to ${PercentText(band)}; cross: dropped.` +
         (WideRace(rows) ? ' The axis is logarithmic.' : '') +
         (left > 0 ? ` ${Counted(left, 'more variant')} in the table.` : ''),
    legend: rows.slice(0, 6).map((row, i) => ({text: row.name, fill: `name-${i}`}))
        .concat(rows.length > 6 ? [{text: 'others', fill: 'name-6'}] : []),
    draw: (svg, width) => DrawRace(svg, width, rows, band, race),
  };
}

// Until it was dropped.
function Racing(points, row, race) {
  if (!row.eliminated) return points;
  const end = race.find((stage) => stage.rounds >= row.eliminated.round);
  const kept = points.filter((point) => !end || point.runs <= end.runs);
  return kept.length ? kept : points.slice(0, 1);
}

function DrawRace(svg, width, rows, band, race) {
  const height = 260, top = 12, right = width - 112;
  const x = d3.scaleLog().domain([race[0].runs || 1, race[race.length - 1].runs])
      .range([kLeftOfPanel, right]);
  const ratios = rows.flatMap((row) => row.points.map((point) => point.ratio));
  const low = Math.min(1 - 2 * band, d3.min(ratios)), high = Math.max(1 + 2 * band, d3.max(ratios));
  const y = WideRace(rows)
    ? d3.scaleLog().domain([low / 1.05, high * 1.15])
    : d3.scaleLinear().domain([low - (high - low) * 0.08, high + (high - low) * 0.08]);
  y.range([top + height, top]).clamp(true);
  svg.append('rect').attr('class', 'band').attr('x', kLeftOfPanel).attr('y', y(1 + band))
      .attr('width', right - kLeftOfPanel).attr('height', Math.max(1, y(1 - band) - y(1 + band)));
  rows.slice().reverse().forEach((row, i) =>
    DrawRacer(svg, row, `name-${Math.min(6, rows.length - 1 - i)}`, x, y));
  NameRacers(svg, rows, x, y);
  svg.append('g').attr('class', 'axis').attr('transform', `translate(${kLeftOfPanel},0)`)
      .call(d3.axisLeft(y).tickValues(RaceTicks(y)).tickSizeOuter(0)
          .tickFormat((v) => ChangeText(v).replace(/\.0+ /, ' ')));
  BottomAxis(svg, x, top + height, width, x.tickFormat((right - kLeftOfPanel) / 60, ','));
  svg.append('text').attr('class', 'axis-title').attr('text-anchor', 'middle')
      .attr('x', (kLeftOfPanel + right) / 2).attr('y', top + height + 36).text('runs of all variants');
  return top + height + 46;
}

// Used if one variant is so slow that the others would become one line.
const WideRace = (rows) =>
  d3.max(rows, (row) => d3.max(row.points, (point) => point.ratio)) > 2.5;

// On a logarithmic axis doublings at the most, and few of them.
function RaceTicks(y) {
  const [low, high] = y.domain();
  if (!y.base) return y.ticks(6);
  const powers = d3.range(Math.ceil(Math.log2(low)), Math.floor(Math.log2(high)) + 1);
  const step = Math.ceil(powers.length / 7);
  return powers.filter((power) => power % step === 0).map((power) => 2 ** power);
}

// If the id is only a hash, the parameters are shown.
function RacerName(row) {
  const text = Object.entries(row.params || {}).map(([name, value]) => `${name}=${value}`).join(' ');
  return /^v[0-9a-f]{16}$/.test(row.id) && text ? Shortened(text, 24) : row.id;
}

function DrawRacer(svg, {id, points, picked}, fill, x, y) {
  svg.append('path').attr('class', `interval fill-${fill} line-${fill}`).attr('d', d3.area()
      .defined((point) => point.ci).x((point) => x(point.runs))
      .y0((point) => y(Math.max(point.ci[0], y.domain()[0]))).y1((point) => y(point.ci[1]))(points));
  const line = d3.line().x((point) => x(point.runs)).y((point) => y(point.ratio))(points);
  for (const stroke of ['under', `line-${fill}`]) {
    svg.append('path').attr('class', `racer ${stroke}`).classed('picked', picked).attr('d', line);
  }
  for (const point of points) {
    svg.append('circle').datum(point).attr('class', 'mark').attr('cx', x(point.runs))
        .attr('cy', y(point.ratio)).attr('r', 2.5).attr('data-value', point.ratio)
        .attr('data-variant', id).call(Fill, fill);
  }
}

// Labels at the ends of the lines, moved apart if they would overlap.
function NameRacers(svg, rows, x, y) {
  const taken = [];
  for (const {name, points, out} of rows) {
    const last = points[points.length - 1], left = x(last.runs) + 8;
    let at = y(last.ratio);
    while (taken.some(([l, t]) => Math.abs(l - left) < 76 && Math.abs(t - at) < 13)) at -= 1;
    taken.push([left, at]);
    svg.append('text').attr('class', 'value').attr('x', left).attr('y', at).attr('dy', '0.35em')
        .text(FittedText((out ? '✕ ' : '') + name, 100));
  }
}

// The settings of a grid: the median of each with its interval.
function GridSettings(result) {
  const known = result.settings.filter((row) => Num(row.median_latency_us) !== null);
  const rows = known.slice(0, 40).map((row) => {
    const ci = (row.median_latency_us_ci95 || []).map((us) => us * 1e6);
    const median = row.median_latency_us * 1e6;
    return {name: row.setting, median, min: ci.length ? ci[0] : median,
            max: Num(row.p95_latency_us) === null ? median : row.p95_latency_us * 1e6,
            ci: ci.length ? ci : null, samples: [],
            tip: [row.setting, `median ${TimeText(median)}` + (ci.length
              ? `, 95 % ${TimeText(ci[0])} to ${TimeText(ci[1])}` : ', interval unknown'),
                  `p95 ${TimeText(Num(row.p95_latency_us) && row.p95_latency_us * 1e6)}, ` +
                  Counted(row.n, 'sample')]};
  });
  if (rows.length === 0) return null;
  const best = rows.slice().sort((a, b) => a.median - b.median)[0];
  const left = result.settings.length - rows.length;
  return {
    name: 'grid-settings', title: 'Latency of each setting',
    finding: `${best.name} has the lowest median: ${TimeText(best.median)}.`,
    how: 'Diamond: median; thick bar: its 95 % interval; line: to the 95 % quantile.' +
         (left > 0 ? ` ${Counted(left, 'more setting')} in the table.` : '') +
         (LogSpread(rows) ? ' The axis is logarithmic.' : ''),
    draw: (svg, width) => DrawRuns(svg, width, rows),
  };
}

// ---------------------------------------------------------------- timeline: data

const kFanOut = 4;
const kCoarsest = 512;  // bins of the coarsest level, about
const kLaneHeight = 22, kAxisHeight = 26;

// Differences become places.
function RunningSum(differences) {
  const places = new Float64Array(differences.length);
  let at = 0;
  for (let i = 0; i < differences.length; ++i) places[i] = at += differences[i];
  return places;
}

// reach[i]: the latest end of items 0 to i, to find the first that is in view.
function WithReach(items) {
  items.reach = new Float64Array(items.end.length);
  let reach = -Infinity;
  for (let i = 0; i < items.end.length; ++i) {
    reach = Math.max(reach, items.end[i]);
    items.reach[i] = reach;
  }
  return items;
}

function DecodeEvents(events) {
  if (!events) return null;
  const start = RunningSum(events.start);
  return WithReach({start, end: start.map((at, i) => at + events.duration[i]),
                    name: Uint32Array.from(events.name), least: events.least || 0});
}

// The finest level: from the bins that were sent.
function DecodeBins(bins) {
  const index = RunningSum(bins.index);
  const grain = (i) => bins.more[i] > 0 ? bins.grain || 1 : 1;
  const start = index.map((place, i) => place * bins.width + bins.first[i] * grain(i));
  const end = start.map((at, i) => at + bins.span[i] * grain(i));
  return WithReach({
    width: bins.width, index, start, end,
    busy: Float64Array.from(bins.span, (span, i) => Math.max(0, span - bins.idle[i]) * grain(i)),
    count: Uint32Array.from(bins.more, (more) => more + 1), name: Uint32Array.from(bins.name)});
}

// Bins `width` wide of finer items, which are sorted by start.
function Merged(items, width, busyOf, countOf) {
  const level = {width, index: [], start: [], end: [], busy: [], count: [], name: [], most: []};
  let n = -1;
  for (let i = 0; i < items.start.length; ++i) {
    const index = Math.floor(items.start[i] / width);
    const busy = busyOf(i);
    if (n < 0 || level.index[n] !== index) {
      ++n;
      level.index.push(index); level.start.push(items.start[i]); level.end.push(items.end[i]);
      level.busy.push(busy); level.count.push(countOf(i)); level.name.push(items.name[i]);
      level.most.push(busy);
      continue;
    }
    level.end[n] = Math.max(level.end[n], items.end[i]);
    level.busy[n] += busy;
    level.count[n] += countOf(i);
    if (busy > level.most[n]) { level.most[n] = busy; level.name[n] = items.name[i]; }
  }
  // Executions that overlap would count twice.
  level.busy = level.busy.map((busy, i) => Math.min(busy, level.end[i] - level.start[i]));
  return WithReach(level);
}

// All levels of a lane, the finest first.
function LevelsOf(lane, events, range) {
  const levels = [];
  if (lane.bins) levels.push(DecodeBins(lane.bins));
  else if (events) {
    levels.push(Merged(events, Math.max(1, Math.ceil(range / 65536)),
                       (i) => events.end[i] - events.start[i], () => 1));
  }
  while (levels.length && range / levels[levels.length - 1].width > kCoarsest) {
    const finer = levels[levels.length - 1];
    levels.push(Merged(finer, finer.width * kFanOut, (i) => finer.busy[i], (i) => finer.count[i]));
  }
  return levels;
}

// The first item that ends at `from` or later: one may take no time.
const FirstInView = (items, from) => d3.bisectLeft(items.reach, from);

// ---------------------------------------------------------------- timeline: view

class Timeline {
  constructor(data) {
    this.data = data;
    this.names = data.names || [];
    this.tick = Num(data.tick_ps) || 1;
    this.from = Num(data.start) || 0;
    this.to = Math.max(this.from + 1, Num(data.end) || 0);
    this.lanes = data.lanes.map((lane, i) => {
      const events = DecodeEvents(lane.events);
      const above = i > 0 && data.lanes[i - 1].device === lane.device;
      const own = lane.level > 0 ? `${lane.name}, level ${lane.level + 1}` : lane.name;
      const name = `${lane.device} ${own}`;
      return {name, label: above ? own : name, of: lane.of, count: lane.count, events,
              levels: LevelsOf(lane, events, this.to - this.from)};
    });
    this.found = null;  // ids of the names that the search found
    this.cursor = null;  // {lane, start}: the position of the keyboard
    this.Build();
  }

  Build() {
    const events = d3.sum(this.data.lanes, (lane) => lane.count);
    const left = this.data.lanes_left_out, deeper = this.data.events_left_out;
    const clocks = Array.from(new Set(this.data.lanes.map((lane) => lane.clock))).filter(Boolean);
    const finding = `${Counted(events, 'event')} in ${Counted(this.lanes.length, 'lane')}` +
                    ` over ${this.Time(this.to - this.from)}` +
                    (clocks.length ? `, by the ${clocks.join(' or ')} clock` : '') + '.';
    this.element = Element('figure', {'data-figure': 'timeline', class: 'timeline'},
      Element('figcaption', {}, Element('strong', {text: 'Timeline'}), ' ',
        Element('span', {class: 'finding', text: finding}), ' ',
        Element('span', {class: 'how', text:
          'Drag to move; wheel to zoom with Ctrl, or after a click. Keys: arrows, + and -, 0 for' +
          ' all; Page Up and Page Down choose a lane, . and , go from event to event.' +
          (left ? ` ${Counted(left, 'more lane')} not drawn.` : '') +
          (deeper ? ` ${Counted(deeper, 'host event')} in deeper levels not drawn.` : '') +
          (this.data.rounded ? ` Times are rounded to ${this.Time(1)}.` : '')})));
    this.element.append(this.Controls(), this.Keys());
    this.canvas = Element('canvas', {
      tabindex: '0', role: 'application', 'aria-roledescription': 'timeline',
      'aria-label': `Timeline: ${finding}`});
    this.element.append(this.canvas);
    this.AddZoom();
    this.canvas.addEventListener('pointermove', (event) => this.Hover(event));
    this.canvas.addEventListener('pointerleave', () => tip.Hide());
    this.canvas.addEventListener('blur', () => { this.cursor = null; this.Ask(); tip.Hide(); });
    this.canvas.addEventListener('keydown', (event) => this.Key(event));
  }

  Controls() {
    const id = `search-${Math.random().toString(36).slice(2, 8)}`;
    this.input = Element('input', {type: 'search', id, autocomplete: 'off', spellcheck: 'false'});
    this.input.addEventListener('input', () => this.Search(this.input.value));
    this.input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.Next(event.shiftKey ? -1 : 1);
    });
    this.said = Element('output', {class: 'count', for: id, 'aria-live': 'polite'});
    const button = (text, label, act) =>
      Element('button', {type: 'button', text, 'aria-label': label, onclick: act});
    return Element('div', {class: 'controls'}, Element('label', {for: id, text: 'Search names'}),
      this.input, button('‹', 'Previous found event', () => this.Next(-1)),
      button('›', 'Next found event', () => this.Next(1)),
      button('+', 'Zoom in', () => this.ZoomBy(2)), button('−', 'Zoom out', () => this.ZoomBy(0.5)),
      button('All', 'Show everything', () => this.ShowAll()), this.said);
  }

  Keys() {
    const first = this.names.slice(0, 6), shown = Apart(first, (name) => Shortened(name, 32));
    const entries = first.map((name, i) => ({text: shown(name), fill: `name-${i}`}));
    if (this.names.length > 6) entries.push({text: 'other names', fill: 'name-6'});
    return Legend(entries);
  }

  Time(ticks, plus) { return TimeText(ticks * this.tick, plus); }
  ExactPs(ticks) {
    const about = this.data.rounded ? 'about ' : '';
    return `${about}${BigInt(Math.round(ticks)) * BigInt(this.tick)} ps`;
  }

  AddZoom() {
    this.zoom = d3.zoom()
        .filter(() => this.Wanted(d3.event))
        .on('zoom', () => { this.transform = d3.event.transform; this.Ask(); });
    this.transform = d3.zoomIdentity;
    d3.select(this.canvas).call(this.zoom).on('dblclick.zoom', null)
        .on('dblclick', () => this.ZoomBy(3, d3.mouse(this.canvas)[0]))
        .on('click.focus', () => this.canvas.focus({preventScroll: true}));
  }

  // The wheel and a single finger scroll the page, until the timeline was clicked.
  Wanted(event) {
    if (document.activeElement === this.canvas) return !event.button;
    if (event.type === 'wheel') return event.ctrlKey;
    return event.touches ? event.touches.length > 1 : !event.button;
  }

  // Fits the canvas to the page, and draws.
  Draw() {
    const width = Math.max(280, Math.floor(this.element.clientWidth) || 900);
    if (width !== this.width) {
      const view = this.width ? this.View() : null;
      this.width = width;
      const longest = d3.max(this.lanes, (lane) => WidthOf(Shortened(lane.label, 60))) + 12;
      this.left = Math.min(Math.max(70, longest), Math.max(110, width * 0.25));
      this.shown = Apart(this.lanes.map((lane) => lane.label),
                         (label) => FittedText(label, this.left - 8));
      this.height = kAxisHeight + kLaneHeight * this.lanes.length + 4;
      const extent = [[this.left, 0], [width, this.height]];
      this.zoom.extent(extent).translateExtent(extent)
          .scaleExtent([1, Math.max(1, (this.to - this.from) / 10)]);
      this.scale = d3.scaleLinear().domain([this.from, this.to]).range([this.left, width]);
      if (view) this.Show(view[0], view[1]);
      const ratio = devicePixelRatio || 1;
      this.canvas.width = width * ratio;
      this.canvas.height = this.height * ratio;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${this.height}px`;
      this.ratio = ratio;
    }
    this.Paint();
  }

  Ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.Paint(); });
  }

  X() { return this.transform.rescaleX(this.scale); }
  View() { return this.X().domain(); }

  // Shows these ticks.
  Show(from, to) {
    const k = (this.to - this.from) / Math.max(10, to - from);
    const x = this.left - this.scale(from) * k;
    d3.select(this.canvas).call(this.zoom.transform, d3.zoomIdentity.translate(x, 0).scale(k));
  }

  ShowAll() { d3.select(this.canvas).call(this.zoom.transform, d3.zoomIdentity); }

  ZoomBy(factor, at = (this.left + this.width) / 2) {
    d3.select(this.canvas).call(this.zoom.scaleBy, factor, [at, 0]);
  }

  Pan(share) {
    const [from, to] = this.View();
    const by = Math.min(this.to - to, Math.max(this.from - from, (to - from) * share));
    this.Show(from + by, to + by);
  }

  // The coarsest level with bins of at least two pixels; if this is the finest level and there is
  // room, also single events.
  LevelAt(lane, pixels) {
    const at = lane.levels.findIndex((level) => level.width * pixels >= 2);
    return at < 0 ? lane.levels.length - 1 : at;
  }

  ItemsAt(lane, pixels, from, to) {
    const at = this.LevelAt(lane, pixels);
    const shown = [];
    const {events} = lane;
    // At the finest level as many as can be painted; otherwise only a few.
    const most = at === 0 ? 4 * this.width : events && events.least === 0 ? this.width : 0;
    const room = events &&
                 d3.bisectLeft(events.start, to) - FirstInView(events, from) <= most;
    if (lane.levels.length && !(room && events.least === 0)) shown.push(lane.levels[at]);
    if (room) shown.push(events);
    return shown;
  }

  Paint() {
    if (!this.width) return;
    const began = performance.now();
    const context = this.canvas.getContext('2d');
    const style = getComputedStyle(this.element);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colors = {
      names: d3.range(7).map((i) => color(`name-${i}`)), found: color('found'),
      ink: color('ink'), soft: color('soft'), line: color('line'), ground: color('ground')};
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = this.colors.ground;
    context.fillRect(0, 0, this.width, this.height);
    const x = this.X();
    const [from, to] = x.domain();
    this.PaintAxis(context, x);
    this.lanes.forEach((lane, i) => this.PaintLane(context, lane, i, x, from, to));
    Object.assign(this.canvas.dataset, {
      from: Math.round(from), to: Math.round(to), ms: (performance.now() - began).toFixed(1)});
  }

  PaintAxis(context, x) {
    const count = Math.max(2, Math.floor((this.width - this.left) / 120));
    const ticks = x.ticks(count);
    const scale = ScaleOf(Math.max(...x.domain().map(Math.abs)) * this.tick);
    const step = ticks.length > 1 ? (ticks[1] - ticks[0]) * this.tick / scale.ps : 1;
    const decimals = Math.min(scale.most, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
    context.font = kFigureFont;
    context.textBaseline = 'middle';
    context.textAlign = 'center';
    for (const tick of ticks) {
      const at = x(tick);
      context.fillStyle = this.colors.line;
      context.fillRect(Math.round(at), kAxisHeight - 4, 1, this.height);
      context.fillStyle = this.colors.soft;
      if (at > this.left + 24 && at < this.width - 40) {
        const time = (tick * this.tick / scale.ps).toFixed(decimals);
        context.fillText(`${time} ${scale.unit}`, at, 11);
      }
    }
  }

  PaintLane(context, lane, i, x, from, to) {
    const top = kAxisHeight + i * kLaneHeight;
    context.textAlign = 'left';
    context.fillStyle = this.cursor && this.cursor.lane === i ? this.colors.ink : this.colors.soft;
    context.fillText(this.shown(lane.label), 0, top + kLaneHeight / 2);
    context.fillStyle = this.colors.line;
    context.fillRect(this.left, top + kLaneHeight - 1, this.width - this.left, 1);
    const pixels = x(1) - x(0);
    lane.drawn = this.ItemsAt(lane, pixels, from, to);
    context.save();
    context.beginPath();
    context.rect(this.left, top, this.width - this.left, kLaneHeight);
    context.clip();
    for (const items of lane.drawn) this.PaintItems(context, lane, items, top, x, from, to);
    context.restore();
  }

  // Colours stand for kernels; runs and steps alternate, so that neighbours differ.
  ColorOf(lane, name, i) {
    const {names, found, line} = this.colors;
    if (this.found) return this.found.has(name) ? found : names[6];
    if (lane.of !== 'executions') return i % 2 ? names[6] : line;
    return names[Math.min(name, 6)];
  }

  // A bin: pale from its first start to its last end, as high as its busy share. Search results are
  // drawn last, so that they are never hidden.
  PaintItems(context, lane, items, top, x, from, to) {
    const {start, end, name, busy, count} = items;
    const height = kLaneHeight - 5;
    const last = d3.bisectRight(start, to);
    const paint = (i) => {
      const left = Math.min(Math.max(x(start[i]), this.left - 4), this.width - 1);
      const width = Math.max(1, Math.min(x(end[i]), this.width + 4) - left);
      const fill = context.fillStyle = this.ColorOf(lane, name[i], i);
      const single = !count || count[i] === 1;
      if (!single) {
        context.globalAlpha = 0.28;
        context.fillRect(left, top + 2, width, height);
        context.globalAlpha = 1;
      }
      const share = single ? 1 : Math.max(0.12, busy[i] / Math.max(1, end[i] - start[i]));
      context.fillRect(left, top + 2 + height * (1 - share), width, height * share);
      if (single && width > 3) {
        context.fillStyle = this.colors.ground;
        context.fillRect(left + width - 0.6, top + 2, 0.6, height);
      }
      const more = single ? '' : ` +${count[i] - 1}`;
      if (width > 46 && (single || share > 0.8)) {
        this.PaintName(context, name[i], more, fill, left, width, top);
      }
    };
    const later = [];
    for (let i = FirstInView(items, from); i < last; ++i) {
      if (this.found && this.found.has(name[i])) later.push(i);
      else paint(i);
    }
    later.forEach(paint);
  }

  PaintName(context, name, more, fill, left, width, top) {
    context.fillStyle = Luminance(d3.rgb(fill)) > 0.18 ? '#000' : '#fff';
    const letters = Math.max(2, Math.floor((width - 6) / 7) - more.length);
    // Letters are narrower than 7 pixels on average, and the three dots are as wide as two of them.
    const whole = this.names[name] || '?';
    const text = (whole.length <= letters + 2 ? whole : Shortened(whole, letters)) + more;
    context.fillText(text, Math.max(left, this.left) + 4, top + kLaneHeight / 2,
                     Math.max(4, left + width - Math.max(left, this.left) - 6));
  }

  // The item at this place: {items, i}.
  At(lane, tick, slack) {
    for (const items of (lane.drawn || []).slice().reverse()) {
      let i = d3.bisectRight(items.start, tick + slack) - 1;
      for (let tries = 0; i >= 0 && tries < 64; --i, ++tries) {
        if (items.end[i] + slack >= tick) return {items, i};
        if (items.reach[i] + slack < tick) break;
      }
    }
    return null;
  }

  Lines(lane, {items, i}) {
    const {start, end, count, busy, name} = items;
    const times = `start ${this.Time(start[i])}, ${this.ExactPs(start[i])}`;
    if (!count || count[i] === 1) {
      return [this.names[name[i]] || '?', lane.name, times,
              `takes ${this.Time(end[i] - start[i])}, ${this.ExactPs(end[i] - start[i])}`];
    }
    return [Counted(count[i], 'event'), lane.name, times,
            `to ${this.Time(end[i])}, busy ${this.Time(busy[i])}`,
            `most of it: ${this.names[name[i]] || '?'}`,
            items === lane.levels[0] && lane.events && lane.events.least > 0
              ? `shorter than ${this.Time(lane.events.least)}: not listed individually`
              : 'zoom in to see more'];
  }

  Hover(event) {
    if (event.buttons) return tip.Hide();
    const box = this.canvas.getBoundingClientRect();
    const lane = this.lanes[Math.floor((event.clientY - box.top - kAxisHeight) / kLaneHeight)];
    const px = event.clientX - box.left;
    if (!lane || px < this.left) return tip.Hide();
    const x = this.X();
    const at = this.At(lane, x.invert(px), 2 / (x(1) - x(0)));
    if (!at) return tip.Hide();
    return tip.Show(this.Lines(lane, at), event.clientX, event.clientY);
  }

  Key(event) {
    const keys = {
      ArrowLeft: () => this.Pan(-0.2), ArrowRight: () => this.Pan(0.2),
      ArrowUp: () => this.ZoomBy(1.6), ArrowDown: () => this.ZoomBy(1 / 1.6),
      '+': () => this.ZoomBy(2), '=': () => this.ZoomBy(2), '-': () => this.ZoomBy(0.5),
      0: () => this.ShowAll(), Home: () => this.ShowAll(),
      PageDown: () => this.MoveLane(1), PageUp: () => this.MoveLane(-1),
      '.': () => this.MoveCursor(1), ',': () => this.MoveCursor(-1), Escape: () => tip.Hide(),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  MoveLane(by) {
    const lane = (this.cursor ? this.cursor.lane : by > 0 ? -1 : this.lanes.length) + by;
    this.cursor = {lane: Math.min(this.lanes.length - 1, Math.max(0, lane)), start: -Infinity};
    this.Paint();
    this.MoveCursor(1);
  }

  // To the next thing that is drawn in the lane, and in view.
  MoveCursor(by) {
    if (!this.cursor) this.cursor = {lane: 0, start: -Infinity};
    const lane = this.lanes[this.cursor.lane];
    const items = lane && lane.drawn && lane.drawn[lane.drawn.length - 1];
    if (!items || items.start.length === 0) return;
    const [from] = this.View();
    const known = Number.isFinite(this.cursor.start);
    const next = !known ? FirstInView(items, from)
      : by > 0 ? d3.bisectRight(items.start, this.cursor.start)
               : d3.bisectLeft(items.start, this.cursor.start) - 1;
    const i = Math.min(items.start.length - 1, Math.max(0, next));
    this.cursor.start = items.start[i];
    this.Reveal(items.start[i], items.end[i]);
    this.PointAt(this.cursor.lane, {items, i});
  }

  // Moves the view so far that this is in it.
  Reveal(start, end) {
    const [from, to] = this.View();
    if (start >= from && end <= to) return;
    const size = to - from;
    const left = Math.min(this.to - size, Math.max(this.from, start - size * 0.3));
    this.Show(left, left + size);
    this.Paint();
  }

  PointAt(laneIndex, at) {
    const box = this.canvas.getBoundingClientRect();
    const x = this.X();
    const place = Math.max(this.left, Math.min(this.width, x(at.items.start[at.i])));
    tip.Show(this.Lines(this.lanes[laneIndex], at), box.left + place,
             box.top + kAxisHeight + (laneIndex + 0.6) * kLaneHeight);
  }

  Search(text) {
    const wanted = text.trim().toLowerCase();
    this.hits = null;
    this.found = wanted === '' ? null : new Set(
      d3.range(this.names.length).filter((i) => this.names[i].toLowerCase().includes(wanted)));
    this.said.textContent = this.found ? Counted(this.found.size, 'name') + ' found' : '';
    this.Ask();
  }

  // All single events with a found name, by start: listed events, and bins of one event. If there
  // are none, bins that consist mostly of a found name.
  Hits() {
    if (this.hits) return this.hits;
    this.hits = [];
    const take = (laneIndex, items, wanted) => items.name.forEach((name, i) => {
      if (this.found.has(name) && wanted(i)) {
        this.hits.push({laneIndex, items, i, start: items.start[i]});
      }
    });
    this.lanes.forEach(({events, levels: [finest]}, laneIndex) => {
      const least = events ? events.least : Infinity;
      if (events) take(laneIndex, events, () => true);
      if (finest && least > 0) {
        take(laneIndex, finest, (i) => finest.count[i] === 1 &&
                                       finest.end[i] - finest.start[i] < least);
      }
    });
    if (this.hits.length === 0) {
      this.lanes.forEach(({levels: [finest]}, laneIndex) => {
        if (finest) take(laneIndex, finest, () => true);
      });
    }
    this.hits.sort((a, b) => a.start - b.start || a.laneIndex - b.laneIndex);
    this.hit = -1;
    return this.hits;
  }

  Next(by) {
    if (!this.found || this.found.size === 0) return;
    const hits = this.Hits();
    if (hits.length === 0) { this.said.textContent = 'no event is listed'; return; }
    this.hit = (this.hit + by + (this.hit < 0 && by < 0 ? 1 : 0) + hits.length) % hits.length;
    const {laneIndex, items, i} = hits[this.hit];
    const size = Math.max(40, (items.end[i] - items.start[i]) * 8);
    const middle = (items.start[i] + items.end[i]) / 2;
    this.Show(Math.max(this.from, middle - size / 2), Math.min(this.to, middle + size / 2));
    this.Paint();
    this.said.textContent = `${this.hit + 1} of ${d3.format(',')(hits.length)}`;
    this.PointAt(laneIndex, {items, i});
  }
}

function Luminance({r, g, b}) {
  const part = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
}

// ---------------------------------------------------------------- the page

// The views of each kind of result. make(result) returns a figure, or null if it would be empty;
// `before`: the figure goes in front of this table.
const kViews = {
  'xplane-time.report.v1': [
    {before: 'devices', make: ReportDevices},
    {before: 'functions', make: ReportFunctions},
    {before: 'kernels', make: ReportKernels},
  ],
  'xplane-time.where.v1': [
    {before: 'devices', make: WhereDevices},
    {before: 'functions', make: WhereFunctions},
    {before: 'steps', make: WhereSteps},
  ],
  'xplane-time.headroom.v1': [
    {before: 'ops', make: HeadroomAnswered},
    {before: 'ops', make: HeadroomRoofline},
    {before: 'ops', make: HeadroomRecoverable},
  ],
  'xplane-time.diff.v1': [{before: 'rows', make: DiffWaterfall}],
  'xplane-time.compare.v1': [{before: 'rows', make: CompareIntervals}],
  'xplane-time.functions.v1': [{before: 'functions', make: ReportFunctions}],
  'xplane-time.kernels.v1': [{before: 'kernels', make: ReportKernels}],
  'xplane-time.tree.v1': [{before: 'tree', make: TreeIcicle}],
  'xplane-time.power.v1': [{before: 'energy', make: PowerSeries}],
  'xplane-time.energy.v1': [
    {before: 'devices', make: EnergyTimelines},
    {before: 'kernels', make: EnergyBars('kernels', 'kernel')},
    {before: 'layers', make: EnergyBars('layers', 'layer')},
  ],
  'xplane-time.tune-result.v1': [{before: 'variants', make: TuneRace}],
  'xplane-time.grid.v1': [{before: 'settings', make: GridSettings}],
  'xplane-time.pick.v1': [{before: 'variants', make: PickIntervals}],
};

// The tables of this result; else those of another result that are called so.
function SectionsOf(index, table) {
  const named = Array.from(document.querySelectorAll('section[data-table]'))
      .filter((section) => section.dataset.table === table);
  const own = named.filter((section) => Number(section.dataset.document || 0) === index);
  return own.length ? own : named;
}

// Under the heading of its table; a figure of several tables goes in front of all of them; a figure
// without a table goes behind the first one of the page.
function Place(figure, sections, main) {
  const [first] = sections;
  if (!first) {
    const any = main.querySelector('section');
    if (any) any.after(figure);
    else main.append(figure);
  } else if (sections.length > 1 || !first.querySelector('h2')) {
    first.before(figure);
  } else {
    const next = Array.from(first.children).find((child) => !child.matches('h2, figure'));
    first.insertBefore(figure, next || null);
  }
}

// Figures of one result, beside their tables.
function MakeFigures(result, index, path = '') {
  const main = document.querySelector('main') || document.body;
  const figures = [];
  for (const {before, make} of kViews[result.schema] || []) {
    let figure;
    try {
      const spec = make(result);
      if (!spec) continue;
      const kept = Kept(result, before);
      if (kept && !spec.whole) {
        spec.how += ` The page has only ${d3.format(',')(kept.rows.length)} of ` +
                    `${Counted(kept.all, 'row')}.`;
      }
      figure = new Figure(spec);
    } catch (error) {
      main.prepend(Element('p', {class: 'note', text: `A chart is missing: ${error.message}`}));
      continue;
    }
    const own = SectionsOf(index, path + before);
    // Sections of a nested result come after it.
    Place(figure.element, own.length || !path ? own : SectionsOf(index, before).slice(-1), main);
    figures.push(figure);
  }
  if (result.why && result.why.schema) figures.push(...MakeFigures(result.why, index, 'why.'));
  return figures;
}

// In front of all.
function AddTimeline(data) {
  const timeline = new Timeline(data);
  (document.querySelector('main') || document.body).prepend(timeline.element);
  return timeline;
}

function DrawWithThePage(figures) {
  figures.forEach((figure) => figure.Draw());
  const observer = new ResizeObserver(() => figures.forEach((figure) => figure.Draw()));
  observer.observe(document.querySelector('main') || document.body);
}

// Light or dark: as the system prefers, until the button changes it. Paper is light.
function AddTheme(figures) {
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const isDark = () => root.dataset.theme ? root.dataset.theme === 'dark' : system.matches;
  const button = Element('button', {type: 'button', class: 'theme'});
  const repaint = () => {
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', isDark() ? 'Light colours' : 'Dark colours');
    figures.forEach((figure) => figure.Paint && figure.Paint());
  };
  button.addEventListener('click', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    repaint();
  });
  system.addEventListener('change', repaint);
  let before;
  addEventListener('beforeprint', () => {
    before = root.dataset.theme;
    root.dataset.theme = 'light';
    repaint();
  });
  addEventListener('afterprint', () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    repaint();
  });
  (document.querySelector('header') || document.body).append(button);
  repaint();
}

async function Main() {
  let documents = [], tables = [], timeline;
  try {
    let drawn, kept;
    ({documents, tables = [], drawn = {}, kept = {}, timeline} = await OpenData());
    if (documents.length) Object.assign(documents[0], {drawn, kept});
  } catch (error) {
    (document.querySelector('main') || document.body).prepend(Element('p', {
      class: 'note', text: `No charts: the page's data cannot be opened (${error.message}).`}));
  }
  MakeTables(tables);
  // The partition of time is more informative than busy time alone.
  if (documents.some((result) => result.schema === 'xplane-time.where.v1')) {
    kViews['xplane-time.report.v1'] = kViews['xplane-time.report.v1']
        .filter((view) => view.make !== ReportDevices);
  }
  const figures = documents.flatMap((result, index) => MakeFigures(result, index));
  if (timeline && timeline.lanes.length) figures.push(AddTimeline(timeline));
  AddTheme(figures);
  DrawWithThePage(figures);
  document.documentElement.dataset.ready = 'true';
}

Main();
})();
