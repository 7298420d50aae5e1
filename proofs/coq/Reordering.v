(* Appendix G: phase, context and their interaction under prompt reordering; the band and repair metrics.
   Labels: eq:phasecontent, U18, eq:repairmetric (r = 1 when nothing is repaired). *)
From FiniteCalculus Require Import Prelude Phi Response Effective Reuse.
Local Open Scope ring_scope.

Section Cells.
Variables (V : zmodType) (o00 o10 o01 o11 : V).
Definition phase := o10 - o00.
Definition context := o01 - o00.
Definition coupling := o11 - o10 - o01 + o00.
Definition total := o11 - o00.
(* eq:phasecontent: T = Phi + C + J *)
Theorem phase_content : total = phase + context + coupling.
Proof. by rewrite /total /phase /context /coupling; zmod. Qed.
End Cells.

(* U18: the pooled signed projections sum to one, any set of readouts of any width *)
Theorem projections_sum (I : finType) k (o00 o10 o01 o11 : I -> 'rV[R]_k) :
  let dot (x z : 'rV[R]_k) := (x *m z^T) 0 0 in
  let T r := total (o00 r) (o11 r) in
  let gamma (X : I -> 'rV[R]_k) := (\sum_r dot (X r) (T r)) / \sum_r sqnorm (T r) in
  \sum_r sqnorm (T r) != 0 ->
  gamma (fun r => phase (o00 r) (o10 r)) + gamma (fun r => context (o00 r) (o01 r))
  + gamma (fun r => coupling (o00 r) (o10 r) (o01 r) (o11 r)) = 1.
Proof.
move=> dot T gamma T0; rewrite /gamma -!mulrDl -!big_split /= -[RHS](mulfV T0); congr (_ / _).
apply: eq_bigr => r _; rewrite /dot /sqnorm.
rewrite -!entryD -!mulmxDl; congr ((_ *m _) 0 0); exact/esym/phase_content.
Qed.

(* eq:repairmetric: an unrepaired corruption has r = 1, a full repair r = 0 *)
Theorem repair_metric k (o corrupt : 'rV[R]_k) : corrupt != o ->
  Num.sqrt (sqnorm (corrupt - o) / sqnorm (corrupt - o)) = 1 /\
  Num.sqrt (sqnorm (o - o) / sqnorm (corrupt - o)) = 0.
Proof.
move=> ne; have n0 : sqnorm (corrupt - o) != 0 by rewrite sqnorm_eq0 subr_eq0.
rewrite mulfV // sqrtr1 subrr; split=> //.
by rewrite [sqnorm 0]sqnormE big1 ?mul0r ?sqrtr0 // => i _; rewrite mxE expr0n.
Qed.
