"""Networks and batches for bench/ddp.py: fully connected ones on numbers that are drawn, a ResNet for CIFAR-10 and two GPTs on the letters of a text."""

import glob
import gzip
import os

FULL = {  # widths of fully connected layers
    "0.4m": [256, 512, 512, 10],
    "10m": [1024, 2048, 2048, 2048, 10],
    "60m": [2048, 4096, 4096, 4096, 4096, 10],
}
GPT = {"gpt1m": (64, 128, 4, 4), "gpt10m": (64, 384, 6, 6), "gpt50m": (64, 768, 12, 8)}  # context, width, heads, layers
MODELS = [*FULL, "resnet20", *GPT]
PLAIN = "SGD", {"lr": 0.1, "momentum": 0.9}
OPTIMIZERS = {"resnet20": PLAIN, **{name: ("AdamW", {"lr": 0.001}) for name in GPT}}  # for losses; others as the first
HELD_OUT = 512  # images or windows on which a loss is told


class NoData(Exception):
    """One sentence for the user."""


class FullTask:
    """Layers of these widths, and one batch that is drawn."""

    def __init__(self, torch, name, batch, rank, _data):
        self.torch, self.widths = torch, FULL[name]
        own = torch.Generator().manual_seed(rank)
        self.x = torch.randn(batch, self.widths[0], generator=own)
        self.y = torch.randint(self.widths[-1], (batch,), generator=own)

    def build(self):
        self.torch.manual_seed(0)
        layers = []
        for i, o in zip(self.widths, self.widths[1:]):
            layers += [self.torch.nn.Linear(i, o), self.torch.nn.ReLU()]
        return self.torch.nn.Sequential(*layers[:-1])

    def batch(self, _step):
        return self.x, self.y

    def loss(self, output, y):
        return self.torch.nn.functional.cross_entropy(output, y)

    def held_out(self):
        return self.x, self.y


def residual_block(torch, before, width, stride):
    n = torch.nn

    class Block(n.Module):
        def __init__(self):
            super().__init__()
            self.one, self.norm_one = n.Conv2d(before, width, 3, stride, 1, bias=False), n.BatchNorm2d(width)
            self.two, self.norm_two = n.Conv2d(width, width, 3, 1, 1, bias=False), n.BatchNorm2d(width)
            self.past = n.Conv2d(before, width, 1, stride, bias=False) if stride > 1 or before != width else n.Identity()

        def forward(self, x):
            inner = n.functional.relu(self.norm_one(self.one(x)))
            return n.functional.relu(self.norm_two(self.two(inner)) + self.past(x))

    return Block()


class ResnetTask(FullTask):
    """He et al.'s network of 20 layers for CIFAR-10, whose binary batches lie in a folder; without one, images are drawn."""

    def __init__(self, torch, _name, batch, rank, data):
        self.torch, self.size = torch, batch
        self.own = torch.Generator().manual_seed(1 + rank)
        if data.cifar:
            self.x, self.y = self._read(data.cifar, "data_batch_*.bin")
            self.x_out, self.y_out = self._read(data.cifar, "test_batch.bin")
        else:
            self.x, self.y = torch.randn(64, 3, 32, 32), torch.randint(10, (64,))
            self.x_out, self.y_out = self.x, self.y

    def _read(self, folder, pattern):
        files = sorted(glob.glob(os.path.join(folder, pattern)))
        if not files:
            raise NoData(f"no '{pattern}' in '{folder}'; allowed: the folder of CIFAR-10's binary batches")
        rows = []
        for name in files:
            with open(name, "rb") as file:
                rows.append(self.torch.frombuffer(bytearray(file.read()), dtype=self.torch.uint8).view(-1, 3073))
        rows = self.torch.cat(rows)
        return rows[:, 1:].float().view(-1, 3, 32, 32) / 64 - 2, rows[:, 0].long()

    def build(self):
        n = self.torch.nn
        self.torch.manual_seed(0)
        layers = [n.Conv2d(3, 16, 3, 1, 1, bias=False), n.BatchNorm2d(16), n.ReLU()]
        before = 16
        for width in (16, 32, 64):
            for i in range(3):
                layers.append(residual_block(self.torch, before, width, 2 if i == 0 and width > 16 else 1))
                before = width
        return n.Sequential(*layers, n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(64, 10))

    def batch(self, _step):
        chosen = self.torch.randint(len(self.y), (self.size,), generator=self.own)
        return self.x[chosen], self.y[chosen]

    def held_out(self):
        return self.x_out[:HELD_OUT], self.y_out[:HELD_OUT]


class GptTask(FullTask):
    """Letters of a text, each guessed from those before it; the last tenth is held out. Without a text, letters are drawn."""

    def __init__(self, torch, name, batch, rank, data):
        self.torch, self.size = torch, batch
        self.context, self.width, self.heads, self.depth = GPT[name]
        self.own = torch.Generator().manual_seed(1 + rank)
        if data.text:
            text = self._read(data.text)
            letters = {letter: i for i, letter in enumerate(sorted(set(text)))}
            all_of_it = torch.tensor([letters[letter] for letter in text])
        else:
            all_of_it = torch.randint(65, (100_000,), generator=torch.Generator().manual_seed(0))
        self.letters = int(all_of_it.max()) + 1
        cut = len(all_of_it) * 9 // 10
        self.seen, self.unseen = all_of_it[:cut], all_of_it[cut:]

    @staticmethod
    def _read(path):
        if not os.path.isfile(path):
            raise NoData(f"no text '{path}'; allowed: a file such as Tiny Shakespeare's input.txt, also gzipped")
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", errors="ignore") as file:
            return file.read()

    def build(self):
        torch, n, task = self.torch, self.torch.nn, self

        class Gpt(n.Module):
            def __init__(self):
                super().__init__()
                self.letters, self.places = n.Embedding(task.letters, task.width), n.Embedding(task.context, task.width)
                layer = n.TransformerEncoderLayer(task.width, task.heads, 4 * task.width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
                self.layers = n.TransformerEncoder(layer, task.depth)
                self.out = n.Linear(task.width, task.letters)
                never = torch.full((task.context, task.context), float("-inf"))  # in bool gloo could not tell it to others
                self.register_buffer("future", torch.triu(never, diagonal=1), persistent=False)

            def forward(self, x):
                return self.out(self.layers(self.letters(x) + self.places.weight, mask=self.future))

        torch.manual_seed(0)
        return Gpt()

    def _windows(self, letters, begins):
        return (self.torch.stack([letters[b : b + self.context] for b in begins]),
                self.torch.stack([letters[b + 1 : b + 1 + self.context] for b in begins]))  # fmt: skip

    def batch(self, _step):
        most = len(self.seen) - self.context - 1
        return self._windows(self.seen, self.torch.randint(most, (self.size,), generator=self.own).tolist())

    def loss(self, output, y):
        return self.torch.nn.functional.cross_entropy(output.flatten(0, 1), y.flatten())

    def held_out(self):
        last = len(self.unseen) - self.context - 1
        return self._windows(self.unseen, range(0, last, max(1, last // (HELD_OUT // 8))))


def task_of(torch, name, batch, rank, data):
    """What is trained: build() makes it, batch(step) is this rank's, held_out() is everybody's."""
    kind = FullTask if name in FULL else GptTask if name in GPT else ResnetTask
    return kind(torch, name, batch, rank, data)


def optimizer_of(torch, name, parameters):
    kind, settings = OPTIMIZERS.get(name, PLAIN)
    return getattr(torch.optim, kind)(parameters, **settings)
