"""Every method in plain numpy and float64, written from the papers: what one step does to models on all ranks.

A method here holds the state of all ranks at once and is told their gradients; python/tests/test_methods.py
follows the library beside it, step by step. What is not independent of the library is handed in as `heard`:

- what operators that draw at random have sent, decoded by laconic_reference.py from the bytes that crossed the
  transport. Their `law` is checked instead: whether it is what the operator may make of this input. Of `randomk`
  and of natural compression on the way to the mean the draws are known here, and nothing is heard;
- how the exchanges `sparse` and `sharded` cut the model, which the frames' tables say;
- what a rank owes as bytes, which must be what its draws make of it but where rounding decides;
- the steps of `dither`, whose squares must add up to what it promises;
- the sums of levels of the exchange `global`, which must be those of the draws but where rounding decides;
- the directions PowerSGD and PowerGossip start from, which are draws.

An operator is a pair (exact, law): exact(x) is what arrives of x, or None where it is drawn; law(x, y) raises
AssertionError unless y may arrive of x.
"""

import itertools
import math

import numpy as np

import laconic_reference

# Operators


def share(density, n):
    return laconic_reference.share(density, n)


def largest(scores, k):
    """The k largest, lowest index first among equals, ascending."""
    return np.sort(np.argsort(-scores, kind="stable")[:k])


def keep(x, at):
    y = np.zeros_like(x)
    y[at] = x[at]
    return y


def topk(x, density):
    return keep(x, largest(np.abs(x), share(density, x.size)))


def chunk(x, size, kept):
    y = np.zeros_like(x)
    for first in range(0, x.size, size):
        run = x[first : first + size]
        y[first : first + size] = keep(run, largest(np.abs(run), min(kept, run.size)))
    return y


def sign(x):
    """Karimireddy et al., section 4: mean magnitude and signs; zero counts as positive."""
    return np.where(x < 0, -1.0, 1.0) * np.abs(x).mean()


def sbc(x, density):
    """Sattler et al., algorithm 2; each side takes entries of its own sign only."""
    k = share(density, x.size)
    sides = []
    for direction in (1.0, -1.0):
        at = largest(direction * x, k)
        at = at[direction * x[at] > 0]
        sides.append((direction * x[at].mean() if at.size else 0.0, direction, at))
    mean, direction, at = sides[0] if sides[0][0] >= sides[1][0] else sides[1]
    y = np.zeros_like(x)
    y[at] = direction * mean
    return y


def stc(x, density):
    at = largest(np.abs(x), share(density, x.size))
    y = np.zeros_like(x)
    y[at] = np.sign(x[at]) * np.abs(x[at]).mean()
    return y


def nearest_power(x):
    mantissa, exponent = np.frexp(np.abs(x))  # in [1/2, 1)
    return np.sign(x) * np.where(x == 0, 0, np.ldexp(np.where(mantissa > 0.75, 1.0, 0.5), exponent))


def powers_around(x, y):
    """Natural compression: the power of two below or the one above."""
    low = np.ldexp(0.5, np.frexp(np.abs(x))[1])
    fits = (np.abs(y) == low) | (np.abs(y) == 2 * low)
    assert (fits & (np.sign(y) == np.sign(x)) | (x == 0) & (y == 0)).all()


def on_levels(x, y, levels, norm):
    """Dithering: one of the two levels around |x| / norm, with x's sign; to rounding of the norm.

    What is encoded may be a small difference of large numbers (DIANA), with their rounding in float32.
    """
    u, v = np.abs(x) / norm, np.abs(y) / norm
    level = levels[np.abs(v[:, None] - levels).argmin(axis=1)]
    assert np.allclose(v, level, rtol=1e-5, atol=0)
    above = levels[np.minimum(np.searchsorted(levels, u * (1 - 1e-5)), levels.size - 1)]
    below = levels[np.searchsorted(levels, u * (1 + 1e-5), side="right") - 1]
    assert ((level == above) | (level == below)).all()
    assert (np.sign(y) * np.sign(x) >= 0).all()


def clipped(x, deviations):
    """Wen et al., section 3.2; entries that do not differ stay."""
    return np.clip(x, -deviations * x.std(), deviations * x.std()) if x.std() else x


def runs(x, y, size, law):
    for first in range(0, x.size, size):
        law(x[first : first + size], y[first : first + size])


def natural_dithering(x, y, s, norm=None):
    levels = np.array([0.0, *(2.0**-j for j in reversed(range(s)))])
    on_levels(x, y, levels, np.linalg.norm(x) if norm is None else norm)


def uniform_levels(x, y, s):
    on_levels(x, y, np.arange(s + 1) / s, np.abs(x).max())


def certified(x, y, omega):
    """`grid`: multiples of one step, each next to its entry, whose exact variance is within omega |x|^2."""
    for least in range(1, 64):
        step = np.abs(y[y != 0]).min() / least
        level = np.round(y / step)
        if np.allclose(level * step, y, rtol=1e-5) and (np.abs(y - x) < step * (1 + 1e-6)).all():
            part = np.abs(x) / step % 1
            if step**2 * (part * (1 - part)).sum() <= omega * (x**2).sum() * (1 + 1e-6):
                return
    raise AssertionError("no step makes these levels")


def half(x, y):
    assert (np.abs(y - x) <= np.abs(x) * 2.0**-11 + np.abs(x).max() * 1e-6).all()


