"""A small GPT on the letters of a text, with local steps: ranks meet every 20 steps, and then in few bytes.

    python3 gpt_local_steps.py --text input.txt            # Tiny Shakespeare, or any text of some 100 KB
    python3 gpt_local_steps.py --recipe diloco --text input.txt
"""

from __future__ import annotations

import argparse
import gzip
import math
import pathlib

import torch
import torch.distributed as dist
from common import launch

import laconic_comm as lc

CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2


class Gpt(torch.nn.Module):
    def __init__(self, letters: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.letters = torch.nn.Embedding(letters, WIDTH)
        self.places = torch.nn.Embedding(CONTEXT, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS)
        self.out = torch.nn.Linear(WIDTH, letters)
        future = torch.triu(torch.ones(CONTEXT, CONTEXT, dtype=torch.bool), diagonal=1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.letters(x) + self.places.weight
        return self.out(self.layers(x, mask=self.future))


def there(path: str) -> str:
    if pathlib.Path(path).is_file():
        return path
    raise argparse.ArgumentTypeError(
        f"no text '{path}': Tiny Shakespeare is data/tinyshakespeare/input.txt of github.com/karpathy/char-rnn; "
        "--text takes any other, such as /usr/share/common-licenses/GPL-3, also gzipped"
    )


def read(path: str) -> str:
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", errors="ignore") as file:
        return file.read()


def train(options: argparse.Namespace) -> None:
    text = read(options.text)
    alphabet = sorted(set(text))
    data = torch.tensor([alphabet.index(letter) for letter in text])
    model = Gpt(len(alphabet))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(dist.get_rank())
    loss = torch.zeros(())
    method = {"recipe": options.recipe} if options.recipe else {"every": 20, "op": "topk:0.05+natural", "outer": "nesterov:0.5,0.9"}
    with lc.LocalSteps(model, optimizer, transport=options.transport, **method) as local:
        for _ in range(options.steps):
            starts = torch.randint(len(data) - CONTEXT - 1, (8,), generator=generator)
            window = torch.stack([data[s : s + CONTEXT + 1] for s in starts.tolist()])
            output = model(window[:, :-1])
            loss = torch.nn.functional.cross_entropy(output.flatten(0, 1), window[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            local.step()
    total = local.stats()["total"]
    dist.all_reduce(loss.detach_())
    if dist.get_rank() == 0:
        mean = float(loss) / dist.get_world_size()
        print(f"loss {mean:.2f} of {math.log(len(alphabet)):.2f} at the start; ", end="")
        print(f"{total['traffic_bytes'] / options.steps:.0f} bytes per step, {total['ratio']:.0f} times fewer")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", default="input.txt", type=there)
    parser.add_argument("--recipe", help="diloco, sparseloco or sbc2, instead of the script's own")
    parser.add_argument("--steps", type=int, default=160)
    launch(train, parser)
