"""Opens report.html, filled with sample comparisons, in Debian's chromium and reads what a person would see.

    /usr/bin/python3 web/test_report.py                  # the tests
    /usr/bin/python3 web/test_report.py --pictures DIR   # no tests: pictures, wide and narrow, light and dark
"""

import base64
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "web" / "report.html"
PLACEHOLDER = '"@LACONIC_REPORT@"'
CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-pipe"
).split()


# ---- sample comparisons -------------------------------------------------------------------------------


def recipe(name, seeds=3, ratio=1.0, final=0.873, steps=1500, op=None, exchange="gather"):
    """A recipe that learns along 1 - exp: the numbers are made up, their shape is not."""
    dense = 1724320
    frame = dense / ratio
    traffic = 1.5 * dense if exchange == "dense" else 3 * frame
    codec = 0.0 if name == "dense" else 0.003
    work = 0.026 + codec

    def evaluation(seed, step):
        accuracy = 0.1 + (final - 0.1) * (1 - math.exp(-step / 220)) + 0.004 * math.sin(7 * seed + step)
        return {
            "step": step,
            "epoch": step / steps,
            "loss": None if step == 0 else 2.3 * math.exp(-step / 500) + 0.3,
            "accuracy": accuracy,
            "wire_bytes": int(frame * step),
            "traffic_bytes": int(traffic * step),
            "dense_bytes": int(1.5 * dense * step),
            "seconds": {
                "compute": 0.024 * step,
                "compress": codec / 2 * step,
                "exchange": 0.005 * step,
                "decompress": codec / 2 * step,
                "update": 0.002 * step,
            },
            "exposed_seconds": 0.004 * step,
        }

    runs = [
        {"seed": s, "evaluations": [evaluation(s, n) for n in range(0, steps + 1, 100)]} for s in range(1, seeds + 1)
    ]
    last = [run["evaluations"][-1]["accuracy"] for run in runs]
    return {
        "name": name,
        "op": op or ("identity" if name == "dense" else name),
        "memory": "none",
        "layout": "tensor",
        "exchange": exchange,
        "summary": {
            "accuracy": sum(last) / len(last),
            "accuracy_min": min(last),
            "accuracy_max": max(last),
            "ratio": ratio,
            "traffic_bytes_per_step": traffic,
            "dense_traffic_bytes_per_step": 1.5 * dense,
            "step_seconds": work + 0.005,
            "exposed_seconds_per_step": 0.004,
            "link_step_seconds": work + 0.003 + traffic * 8 / 1e8,
        },
        "runs": runs,
    }


def report(recipes, **changes):
    return {
        "program": "laconic 0.1.0",
        "title": "LeNet-5 on fashion-mnist, 4 workers",
        "data": "fashion-mnist",
        "model": "lenet5",
        "parameters": 431080,
        "workers": 4,
        "epochs": 1,
        "batch": 32,
        "optimizer": "sgd",
        "lr": 0.05,
        "seeds": [1, 2, 3],
        "link": {"text": "100mbit,1ms", "bits_per_second": 1e8, "latency_seconds": 0.001},
        "command": "laconic compare --seeds 3",
        "recipes": recipes,
    } | changes


def dense(**more):
    return recipe("dense", exchange="dense", **more)


def four():
    return report(
        [
            dense(),
            recipe("natural", ratio=3.55, final=0.872),
            recipe("natural+entropy", ratio=7.43, final=0.871),
            recipe("topk:0.01", ratio=62.4, final=0.842),
        ]
    )


def many(count):
    return report(
        [dense()] + [recipe(f"qsgd:{k}+entropy", ratio=1.7 * k, final=0.874 - 0.003 * k) for k in range(1, count)]
    )


