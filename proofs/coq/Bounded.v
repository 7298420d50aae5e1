(* Appendix C.2: a softmax head is globally affine in its query only if it is constant.
   Labels: prop:bounded. Any finite non-empty bank, any m, r; the query ranges over all of R^m. *)
From FiniteCalculus Require Import Prelude Phi Response Certificate Effective Reuse Control.
Local Open Scope ring_scope.

(* prop:bounded: ||sum p v||^2 <= sum p ||v||^2 for a convex combination *)
Theorem convex_norm (I : finType) r (p : I -> R) (v : I -> 'rV[R]_r) :
  distribution p -> sqnorm (readout p v) <= \sum_j p j * sqnorm (v j).
Proof.
move=> [p0 p1]; set y := readout p v.
have yE k : y 0 k = \sum_j p j * v j 0 k.
  by rewrite /y /readout summxE; apply: eq_bigr => j _; rewrite mxE.
have -> : \sum_j p j * sqnorm (v j) = \sum_k \sum_j p j * v j 0 k ^+ 2.
  rewrite exchange_big; apply: eq_bigr => j _; rewrite sqnormE mulr_sumr; exact: eq_bigr.
rewrite sqnormE; apply: ler_sum => k _; rewrite -subr_ge0.
have -> : \sum_j p j * v j 0 k ^+ 2 - y 0 k ^+ 2 = \sum_j p j * (v j 0 k - y 0 k) ^+ 2.
  have -> : \sum_j p j * (v j 0 k - y 0 k) ^+ 2 =
     \sum_j (p j * v j 0 k ^+ 2 - 2%:R * y 0 k * (p j * v j 0 k) + y 0 k ^+ 2 * p j).
    by apply: eq_bigr => j _; mring.
  by rewrite big_split sumrB /= -!mulr_sumr p1 -yE; mring.
by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?sqr_ge0 // ltW.
Qed.
(* prop:bounded: one coordinate along one direction *)
Lemma bounded_affine (b c K : R) : (forall t : R, `|b + t * c| <= K) -> c = 0.
Proof.
move=> h; apply/eqP/negPn/negP => c0.
have := h ((K + 1 - b) / c); rewrite mulfVK // addrC subrK.
by rewrite ger0_norm; [rewrite ger_addl ler10|apply: addr_ge0; [apply: le_trans (h 0); exact: normr_ge0|exact: ler01]].
Qed.

Section Bounded.
Variables (I : finType) (m r : nat) (a : I -> 'cV[R]_(m + 1)) (v : I -> 'rV[R]_r) (j0 : I).
Let F (x : 'cV[R]_m) := readout (attention a x) v.
(* prop:bounded: ||F(x)||^2 <= max_j ||v_j||^2 for every query *)
Theorem output_bounded x : sqnorm (F x) <= maxover j0 (fun j => sqnorm (v j)).
Proof.
have pP := softmax_distribution (score (aug x) a) j0.
apply: le_trans (convex_norm v pP) _; set K := maxover _ _.
rewrite -[K]mul1r -(proj2 pP) mulr_suml; apply: ler_sum => j _.
by rewrite ler_wpmul2l ?(ltW (proj1 pP j)) // (maxover_ge j0 (fun j => sqnorm (v j))).
Qed.
(* prop:bounded: an affine representation on all of R^m forces M = 0 and b = F(0) *)
Theorem affine_trivial (b : 'rV[R]_r) (M : 'M[R]_(m, r)) :
  (forall x, F x = b + x^T *m M) -> M = 0 /\ b = F 0.
Proof.
move=> h; have b0 : b = F 0 by rewrite h trmx0 mul0mx addr0.
split=> //; apply/matrixP => i k; rewrite [RHS]mxE.
apply: (@bounded_affine (b 0 k) _ (1 + maxover j0 (fun j => sqnorm (v j)))) => t.
have := h (t *: delta_mx i 0); rewrite linearZ /= trmx_delta -scalemxAl -rowE => e.
have ek : b 0 k + t * M i k = F (t *: delta_mx i 0) 0 k by rewrite e !mxE.
rewrite ek; apply: le_trans (_ : 1 + sqnorm (F (t *: delta_mx i 0)) <= _); last first.
  by rewrite ler_add2l output_bounded.
set z := F _; have : `|z 0 k| ^+ 2 <= sqnorm z.
  rewrite -normrX ger0_norm ?sqr_ge0 // sqnormE (bigD1 k) //= ler_addl.
  by apply: sumr_ge0 => l _; exact: sqr_ge0.
move: `|z 0 k| => q qz; apply: le_trans (_ : q <= 1 + q ^+ 2) _; last by rewrite ler_add2l.
rewrite -subr_ge0 -(pmulr_rge0 _ (ltr0Sn _ 3)).
have -> : 4%:R * (1 + q ^+ 2 - q) = (2%:R * q - 1) ^+ 2 + 3%:R by ring.
by rewrite addr_ge0 ?sqr_ge0 ?ler0n.
Qed.
(* prop:bounded: globally affine iff constant *)
Theorem bounded : (exists b M, forall x, F x = b + x^T *m M) <-> (forall x, F x = F 0).
Proof.
split=> [[b [M h]] x|h].
  by case: (affine_trivial h) => M0 b0; rewrite h M0 mulmx0 addr0.
by exists (F 0), 0 => x; rewrite mulmx0 addr0.
Qed.
End Bounded.