def binned(x, y, bits):
    """Entries are the means of at most 2^bits bins, none with both signs."""
    values = np.unique(y)
    assert values.size <= 2**bits
    for value in values:
        there = x[y == value]
        assert np.allclose(there.mean(), value, rtol=1e-5) and (np.sign(there) == np.sign(value)).all()


def on_kept(select, law):
    def check(x, y):
        kept = select(x) != 0
        assert ((y != 0) <= kept).all()
        law(x[kept], y[kept])

    return check


def nothing(x, y):
    """Exact operators need no law."""


def operator(spec):
    """(exact, law) of a spec that some built-in recipe has."""
    name, _, rest = spec.partition(":")
    words = rest.split(",")
    if spec == "identity":
        return lambda x: x, nothing
    if name in ("topk", "sbc", "stc") and "+" not in spec:
        return lambda x: {"topk": topk, "sbc": sbc, "stc": stc}[name](x, float(rest)), nothing
    if name == "threshold":
        return lambda x: np.where(np.abs(x) >= float(rest), x, 0), nothing
    known = {
        "sign": (sign, nothing),
        "adaptive": (lambda x: np.where(2 * np.abs(x) >= np.abs(x).max(), x, 0), nothing),
        "natural:nearest+entropy": (nearest_power, nothing),
        "half": (None, half),
        "natural": (Natural(), powers_around),
        "natural:8": (Natural(), powers_around),
        "natural+entropy": (Natural(), powers_around),
        "topk:0.01+natural": (None, on_kept(lambda x: topk(x, 0.01), powers_around)),
        "chunk:4096,kept=64+binned": (None, on_kept(lambda x: chunk(x, 4096, 64), lambda x, y: binned(x, y, 2))),
        "bucket:512+dithering:4": (None, lambda x, y: runs(x, y, 512, lambda a, b: natural_dithering(a, b, 4))),
        "dithering:9": (None, lambda x, y: natural_dithering(x, y, 9)),
        "bucket:512+terngrad": (None, lambda x, y: runs(x, y, 512, lambda a, b: uniform_levels(a, b, 1))),
        "terngrad:2.5": (None, lambda x, y: uniform_levels(clipped(x, 2.5), y, 1)),
        "bucket:512+qsgd:4,max": (None, lambda x, y: runs(x, y, 512, lambda a, b: uniform_levels(a, b, 4))),
        "qsgd:16,max": (None, lambda x, y: uniform_levels(x, y, 16)),
        "grid": (None, lambda x, y: certified(x, y, 1 / 8)),
        "dither": (Dither(1 / 8), nothing),
        "dither:0.001": (Dither(0.001), nothing),
        "dithering:7,inf": (None, lambda x, y: natural_dithering(x, y, 7, np.abs(x).max())),
    }
    if name == "randomk":
        return Randomk(float(words[0]), "unscaled" in words, "own" in words), nothing
    return known[spec]


class Drawn:
    """An operator whose draws are a function of seed, step, rank and place in the model."""

    def at(self, seed, step, rank, first, ranks=1):
        """With more than one rank those that round draw from strata among so many."""
        r = laconic_reference
        self.first, key = first, r.fork(r.mix(seed + r.G), step)
        self.common, self.own = r.fork(key, 0), r.fork(r.fork(key, 1), rank)
        self.strata, self.rank, self.ranks = r.fork(key, 2), rank, ranks
        return self

    def draws(self, count, negative):
        """32 bits for each entry: the rank's own, or in strata (Suresh et al., arXiv 2203.04925), where at each place
        every rank draws from another of n equal parts and negative entries take the complement."""
        n, r, own = self.ranks, laconic_reference, self.words(self.own, count)
        if n == 1:
            return own
        common = self.words(self.strata, count).astype(np.int64)
        factors = (r.draw(r.fork(self.strata, 0), j) % n for j in itertools.count())
        coprime = itertools.islice((a for a in factors if math.gcd(a, n) == 1), 4)
        turns, width = np.array([a * self.rank % n for a in coprime]), 2**32 // n
        part = ((common * n >> 32) + turns[common % 4]) % n
        draws = (part * width + (own.astype(np.int64) * width >> 32)).astype(np.uint32)
        return np.where(negative, ~draws, draws)

    def words(self, key, count):
        """32 bits for each of these places, which are below 2^32."""
        places = np.arange(self.first, self.first + count, dtype=np.uint32)
        return mixed(laconic_reference.fork(key, 0), places)


def mixed(key, places):
    word0, word1 = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    h = places + word0
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x7FEB352D) ^ word1
    h = (h ^ h >> np.uint32(15)) * np.uint32(0x846CA68B)
    return h ^ h >> np.uint32(16)


class Randomk(Drawn):
    """Positions are those of docs/frame.md."""

    def __init__(self, density, unscaled, of_rank):
        self.density, self.unscaled, self.of_rank = density, unscaled, of_rank

    def __call__(self, x):
        k = share(self.density, x.size)
        key = laconic_reference.fork(self.own, 2**64 - 1) if self.of_rank else self.common
        key = laconic_reference.fork(key, self.first)
        at = list(laconic_reference.drawn_positions(key, x.size, k))
        return keep(x, at) * (1 if self.unscaled else x.size / k)