def odd():
    """What a damaged or hurried comparison may hold: each recipe misses something else."""
    early = recipe("ended early", ratio=4.0, seeds=2)
    del early["runs"][1]["evaluations"][4:]
    unevaluated = recipe("no evaluations", ratio=9.0)
    unevaluated["runs"] = [{"seed": 1, "evaluations": []}]
    huge = recipe("huge", ratio=1e18, final=1e9)
    huge["summary"] |= {"traffic_bytes_per_step": 1e30, "step_seconds": 1e9, "link_step_seconds": 1e12}
    tiny = recipe("tiny", ratio=1e-12, seeds=1)
    tiny["summary"] |= {"traffic_bytes_per_step": 1e-9, "step_seconds": 1e-15, "link_step_seconds": 1e-15}
    nulls = recipe("nulls", ratio=2.0)
    nulls["summary"] = {key: None for key in nulls["summary"]}
    nulls["runs"][0]["evaluations"] = [{"step": None, "accuracy": None, "loss": None, "seconds": None}, None]
    markup = recipe("</script><b onclick=alert(1)>&amp;</b>", ratio=3.0)
    bare = {"name": "bare"}
    long = recipe("a-recipe-with-a-very-long-name+" * 4, ratio=5.0)
    return report(
        [dense(), early, unevaluated, huge, tiny, nulls, markup, bare, long, None, 3], title=None, link=None, seeds="x"
    )


def apart():
    """Workers' models that differ, beside those that are the same."""
    mixed = recipe("dpsgd", ratio=1.0, final=0.86)
    for one in mixed["runs"]:
        for e in one["evaluations"]:
            e |= {"model_norm": 20.0, "consensus_distance": 0.5 * min(e["step"], 200) / 200, "neighbour_difference": 0.07}
    return report([dense(), mixed])


def without_dense():
    return report([recipe("natural", ratio=3.55), recipe("natural+entropy", ratio=7.43)])


def all_worse():
    return report([dense(), recipe("topk:0.001", ratio=900, final=0.62), recipe("topk:0.01", ratio=90, final=0.79)])


def gossip(mixer, rate, per_round, rounds=300, topology="ring:8", op="identity"):
    """A run whose error falls by a rate per round, to what floats leave."""

    def row(n):
        return {
            "round": n,
            "error": max(rate**n, 3e-15),
            "payload_bytes": 0.97 * per_round * n,
            "traffic_bytes": per_round * n,
            "waits": 2 * n,
        }

    rows = [row(n) for n in range(rounds + 1)]
    close = [r for r in rows if r["error"] <= 1e-3]
    return {
        "mixer": mixer,
        "op": op,
        "topology": topology,
        "ranks": 8,
        "spectral_gap": 0.195262,
        "best_gamma": 1.308391,
        "best_contraction": 0.744521,
        "close": close[0] if close else None,
        "last": rows[-1],
        "rounds": rows,
    }


def consensus(runs, **changes):
    return {
        "program": "laconic 0.1.0",
        "kind": "consensus",
        "title": "Consensus of 100x100 matrices",
        "shape": [100, 100],
        "weights": "metropolis",
        "rounds": 300,
        "seed": 0,
        "close_error": 0.001,
        "command": "laconic consensus --mixer dpsgd --mixer powergossip",
        "runs": runs,
    } | changes


def three_mixers(**changes):
    return consensus(
        [
            gossip("dpsgd:gamma=1.30839063", 0.5543, 80110),
            gossip("powergossip", 0.986, 904),
            gossip("choco:0.2", 0.9, 3707, op="topk:0.1"),
        ],
        **changes,
    )


def odd_consensus():
    exact = gossip("dpsgd", 0.1, 1e6, rounds=4)
    exact["rounds"][-1]["error"] = exact["last"]["error"] = 0
    diverged = gossip("moniqua:1", 1.5, 1e3)
    diverged["rounds"][40:] = [{"round": 40, "error": None, "traffic_bytes": 4e4}, None]
    diverged["last"] = {"round": 300, "error": None, "traffic_bytes": None}
    short = gossip("one round </script><b onclick=alert(1)>", 0.9, 10, rounds=1, topology="star:256")
    return consensus([exact, diverged, short, {"mixer": "bare"}, None, {"rounds": 3, "last": 1, "close": 2}], shape=None)


