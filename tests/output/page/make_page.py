#!/usr/bin/env python3
"""Makes a report page of JSON results, as the program will: for the tests of the page.

    make_page.py RESULT.json.. -o page.html [--rows 200] [--title TEXT]

The contract is at the top of src/output/page/page.js. Each argument is what --format json
printed, or a document with a timeline.
"""
import argparse
import base64
import hashlib
import html
import json
import math
import pathlib
import zlib

PAGE = pathlib.Path(__file__).resolve().parents[3] / "src/output/page"
D3 = [pathlib.Path("/usr/share/nodejs/d3/dist/d3.min.js"),
      pathlib.Path("/usr/share/javascript/d3/d3.min.js")]
SCALES = [("ns", 1e3, 3), ("us", 1e6, 6), ("ms", 1e9, 9), ("s", 1e12, 12)]
LEFT_OUT = {"input", "plane", "ordinal", "host", "clock", "metric", "program_id", "scope"}
OF_NESTED = {"median", "centre_ps", "ps", "op", "kernel"}


def field(row, path):
    """What the path leads to: null where it ends early."""
    if path == "device" and "device" not in row:
        name = row["plane"].removeprefix("/device:").removeprefix("/host:")
        known = name.rpartition(":")[2].isdigit() or row.get("ordinal") is None
        return name if known else f"{name}:{row['ordinal']}"
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def decimals(largest, most):
    size = abs(largest)
    wanted = 0 if size >= 1e5 else 1 if size >= 1e3 else 2 if size >= 100 else 3
    if 0 < size < 1:
        wanted = 3 - math.floor(math.log10(size))
    return min(wanted, most)


def columns_of(rows):
    """Fields of the rows, with their kinds: {field, kind, label, unit, decimals}."""
    paths = {}
    for row in rows:
        if "plane" in row:
            paths["device"] = None
        for key, value in row.items():
            if key in LEFT_OUT or isinstance(value, list):
                continue
            if isinstance(value, dict):
                for name in value.keys() & OF_NESTED:
                    paths[f"{key}.{name}"] = None
            else:
                paths[key] = None
    device_last = sorted(paths, key=lambda path: path == "device")
    return [column for column in (column_of(path, rows) for path in device_last) if column]


def column_of(path, rows):
    values = [v for v in (field(row, path) for row in rows) if v is not None]
    if not values or any(isinstance(v, (dict, list)) for v in values):
        return None
    label = path.replace("_ps", "").replace(".", " ").replace("_", " ")
    if any(isinstance(v, (str, bool)) for v in values):
        return {"field": path, "kind": "text", "label": label}
    if "_ps" in path or path.endswith(".ps"):
        largest = max(abs(v) for v in values)
        unit, ps, most = next((s for s in reversed(SCALES) if largest >= s[1]), SCALES[0])
        return {"field": path, "kind": "time", "label": f"{label} {unit}", "unit": unit, "ps": ps,
                "decimals": decimals(largest / ps, most)}
    if any(isinstance(v, float) for v in values) and "_per_s" not in path and "share" not in path:
        return {"field": path, "kind": "number", "label": label, "decimals": 4}
    kind = "share" if "share" in path else "rate" if "_per_s" in path else "count"
    return {"field": path, "kind": kind, "label": label + (" %" if kind == "share" else "")}


def rate(value):
    for prefix in ["", " k", " M", " G", " T", " P", " E"]:
        if abs(value) < 999.5:
            break
        value /= 1000
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f}{prefix}"


def cell(value, column):
    if value is None:
        return "-"
    if column["kind"] == "time":
        return f"{value / column['ps']:.{column['decimals']}f}"
    if column["kind"] == "share":
        return f"{value * 100:.1f}"
    if column["kind"] == "rate":
        return rate(value) if value else "0"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4f}" if column["kind"] == "number" else str(value)


