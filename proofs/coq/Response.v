(* Section 2.2 and Appendix D: the exact local response to finite score and value edits.
   Labels: main:normalise, eq:incrementweights, main:response, eq:finiteincrement,
   rows X2, X3, X4, U13. Values live in any vector space V over R (rows of any width r). *)
From FiniteCalculus Require Import Prelude Phi.

Section Definitions.
Variables (I : finType) (V : lmodType R) (p d : I -> R) (v eps : I -> V).
Definition D : R := \sum_j p j * exp (d j).
Definition tilt j : R := d j - ln D.
Definition moved j : R := p j * exp (tilt j).
Definition readout : V := \sum_j p j *: v j.
End Definitions.

Section Response.
Variables (I : finType) (p d : I -> R).
Hypothesis pP : distribution p.
Let p_gt0 : forall j, 0 < p j := proj1 pP.
Let p_sum : \sum_j p j = 1 := proj2 pP.
Let t := tilt p d.
Let p' := moved p d.

(* U15: the normaliser D is positive *)
Lemma D_gt0 : 0 < D p d.
Proof.
have [j _] := distribution_nonempty pP; rewrite /D (bigD1 j) //= ltr_spaddl ?mulr_gt0 ?exp_gt0 //.
by apply: sumr_ge0 => k _; rewrite mulr_ge0 ?exp_ge0 // ltW.
Qed.
Lemma D_neq0 : D p d != 0.  Proof. by rewrite lt0r_neq0 ?D_gt0. Qed.

(* main:normalise: e^t = e^d / D *)
Lemma exp_tilt j : exp (t j) = exp (d j) / D p d.
Proof. by rewrite /t /tilt expB lnK ?D_gt0. Qed.
(* main:normalise: p' = p e^d / D *)
Lemma movedE j : p' j = p j * exp (d j) / D p d.
Proof. by rewrite /p' /moved exp_tilt mulrA. Qed.
Lemma moved_gt0 j : 0 < p' j.  Proof. by rewrite mulr_gt0 ?exp_gt0. Qed.
Lemma moved_sum : \sum_j p' j = 1.
Proof. by under eq_bigr do rewrite movedE; rewrite -mulr_suml mulfV ?D_neq0. Qed.
(* main:normalise: p' is again a positive distribution *)
Theorem moved_distribution : distribution p'.
Proof. by split; [exact: moved_gt0|exact: moved_sum]. Qed.
(* main:normalise: p' - p = p t phi1(t) *)
Theorem normalise j : p' j - p j = p j * t j * phi1 (t j).
Proof. by rewrite -mulrA phi1E mulrBr mulr1. Qed.
Lemma change_sum : \sum_j (p' j - p j) = 0.
Proof. by rewrite sumrB moved_sum p_sum subrr. Qed.

(* U13: t = log p' - log p *)
Theorem tilt_logratio j : t j = ln (p' j) - ln (p j).
Proof. by rewrite /p' /moved ln_prod ?exp_gt0 // expK addrAC subrr add0r. Qed.
(* U13: p' - p = p (e^t - 1) = - p' (e^{-t} - 1), the two branches *)
Theorem change_branches j :
  p' j - p j = p j * (exp (t j) - 1) /\ p' j - p j = - (p' j * (exp (- t j) - 1)).
Proof.
split; first by rewrite mulrBr mulr1.
rewrite mulrBr mulr1 expN /p' /moved -/t mulfK ?exp_neq0 //; ring.
Qed.
(* X4: t = d - log (1 + sum p (e^d - 1)) *)
Theorem tilt_log1p j : t j = d j - ln (1 + \sum_k p k * (exp (d k) - 1)).
Proof.
rewrite /t /tilt; congr (_ - ln _).
by under [in RHS]eq_bigr do rewrite mulrBr mulr1; rewrite sumrB p_sum addrC subrK.
Qed.
(* X3: t does not see a common shift of the scores *)
Theorem tilt_shift (c : R) j : tilt p (fun k => d k + c) j = t j.
Proof.
have DE : D p (fun k => d k + c) = D p d * exp c.
  by rewrite /D mulr_suml; apply: eq_bigr => k _; rewrite expD mulrA.
rewrite /tilt DE ln_prod ?D_gt0 ?exp_gt0 // expK /t /tilt; ring.
Qed.

(* X2: a change of probabilities reads values from any centre c *)
Theorem centre (V : lmodType R) (f : I -> V) (c : V) :
  \sum_j (p' j - p j) *: (f j - c) = \sum_j (p' j - p j) *: f j.
Proof.
under eq_bigr do rewrite scalerBr.
by rewrite sumrB -scaler_suml change_sum scale0r subr0.
Qed.

(* main:response, main:finite, eq:finiteincrement: the exact finite response, any finite I and any values *)
Theorem response (V : lmodType R) (v eps : I -> V) :
  readout p' (fun j => v j + eps j) - readout p v =
  \sum_j (p j * t j * phi1 (t j)) *: (v j - readout p v) + \sum_j p' j *: eps j.
Proof.
under [X in _ = X + _]eq_bigr do rewrite -normalise.
rewrite centre /readout -sumrB -big_split /=; apply: eq_bigr => j _.
by rewrite scalerDr scalerBl addrAC.
Qed.
End Response.

(* eq:incrementweights: p' is the softmax of the edited scores *)
Theorem moved_softmax (I : finType) (s d : I -> R) j :
  softmax (fun k => s k + d k) j = moved (softmax s) d j.
Proof.
have sP := softmax_distribution s j; rewrite movedE //.
have ZE : Zsum (fun k => s k + d k) = Zsum s * D (softmax s) d.
  rewrite /D mulr_sumr; apply: eq_bigr => k _.
  by rewrite expD /softmax; field; rewrite lt0r_neq0 ?(Zsum_gt0 s j).
have D0 := D_neq0 d sP; have Z0 : Zsum s != 0 by rewrite lt0r_neq0 ?(Zsum_gt0 s j).
rewrite [LHS]/softmax ZE expD; move: (D _ d) D0 => DD D0.
by rewrite /softmax; field; rewrite D0 Z0.
Qed.

(* main:response: head form, scores s, increments d, values v + eps *)
Theorem head_response (I : finType) (V : lmodType R) (s d : I -> R) (v eps : I -> V) (j0 : I) :
  let p := softmax s in let y := readout p v in
  readout (softmax (fun k => s k + d k)) (fun j => v j + eps j) - y =
  \sum_j (p j * tilt p d j * phi1 (tilt p d j)) *: (v j - y)
  + \sum_j softmax (fun k => s k + d k) j *: eps j.
Proof.
move=> p y; have -> : readout (softmax (fun k => s k + d k)) (fun j => v j + eps j)
    = readout (moved p d) (fun j => v j + eps j).
  by apply: eq_bigr => j _; rewrite moved_softmax.
under [X in _ = _ + X]eq_bigr do rewrite moved_softmax.
exact: response (softmax_distribution s j0) _ _ _.
Qed.