class Natural(Drawn):
    """23 random bits are added to the magnitude, whose mantissa carries into the exponent or is dropped."""

    def __call__(self, x):
        bits = x.astype(np.float32).view(np.uint32)
        draws = self.draws(x.size, bits >> np.uint32(31))
        magnitude = (bits & 0x7FFFFFFF) + (draws >> np.uint32(9) if self.ranks > 1 else draws & 0x7FFFFF)
        return (bits & 0x80000000 | magnitude & 0x7F800000).view(np.float32).astype(np.float64)

    def settled(self, x, arrived):
        """What arrives of x, where the sender's x may differ by float32's rounding: an entry whose draw is that close to
        its bound goes where the sender's went."""
        y, slack = self(x), 1e-6 * np.abs(x).max(initial=0)
        close = (self(x - slack) == arrived) | (self(x + slack) == arrived)
        return np.where(close, arrived, y)


class Dither(Drawn):
    """Subtractive dither (Roberts 1962): what arrives of x is (q - u) D with q = round(x / D + u) and u the sender's draw.

    The steps D are heard; whichever they are, they must have the variance that is promised: sum D^2 / 12 = omega |x|^2.
    """

    def __init__(self, omega):
        self.omega = omega

    def settled(self, x, steps, arrived):
        """What arrives; of an x so close to the bound of two levels that float32 decides, what did."""
        promised = self.omega * (x**2).sum()
        assert (1 - 1e-5) * promised <= (steps**2).sum() / 12 <= (1 + 1e-5) * promised
        sent, slack = steps > 0, 1e-5 * np.abs(x).max(initial=0)
        assert (sent | (x == 0)).all()
        u = ((self.words(self.own, x.size) >> np.uint32(8)) + 0.5) / 2.0**24 - 0.5
        y = np.where(sent, (np.round(x / np.where(sent, steps, 1) + u) - u) * steps, 0)
        close = sent & (np.abs(np.abs(y - x) - steps / 2) < slack)
        assert (~close | (np.abs(arrived - x) < steps / 2 + slack)).all()
        return np.where(close, arrived, y)


# Memories, of one rank and one slice: `before` is what is encoded, `after` hears what arrives of it


class NoMemory:
    def before(self, g, told):
        return g

    def after(self, a, c):
        pass

    def part(self, c):
        """What this rank puts into the mean."""
        return c


class Feedback(NoMemory):
    def __init__(self, count, decay=1.0):
        self.e, self.decay = np.zeros(count), decay

    def before(self, g, told):
        return self.decay * self.e + g

    def after(self, a, c):
        self.e = a - c


class Bytes(Feedback):
    """What is owed as whole numbers up to 127 of steps, powers of two for every 64 entries, rounded at random."""

    def round(self, seed, step, rank, first, kept):
        """`kept` is what the library has: of an entry so close to the bound of two that float32 decides, that counts."""
        r = laconic_reference
        own = r.fork(r.fork(r.fork(r.mix(seed + r.G), step), 3), rank)
        for at in range(0, self.e.size, 64):
            e, mine = self.e[at : at + 64], kept[at : at + 64]
            if not e.any():
                continue
            unit = 2.0 ** math.ceil(math.log2(np.abs(e).max() / 127))
            draws = (mixed(r.fork(own, first + at), np.arange(e.size, dtype=np.uint32)) >> np.uint32(9)) / 2.0**23
            low, high = (np.floor(e / unit + draws + slack) for slack in (-2e-4, 2e-4))
            assert ((low == high) | (mine == low * unit) | (mine == high * unit)).all()
            self.e[at : at + 64] = np.where(low == high, low * unit, mine)


class Dgc(NoMemory):
    """Lin et al., algorithm 1 with momentum correction and factor masking (section 3)."""

    def __init__(self, count, momentum=0.9):
        self.u, self.v, self.m = np.zeros(count), np.zeros(count), momentum

    def before(self, g, told):
        self.u = self.m * self.u + g
        return self.v + self.u

    def after(self, a, c):
        self.v = a - c
        self.u[c != 0] = 0


class Gmc(NoMemory):
    def __init__(self, count, beta=0.9):
        self.e, self.beta, self.w = np.zeros(count), beta, None

    def before(self, g, told):
        moved = 0 if self.w is None else told["w"] - self.w
        self.w = told["w"].copy()
        return self.e + g - self.beta / told["lr"] * moved

    def after(self, a, c):
        self.e = a - c


class Ef21(NoMemory):
    """Richtarik et al., algorithm 2; with a < 1 Fatkhullin et al., algorithm 1 (EF21-SGDM)."""

    def __init__(self, count, a=1.0):
        self.h, self.v, self.a = np.zeros(count), None, a

    def before(self, g, told):
        self.v = g if self.v is None else (1 - self.a) * self.v + self.a * g
        return self.v - self.h

    def after(self, a, c):
        self.h = self.h + c

    def part(self, c):
        return self.h


class EControl(NoMemory):
    """Gao et al., algorithm 2, from h = 0."""

    def __init__(self, count, a=0.1):
        self.h, self.e, self.a = np.zeros(count), np.zeros(count), a

    def before(self, g, told):
        self.ahead = g - self.h
        return self.a * self.e + self.ahead

    def after(self, a, c):
        self.e = self.e + self.ahead - c
        self.h = self.h + c

    def part(self, c):
        return self.h


