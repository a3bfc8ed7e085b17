"""Which module makes which ops and public functions: each is loaded when it is asked for.

Written by `scripts/contents.py` from the records; a test says when to write it again.
"""

CONTENTS = {
    "anabranch.composed.activation": (
        "celu clip elu gelu glu hardsigmoid hardswish hardtanh leaky_relu log_sigmoid mish prelu "
        "relu relu6 selu silu softsign swish"
    ),
    "anabranch.composed.choices": "random.categorical random.choice random.permutation",
    "anabranch.composed.covariance": "corrcoef cov",
    "anabranch.composed.diagonals": "diag diagonal matrix_trace tril triu",
    "anabranch.composed.einsum": "einsum",
    "anabranch.composed.exponential": "log_softmax logsumexp softmax",
    "anabranch.composed.indexing": (
        "index_add index_get index_max index_min index_multiply index_set put_along_axis take "
        "take_along_axis"
    ),
    "anabranch.composed.joining": (
        "array_split column_stack dstack fliplr flipud hstack repeat roll rot90 split stack tile "
        "unstack vstack"
    ),
    "anabranch.composed.loss": "binary_cross_entropy cross_entropy hinge kl_div nll",
    "anabranch.composed.matrix": (
        "linalg.eigvalsh linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.norm "
        "linalg.svdvals"
    ),
    "anabranch.composed.normalisation": (
        "batch_norm cosine_similarity layer_norm normalize rms_norm"
    ),
    "anabranch.composed.order": "median percentile quantile top_k",
    "anabranch.composed.pooling": "avg_pool",
    "anabranch.composed.products": "cross dot inner kron outer tensordot vdot vecdot",
    "anabranch.composed.random": (
        "random.bernoulli random.exponential random.fold_in random.gumbel random.normal "
        "random.split random.truncated_normal random.uniform"
    ),
    "anabranch.composed.refused": "argwhere flatnonzero nonzero unique",
    "anabranch.composed.regression": "huber mae mse smooth_l1 triplet",
    "anabranch.composed.running": "cumulative_prod cumulative_sum",
    "anabranch.composed.shape": (
        "atleast_1d atleast_2d atleast_3d broadcast_arrays expand_dims matrix_transpose meshgrid "
        "moveaxis ravel squeeze swapaxes transpose"
    ),
    "anabranch.composed.statistics": "average count_nonzero mean ptp std var",
    "anabranch.diff.call": "call",
    "anabranch.frontends.keys": "random.key",
    "anabranch.ops.complex_parts": "conj imag real",
    "anabranch.ops.convolution": "conv conv_kernel conv_transpose",
    "anabranch.ops.determinants": (
        "linalg.cofactors linalg.cofactors_along linalg.det linalg.slogdet"
    ),
    "anabranch.ops.dynamic": "dynamic_slice dynamic_update_slice update_slice",
    "anabranch.ops.elementary": "cbrt exp2 expm1 log10 log1p log2 logaddexp reciprocal rsqrt",
    "anabranch.ops.elementwise": (
        "absolute add astype cos divide exp identity integer_power log multiply negative "
        "sech_squared sigmoid sign sin softplus sqrt square stop_gradient subtract tanh"
    ),
    "anabranch.ops.error_functions": "erf erfc erfinv exp_neg_square exp_square",
    "anabranch.ops.extrema": "argmax argmin min",
    "anabranch.ops.gamma_functions": "digamma lgamma polygamma",
    "anabranch.ops.gather": "gather index_repeats",
    "anabranch.ops.hyperbolic": "arccosh arcsinh arctanh cosh sinh",
    "anabranch.ops.index": "one_hot slice unslice",
    "anabranch.ops.join": "concatenate flip",
    "anabranch.ops.layout": "broadcast_to pad permute reshape",
    "anabranch.ops.least_squares": "linalg.lstsq",
    "anabranch.ops.linalg": "matmul",
    "anabranch.ops.logic": (
        "bitwise_and bitwise_or bitwise_xor invert isfinite isinf left_shift logical_and "
        "logical_not logical_or logical_xor right_shift"
    ),
    "anabranch.ops.norms": "linalg.vector_norm",
    "anabranch.ops.orthogonal": "linalg.full_qr linalg.qr",
    "anabranch.ops.powers": "power power_derivative xdivy xlog1py xlogy",
    "anabranch.ops.product": "prod",
    "anabranch.ops.random": "random.bits random.randint random.threefry2x32 random.words",
    "anabranch.ops.recurrence": "linear_recurrence",
    "anabranch.ops.reduce": "max sum",
    "anabranch.ops.rounding": (
        "ceil copysign floor floor_divide fmod heaviside nextafter remainder round trunc"
    ),
    "anabranch.ops.scans": "cumlogsumexp cummax cummin cumprod cumsum",
    "anabranch.ops.scatter": "scatter_add scatter_set",
    "anabranch.ops.scatter_combine": "scatter_max scatter_min scatter_multiply",
    "anabranch.ops.select": (
        "absorb absorb_either equal greater greater_equal isnan less less_equal maximum minimum "
        "not_equal where"
    ),
    "anabranch.ops.sorting": "argsort searchsorted sort",
    "anabranch.ops.spectral": "linalg.eigh linalg.full_svd linalg.svd",
    "anabranch.ops.systems": "linalg.inv linalg.pinv linalg.solve",
    "anabranch.ops.triangular": "linalg.cholesky linalg.solve_triangular",
    "anabranch.ops.trigonometric": (
        "arccos arcsin arctan arctan2 hypot one_minus_square sinc sinc_derivative tan"
    ),
    "anabranch.ops.truth": "all any",
    "anabranch.ops.windows": "add_windows max_pool sliding_windows",
}
