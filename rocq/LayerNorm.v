(** Chapter 7: layer norm erases only the mean of the bias.

    The root is abstract: [inv_root] is any function of the variance plus [eps].
    Nothing is asked of it, so nothing is asked of [eps] either. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Bias Require Import Attention.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section LayerNorm.

Variables (F : fieldType) (inv_root : F -> F) (eps : F).

(** The mean of the features of each token. *)
Definition row_mean n d (Z : 'M[F]_(n, d)) : 'cV[F]_n := d%:R^-1 *: (Z *m ones d).

Definition centre n d (Z : 'M[F]_(n, d)) : 'M[F]_(n, d) :=
  Z - row_mean Z *m (ones d)^T.

Definition square n d (Z : 'M[F]_(n, d)) : 'M[F]_(n, d) := \matrix_(i, j) Z i j ^+ 2.

(** The variance divides by [d], not by [d - 1]. *)
Definition variance n d (Z : 'M[F]_(n, d)) := row_mean (square (centre Z)).

(** Each row [i] of [Z], divided by the root of [s i] plus [eps]. *)
Definition over_root n d (Z : 'M[F]_(n, d)) (s : 'cV[F]_n) : 'M[F]_(n, d) :=
  \matrix_(i, j) (Z i j * inv_root (s i 0 + eps)).

Definition rms_norm n d (Z : 'M[F]_(n, d)) := over_root Z (row_mean (square Z)).

Definition layer_norm n d (Z : 'M[F]_(n, d)) := over_root (centre Z) (variance Z).

(** Layer norm with its gain and its shift. *)
Definition norm n d (gamma beta : 'cV[F]_d) (Z : 'M[F]_(n, d)) :=
  layer_norm Z *m diag_mx gamma^T + ones n *m beta^T.

(** A constant, which may differ from token to token, goes with the mean. *)
Lemma centring_erases_a_constant n d (Z : 'M[F]_(n, d)) (c : 'cV[F]_n) :
  d%:R != 0 :> F -> centre (Z + c *m (ones d)^T) = centre Z.
Proof.
move=> d_neq0; have dd : (ones d)^T *m ones d = (d%:R)%:M :> 'M[F]_1.
  apply/matrixP => i j; rewrite !ord1 !mxE mulr1n.
  under eq_bigr do rewrite !mxE mulr1.
  by rewrite sumr_const card_ord.
have mean : row_mean (Z + c *m (ones d)^T) = row_mean Z + c.
  by rewrite /row_mean mulmxDl scalerDr -mulmxA dd mul_mx_scalar scalerA mulVf // scale1r.
by rewrite /centre mean mulmxDl opprD addrACA subrr addr0.
Qed.

(** So a constant per token is erased by layer norm: what Theorem 7.1 rests on. *)
Lemma layer_norm_erases_a_constant n d (Z : 'M[F]_(n, d)) (c : 'cV[F]_n) :
  d%:R != 0 :> F -> layer_norm (Z + c *m (ones d)^T) = layer_norm Z.
Proof. by move=> d_neq0; rewrite /layer_norm /variance centring_erases_a_constant. Qed.

(** Theorem 7.1. The mean of [b] is the same constant for every token. *)
Theorem layer_norm_erases_the_mean_of_the_bias
    n d k (gamma beta : 'cV[F]_d) (R : 'M[F]_(n, d))
    (X : 'M[F]_(n, k)) (W : 'M[F]_(d, k)) (b : 'cV[F]_d) :
  d%:R != 0 :> F ->
  norm gamma beta (R + X *m W^T + ones n *m b^T)
  = norm gamma beta (R + X *m W^T + ones n *m (b - ones d *m row_mean b^T)^T).
Proof.
move=> d_neq0; rewrite /norm [(b - _)^T]linearB /= trmx_mul mulmxBr mulmxA -mulNmx addrA.
by rewrite (layer_norm_erases_a_constant _ _ d_neq0).
Qed.

(** Remark 7.3. *)
Remark layer_norm_is_centring_then_rms_norm n d (Z : 'M[F]_(n, d)) :
  layer_norm Z = rms_norm (centre Z).
Proof. by []. Qed.

End LayerNorm.
