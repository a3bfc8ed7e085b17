"""What our functions are called elsewhere: the one list of the comparison with peers.

Each table maps the name of an op, or of a composed function, to the peer's function of the same
arrays and attributes. What a peer does not have is not in its table.
"""

import numpy as np


def torch_functions(torch):
    """PyTorch's functions, by our names."""
    F, special, linalg = torch.nn.functional, torch.special, torch.linalg
    same = "sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh exp exp2 expm1"
    same += " log log2 log10 log1p sqrt rsqrt square reciprocal sigmoid erf erfc erfinv lgamma"
    same += " digamma absolute negative sign floor ceil trunc sinc isnan isinf isfinite add"
    same += " subtract multiply divide arctan2 hypot copysign heaviside maximum minimum"
    same += " logaddexp fmod remainder floor_divide nextafter equal:eq not_equal:ne less"
    same += " less_equal greater greater_equal logical_and logical_or logical_xor logical_not"
    same += " conj real bitwise_and bitwise_or bitwise_xor invert:bitwise_not matmul"
    table = named(torch, same)
    table |= {
        "identity": lambda x: x * 1,
        "stop_gradient": lambda x: x.detach(),
        "astype": lambda x, dtype: x.to(kind(torch, dtype)),
        "left_shift": torch.bitwise_left_shift,
        "right_shift": torch.bitwise_right_shift,
        "round": lambda x, decimals=0: torch.round(x, decimals=decimals),
        "integer_power": lambda x, n: torch.pow(x, n),
        "power": torch.pow,
        "polygamma": lambda x, n: special.polygamma(n, x),
        "softplus": F.softplus,
        "where": torch.where,
        "sum": lambda x, axes, keepdims: summed(torch.sum, x, axes, keepdims),
        "prod": lambda x, axes, keepdims: one_by_one(torch.prod, x, axes, keepdims),
        "max": lambda x, axes, keepdims: summed(torch.amax, x, axes, keepdims),
        "min": lambda x, axes, keepdims: summed(torch.amin, x, axes, keepdims),
        "any": lambda x, axes, keepdims: summed(torch.any, x, axes, keepdims),
        "all": lambda x, axes, keepdims: summed(torch.all, x, axes, keepdims),
        "argmax": lambda x, axis, keepdims: torch.argmax(x, axis, keepdims),
        "argmin": lambda x, axis, keepdims: torch.argmin(x, axis, keepdims),
        "cumsum": along(torch, torch.cumsum),
        "cumprod": along(torch, torch.cumprod),
        "cummax": along(torch, lambda x, axis: torch.cummax(x, axis)[0]),
        "cummin": along(torch, lambda x, axis: torch.cummin(x, axis)[0]),
        "cumlogsumexp": along(torch, torch.logcumsumexp),
        "sort": lambda x, axis, descending: torch.sort(
            x, dim=axis, descending=descending, stable=True
        )[0],
        "argsort": lambda x, axis, descending: torch.sort(
            x, dim=axis, descending=descending, stable=True
        )[1],
        "searchsorted": lambda a, v, side: torch.searchsorted(a, v, side=side),
        "reshape": lambda x, shape: x.reshape(shape),
        "permute": lambda x, axes: x.permute(axes),
        "broadcast_to": lambda x, shape: x.expand(shape),
        "concatenate": lambda *xs, axis: torch.cat(xs, axis),
        "flip": lambda x, axes: x.flip(axes),
        "pad": lambda x, widths, fill: F.pad(x, flat(widths), value=float(fill)),
        "slice": lambda x, index: turned(torch, x, brackets(index)),
        "gather": gathered,
        "one_hot": lambda x, classes, dtype: F.one_hot(x, classes).to(kind(torch, dtype)),
        "conv": lambda x, w, stride, dilation, groups: convolved(
            F, x, w, stride=stride, dilation=dilation, groups=groups
        ),
        "conv_transpose": lambda x, w, **attrs: spread(F, x, w, **attrs),
        "dynamic_slice": lambda x, *starts, sizes: x[
            tuple(slice(int(i), int(i) + n) for i, n in zip(starts, sizes, strict=True))
        ],
        "max_pool": lambda x, **attrs: pooled(F, x, **attrs),
        "linalg.det": linalg.det,
        "linalg.slogdet": lambda x: tuple(linalg.slogdet(x)),
        "linalg.inv": linalg.inv,
        "linalg.pinv": lambda x, rtol: linalg.pinv(x, rtol=rtol),
        "linalg.solve": solved(linalg),
        "linalg.lstsq": least_squares(linalg),
        "linalg.solve_triangular": triangular(linalg),
        "linalg.cholesky": lambda x: linalg.cholesky(symmetric(x, x.mT)),
        "linalg.eigh": lambda x: tuple(linalg.eigh(symmetric(x, x.mT))),
        "linalg.qr": lambda x: tuple(linalg.qr(x)),
        "linalg.svd": lambda x: tuple(linalg.svd(x, full_matrices=False)),
        "linalg.vector_norm": lambda x, p, axes, keepdims: linalg.vector_norm(x, p, axes, keepdims),
        "scatter_add": scattered(torch, "sum"),
        "scatter_multiply": scattered(torch, "prod"),
        "scatter_max": scattered(torch, "amax"),
        "scatter_min": scattered(torch, "amin"),
    }
    names = "relu relu6 hardtanh hardsigmoid hardswish elu celu selu silu mish gelu softsign"
    table |= {**named(F, names), "log_sigmoid": F.logsigmoid, "leaky_relu": F.leaky_relu}
    table |= {
        "softmax": lambda x: torch.softmax(x, -1),
        "log_softmax": lambda x: torch.log_softmax(x, -1),
        "logsumexp": lambda x: torch.logsumexp(x, -1),
        "mean": torch.mean,
        "var": lambda x: torch.var(x, correction=0),
        "std": lambda x: torch.std(x, correction=0),
        "median": lambda x: torch.quantile(x, 0.5),
        "ptp": lambda x: torch.amax(x) - torch.amin(x),
        "normalize": lambda x: F.normalize(x, dim=-1),
        "xlogy": special.xlogy,
        "xlog1py": special.xlog1py,
        "clip": torch.clamp,
        "huber": lambda x, y: F.huber_loss(x, y),
        "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y),
        "mse": lambda x, y: F.mse_loss(x, y),
        "mae": lambda x, y: F.l1_loss(x, y),
        "cosine_similarity": lambda x, y: F.cosine_similarity(x, y, -1),
        "binary_cross_entropy": lambda x, y: F.binary_cross_entropy_with_logits(x, y),
    }
    return table