def run(steps=120, **changes):
    """A training of which the guard sends the middle third as it is."""

    def row(n):
        lane = "dense" if 40 <= n < 80 else "recipe"
        parts = [0.004, 0.002] if lane == "dense" else [0.009, 0.003]
        return {"step": n, "lane": lane, "seconds": 0.042 + sum(parts), "compute": 0.038, "parts": parts, "vote": 0.001, "update": 0.003,
                "bytes": 2587828 if lane == "dense" else 763757, "units": []}  # fmt: skip

    def decision(n, lane, why, **more):
        return {"step": n, "lane": lane, "why": why, "step_seconds": 0.054, "seconds_per_byte": 1e-9, **more}

    return {
        "kind": "run",
        "program": "laconic 0.1.0",
        "title": "lenet5 by natural-sharded, 4 workers",
        "recipe": "natural-sharded",
        "model": "lenet5",
        "workers": 4,
        "batch": 64,
        "guard": "on",
        "steps": [row(n) for n in range(steps)],
        "decisions": [
            decision(0, "recipe", "the recipe's own comes first"),
            {"step": 16, "lane": "recipe", "probe": 16384},
            decision(40, "dense", "it is predicted to be faster", predicted={"recipe": 0.054, "dense": 0.048}),
            decision(80, "recipe", "the other was slower", predicted={"recipe": 0.048, "dense": 0.054}),
        ],
    } | changes


def odd_run():
    """What a trace may miss, or have too much of."""
    data = run(1500)
    data["steps"][3:9] = [None, 3, {"step": 4}, {"step": 5, "seconds": None}, {"step": 6, "seconds": 1e9, "parts": "x"},
                          {"step": 7, "lane": "<b>", "seconds": 0, "parts": [None, -1, 1e-12], "vote": None}]  # fmt: skip
    data["decisions"] += [None, {"step": 1e12, "lane": "half", "why": "<b>"}, {"step": 90, "lane": "none", "why": "x", "predicted": 3}]
    return data


SAMPLES = {
    "four": four(),
    "one": report([dense(seeds=1)], seeds=[1]),
    "twelve": many(12),
    "thirty": many(30),
    "odd": odd(),
    "without-dense": without_dense(),
    "apart": apart(),
    "all-worse": all_worse(),
    "empty": report([]),
    "run": run(),
    "run-odd": odd_run(),
    "run-empty": run(0, decisions=None),
    "consensus": three_mixers(),
    "consensus-places": consensus(
        [gossip("dpsgd", 0.8, 8e4, topology=t) for t in ("ring:8", "torus:4x4")] + [gossip("choco:0.9", 1.01, 900)]
    ),
    "consensus-odd": odd_consensus(),
    "consensus-empty": consensus([]),
}


def page_of(data):
    """The page as the program writes it: the placeholder replaced, `</` escaped inside the JSON."""
    text = data if isinstance(data, str) else json.dumps(data).replace("</", "<\\/")
    return PAGE.read_text().replace(PLACEHOLDER, text)


# ---- the browser ----------------------------------------------------------------------------------------


class Browser:
    """One headless chromium, spoken to in JSON over file descriptors 3 and 4 (its --remote-debugging-pipe)."""

    def __init__(self, folder):
        if not Path(CHROMIUM).exists():
            sys.exit(f"web/test_report.py: there is no {CHROMIUM}; install Debian's package chromium.")
        read3, self.write = os.pipe()
        self.read, write4 = os.pipe()
        high = [os.dup2(fd, fd + 50, inheritable=True) for fd in (read3, write4)]
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile", "about:blank"]
        shell = ["/bin/bash", "-c", f'exec "$@" 3<&{high[0]} 4>&{high[1]}', "bash", *command]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        self.process = subprocess.Popen(shell, pass_fds=high, **quiet)
        for fd in (read3, write4, *high):
            os.close(fd)
        self.folder, self.pending, self.count, self.session, self.errors = folder, b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.pending:
            more = os.read(self.read, 1 << 20)
            if not more:
                raise RuntimeError("chromium ended before it answered")
            self.pending += more
        line, self.pending = self.pending.split(b"\0", 1)
        return json.loads(line)

    def until(self, wanted):
        """Reads messages until `wanted` accepts one; keeps what looks like an error in the page on the way."""
        while True:
            message = self.message()
            method, about = message.get("method"), message.get("params", {})
            entry = about.get("entry", {}).get("level") == "error"
            if method == "Runtime.exceptionThrown" or (method == "Log.entryAdded" and entry):
                self.errors.append(json.dumps(about))
            if method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
                self.errors.append(json.dumps(about["args"]))
            if method == "Network.requestWillBeSent" and not about["request"]["url"].startswith("file:"):
                self.errors.append(f"asked the network for {about['request']['url']}")
            if wanted(message):
                return message

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        answer = self.until(lambda m: m.get("id") == message["id"])
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, html, width=1280, height=1600, dark=False, name="report", media=""):
        file = Path(self.folder) / f"{name}.html"
        file.write_text(html)
        self.errors.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Page.navigate", url=file.as_uri())
        self.until(lambda m: m.get("method") == "Page.loadEventFired")

    def run(self, expression):
        """The value of an expression after the page has drawn a frame."""
        frame = "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"
        code = f"{frame}.then(() => ({expression}))"
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression[:80]}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, file):
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=height > self.run("innerHeight"))[
            "data"
        ]
        Path(file).write_bytes(base64.b64decode(data))

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(timeout=20)
        os.close(self.read), os.close(self.write)


