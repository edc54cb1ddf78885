"""Opens report.html, filled with sample comparisons, in Debian's chromium and reads what a person would see.

    /usr/bin/python3 web/test_report.py [--shots DIR]    # DIR also gets pictures, wide and narrow, light and dark
"""

import base64
import json
import math
import os
import re
import shutil
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

    runs = [{"seed": s, "evaluations": [evaluation(s, n) for n in range(0, steps + 1, 100)]} for s in range(1, seeds + 1)]
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
    return report([dense()] + [recipe(f"qsgd:{k}+entropy", ratio=1.7 * k, final=0.874 - 0.003 * k) for k in range(1, count)])


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
    return report([dense(), early, unevaluated, huge, tiny, nulls, markup, bare, long, None, 3], title=None, link=None, seeds="x")


def page_of(data):
    """The page as the program writes it: the placeholder replaced, `</` escaped inside the JSON."""
    text = data if isinstance(data, str) else json.dumps(data).replace("</", "<\\/")
    return PAGE.read_text().replace(PLACEHOLDER, text)


# ---- the browser ----------------------------------------------------------------------------------------


class Browser:
    """One headless chromium, spoken to in JSON over file descriptors 3 and 4 (its --remote-debugging-pipe)."""

    def __init__(self, folder):
        read3, self.write = os.pipe()
        self.read, write4 = os.pipe()
        high = [os.dup2(fd, fd + 50, inheritable=True) for fd in (read3, write4)]
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile", "about:blank"]
        shell = ["/bin/sh", "-c", f'exec "$@" 3<&{high[0]} 4>&{high[1]}', "sh", *command]
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
            raise AssertionError(f"{expression}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, file):
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        Path(file).write_bytes(base64.b64decode(data))

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(timeout=20)
        os.close(self.read), os.close(self.write)