def table(name, rows, document, most):
    columns = columns_of(rows)
    esc = html.escape
    out = [f'<section data-table="{esc(name)}" data-document="{document}">',
           f"<h2>{esc(name)}</h2>"]
    if len(rows) > most:
        out.append(f'<p class="note cut">The first {most} of {len(rows)} rows.</p>')
    out.append("<table><thead><tr>")
    for c in columns:
        sort = "text" if c["kind"] == "text" else "number"
        more = f' data-unit="{c["unit"]}"' if "unit" in c else ""
        more += f' data-decimals="{c["decimals"]}"' if "decimals" in c else ""
        out.append(f'<th scope="col" data-field="{esc(c["field"])}" class="{sort}" '
                   f'data-kind="{c["kind"]}"{more}>{esc(c["label"])}</th>')
    out.append("</tr></thead><tbody>")
    for i, row in enumerate(rows[:most]):
        cells = "".join(
            f'<td class="{"text" if c["kind"] == "text" else "number"}">'
            f"{esc(cell(field(row, c['field']), c))}</td>" for c in columns)
        out.append(f'<tr data-row="{i}">{cells}</tr>')
    out.append("</tbody></table></section>")
    return "\n".join(out)


def tables(result, document, most):
    for name, rows in result.items():
        if name in ("inputs", "diagnostics") or not isinstance(rows, list):
            continue
        if rows and all(isinstance(row, dict) for row in rows):
            yield table(name, rows, document, most)


def words(result):
    """Verdict first, then inputs, notes and doubts."""
    esc = html.escape
    if "explanation" in result:
        yield f'<p class="verdict">{esc(result["explanation"])}</p>'
    for source in result.get("inputs", []):
        if isinstance(source, dict):
            yield f"<p>{esc(source['path'])}, {source['bytes']} bytes</p>"
    for note in result.get("notes", []):
        yield f'<p class="note">{esc(note)}</p>'
    for doubt in result.get("diagnostics", []):
        yield (f'<p class="doubt">{esc(doubt["severity"])}: {doubt["count"]}x '
               f'{esc(doubt["message"])}</p>')


def hashed(text):
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def d3_text():
    for path in D3:
        if path.exists():
            return path.read_text()
    raise SystemExit("make_page.py: no d3: apt-get install node-d3")


def page(texts, title, most=200):
    """The page of these JSON texts, embedded as they are: no digit is lost."""
    results = [json.loads(text) for text in texts]
    timelines = [result["timeline"] for result in results if "timeline" in result]
    data = '{"documents":[' + ",".join(texts) + "]" + "".join(
        f',"timeline":{json.dumps(timeline)}' for timeline in timelines[:1]) + "}"
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = base64.b64encode(deflate.compress(data.encode()) + deflate.flush()).decode()
    css, script, d3 = (PAGE / "page.css").read_text(), (PAGE / "page.js").read_text(), d3_text()
    assert "</script" not in script + d3 and "<!--" not in script + d3 and "</style" not in css
    policy = (f"default-src 'none'; script-src {hashed(d3)} {hashed(script)}; "
              f"style-src {hashed(css)}; img-src data:; base-uri 'none'; form-action 'none'")
    body = "\n".join(part for i, result in enumerate(results) for part in tables(result, i, most))
    said = "\n".join(part for result in results for part in words(result))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{css}</style>
</head>
<body>
<header>
<h1>{html.escape(title)}</h1>
{said}
</header>
<main>
{body}
</main>
<script type="application/octet-stream" id="data">{packed}</script>
<script>{d3}</script>
<script>{script}</script>
</body>
</html>
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    parser.add_argument("-o", "--output", required=True, type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=200, help="most rows a table in the HTML")
    parser.add_argument("--title")
    options = parser.parse_args()
    title = options.title or ", ".join(path.stem for path in options.results)
    texts = [path.read_text() for path in options.results]
    options.output.write_text(page(texts, title, options.rows))


if __name__ == "__main__":
    main()