# ---- what a person would see ------------------------------------------------------------------------------

# Everything the tests read from a page at once. `cut`: texts of plots that leave their plot; `over`: pairs of texts
# of one plot that lie on each other.
LOOK = r"""(() => {
  const all = (q, root = document) => [...root.querySelectorAll(q)], text = (e) => e.textContent;
  const boxes = (svg) => all("text", svg).map((e) => [text(e), e.getBoundingClientRect()]);
  const out = (b, s) => b.left < s.left - 1 || b.right > s.right + 1 || b.top < s.top - 2 || b.bottom > s.bottom + 2;
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
  const plots = all("figure > svg"), pairs = (list) => list.flatMap((a, i) => list.slice(i + 1).map((b) => [a, b]));
  return {
    headline: text(document.getElementById("headline")), answer: text(document.getElementById("answer")),
    rows: all("tbody tr").map((row) => [...row.children].map((c) => c.innerText.replaceAll("\u00a0", " ").trim().split(/\s*\n\s*/))),
    sorted: all("th[aria-sort]").map((e) => [text(e.querySelector("b")), e.getAttribute("aria-sort")]),
    legend: all("#legend [aria-pressed]").map((e) => [text(e), e.getAttribute("aria-pressed") === "true"]),
    lines: plots.map((svg) => all("g[data-series]", svg).length), plots: plots.map((svg) => all("text", svg).map(text)),
    geometry: all("figure svg *").flatMap((e) => [...e.attributes].map((a) => a.value)).join(" "),
    cut: plots.flatMap((svg) => boxes(svg).filter(([, b]) => out(b, svg.getBoundingClientRect())).map(([t]) => t)),
    over: plots.flatMap((svg) => pairs(boxes(svg)).filter(([a, b]) => meet(a[1], b[1])).map(([a, b]) => [a[0], b[0]])),
    tip: getComputedStyle(document.getElementById("tip")).visibility === "visible" ? text(document.getElementById("tip")) : "",
    html: document.querySelector("header").outerHTML + document.querySelector("main").outerHTML,
    width: document.documentElement.scrollWidth, window: innerWidth, paper: getComputedStyle(document.body).backgroundColor,
  };
})()"""


def setUpModule():
    global BROWSER
    folder = tempfile.TemporaryDirectory(prefix="laconic-report-", ignore_cleanup_errors=True)
    unittest.addModuleCleanup(folder.cleanup)
    BROWSER = Browser(folder.name)
    unittest.addModuleCleanup(BROWSER.close)


class WithBrowser(unittest.TestCase):
    @property
    def browser(self):
        return BROWSER

    def open(self, sample, **window):
        self.browser.open(page_of(SAMPLES[sample] if isinstance(sample, str) else sample), **window)
        return self.look()

    def look(self):
        return self.browser.run(LOOK)

    def click(self, query, index=0):
        self.browser.run(f"document.querySelectorAll({json.dumps(query)})[{index}].click()")
        return self.look()


def names_of(data):
    """What the lines are called, in order."""
    if data.get("kind") == "run":
        used = {s.get("lane") for s in data["steps"] if isinstance(s, dict)}
        return [lane for lane in ("recipe", "half", "dense", "light", "tight") if lane in used]
    if "recipes" in data:
        return [r["name"] for r in data["recipes"] if isinstance(r, dict)]
    runs = [r for r in data["runs"] if isinstance(r, dict)]
    places = {r.get("topology") for r in runs}
    names = [r.get("mixer", f"run {i + 1}") for i, r in enumerate(runs)]
    if len(places) < 2:
        return names
    return [f"{n} on {r['topology']}" if "topology" in r else n for n, r in zip(names, runs)]