def autograd_functions(np, special):
    """autograd's functions, by our names; `np` is its NumPy and `special` its SciPy."""
    linalg = np.linalg
    same = "sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh exp exp2 expm1"
    same += " log log2 log10 log1p sqrt square reciprocal absolute negative sign floor ceil"
    same += " sinc isnan isinf isfinite add subtract multiply divide arctan2 maximum minimum"
    same += " logaddexp fmod remainder floor_divide nextafter equal not_equal less less_equal"
    same += " greater greater_equal logical_and logical_or logical_xor logical_not"
    same += " conj real imag matmul where"
    table = named(np, same)
    table |= named(special, "sigmoid:expit erf erfc erfinv lgamma:gammaln digamma:psi")
    table |= {
        "polygamma": lambda x, n: special.polygamma(n, x),
        "power": np.power,
        "integer_power": lambda x, n: x**n,
        "sum": lambda x, axes, keepdims: np.sum(x, axis=axes, keepdims=keepdims),
        "prod": lambda x, axes, keepdims: one_by_one(np.prod, x, axes, keepdims),
        "max": lambda x, axes, keepdims: np.max(x, axis=axes, keepdims=keepdims),
        "min": lambda x, axes, keepdims: np.min(x, axis=axes, keepdims=keepdims),
        "cumsum": risen(np.cumsum),
        "sort": risen(np.sort),
        "reshape": lambda x, shape: np.reshape(x, shape),
        "permute": lambda x, axes: np.transpose(x, axes),
        "broadcast_to": lambda x, shape: np.broadcast_to(
            np.reshape(x, (1,) * (len(shape) - x.ndim) + x.shape), shape
        ),
        "concatenate": lambda *xs, axis: np.concatenate(xs, axis),
        "pad": lambda x, widths, fill: (
            np.pad(x, widths, "constant", constant_values=fill) if widths else x
        ),
        "slice": lambda x, index: x[brackets(index)],
        "gather": gathered,
        "linalg.det": linalg.det,
        "linalg.slogdet": lambda x: tuple(linalg.slogdet(x)),
        "linalg.inv": linalg.inv,
        "linalg.solve": lambda a, b: linalg.solve(a, b),
        "linalg.cholesky": lambda x: linalg.cholesky(symmetric(x, np.swapaxes(x, -1, -2))),
        "linalg.eigh": lambda x: tuple(linalg.eigh(symmetric(x, np.swapaxes(x, -1, -2)))),
        "linalg.svd": lambda x: tuple(linalg.svd(x, full_matrices=False)),
        "mean": np.mean,
        "var": np.var,
        "std": np.std,
        "logsumexp": lambda x: special.logsumexp(x, axis=-1),
    }
    return table


def named(room, names):
    """Functions of a namespace by our names; `ours:theirs` where theirs is another."""
    pairs = (name.partition(":") for name in names.split())
    return {ours: getattr(room, theirs or ours) for ours, _, theirs in pairs}


