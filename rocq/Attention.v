(** What attention is: the definitions that the theorems speak of.

    Tokens are rows, as everywhere in the book.
    [F] is any field: the real numbers, the rational ones, a finite field.
    Division is total in MathComp: x / 0 is 0.
    Where that would hide something, a theorem has a premise that excludes it. *)
From mathcomp Require Import all_ssreflect all_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import GRing.Theory.
Local Open Scope ring_scope.

(** The column of [n] ones. *)
Notation ones n := (const_mx 1 : 'cV_n).

Section Attention.

Variable F : fieldType.

(** All that is ever asked of [exp]. It need not be positive, nor continuous. *)
Definition turns_sums_into_products (exp : F -> F) :=
  forall a b, exp (a + b) = exp a * exp b.

Variable exp : F -> F.

(** Along each row, that is over the keys. *)
Definition softmax m n (S : 'M[F]_(m, n)) : 'M[F]_(m, n) :=
  \matrix_(i, j) (exp (S i j) / \sum_l exp (S i l)).

(** The same over the keys that a query sees:
    [M i j] is 1 where it does, and 0 elsewhere. *)
Definition masked_softmax m n (M S : 'M[F]_(m, n)) : 'M[F]_(m, n) :=
  \matrix_(i, j) (M i j * exp (S i j) / \sum_l M i l * exp (S i l)).

(** [tau] is the scale of the scores, often one over the root of the width. *)
Definition attend m n k v (tau : F)
    (Q : 'M[F]_(m, k)) (K : 'M[F]_(n, k)) (V : 'M[F]_(n, v)) : 'M[F]_(m, v) :=
  softmax (tau *: (Q *m K^T)) *m V.

(** The weight is stored as out x in, and every token gets the same bias. *)
Definition linear n d k (W : 'M[F]_(k, d)) (b : 'cV[F]_k) (X : 'M[F]_(n, d)) :=
  X *m W^T + ones n *m b^T.

(** Self-attention with [h] heads and every bias. *)
Definition self_attention n d h k (tau : F)
    (W_Q W_K W_V : 'I_h -> 'M[F]_(k, d)) (b_Q b_K b_V : 'I_h -> 'cV[F]_k)
    (W_O : 'I_h -> 'M[F]_(d, k)) (b_O : 'cV[F]_d) (X : 'M[F]_(n, d)) :=
  \sum_a attend tau (linear (W_Q a) (b_Q a) X) (linear (W_K a) (b_K a) X)
           (linear (W_V a) (b_V a) X) *m (W_O a)^T
  + ones n *m b_O^T.

End Attention.