class EverySample(WithBrowser):
    """Laws over all samples, in a wide and in a narrow window."""

    def test_is_sound(self):
        for name, data in SAMPLES.items():
            for width in (1280, 360):
                with self.subTest(name, width=width):
                    self.check(data, self.open(name, width=width))

    def check(self, data, seen):
        self.assertEqual(self.browser.errors, [])
        names = names_of(data)
        self.assertEqual([row[0][0] for row in seen["rows"]], names)
        self.assertEqual(seen["legend"], [[name, True] for name in names])
        self.assertRegex(seen["headline"], r"^\S.*\.$")
        for word in ("NaN", "undefined", "Infinity", "[object"):
            self.assertNotIn(word, seen["html"])
            self.assertNotIn(word, seen["geometry"])
        self.assertLessEqual(seen["width"], seen["window"], "the page scrolls sideways")
        self.assertEqual(seen["cut"], [])
        self.assertEqual(seen["over"], [])


class Answers(WithBrowser):
    def test_headline_names_the_best_ratio_within_one_point(self):
        seen = self.open("four")
        sentence = "natural+entropy packs a gradient into 7.4 times fewer bytes than float32, at 86.9 % accuracy against 87.1 %."
        self.assertEqual(seen["headline"].replace("\u00a0", " "), sentence)
        self.assertIn("3.7 times less. On 100mbit,1ms a step takes", seen["answer"])

    def test_headline_compares_runs_of_as_many_workers(self):
        few = [each | {"workers": 4} for each in four()["recipes"]]
        many = recipe("powergossip", ratio=143, final=0.873) | {"workers": 8, "mixer": "powergossip"}
        self.assertTrue(self.open(report([*few, many]))["headline"].startswith("natural+entropy packs"))
        self.assertTrue(self.open(report([*few, many | {"workers": 4}]))["headline"].startswith("powergossip packs"))

    def test_headline_says_what_cannot_be_said(self):
        starts = {
            "one": "dense reaches",
            "without-dense": "There is no dense run to compare with; natural+entropy has the highest ratio, 7.4,",
            "all-worse": "No recipe with smaller frames than float32 stays within 1 point of dense (87.1\u00a0%); the closest is topk:0.01",
            "empty": "This report holds no recipes.",
        }
        for sample, start in starts.items():
            self.assertTrue(self.open(sample)["headline"].startswith(start), sample)

    def test_a_page_that_was_not_filled_says_so(self):
        for text in (PLACEHOLDER, "{", "null"):
            self.browser.open(page_of(text))
            self.assertIn("This report cannot be shown", self.look()["headline"])

    def test_markup_in_names_stays_text(self):
        self.open("odd")
        self.assertEqual(self.browser.run("document.querySelectorAll('[onclick]').length"), 0)
        self.assertEqual(self.browser.run("document.scripts.length"), 2)

    def test_without_scripts_there_is_a_sentence(self):
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        self.browser.open(page_of(SAMPLES["four"]))
        self.browser.call("Emulation.setScriptExecutionDisabled", value=False)
        self.assertIn("turn JavaScript on", self.browser.run("document.querySelector('header').innerText"))


class Table(WithBrowser):
    def test_row_holds_the_numbers(self):
        row = self.open("four")["rows"][2]
        self.assertEqual(row[0], ["natural+entropy", "memory none, layout tensor, exchange gather"])
        self.assertEqual(row[1], ["86.9 %", "86.7 to 87.2"])
        self.assertEqual(row[2:4], [["\u22120.2"], ["7.43"]])
        self.assertEqual(row[4], ["0.66 MiB", "dense 2.47 MiB"])
        self.assertEqual(row[5:], [["34 ms"], ["4.0 ms"], ["88 ms"]])

    def test_click_sorts_best_first_then_worst_first(self):
        self.open("four")
        best = self.click("thead button", 3)
        self.assertEqual([row[0][0] for row in best["rows"]], ["topk:0.01", "natural+entropy", "natural", "dense"])
        self.assertEqual(best["sorted"], [["Ratio", "descending"]])
        worst = self.click("thead button", 3)
        self.assertEqual([row[0][0] for row in worst["rows"]], ["dense", "natural", "natural+entropy", "topk:0.01"])
        self.assertEqual(worst["sorted"], [["Ratio", "ascending"]])

    def test_what_is_missing_sorts_last(self):
        self.open("odd")
        for _ in range(2):
            rows = self.click("thead button", 7)["rows"]
            self.assertEqual({row[0][0] for row in rows[-2:]}, {"nulls", "bare"})


