(** Chapter 1: attention commutes with permutations.

    Nothing is asked of [exp] here, not even that it turns sums into products,
    nor of the sums that softmax divides by: any function gives these theorems. *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Bias Require Import Attention.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

Section Permutations.

Variables (F : fieldType) (exp : F -> F).

Local Notation softmax := (softmax exp).
Local Notation attend := (attend exp).
Local Notation self_attention := (self_attention exp).

(** Lemma 1.1: each row is normalised on its own. *)
Lemma softmax_commutes_with_row_permutations
    m n (p : 'S_m) (S : 'M[F]_(m, n)) :
  softmax (perm_mx p *m S) = perm_mx p *m softmax S.
Proof.
rewrite -!row_permE; apply/matrixP => i j; rewrite !mxE.
by under eq_bigr do rewrite mxE.
Qed.

(** Lemma 1.2: a finite sum does not depend on the order of its terms. *)
Lemma softmax_commutes_with_column_permutations
    m n (p : 'S_n) (S : 'M[F]_(m, n)) :
  softmax (S *m perm_mx p) = softmax S *m perm_mx p.
Proof.
rewrite -[p]invgK -!col_permE; apply/matrixP => i j; rewrite !mxE.
rewrite [in RHS](reindex_inj (@perm_inj _ p^-1)) /=.
by under eq_bigr do rewrite mxE.
Qed.

(** The inverse of a permutation matrix is its transpose. *)
Lemma tr_perm_mxK n (p : 'S_n) : (perm_mx p)^T *m perm_mx p = 1%:M :> 'M[F]_n.
Proof. by rewrite tr_perm_mx -perm_mxM mulVg perm_mx1. Qed.

(** Theorem 1.3. The permutation of the keys leaves softmax as a transpose,
    and meets the permutation of the values. *)
Theorem keys_and_values_are_a_set
    m n k v (tau : F) (p : 'S_n)
    (Q : 'M[F]_(m, k)) (K : 'M[F]_(n, k)) (V : 'M[F]_(n, v)) :
  attend tau Q (perm_mx p *m K) (perm_mx p *m V) = attend tau Q K V.
Proof.
rewrite /attend trmx_mul [Q *m _]mulmxA scalemxAl {1}tr_perm_mx.
rewrite softmax_commutes_with_column_permutations -tr_perm_mx.
by rewrite -mulmxA [_^T *m _]mulmxA tr_perm_mxK mul1mx.
Qed.

(** Theorem 1.4. Each query is answered on its own. *)
Theorem queries_are_equivariant
    m n k v (tau : F) (p : 'S_m)
    (Q : 'M[F]_(m, k)) (K : 'M[F]_(n, k)) (V : 'M[F]_(n, v)) :
  attend tau (perm_mx p *m Q) K V = perm_mx p *m attend tau Q K V.
Proof.
by rewrite /attend -mulmxA scalemxAr softmax_commutes_with_row_permutations mulmxA.
Qed.

(** The bias is the same for every token: permuting a column of ones changes nothing. *)
Lemma a_bias_moves_with_its_tokens
    n d k (p : 'S_n) (W : 'M[F]_(k, d)) (b : 'cV[F]_k) (X : 'M[F]_(n, d)) :
  linear W b (perm_mx p *m X) = perm_mx p *m linear W b X.
Proof. by rewrite /linear mulmxDr !mulmxA -[_ *m ones n]row_permE row_perm_const. Qed.

(** Theorem 1.5. First the line on biases, then 1.3, then 1.4, in every head. *)
Theorem self_attention_is_equivariant
    n d h k (tau : F) (p : 'S_n)
    (W_Q W_K W_V : 'I_h -> 'M[F]_(k, d)) (b_Q b_K b_V : 'I_h -> 'cV[F]_k)
    (W_O : 'I_h -> 'M[F]_(d, k)) (b_O : 'cV[F]_d) (X : 'M[F]_(n, d)) :
  let SA := self_attention tau W_Q W_K W_V b_Q b_K b_V W_O b_O in
  SA (perm_mx p *m X) = perm_mx p *m SA X.
Proof.
rewrite /= /self_attention mulmxDr mulmx_sumr mulmxA -[_ *m ones n]row_permE row_perm_const.
congr (_ + _); apply: eq_bigr => a _; rewrite !a_bias_moves_with_its_tokens.
by rewrite keys_and_values_are_a_set queries_are_equivariant mulmxA.
Qed.

End Permutations.