class Diana(NoMemory):
    """Mishchenko et al., algorithm 1, with Horvath et al.'s alpha = 1 / (1 + omega)."""

    def __init__(self, count, alpha):
        self.h, self.alpha = np.zeros(count), alpha

    def before(self, g, told):
        return g - self.h

    def after(self, a, c):
        self.whole = self.h + c
        self.h = self.h + self.alpha * c

    def part(self, c):
        return self.whole


def omega(spec, count):
    """E|C(x) - x|^2 <= omega |x|^2, as each operator's paper proves it."""
    name, _, rest = spec.partition(":")
    if spec == "natural":
        return 1 / 8  # Horvath et al., theorem 1
    if name == "randomk":
        return count / share(float(rest.split(",")[0]), count) - 1
    if spec == "bucket:512+terngrad":
        return (math.sqrt(min(512, count)) - 1) / 2
    raise AssertionError(f"no omega is known of {spec}")


def memory(spec, count, op=None):
    name, _, rest = spec.partition(":")
    if name == "diana":
        return Diana(count, min(float(rest or 1), 1 / (1 + omega(op, count))))
    first = rest.split(",")[0]
    first = first.removeprefix("momentum=")
    numbers = [float(first)] if first and "=" not in first and first != "8bit" else []
    kinds = {"feedback": Feedback, "dgc": Dgc, "gmc": Gmc, "ef21": Ef21, "econtrol": EControl}
    if name == "feedback" and "8bit" in rest:
        return Bytes(count, *numbers)
    return NoMemory() if name == "none" else kinds[name](count, *numbers)


# What ranks make of their gradients: average(gradients, told, heard) -> the mean, tensors one after the other


class Slices:
    """Where the pieces that operators see begin and end."""

    def __init__(self, counts):
        ends = np.cumsum(counts)
        self.all = [(int(end - count), int(end)) for count, end in zip(counts, ends)]


def checked(law, x, y):
    law(x, y)
    return y


class Averaging:
    """gather, dense, summed and, with a way back, server and sharded; auto among at most four ranks, where it is gather."""

    def __init__(self, recipe, counts, ranks, seed):
        if recipe["exchange"] == "auto" and ranks > 4:
            raise ValueError(f"auto among {ranks} ranks may be sharded; name the exchange")
        self.recipe, self.ranks, self.seed = recipe, ranks, seed
        self.slices = Slices(counts).all
        self.up = [[memory(recipe["memory"], b - a, recipe["op"]) for a, b in self.slices] for _ in range(ranks)]
        self.down = None
        if recipe["exchange"] in ("server", "sharded"):
            self.down = [memory(recipe["down_memory"], b - a) for a, b in self.slices]
        self.count = self.slices[-1][1]

    def op(self, step):
        for phase in self.recipe["warmup"]:
            until, spec = phase.split(" ", 1)
            if step < int(until):
                return spec
        return self.recipe["op"]

    def up_leg(self, spec, x, step, rank, a, b, heard):
        """What arrives of x."""
        exact, law = operator(spec)
        if isinstance(exact, Drawn):
            exact.at(self.seed, step, rank, a, self.ranks if self.recipe["draws"] == "strata" else 1)
        if isinstance(exact, Natural):
            return exact.settled(x, heard.up(rank)[a:b])
        if isinstance(exact, Dither):
            return exact.settled(x, heard.steps(rank)[a:b], heard.up(rank)[a:b])
        return exact(x) if exact is not None else checked(law, x, heard.up(rank)[a:b])

    def down_leg(self, spec, x, a, b, heard):
        exact, law = operator(spec)
        drawn = exact is None or isinstance(exact, Drawn)
        return checked(law, x, heard.down()[a:b]) if drawn else exact(x)

    def average(self, gradients, told, heard, only=None):
        """Of all slices, or of these alone."""
        step, spec, total = told["step"], self.op(told["step"]), np.zeros(self.count)
        for rank, g in enumerate(gradients):
            for i, (a, b) in enumerate(self.slices):
                if only is not None and (a, b) not in only:
                    continue
                m = self.up[rank][i]
                x = m.before(g[a:b], {**told, "w": told["w"][a:b]})
                c = self.up_leg(spec, x, step, rank, a, b, heard)
                m.after(x, c)
                if isinstance(m, Bytes):
                    m.round(self.seed, step, rank, a, heard.owed(rank)[a:b])
                total[a:b] += m.part(c)
        if self.down:  # sums travel back (Horvath et al., algorithm 1)
            for m, (a, b) in zip(self.down, self.slices):
                x = m.before(total[a:b], told)
                c = self.down_leg(self.recipe["down"] or spec, x, a, b, heard)
                m.after(x, c)
                total[a:b] = c
        return total / self.ranks