class Plots(WithBrowser):
    def test_each_recipe_is_drawn_in_each_plot(self):
        self.assertEqual(self.open("twelve")["lines"], [12, 12, 12])
        self.assertEqual(self.open("odd")["lines"], [7, 6, 6])
        self.assertEqual(self.open("empty")["plots"], [["nothing to draw"]] * 3)

    def test_axes_have_titles_and_units(self):
        steps, sent, bars = self.open("four")["plots"]
        self.assertIn("accuracy, %", steps)
        self.assertIn("step", steps)
        self.assertIn("bytes sent per rank, log scale", sent)
        self.assertIn("1\u00a0GiB", sent)
        self.assertIn("100\u00a0ms", bars)

    def test_models_that_differ_have_a_plot_of_their_own(self):
        seen = self.open("apart")
        self.assertEqual(seen["lines"], [2, 2, 2, 1])
        self.assertIn("of the mean's length, log scale", seen["plots"][3])

    def test_legend_hides_and_shows(self):
        self.open("four")
        seen = self.click("#legend [aria-pressed]", 1)
        self.assertEqual((seen["lines"], seen["legend"][1]), ([3, 3, 3], ["natural", False]))
        self.assertEqual(self.click("#legend .plain", 1)["plots"], [["nothing to draw"]] * 3)
        self.assertEqual(self.click("#legend .plain", 0)["lines"], [4, 4, 4])

    def test_zoom_off_shows_the_start(self):
        self.assertNotIn("0", self.open("four")["plots"][0])
        self.assertIn("0", self.click("#zoom")["plots"][0])

    def test_pointer_reads_the_nearest_value(self):
        self.open("four", height=2000)
        last = "document.querySelector('[data-series=\\'3\\'] .mark').getBoundingClientRect()"
        box = self.browser.run(f"{last}.toJSON()")
        self.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box["x"] + 4, y=box["y"] + 9)
        tip = self.look()["tip"]
        self.assertTrue(tip.startswith("topk:0.01step 1,500, epoch 1accuracy"), tip)
        self.assertIn("3 seeds", tip)
        self.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
        self.assertEqual(self.look()["tip"], "")

    def test_arrow_keys_read_values(self):
        self.open("four", width=360)
        self.browser.run("document.querySelector('figure svg').focus()")
        for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
            self.browser.press(key)
        seen = self.look()
        self.assertTrue(seen["tip"].startswith("naturalstep 1,000"), seen["tip"])
        self.assertLessEqual(seen["width"], 360)
        self.browser.press("Escape")
        self.assertEqual(self.look()["tip"], "")

    def test_a_run_that_ended_early_counts_as_far_as_it_got(self):
        self.open("odd")
        self.click("#zoom")
        points = "document.querySelector('[data-series=\\'1\\'] .line').getAttribute('d').split('L').length"
        self.assertEqual(self.browser.run(points), 16)

    def test_plots_follow_the_window(self):
        self.open("four")
        self.browser.call(
            "Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=False
        )
        seen = self.look()
        self.assertEqual((seen["cut"], seen["over"]), ([], []))
        self.assertLessEqual(self.browser.run("document.querySelector('figure svg').viewBox.baseVal.width"), 360)

    def test_dark_is_dark_and_paper_is_white(self):
        light, dark = self.open("four")["paper"], self.open("four", dark=True)["paper"]
        self.assertEqual((light, dark), ("rgb(255, 255, 255)", "rgb(20, 23, 27)"))
        self.assertEqual(self.open("four", dark=True, media="print")["paper"], light)


