(** Chapter 3: softmax ignores the key bias.

    Asked of [exp] is that it turns sums into products, and nothing else.
    Such a function is zero everywhere or nowhere. If everywhere, so is softmax;
    if nowhere, a factor cancels, even where a sum is zero, since x / 0 is 0:
    so no premise speaks of the sums that softmax divides by. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Bias Require Import Attention.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section KeyBias.

Variables (F : fieldType) (exp : F -> F).

Local Notation softmax := (softmax exp).
Local Notation masked_softmax := (masked_softmax exp).
Local Notation attend := (attend exp).

(** Where [exp c] is zero, so is every [exp a], which is [exp (a - c) * exp c]. *)
Lemma zero_once_is_zero_everywhere c a :
  turns_sums_into_products exp -> exp c = 0 -> exp a = 0.
Proof. by move=> exp_add exp_c; rewrite -[a](subrK c) exp_add exp_c mulr0. Qed.

(** Without a mask, softmax sees every key. *)
Lemma softmax_sees_every_key m n (S : 'M[F]_(m, n)) :
  softmax S = masked_softmax (const_mx 1) S.
Proof.
apply/matrixP => i j; rewrite !mxE mul1r; congr (_ / _).
by apply: eq_bigr => l _; rewrite mxE mul1r.
Qed.

(** The factor [exp (c i)] stands above and below the line, and cancels. *)
Lemma masked_softmax_is_shift_invariant
    m n (M S : 'M[F]_(m, n)) (c : 'cV[F]_m) :
  turns_sums_into_products exp ->
  masked_softmax M (S + c *m (ones n)^T) = masked_softmax M S.
Proof.
move=> exp_add; apply/matrixP => i j.
have shifted l : (S + c *m (ones n)^T) i l = c i 0 + S i l.
  by rewrite !mxE big_ord1 !mxE mulr1 addrC.
rewrite [LHS]mxE [RHS]mxE shifted; have [exp_c|exp_c] := eqVneq (exp (c i 0)) 0.
  by rewrite !(zero_once_is_zero_everywhere _ exp_add exp_c) mulr0 !mul0r.
under eq_bigr do rewrite shifted exp_add mulrCA.
by rewrite exp_add mulrCA -big_distrr -mulf_div divff ?mul1r.
Qed.

(** Theorem 3.1. *)
Theorem softmax_is_shift_invariant
    m n (S : 'M[F]_(m, n)) (c : 'cV[F]_m) :
  turns_sums_into_products exp ->
  softmax (S + c *m (ones n)^T) = softmax S.
Proof.
by move=> exp_add; rewrite !softmax_sees_every_key; apply: masked_softmax_is_shift_invariant.
Qed.

(** A key bias adds to the scores of a query one number, the same for every key. *)
Lemma a_key_bias_shifts_the_scores
    m n k (tau : F) (Q : 'M[F]_(m, k)) (K : 'M[F]_(n, k)) (b_K : 'cV[F]_k) :
  tau *: (Q *m (K + ones n *m b_K^T)^T)
  = tau *: (Q *m K^T) + (tau *: (Q *m b_K)) *m (ones n)^T.
Proof. by rewrite linearD /= trmx_mul trmxK mulmxDr mulmxA scalerDr -scalemxAl. Qed.

(** Theorem 3.2. *)
Theorem the_key_bias_cancels
    m n k v (tau : F) (b_K : 'cV[F]_k)
    (Q : 'M[F]_(m, k)) (K : 'M[F]_(n, k)) (V : 'M[F]_(n, v)) :
  turns_sums_into_products exp ->
  attend tau Q (K + ones n *m b_K^T) V = attend tau Q K V.
Proof.
move=> exp_add.
by rewrite /attend a_key_bias_shifts_the_scores softmax_is_shift_invariant.
Qed.

(** Theorem 3.3: [g] groups of [r] heads that share their keys and values, a mask,
    and scores [B] that are added. The same without the biases. *)
Theorem the_key_bias_cancels_in_every_head
    g r m n k v d (tau : F) (M : 'M[F]_(m, n)) (B : 'I_g -> 'I_r -> 'M[F]_(m, n))
    (Q : 'I_g -> 'I_r -> 'M[F]_(m, k)) (K : 'I_g -> 'M[F]_(n, k))
    (V : 'I_g -> 'M[F]_(n, v)) (W_O : 'I_g -> 'I_r -> 'M[F]_(d, v))
    (b_K : 'I_g -> 'cV[F]_k) (b_O : 'cV[F]_d) :
  turns_sums_into_products exp ->
  let layer K :=
    \sum_a \sum_c masked_softmax M (tau *: (Q a c *m (K a)^T) + B a c)
                    *m V a *m (W_O a c)^T
    + ones m *m b_O^T in
  layer (fun a => K a + ones n *m (b_K a)^T) = layer K.
Proof.
move=> exp_add /=.
by under eq_bigr => a _ do under eq_bigr => c _ do
  rewrite a_key_bias_shifts_the_scores addrAC masked_softmax_is_shift_invariant //.
Qed.

End KeyBias.