class Global(Drawn):
    """Xin et al., Global-QSGD: levels of a norm that all ranks share, added up. One level: TernGrad's scaler sharing.

    Sums are heard: of a level whose draw is as close to its bound as float32 rounds, either may be right.
    """

    def __init__(self, recipe, counts, ranks, seed):
        words = recipe["exchange"].partition(":")[2].split(",")
        self.s, self.together = int(words[0] or 7), "2" in words[1:]
        self.clip = sum(float(word[5:]) for word in words if word.startswith("clip="))
        self.seed, self.n, self.apart = seed, ranks, ranks if recipe["draws"] == "strata" else 1
        self.slices, self.cells = Slices(counts).all, Slices([-(-count // 8) for count in counts]).all

    def average(self, gradients, told, heard):
        out, most = np.zeros(self.slices[-1][1]), self.n * self.s
        sums = heard.cells(self.cells[-1][1], (2 * most).bit_length()) - most
        for (a, b), (cell, _) in zip(self.slices, self.cells):
            x = [g[a:b] for g in gradients]
            if self.clip:
                x = [clipped(one, self.clip) for one in x]
            norm = np.linalg.norm(x) if self.together else np.abs(x).max()
            total = sums[8 * cell :][: b - a]
            y = [self.s * np.abs(one) / norm for one in x]
            r = [self.drawn(one, told["step"], rank, a) for rank, one in enumerate(x)]
            for slack, bounds in ((-2e-5 * self.s, total.__ge__), (2e-5 * self.s, total.__le__)):
                levels = (np.sign(u) * np.floor(v + w + slack * np.sign(u)) for u, v, w in zip(x, y, r))
                assert bounds(sum(levels)).all()
            out[a:b] = norm / most * total
        return out

    def drawn(self, x, step, rank, first):
        draws = self.at(self.seed, step, rank, first, self.apart).draws(x.size, x < 0)
        return (draws >> np.uint32(8)) / 2.0**24


class SparseRing:
    """SparDL's residuals on a ring: partial sums are made sparse again at every rank, and what a rank drops it owes.

    Shard s begins at rank s + 1 and ends, summed, at rank s.
    """

    def __init__(self, recipe, counts, ranks, seed):
        self.recipe, self.ranks = recipe, ranks
        self.count = sum(counts)
        self.e = np.zeros((ranks, self.count))

    def average(self, gradients, told, heard):
        exact, _ = operator(self.recipe["op"])
        total = np.zeros(self.count)
        for owner, a, b in heard.shards():
            passed = np.zeros(b - a)
            for hop in range(1, self.ranks + 1):
                rank = (owner + hop) % self.ranks
                x = self.e[rank, a:b] + gradients[rank][a:b] + passed
                passed = exact(x)
                self.e[rank, a:b] = x - passed
            total[a:b] = passed
        return total / self.ranks


def orthonormal(columns):
    """Gram-Schmidt; columns is rows x rank."""
    q = np.array(columns, dtype=float)
    for j in range(q.shape[1]):
        for i in range(j):
            q[:, j] -= (q[:, i] @ q[:, j]) * q[:, i]
        q[:, j] /= max(np.linalg.norm(q[:, j]), 1e-300)
    return q


def matrix_shape(shape):
    return shape[0], math.prod(shape[1:])


class PowerSgd:
    """Vogels et al., algorithms 1 and 2. `starts` are the right factors before the first step, by tensor."""

    def __init__(self, recipe, shapes, ranks, seed, starts):
        self.ranks, self.shapes = ranks, shapes
        self.slices = Slices([math.prod(s) for s in shapes]).all
        self.q = starts  # cols x rank, None where a tensor is sent as it is
        self.e = np.zeros((ranks, self.slices[-1][1]))

    def average(self, gradients, told, heard):
        out = np.zeros(self.e.shape[1])
        for t, (a, b) in enumerate(self.slices):
            ms = [g[a:b] + self.e[rank, a:b] for rank, g in enumerate(gradients)]
            if self.q[t] is None:
                out[a:b] = sum(ms) / self.ranks
                continue
            rows, cols = matrix_shape(self.shapes[t])
            p = orthonormal(sum(m.reshape(rows, cols) @ self.q[t] for m in ms) / self.ranks)
            self.q[t] = sum(m.reshape(rows, cols).T @ p for m in ms) / self.ranks
            out[a:b] = (p @ self.q[t].T).ravel()
            for rank, m in enumerate(ms):
                self.e[rank, a:b] = m - out[a:b]
        return out


class Arc:
    """ARC-Top-K: rows by a sketch of the sum, the rest remembered. Vectors stand in rows of 64."""

    def __init__(self, recipe, shapes, ranks, seed):
        words = [w.partition("=")[2] or w for w in recipe["exchange"].partition(":")[2].split(",")]
        self.density, self.width = float(words[0] or 0.01), int((words + ["4"])[1])
        self.shapes, self.ranks, self.seed = shapes, ranks, seed
        self.slices = Slices([math.prod(s) for s in shapes]).all
        self.e = np.zeros((ranks, self.slices[-1][1]))

    def directions(self, step, first, cols):
        """Sums of twelve uniform draws of 16 bits, the same on all ranks."""
        r = laconic_reference
        key = r.fork(r.fork(r.fork(r.mix(self.seed + r.G), 2**64 - 5), step), first)
        words = np.array([r.draw(key, i) for i in range(3 * cols * self.width)], np.uint64).reshape(-1, 3)
        sums = sum((words >> np.uint64(16 * i) & np.uint64(0xFFFF)).astype(float).sum(axis=1) for i in range(4))
        return ((2 * sums - 12 * 0xFFFF) / 2**17).reshape(self.width, cols).T

    def average(self, gradients, told, heard):
        out = np.zeros(self.e.shape[1])
        for shape, (a, b) in zip(self.shapes, self.slices):
            rows, cols = matrix_shape(shape)
            if min(rows, cols) < 2:
                rows, cols = -(-(b - a) // 64), 64
            ms = np.zeros((self.ranks, rows * cols))
            ms[:, : b - a] = [g[a:b] + e[a:b] for g, e in zip(gradients, self.e)]
            ms, kept = ms.reshape(-1, rows, cols), share(self.density, rows)
            if rows * self.width + kept * cols >= b - a:
                chosen = np.arange(rows)
            else:
                sketch = ms.sum(axis=0) @ self.directions(told["step"], a, cols)
                chosen = largest((sketch**2).sum(axis=1), kept)
            mean = np.zeros((rows, cols))
            mean[chosen] = ms[:, chosen].mean(axis=0)
            ms[:, chosen] = 0
            out[a:b], self.e[:, a:b] = mean.ravel()[: b - a], ms.reshape(self.ranks, -1)[:, : b - a]
        return out


# Optimisers, which are the host's: in float32 beside the library, in float64 here


class Sgd:
    def __init__(self, count, momentum=0.0, dtype=np.float64):
        self.v, self.m, self.dtype = np.zeros(count, dtype), dtype(momentum), dtype

    def update(self, x, g, lr):
        self.v[:] = self.m * self.v + g
        x -= self.dtype(lr) * self.v


class AdamW:
    def __init__(self, count, dtype=np.float64):
        self.first, self.second, self.t, self.dtype = np.zeros(count, dtype), np.zeros(count, dtype), 0, dtype
        self.v = self.first  # what masks see

    def update(self, x, g, lr):
        d, self.t = self.dtype, self.t + 1
        self.first[:] = d(0.9) * self.first + d(0.1) * g
        self.second[:] = d(0.999) * self.second + d(0.001) * g * g
        a, b = self.first / d(1 - 0.9**self.t), self.second / d(1 - 0.999**self.t)
        x -= d(lr) * (a / (np.sqrt(b) + d(1e-8)) + d(0.01) * x)


# Methods: step(gradient, lr, step, heard) moves the models, self.x[rank]


class Synchronous:
    def __init__(self, averaging, starts, make_optimizer):
        self.averaging, self.x = averaging, starts
        self.optimizers = [make_optimizer() for _ in starts]

    def step(self, gradient, lr, step, heard):
        g = [gradient(rank, x, step) for rank, x in enumerate(self.x)]
        mean = self.averaging.average(g, {"step": step, "lr": lr, "w": self.x[0]}, heard)
        for x, optimizer in zip(self.x, self.optimizers):
            optimizer.update(x, mean, lr)


def fragments(counts, number):
    """Tensors, largest first, each to the smallest of so many fragments so far: the ranges of entries of each."""
    parts, sizes = [[] for _ in range(number)], [0] * number
    for t in sorted(range(len(counts)), key=lambda t: -counts[t]):
        least = sizes.index(min(sizes))
        sizes[least] += counts[t]
        parts[least].append(Slices(counts).all[t])
    return [sorted(part) for part in parts]


class LocalSteps:
    """Sattler et al., algorithm 1; Douillard et al., algorithm 1, with an outer optimiser (momentum, lr, nesterov)."""

    def __init__(self, averaging, starts, make_optimizer, recipe):
        self.averaging, self.common, self.x = averaging, starts[0].copy(), starts
        self.optimizers = [make_optimizer() for _ in starts]
        self.delay, self.masks = recipe["delay"], "masking=on" in recipe["memory"]
        kind, _, rest = recipe["outer"].partition(":")
        words = [float(word.split("=")[-1]) for word in rest.split(",") if word]
        self.nesterov = kind == "nesterov"
        self.momentum, self.lr = (words[0], words[1]) if words else (0.0, 1.0)
        self.velocity = np.zeros_like(starts[0])

    def step(self, gradient, lr, step, heard):
        for rank, x in enumerate(self.x):
            self.optimizers[rank].update(x, gradient(rank, x, step), lr)
        if (step + 1) % self.delay == 0:
            self.round(step, heard)

    def round(self, step, heard):
        changes = [self.common - x for x in self.x]
        before = [[m.e.copy() for m in row] for row in self.averaging.up] if self.masks else None
        mean = self.averaging.average(changes, {"step": step, "lr": 1.0, "w": self.common}, heard)
        if self.masks:
            self.mask(changes, before)
        self.velocity = self.momentum * self.velocity + mean
        self.common -= self.lr * (mean + self.momentum * self.velocity if self.nesterov else self.velocity)
        for x in self.x:
            x[:] = self.common

    def mask(self, changes, before):
        """A rank's momentum is 0 where it has sent something: where what it owes is not all it had."""
        for rank, row in enumerate(self.averaging.up):
            for m, e, (a, b) in zip(row, before[rank], self.averaging.slices):
                sent = m.decay * e + changes[rank][a:b] - m.e
                self.optimizers[rank].v[a:b][np.abs(sent) > 0] = 0


class Streaming(LocalSteps):
    """Douillard et al. (2501.18512), algorithm 2: fragments in turn, under way for `overlap` steps, then merged."""

    def __init__(self, averaging, starts, make_optimizer, recipe, counts):
        super().__init__(averaging, starts, make_optimizer, recipe)
        self.parts = fragments(counts, recipe["fragments"])
        self.overlap, self.merge = recipe["overlap"], recipe["merge"]
        self.sent, self.landed = {}, False  # by the step in which it is due: (fragment, step, what ranks sent)

    def step(self, gradient, lr, step, heard):
        for rank, x in enumerate(self.x):
            self.optimizers[rank].update(x, gradient(rank, x, step), lr)
        for p in range(len(self.parts)):
            if (step + 1) % self.delay == p * self.delay // len(self.parts):
                self.sent[step + self.overlap] = (p, step, [self.common - x for x in self.x])
        self.landed = step in self.sent
        if self.landed:
            self.land(*self.sent.pop(step), heard)

    def land(self, p, step, changes, heard):
        told = {"step": step, "lr": 1.0, "w": self.common}
        mean = self.averaging.average(changes, told, heard, self.parts[p])
        for a, b in self.parts[p]:
            d = mean[a:b]
            self.velocity[a:b] = self.momentum * self.velocity[a:b] + d
            v = self.velocity[a:b]
            self.common[a:b] -= self.lr * (d + self.momentum * v if self.nesterov else v)
            for x in self.x:
                x[a:b] = self.merge * x[a:b] + (1 - self.merge) * self.common[a:b]


class Gossip:
    """A mixer on a ring with weights 1/3; `first` says whether the gradient comes before mixing."""

    def __init__(self, mix, starts, make_optimizer, first):
        self.mix, self.first, self.x = mix, first, starts
        self.optimizers = [make_optimizer() for _ in starts]

    def step(self, gradient, lr, step, heard):
        g = [gradient(rank, x, step) for rank, x in enumerate(self.x)]
        if not self.first:
            self.x = self.mix.round(self.x, step, heard)
        for x, optimizer, one in zip(self.x, self.optimizers, g):
            optimizer.update(x, one, lr)
        if self.first:
            self.x = self.mix.round(self.x, step, heard)


def pairs(ranks, rounds=64, seed=0):
    """Of every round, drawn until all ranks are joined: neighbours in a shuffled order."""
    r = laconic_reference
    for attempt in itertools.count():
        drawn, pieces = [], [{rank} for rank in range(ranks)]
        for t in range(rounds):
            key, order = r.fork(r.fork(r.mix(seed + r.G), attempt), t), list(range(ranks))
            for i in range(ranks - 1, 0, -1):
                j = r.draw(key, i) % (i + 1)
                order[i], order[j] = order[j], order[i]
            drawn.append(list(zip(order[::2], order[1::2])))
            for a, b in drawn[-1]:
                joined = next(p for p in pieces if a in p) | next(p for p in pieces if b in p)
                pieces = [p for p in pieces if not p & joined] + [joined]
        if len(pieces) == 1:
            return drawn


class Noloco:
    """Kolehmainen et al. (2506.10911), the outer step: in pairs, one rank of an odd number alone, every `delay` steps.

    Slow weights are the models of the first round. With an operator a pair keeps copies of each other's messages, the first of which is whole.
    """

    def __init__(self, op, counts, ranks, delay, momentum=0.5, lr=0.7, pull=1.0):
        self.pairs, self.delay, self.a, self.b, self.c = pairs(ranks), delay, momentum, lr, pull
        self.op, self.slices, self.copies = op, Slices(counts).all, {}
        self.f = None

    def tell(self, i, j, u):
        """What j knows of i's message."""
        old = self.copies.get((i, j))
        self.copies[i, j] = u if old is None else old + each_slice(self.op, u - old, self.slices)
        return self.copies[i, j]

    def round(self, x, step, heard):
        if (step + 1) % self.delay:
            return x
        if self.f is None:
            self.f, self.m = [one.copy() for one in x], [np.zeros_like(one) for one in x]
        partner = {i: i for i in range(len(x))}
        for i, j in self.pairs[step // self.delay % len(self.pairs)]:
            partner[i], partner[j] = j, i
        u = [self.b * (f - one) - self.c * f for f, one in zip(self.f, x)]
        told = [self.tell(i, j, u[i]) for i, j in sorted(partner.items())]
        self.m = [
            self.a * self.m[i] + u[i] + (told[j] - told[i]) / 2 + self.c * self.f[i] for i, j in sorted(partner.items())
        ]
        self.f = [f - m for f, m in zip(self.f, self.m)]
        return [f.copy() for f in self.f]


def neighbours(rank, ranks):
    return sorted({(rank - 1) % ranks, (rank + 1) % ranks})


WEIGHT = 1 / 3  # of each neighbour on a ring of three ranks or more


def each_slice(spec, x, slices):
    exact, _ = operator(spec)
    return np.concatenate([exact(x[a:b]) for a, b in slices])


class Dpsgd:
    def __init__(self, gamma=1.0):
        self.gamma = gamma

    def round(self, x, step, heard):
        n = len(x)
        return [x[i] + self.gamma * WEIGHT * sum(x[j] - x[i] for j in neighbours(i, n)) for i in range(n)]


class Choco:
    """Koloskova et al. (1907.09356), algorithm 1; `fresh` sends before it moves (1902.00340, CHOCO-Gossip)."""

    def __init__(self, spec, counts, ranks, gamma, fresh):
        self.spec, self.slices, self.gamma, self.fresh = spec, Slices(counts).all, gamma, fresh
        self.hats = [np.zeros(sum(counts)) for _ in range(ranks)]

    def move(self, x):
        n = len(x)
        return [
            x[i] + self.gamma * WEIGHT * sum(self.hats[j] - self.hats[i] for j in neighbours(i, n)) for i in range(n)
        ]

    def round(self, x, step, heard):
        if not self.fresh:
            x = self.move(x)
        q = [each_slice(self.spec, one - hat, self.slices) for one, hat in zip(x, self.hats)]
        self.hats = [hat + one for hat, one in zip(self.hats, q)]
        return self.move(x) if self.fresh else x


class DeepSqueeze:
    def __init__(self, spec, counts, ranks, gamma):
        self.spec, self.slices, self.gamma = spec, Slices(counts).all, gamma
        self.error = [np.zeros(sum(counts)) for _ in range(ranks)]

    def round(self, x, step, heard):
        n, v = len(x), [one + e for one, e in zip(x, self.error)]
        c = [each_slice(self.spec, one, self.slices) for one in v]
        self.error = [a - b for a, b in zip(v, c)]
        return [x[i] + self.gamma * WEIGHT * sum(c[j] - c[i] for j in neighbours(i, n)) for i in range(n)]


class Replicas:
    """Of Tang et al. (1803.06443): what all know of each rank's model. A rank's first message is its whole model."""

    def __init__(self, spec, counts, gamma, seed):
        self.spec, self.slices, self.gamma, self.seed, self.t = spec, Slices(counts).all, gamma, seed, 0

    def compressed(self, x, step, rank, heard):
        """Natural compression is heard: of small differences rounding may decide where a draw falls."""
        exact, law = operator(self.spec)
        if exact is None or isinstance(exact, Natural):
            return np.concatenate([checked(law, x[a:b], heard.up(rank)[a:b]) for a, b in self.slices])
        if not isinstance(exact, Drawn):
            return each_slice(self.spec, x, self.slices)
        if isinstance(exact, Dither):
            up, steps = heard.up(rank), heard.steps(rank)
            return np.concatenate([exact.at(self.seed, step, rank, a).settled(x[a:b], steps[a:b], up[a:b]) for a, b in self.slices])
        return np.concatenate([exact.at(self.seed, step, rank, a)(x[a:b]) for a, b in self.slices])

    def mixed(self, x):
        n, w = len(x), self.gamma * WEIGHT
        return [(1 - 2 * w) * x[i] + w * sum(x[j] for j in neighbours(i, n)) for i in range(n)]


class Dcd(Replicas):
    """Algorithm 1: x += C(W x - step - x). All know all models, so the models are the replicas."""

    def round(self, x, step, heard):
        if self.t > 0:
            z = [a + b - 2 * old for a, b, old in zip(self.mixed(self.x), x, self.x)]
            x = [old + self.compressed(one, step, i, heard) for i, (old, one) in enumerate(zip(self.x, z))]
        self.t, self.x = self.t + 1, [one.copy() for one in x]
        return x


class Ecd(Replicas):
    """Algorithm 2, with x_t+1 = W y_t - step; y are the estimates."""

    def round(self, x, step, heard):
        t = self.t
        if t == 0:
            self.y = [one.copy() for one in x]
        else:
            z = [(1 - t / 2) * old + t / 2 * one for old, one in zip(self.x, x)]
            c = [self.compressed(one, step, i, heard) for i, one in enumerate(z)]
            self.y = [(1 - 2 / t) * y + 2 / t * one for y, one in zip(self.y, c)]
        self.t, self.x = t + 1, [one.copy() for one in x]
        return self.mixed(self.y)


class Moniqua:
    """Lu and De Sa, algorithm 1, with four cyclic levels over B = 4 theta. Codes are heard and checked."""

    def __init__(self, theta, gamma):
        self.span, self.gamma = 4 * theta, gamma

    def modulo(self, v):
        return v - self.span * np.floor(v / self.span + 0.5)

    def round(self, x, step, heard):
        n, q = len(x), []
        for i, one in enumerate(x):
            value = (heard.codes(i, one.size) / 4 - 0.5) * self.span
            away = self.modulo(value - one)
            assert (np.abs(away) < self.span / 4 * (1 + 1e-5)).all()  # one of the two levels around it
            q.append((value, away))
        return [
            x[i] + self.gamma * WEIGHT * sum(self.modulo(q[j][0] - x[i]) - q[i][1] for j in neighbours(i, n))
            for i in range(n)
        ]


class PowerGossip:
    """Vogels et al., algorithm 1. starts[edge] is [(p, q) or None by tensor], the same at both ends."""

    def __init__(self, shapes, ranks, starts, gamma=1.0, iterations=1):
        self.shapes, self.gamma, self.iterations = shapes, gamma, iterations
        self.slices = Slices([math.prod(s) for s in shapes]).all
        self.edges, self.turn = starts, 0

    def round(self, x, step, heard):
        for iteration in range(self.iterations):
            x = self.iterate(x, plain=iteration == 0)
        return x

    def iterate(self, x, plain):
        after = [one.copy() for one in x]
        for low, high in self.edges:
            for t, (a, b) in enumerate(self.slices):
                difference = x[high][a:b] - x[low][a:b]
                if self.edges[low, high][t] is not None:
                    difference = self.direction((low, high), t, difference)
                elif not plain:
                    continue
                after[low][a:b] += self.gamma * WEIGHT * difference
                after[high][a:b] -= self.gamma * WEIGHT * difference
        self.turn += 1
        return after

    def direction(self, edge, t, difference):
        p, q = self.edges[edge][t]
        d = difference.reshape(matrix_shape(self.shapes[t]))
        if self.turn % 2 == 0:
            q = orthonormal(q)
            p = d @ q
        else:
            p = orthonormal(p)
            q = d.T @ p
        self.edges[edge][t] = (p, q)
        return (p @ q.T).ravel()