class Consensus(WithBrowser):
    """What `laconic consensus --report` shows: another table and other axes in the same page."""

    def test_headline_names_the_fewest_bytes_to_a_thousandth(self):
        seen = self.open("consensus")
        sentence = "choco:0.2 comes to a thousandth of the first error with 239 KiB sent per rank, in 66 rounds."
        self.assertEqual(seen["headline"].replace("\u00a0", " "), sentence)
        self.assertIn("sends 939 KiB for that, 3.9 times as much, in 12 rounds.", seen["answer"].replace("\u00a0", " "))
        self.assertTrue(self.open("consensus-empty")["headline"].startswith("This report holds no runs."))

    def test_headline_when_nobody_agrees(self):
        seen = self.open(consensus([gossip("choco:0.9", 1.01, 900), gossip("powergossip", 0.99, 900)]))
        self.assertIn("No run came to a thousandth of the first error; the closest is powergossip with", seen["headline"])

    def test_row_holds_the_numbers(self):
        rows = self.open("consensus")["rows"]
        self.assertEqual(rows[2][0], ["choco:0.2", "topk:0.1"])
        self.assertEqual(rows[2][1], ["ring:8", "8 ranks, gap 0.195"])
        self.assertEqual(rows[2][2:5], [["1.9e-14"], ["1.06 MiB"], ["300"]])
        self.assertEqual(rows[1][5], ["not reached"])
        self.assertEqual(rows[0][5][1], "12 rounds")

    def test_two_plots_with_axes(self):
        seen = self.open("consensus")
        self.assertEqual(seen["lines"], [3, 3])
        rounds, sent = seen["plots"]
        for texts in seen["plots"]:
            self.assertIn("error, log scale", texts)
            self.assertIn("1", texts)
            self.assertIn("1e-12", texts)
        self.assertIn("round", rounds)
        self.assertIn("bytes sent per rank, log scale", sent)

    def test_errors_that_have_no_logarithm_are_left_out(self):
        seen = self.open("consensus-odd")
        self.assertEqual(seen["lines"], [3, 3])
        self.assertEqual(self.open("consensus-empty")["plots"], [["nothing to draw"]] * 2)

    def test_words_are_those_of_gossip(self):
        shown = "[...document.querySelectorAll('main h2, .note, legend, label')].filter((e) => e.offsetParent).map((e) => e.innerText).join(' ')"
        self.open("consensus")
        text = self.browser.run(shown)
        self.assertIn("Mixers", text)
        self.assertIn("dashed line is plain gossip", " ".join(text.split()))
        for word in ("Recipe", "Ratio", "Zoom"):
            self.assertNotIn(word, text)
        self.open("four")
        self.assertNotIn("gossip", self.browser.run(shown))

    def test_click_sorts_and_keys_read(self):
        self.open("consensus")
        rows = self.click("thead button", 3)["rows"]
        self.assertEqual([row[0][0] for row in rows], ["powergossip", "choco:0.2", "dpsgd:gamma=1.30839063"])
        self.browser.run("document.querySelector('figure svg').focus()")
        self.browser.press("ArrowRight")
        self.assertTrue(self.look()["tip"].startswith("dpsgd:gamma=1.30839063round 1error 0.554"), self.look()["tip"])


# ---- the file ---------------------------------------------------------------------------------------------


