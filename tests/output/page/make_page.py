#!/usr/bin/env python3
"""Makes a page of JSON results, without tables: for the tests of figures.

    make_page.py RESULT.json.. -o page.html [--title TEXT]

The contract is at the top of src/output/page/page.js. Each argument is what --format json
printed, or a document with a timeline.
"""
import argparse
import base64
import hashlib
import html
import json
import pathlib
import zlib

PAGE = pathlib.Path(__file__).resolve().parents[3] / "src/output/page"
D3 = [pathlib.Path("/usr/share/nodejs/d3/dist/d3.min.js"),
      pathlib.Path("/usr/share/javascript/d3/d3.min.js")]


def sections(result, document):
    """Where figures go: a section of each list of rows. Its table is the program's to write."""
    for name, rows in result.items():
        if name in ("inputs", "diagnostics") or not isinstance(rows, list):
            continue
        if rows and all(isinstance(row, dict) for row in rows):
            yield (f'<section data-table="{html.escape(name)}" data-document="{document}">'
                   f"<h2>{html.escape(name)}</h2></section>")


def hashed(text):
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def d3_text():
    for path in D3:
        if path.exists():
            return path.read_text()
    raise SystemExit("make_page.py: no d3: apt-get install node-d3")


def page(texts, title, drawn="{}"):
    """The page of these JSON texts, embedded as they are: no digit is lost."""
    results = [json.loads(text) for text in texts]
    timelines = [result["timeline"] for result in results if "timeline" in result]
    data = '{"documents":[' + ",".join(texts) + f'],"drawn":{drawn}' + "".join(
        f',"timeline":{json.dumps(timeline)}' for timeline in timelines[:1]) + "}"
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = base64.b64encode(deflate.compress(data.encode()) + deflate.flush()).decode()
    css, script, d3 = (PAGE / "page.css").read_text(), (PAGE / "page.js").read_text(), d3_text()
    assert "</script" not in script + d3 and "<!--" not in script + d3 and "</style" not in css
    policy = (f"default-src 'none'; script-src {hashed(d3)} {hashed(script)}; "
              f"style-src {hashed(css)}; img-src data:; base-uri 'none'; form-action 'none'")
    body = "\n".join(part for i, result in enumerate(results) for part in sections(result, i))
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
    parser.add_argument("--title")
    options = parser.parse_args()
    title = options.title or ", ".join(path.stem for path in options.results)
    texts = [path.read_text() for path in options.results]
    options.output.write_text(page(texts, title))


if __name__ == "__main__":
    main()
