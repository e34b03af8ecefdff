(** Chapter 4: the value bias leaves.

    Nothing is asked of [exp].
    Asked of the scores is that the sum softmax divides by is zero for no query: with the
    real exponential this says that every query sees at least one key. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Bias Require Import Attention.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section ValueBias.

Variables (F : fieldType) (exp : F -> F).

Local Notation softmax := (softmax exp).
Local Notation masked_softmax := (masked_softmax exp).

(** Lemma 4.1: a sum that is not zero, divided by itself. *)
Lemma rows_of_softmax_sum_to_one m n (S : 'M[F]_(m, n)) :
  (forall i, \sum_l exp (S i l) != 0) ->
  softmax S *m ones n = ones m.
Proof.
move=> sums; apply/matrixP => i j; rewrite !mxE.
under eq_bigr do rewrite !mxE mulr1.
by rewrite -big_distrl /= divff.
Qed.

(** The same under a mask. *)
Lemma rows_of_masked_softmax_sum_to_one m n (M S : 'M[F]_(m, n)) :
  (forall i, \sum_l M i l * exp (S i l) != 0) ->
  masked_softmax M S *m ones n = ones m.
Proof.
move=> sums; apply/matrixP => i j; rewrite !mxE.
under eq_bigr do rewrite !mxE mulr1.
by rewrite -big_distrl /= divff.
Qed.

(** An average of rows that all contain [b] contains [b]. *)
Lemma an_average_keeps_a_constant
    m n v (A : 'M[F]_(m, n)) (V : 'M[F]_(n, v)) (b : 'cV[F]_v) :
  A *m ones n = ones m ->
  A *m (V + ones n *m b^T) = A *m V + ones m *m b^T.
Proof. by move=> sums; rewrite mulmxDr mulmxA sums. Qed.

(** Theorem 4.2. *)
Theorem the_value_bias_passes_through_attention
    m n v (S : 'M[F]_(m, n)) (V : 'M[F]_(n, v)) (b_V : 'cV[F]_v) :
  (forall i, \sum_l exp (S i l) != 0) ->
  softmax S *m (V + ones n *m b_V^T) = softmax S *m V + ones m *m b_V^T.
Proof.
by move=> sums; rewrite an_average_keeps_a_constant // rows_of_softmax_sum_to_one.
Qed.

(** Theorem 4.3, with a mask, and with any scores in each of the [h] heads. *)
Theorem the_value_bias_folds_into_the_output_bias
    h m n v d (M : 'M[F]_(m, n)) (S : 'I_h -> 'M[F]_(m, n))
    (V : 'I_h -> 'M[F]_(n, v)) (W_O : 'I_h -> 'M[F]_(d, v))
    (b_V : 'I_h -> 'cV[F]_v) (b_O : 'cV[F]_d) :
  (forall a i, \sum_l M i l * exp (S a i l) != 0) ->
  let layer b_V b_O :=
    \sum_a masked_softmax M (S a) *m (V a + ones n *m (b_V a)^T) *m (W_O a)^T
    + ones m *m b_O^T in
  layer b_V b_O = layer (fun=> 0) (b_O + \sum_a W_O a *m b_V a).
Proof.
move=> sums /=; rewrite linearD linear_sum /= mulmxDr mulmx_sumr.
rewrite [ones m *m _ + _]addrC addrA -big_split /=; congr (_ + _).
apply: eq_bigr => a _; rewrite trmx0 mulmx0 addr0 trmx_mul.
rewrite an_average_keeps_a_constant ?mulmxDl ?mulmxA //.
exact: rows_of_masked_softmax_sum_to_one.
Qed.

End ValueBias.