def symmetric(x, transposed):
    """What we read of a matrix that is called symmetric; others read one triangle."""
    return (x + transposed) / 2


def risen(function):
    """What goes along an axis upwards only."""

    def along_it(x, axis, reverse=False, descending=False):
        if reverse or descending:
            raise NotImplementedError("they have nothing like it")
        return function(x, axis)

    return along_it


def kind(torch, dtype):
    """PyTorch's dtype of this name."""
    return getattr(torch, np.dtype(dtype).name)


def summed(reduce, x, axes, keepdims):
    """A reduction that would take no axes for all of them."""
    return reduce(x, axes, keepdims) if axes else reduce(x[..., None], -1)


def one_by_one(reduce, x, axes, keepdims):
    """A reduction over one axis after the other, the last first."""
    for axis in sorted((a % max(x.ndim, 1) for a in axes), reverse=True):
        x = reduce(x, axis, keepdims=keepdims) if keepdims else reduce(x, axis)
    return x


def along(torch, scan):
    """A running value along an axis, from behind if asked."""

    def running(x, axis, reverse):
        return scan(x.flip(axis), axis).flip(axis) if reverse else scan(x, axis)

    return running


def flat(widths):
    """PyTorch's widths of padding: the last axis first, in one list."""
    return [n for pair in reversed(widths) for n in pair]


def turned(torch, x, index):
    """Brackets; where a slice steps down, which PyTorch does not take, by places."""
    if all(not isinstance(one, slice) or one.step > 0 for one in index):
        return x[index]
    places = torch.tensor(np.arange(x.numel()).reshape(tuple(x.shape))[index].copy())
    return x.reshape(-1)[places]


def convolved(F, x, w, **attrs):
    return (F.conv1d, F.conv2d, F.conv3d)[x.ndim - 3](x, w, **attrs)


def spread(F, x, w, shape, stride, dilation, groups):
    """The transposed convolution whose result has this shape."""
    n = len(shape)
    apply = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    sizes = zip(shape, x.shape[2:], w.shape[2:], stride, dilation, strict=True)
    rest = [wide - ((size - 1) * s + d * (k - 1) + 1) for wide, size, k, s, d in sizes]
    if any(r >= max(s, d) for r, s, d in zip(rest, stride, dilation, strict=True)):
        raise NotImplementedError("they have nothing like it")
    return apply(x, w, None, stride, 0, rest, groups, dilation)


def pooled(F, x, window, stride, dilation, padding):
    n = len(window)
    if 0 in x.shape:
        raise NotImplementedError("they have nothing like it")
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    room = [value for pair in reversed(padding) for value in pair]
    batch, spatial = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
    x = F.pad(x.reshape(1, -1, *spatial), room, value=-np.inf)
    y = pool(x, window, stride, 0, dilation)
    return y.reshape(*batch, *y.shape[2:])


def solved(linalg):
    def solve(a, b):
        return linalg.solve(a, b[..., None])[..., 0] if b.ndim == 1 else linalg.solve(a, b)

    return solve


def least_squares(linalg):
    def solve(a, b, rcond):
        if 0 in a.shape or a.ndim != 2 or b.ndim > 2:
            raise NotImplementedError("they have nothing like it")
        if b.ndim == 1:
            return linalg.lstsq(a, b[..., None]).solution[..., 0]
        return linalg.lstsq(a, b).solution

    return solve


def triangular(linalg):
    def solve(a, b, lower, unit_diagonal):
        b2 = b[..., None] if b.ndim == 1 else b
        y = linalg.solve_triangular(a, b2, upper=not lower, unitriangular=unit_diagonal)
        return y[..., 0] if b.ndim == 1 else y

    return solve


def scattered(torch, reduce):
    """Updates that meet the old value, by places in the flattened array."""

    def scatter(x, updates, *indices, axes, mode="raise", at=None):
        if mode != "raise" or len(axes) > 1:
            raise NotImplementedError("they have nothing like it")
        places = np.arange(x.numel()).reshape(tuple(x.shape))
        places = torch.tensor(places[(slice(None),) * axes[0] + (indices[0].numpy(),)])
        flat = x.reshape(-1).scatter_reduce(0, places.reshape(-1), updates.reshape(-1), reduce)
        return flat.reshape(x.shape)

    return scatter


def gathered(x, *indices, axes, mode="raise", **_):
    if mode != "raise" or len(axes) > 1:
        raise NotImplementedError("they have nothing like it")
    return x[(slice(None),) * axes[0] + indices]


def brackets(index):
    """The record's index as it is written: (start, stop, step) is a slice."""
    return tuple(slice(*one) if isinstance(one, tuple) else one for one in index)
