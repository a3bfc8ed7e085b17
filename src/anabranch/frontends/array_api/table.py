"""The standard's functions (version 2024.12): their signatures, and which of ours each one is.

One row a function. Where its name is another than ours, ours follows the arrow; what takes more
than another name stands in `adapters`.
"""

VERSION = "2024.12"
FUNCTIONS = """
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
argsort(x, /, *, axis=-1, descending=False, stable=True)
asarray(obj, /, *, dtype=None, device=None, copy=None)
astype(x, dtype, /, *, copy=True, device=None)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
can_cast(from_, to, /)
clip(x, /, min=None, max=None)
concat(arrays, /, *, axis=0) -> concatenate
count_nonzero(x, /, *, axis=None, keepdims=False)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
expand_dims(x, /, axis=0)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
finfo(type, /)
flip(x, /, *, axis=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
iinfo(type, /)
isdtype(dtype, kind)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
matmul(x1, x2, /)
matrix_transpose(x, /)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
meshgrid(*arrays, indexing="xy")
min(x, /, *, axis=None, keepdims=False)
moveaxis(x, source, destination, /)
nonzero(x, /)
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
permute_dims(x, /, axes) -> permute
prod(x, /, *, axis=None, dtype=None, keepdims=False)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
result_type(*arrays_and_dtypes)
roll(x, /, shift, *, axis=None)
searchsorted(x1, x2, /, *, side="left", sorter=None)
signbit(x, /)
sort(x, /, *, axis=-1, descending=False, stable=True)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
tensordot(x1, x2, /, *, axes=2)
tile(x, repetitions, /)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
unstack(x, /, *, axis=0)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
vecdot(x1, x2, /, *, axis=-1)
where(condition, x1, x2, /)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
"""
# Elementwise functions of one value and of two.
UNARY = """
abs -> absolute; acos -> arccos; acosh -> arccosh; asin -> arcsin; asinh -> arcsinh; atan -> arctan;
atanh -> arctanh; bitwise_invert -> invert; ceil; conj; cos; cosh; exp; expm1; floor; imag;
isfinite; isinf; isnan; log; log10; log1p; log2; logical_not; negative; positive; real; reciprocal;
round; sign; sin; sinh; sqrt; square; tan; tanh; trunc
"""
BINARY = """
add; atan2 -> arctan2; bitwise_and; bitwise_left_shift -> left_shift; bitwise_or;
bitwise_right_shift -> right_shift; bitwise_xor; copysign; divide; equal; floor_divide; greater;
greater_equal; hypot; less; less_equal; logaddexp; logical_and; logical_or; logical_xor; maximum;
minimum; multiply; nextafter; not_equal; pow -> power; remainder; subtract
"""
LINALG = """
cholesky(x, /, *, upper=False)
cross(x1, x2, /, *, axis=-1)
det(x, /)
diagonal(x, /, *, offset=0)
eigh(x, /)
eigvalsh(x, /)
inv(x, /)
matmul(x1, x2, /)
matrix_norm(x, /, *, keepdims=False, ord="fro")
matrix_power(x, n, /)
matrix_rank(x, /, *, rtol=None)
matrix_transpose(x, /)
outer(x1, x2, /)
pinv(x, /, *, rtol=None)
qr(x, /, *, mode="reduced")
slogdet(x, /)
solve(x1, x2, /)
svd(x, /, *, full_matrices=True)
svdvals(x, /)
tensordot(x1, x2, /, *, axes=2)
trace(x, /, *, offset=0, dtype=None)
vecdot(x1, x2, /, *, axis=-1)
vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""


def rows(room: str = "") -> list[tuple[str, str, str]]:
    """(name, signature, our name) of every function of the namespace, or of its `linalg`."""
    if room == "linalg":
        return [_row(line) for line in LINALG.split("\n") if line]
    short = [(one, "(x, /)") for one in UNARY.split(";")]
    short += [(one, "(x1, x2, /)") for one in BINARY.split(";")]
    found = [_row(line) for line in FUNCTIONS.split("\n") if line]
    for one, signature in short:
        name, _, ours = (part.strip() for part in one.partition("->"))
        found.append((name, signature, ours or name))
    return sorted(found)


def _row(line: str) -> tuple[str, str, str]:
    written, _, ours = (part.strip() for part in line.partition("->"))
    name, _, rest = written.partition("(")
    return name, f"({rest}", ours or name