class Run(WithBrowser):
    """What `laconic train --trace` shows: lanes, decisions and exposed time of every part."""

    def test_words(self):
        seen = self.open("run")
        sentence = "A step takes 54 ms, 13 ms of it exposed communication; 66.7 % of steps by recipe, 33.3 % of steps by dense."
        self.assertEqual(seen["headline"].replace("\u00a0", " "), sentence)
        self.assertEqual(seen["answer"], "The guard has decided 3 times, last in step 80: recipe, because the other was slower.")
        self.assertTrue(self.open("run-empty")["headline"].startswith("This report holds no steps."))

    def test_a_row_for_each_lane(self):
        rows = self.open("run")["rows"]
        self.assertEqual(rows[0], [["recipe", "natural-sharded"], ["80", "66.7 %"], ["54 ms"], ["13.0 ms"], ["0.73 MiB"]])
        self.assertEqual(rows[1], [["dense"], ["40", "33.3 %"], ["48 ms"], ["7.0 ms"], ["2.47 MiB"]])

    def test_the_timeline_has_every_step_and_every_decision(self):
        seen = self.open("run")
        self.assertEqual(seen["lines"], [120])
        count = "[...document.querySelectorAll('QUERY')].length"
        self.assertEqual(self.browser.run(count.replace("QUERY", "[data-decision]")), 3)
        self.assertEqual(self.browser.run(count.replace("QUERY", "svg .bar.p0")), 120)
        self.assertEqual(self.browser.run(count.replace("QUERY", "svg .bar.lane.dense")), 40)
        heights = "[...document.querySelectorAll('svg .bar.p0')].map((e) => e.getBoundingClientRect().height)"
        heights = self.browser.run(heights)
        self.assertAlmostEqual(heights[0] / heights[60], 9 / 4, delta=0.05)

    def test_many_steps_share_a_bar(self):
        self.assertLessEqual(self.open("run-odd")["lines"][0], 420)

    def test_hiding_a_lane_hides_its_steps(self):
        self.open("run")
        self.assertEqual(self.click("#legend [aria-pressed]", 1)["lines"], [80])

    def test_arrow_keys_read_parts(self):
        self.open("run")
        self.browser.run("document.querySelector('figure svg').focus()")
        self.browser.press("ArrowRight")
        tip = self.look()["tip"].replace("\u00a0", " ")
        for words in ("step 1", "compute 38 ms", "part 1 9 ms", "part 2 3 ms", "vote 1 ms", "update 3 ms", "together 54 ms"):
            self.assertIn(words, tip)


class File(unittest.TestCase):
    def test_has_one_placeholder_and_asks_for_nothing(self):
        text = PAGE.read_text(encoding="ascii")
        self.assertEqual(text.count(PLACEHOLDER), 1)
        for word in ("innerHTML", "insertAdjacentHTML", "document.write", "src=", "@import", "url(", "fetch(", "eval("):
            self.assertNotIn(word, text)


class Embed(unittest.TestCase):
    """cmake/embed.cmake: the header compiles and gives the file's bytes back."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="laconic-embed-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def embed(self, content, name):
        file, script = self.folder / f"{name}.txt", ROOT / "cmake" / "embed.cmake"
        file.write_bytes(content)
        command = ["cmake", f"-DIN={file}", f"-DOUT={self.folder}/{name}.h", f"-DNAME={name}", "-P", script]
        return subprocess.run(command, capture_output=True, text=True)

    def test_bytes_come_back(self):
        awkward = 'a;b [c] ${d} @e@ \\ \\n "f" )" )embed // ??= caf\u00e9\n' * 700
        contents = [PAGE.read_bytes(), awkward.encode(), b"", b"\\", b"x" * 8000]
        names = [f"kPage{i}" for i in range(len(contents))]
        for content, name in zip(contents, names):
            self.assertEqual(self.embed(content, name).stderr, "")
        includes = "".join(f'#include "{name}.h"\n' for name in names)
        writes = "".join(f'  std::ofstream("{name}.out") << laconic::{name};\n' for name in names)
        (self.folder / "main.cpp").write_text(f"#include <fstream>\n{includes}int main() {{\n{writes}}}\n")
        subprocess.run("g++ -std=c++20 -Wall -Wextra -Werror main.cpp -o main".split(), cwd=self.folder, check=True)
        subprocess.run([self.folder / "main"], cwd=self.folder, check=True)
        for content, name in zip(contents, names):
            self.assertEqual((self.folder / f"{name}.out").read_bytes(), content)

    def test_what_would_not_come_back_is_refused(self):
        for content in (b"a\0b", b"a\r\n", b')embed"'):
            with self.subTest(content):
                self.assertIn("cannot be a C++ raw string", " ".join(self.embed(content, "kPage").stderr.split()))


def take_pictures(folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        for name, data in SAMPLES.items():
            for width, height in ((1280, 1600), (360, 2400)):
                for dark in (False, True):
                    browser.open(page_of(data), width=width, height=height, dark=dark)
                    browser.picture(Path(folder) / f"{name}-{width}-{'dark' if dark else 'light'}.png")
        browser.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pictures"] and len(sys.argv) == 3:
        take_pictures(sys.argv[2])
    else:
        unittest.main()
