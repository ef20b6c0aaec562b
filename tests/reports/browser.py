"""Opening a page in headless Chromium, as a reader would, and asking it what it shows."""

import html
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip

PROBE_START = """<script>
window.problems = [];
addEventListener("error", (event) => window.problems.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => window.problems.push(event.blockedURI));
for (const name of ["error", "warn"]) {
  const usual = console[name];
  console[name] = (...words) => { window.problems.push(words.join(" ")); usual(...words); };
}
</script>"""

PROBE_END = """<script>
window.answer = async () => {
  const question = %s;
  const found = { problems: window.problems, results: {} };
  for (const [name, text] of Object.entries(question)) found.results[name] = await eval(text);
  found.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  const note = document.createElement("pre");
  note.id = "probe";
  note.textContent = JSON.stringify(found);
  document.body.append(note);
};
addEventListener("load", () => setTimeout(window.answer, 50));
</script>"""


def ask(chromium: str, page: Path, questions: dict[str, str], width: int = 1280) -> dict[str, Any]:
    """Open a page and evaluate JavaScript expressions in it; promises are awaited.

    Args:
        chromium: path of the browser.
        page: an HTML file; a copy beside it is opened, with a probe.
        questions: name -> expression.
        width: of the page, CSS pixels; below 500 it is shown in a frame, as Chromium's own
            windows are not narrower.

    Returns:
        `problems` (errors and warnings), `requests` (resources asked for), `results` by name.
    """
    text = page.read_text(encoding="utf-8")
    text = text.replace("<head>", f"<head>{PROBE_START}", 1)
    text = text.replace("</body>", f"{PROBE_END % json.dumps(questions)}</body>", 1)
    copy = page.with_name("probe.html")
    if width < 500:
        # The frame's answer is copied out of it: --dump-dom prints the outer document, whose
        # encoding is the frame's too (a browser guesses one that is not said).
        inner = html.escape(text, quote=True)
        text = (
            '<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">'
            f'<iframe style="border:0" width="{width}" height="2000" srcdoc="{inner}"></iframe>'
            "<script>"
            "const frame = document.querySelector('iframe');"
            "setInterval(() => { const found = frame.contentDocument?.getElementById('probe');"
            " if (found) document.body.append(found.cloneNode(true)); }, 50);</script></body>"
        )
    copy.write_text(text, encoding="utf-8")
    try:
        shown = _run(chromium, copy, max(width, 500))
    finally:
        copy.unlink()
    answer = re.search(r'<pre id="probe">(.*?)</pre>', shown, flags=re.DOTALL)
    assert answer is not None, "the page did not finish loading"
    decoded: dict[str, Any] = json.loads(html.unescape(answer.group(1)))
    return decoded


def _run(chromium: str, page: Path, width: int) -> str:
    """Print the document as it is after loading; the profile is new and thrown away."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [
            chromium, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},2000",
            "--virtual-time-budget=3000", "--dump-dom", page.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
