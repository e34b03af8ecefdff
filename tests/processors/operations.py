"""torch's operations, by what processors may do with their last digit.

Named as PyTorch names them below autograd (``aten``; between processes, ``c10d``), without the
underscore of those in place.
Views need no entry.  An operation on floating-point numbers that stands in no list is an error where
it is met, so that a new one is not left alone unnoticed.
"""

#: Products of matrices: the last factor's rows are counted, or the length of a vector.
PRODUCTS = frozenset("mm bmm addmm baddbmm mv addmv dot vdot".split())

#: A result is made of as many numbers as it is smaller than the first argument.
REDUCTIONS = frozenset(
    "sum nansum mean prod std std_mean var var_mean norm linalg_vector_norm".split()
)

#: They are taken apart where torch says how.
NORMS = frozenset(
    """
native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
_native_batch_norm_legit_no_training _batch_norm_with_update _fused_rms_norm
""".split()
)

#: What is made of sums in one kernel.
SUMS = """
_grouped_mm addbmm addr convolution cumsum cumprod cov embedding_bag logcumsumexp
trace index_add scatter_add scatter_reduce _embedding_bag
mse_loss mse_loss_backward nll_loss_forward nll_loss_backward nll_loss2d_forward binary_cross_entropy l1_loss smooth_l1_loss huber_loss
avg_pool2d _adaptive_avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d_backward avg_pool3d
avg_pool3d_backward _upsample_bilinear2d_aa upsample_bilinear2d upsample_bicubic2d grid_sampler_2d
convolution_backward native_layer_norm_backward native_group_norm_backward
native_batch_norm_backward embedding_dense_backward _softmax_backward_data _log_softmax_backward_data
_fused_rms_norm_backward
linalg_cholesky_ex linalg_solve_ex linalg_inv_ex linalg_qr linalg_eig linalg_eigh _linalg_eigh
_linalg_svd _linalg_slogdet _linalg_det _linalg_solve_ex linalg_lstsq linalg_lu_factor_ex
linalg_solve_triangular linalg_pinv linalg_matrix_exp geqrf
linalg_householder_product cholesky_inverse cholesky_solve triangular_solve
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
_scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps
_native_multi_head_attention _transformer_encoder_layer_fwd _transform_bias_rescale_qkv
native_dropout_backward
"""

#: Functions whose value is not rational, and the square roots (see ``other_processor``).
FUNCTIONS = """
exp exp2 expm1 log log2 log10 log1p sqrt rsqrt pow float_power sin cos tan asin acos atan atan2 sinh
cosh tanh sigmoid log_sigmoid_forward erf erfc erfinv lgamma digamma hypot polar logaddexp logaddexp2
logsumexp _softmax _log_softmax _safe_softmax softplus elu gelu silu mish celu selu hardswish
log_sigmoid_backward sigmoid_backward tanh_backward gelu_backward silu_backward mish_backward
softplus_backward elu_backward logit special_erf xlogy norm_except_dim _weight_norm_interface
normal randn exponential log_normal
"""

#: More than one rounding in an entry, in an order or with fused steps that processors choose.
SEVERAL = "addcmul addcdiv lerp linspace logspace arange"

ROUNDED = PRODUCTS | REDUCTIONS | NORMS | frozenset((SUMS + FUNCTIONS + SEVERAL).split())

#: a + alpha b: one rounding if alpha is 1 or -1, else as in SEVERAL.
SCALED = frozenset("add sub rsub".split())

#: One operation of IEEE 754 on each entry, or none: numbers are moved, compared, made or chosen.
FIXED = frozenset(
    """
abs mul div floor_divide neg reciprocal remainder fmod floor ceil round trunc frac sign sgn square positive
maximum minimum fmax fmin clamp clamp_min clamp_max relu leaky_relu hardtanh threshold
threshold_backward leaky_relu_backward hardtanh_backward where masked_fill masked_scatter nan_to_num
max min amax amin aminmax sort topk kthvalue median cummax cummin argmax argmin copysign nextafter
_to_copy copy clone lift_fresh lift_fresh_copy contiguous empty empty_like empty_strided new_empty
new_empty_strided new_zeros new_ones new_full zeros zeros_like ones ones_like full full_like eye
scalar_tensor fill zero resize resize_as set cat stack concat repeat roll flip tril triu tril_indices
triu_indices gather scatter index index_put _index_put_impl _unsafe_index _unsafe_index_put
index_select index_copy index_fill take masked_select select_scatter slice_scatter diagonal_scatter
select_backward slice_backward diagonal_backward embedding constant_pad_nd reflection_pad1d
reflection_pad2d replication_pad1d replication_pad2d max_pool2d_with_indices max_pool2d_with_indices_backward unfold_backward
native_dropout bernoulli uniform rand random randperm randint _reshape_alias _unsafe_view
_local_scalar_dense item diag_embed diag block_diag unique_dim _unique2 histc im2col col2im view_as_real
view_as_complex complex expand_copy
_efficientzerotensor _new_zeros_with_same_feature_meta _nested_tensor_from_mask
_nested_tensor_from_tensor_list to_padded_tensor
send recv allgather
""".split()
)
