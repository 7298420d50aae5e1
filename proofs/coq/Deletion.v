(* Section 4 and Appendix G: deleting a group of cache entries.
   Labels: eq:groupdeletion, X5, U17. Any finite attended set, any proper group G. *)
From FiniteCalculus Require Import Prelude Phi Response Sparse.

Section Deletion.
Variables (I : finType) (V : lmodType R) (p : I -> R) (v : I -> V) (G : pred I).
Hypothesis pP : distribution p.
Definition mass := \sum_(j | G j) p j.
Definition group := \sum_(j | G j) p j *: v j.
Definition rest := (\sum_(j | ~~ G j) p j)^-1 *: \sum_(j | ~~ G j) p j *: v j.
Let y := readout p v.
Hypothesis proper : mass < 1.
Lemma rest_mass : \sum_(j | ~~ G j) p j = 1 - mass.
Proof. by rewrite -(proj2 pP) [X in X - _](bigID G) /= addrAC subrr add0r. Qed.
Lemma rest_neq0 : 1 - mass != 0.
Proof. by rewrite lt0r_neq0 // subr_gt0. Qed.
(* eq:groupdeletion: y_{-G} - y = (alpha y - w_G) / (1 - alpha) *)
Theorem group_deletion : rest - y = (1 - mass)^-1 *: (mass *: y - group).
Proof.
have yE : y = group + \sum_(j | ~~ G j) p j *: v j by rewrite /y /readout (bigID G).
apply: (scalerI rest_neq0); rewrite scalerA mulfV ?rest_neq0 // scale1r scalerBr.
rewrite /rest rest_mass scalerA mulfV ?rest_neq0 // scale1r.
have -> : \sum_(j | ~~ G j) p j *: v j = y - group by rewrite yE; zmod.
by rewrite scalerBl scale1r; zmod.
Qed.
(* U17: y = (1 - alpha) y_{-G} + w_G; for G = {self}: y_full = (1 - pi) y_prefix + pi v_self *)
Theorem split_readout : y = (1 - mass) *: rest + group.
Proof.
rewrite /rest rest_mass scalerA mulfV ?rest_neq0 // scale1r.
by rewrite /y /readout (bigID G) addrC.
Qed.
(* X5: y_{-G} - y = alpha (y_{-G} - y_G), y_G the average over the group *)
Theorem deletion_stable : 0 < mass -> rest - y = mass *: (rest - mass^-1 *: group).
Proof.
move=> a0; have e : mass *: (mass^-1 *: group) = group by rewrite scalerA mulfV ?scale1r ?lt0r_neq0.
by rewrite split_readout scalerBr e scalerBl scale1r; zmod.
Qed.
End Deletion.

(* U17: full readout from prefix and self *)
Corollary prefix_self (I : finType) (V : lmodType R) (p : I -> R) (v : I -> V) (j : I) :
  distribution p -> p j < 1 ->
  readout p v = (1 - p j) *: rest p v (pred1 j) + p j *: v j.
Proof.
move=> pP j1; have := @split_readout I V p v (pred1 j) pP; rewrite /mass /group !big_pred1_eq.
exact.
Qed.

(* eq:groupdeletion: masking the scores of G is exactly renormalisation on the complement *)
Theorem masked_softmax (I : finType) (s : I -> R) (G : pred I) (j : I) : ~~ G j ->
  exp (s j) / (\sum_(k | ~~ G k) exp (s k)) = softmax s j / \sum_(k | ~~ G k) softmax s k.
Proof.
move=> Gj; have Z0 : Zsum s != 0 by rewrite lt0r_neq0 // (Zsum_gt0 s j).
rewrite /softmax -mulr_suml invfM invrK mulrACA [_^-1 * Zsum s]mulVf // mulr1.
by [].
Qed.

(* X5: the deleted mass is sigmoid(lse_G - lse_{G^c}) *)
Theorem mass_sigmoid (I : finType) (s : I -> R) (G : pred I) (i j : I) : G i -> ~~ G j ->
  mass (softmax s) G =
  sigmoid (ln (\sum_(k | G k) exp (s k)) - ln (\sum_(k | ~~ G k) exp (s k))).
Proof.
move=> Gi Gj.
have pos (Q : pred I) l : Q l -> 0 < \sum_(k | Q k) exp (s k).
  move=> Ql; rewrite (bigD1 l) //= ltr_spaddl ?exp_gt0 //; apply: sumr_ge0 => k _; exact: exp_ge0.
have A0 := pos _ _ Gi; have B0 := pos (fun k => ~~ G k) _ Gj.
have ZE : Zsum s = \sum_(k | G k) exp (s k) + \sum_(k | ~~ G k) exp (s k) by rewrite /Zsum (bigID G).
rewrite /mass /softmax -mulr_suml ZE /sigmoid opprB expB !lnK //.
move: A0 B0; move: (\sum_(k | G k) _) (\sum_(k | ~~ G k) _) => A B A0 B0.
have -> : 1 + B / A = (A + B) / A by field; exact: lt0r_neq0.
by rewrite invf_div.
Qed.
