(* Section 4 and Appendix D.3/D.6: sparse evaluation of edits supported on S (scores) and T (values).
   Labels: main:sparse, eq:sparsejoint, eq:sparsetv, eq:singlerepair, rows U14, U15, U16. *)
From FiniteCalculus Require Import Prelude Phi Response Joint Certificate.

Section Sparse.
Variables (I : finType) (V : lmodType R) (p d : I -> R) (v eps : I -> V) (S T : pred I).
Hypothesis pP : distribution p.
Hypothesis dS : forall j, j \notin S -> d j = 0.
Hypothesis eT : forall j, j \notin T -> eps j = 0.
Let r j := p j * (d j * phi1 (d j)).
Let y := readout p v.
Let p' := moved p d.

Lemma sum_support (W : zmodType) (Q : pred I) (f : I -> W) :
  (forall j, ~~ Q j -> f j = 0) -> \sum_j f j = \sum_(j | Q j) f j.
Proof. by move=> f0; rewrite (bigID Q) /= [X in _ + X]big1 ?addr0. Qed.
Lemma r_out j : j \notin S -> r j = 0.
Proof. by move=> jS; rewrite /r dS // mul0r mulr0. Qed.
Lemma rE j : p j + r j = p j * exp (d j).
Proof. by rewrite /r phi1E; ring. Qed.

(* main:sparse: D = 1 + sum_S r *)
Theorem D_sparse : D p d = 1 + \sum_(j in S) r j.
Proof.
rewrite /D -(sum_support r_out) -(proj2 pP) -big_split /=.
by apply: eq_bigr => j _; rewrite -rE.
Qed.
(* U15: D = sum_{not S} p + sum_S p e^d *)
Theorem D_split : D p d = \sum_(j | j \notin S) p j + \sum_(j in S) p j * exp (d j).
Proof.
rewrite /D (bigID (mem S)) addrC /=; congr (_ + _).
by apply: eq_bigr => j jS; rewrite dS // exp0 mulr1.
Qed.
(* main:sparse, eq:sparsejoint: the exact response from the edited entries only *)
Theorem sparse :
  readout p' (fun j => v j + eps j) - y =
  (1 + \sum_(j in S) r j)^-1 *:
  (\sum_(j in S) r j *: (v j - y) + \sum_(j in T) p j *: eps j
     + \sum_(j | (j \in S) && (j \in T)) r j *: eps j).
Proof.
rewrite -D_sparse; have D0 := D_neq0 d pP.
apply: (scalerI D0); rewrite scalerA mulfV // scale1r.
rewrite -(@sum_support _ (mem S) (fun j => r j *: (v j - y))); last first.
  by move=> j /= jS; rewrite r_out // scale0r.
rewrite -(@sum_support _ (mem T) (fun j => p j *: eps j)); last first.
  by move=> j /= jT; rewrite eT // scaler0.
rewrite -(@sum_support _ (fun j => (j \in S) && (j \in T)) (fun j => r j *: eps j)); last first.
  by move=> j /=; rewrite negb_and => /orP[h|h]; [rewrite r_out // scale0r|rewrite eT // scaler0].
have DE : D p d = \sum_j (p j + r j) by apply: eq_bigr => j _; rewrite rE.
rewrite scalerBr /readout {1}scaler_sumr.
have -> : \sum_i D p d *: (p' i *: (v i + eps i)) = \sum_j (p j + r j) *: (v j + eps j).
  apply: eq_bigr => j _; rewrite scalerA rE /p' movedE //; congr (_ *: _); field; exact: D0.
rewrite -/(readout p v) -/y {1}DE scaler_suml -sumrB.
have -> : \sum_j ((p j + r j) *: (v j + eps j) - (p j + r j) *: y) =
    \sum_j (p j *: (v j - y) + (r j *: (v j - y) + p j *: eps j + r j *: eps j)).
  by apply: eq_bigr => j _; lmod.
by rewrite big_split /= centred_zero // add0r !big_split.
Qed.
(* U14: KL = log D - sum_S p d *)
Theorem sparse_kl : KL p p' = ln (D p d) - \sum_(j in S) p j * d j.
Proof.
by rewrite kl_logD // (@sum_support _ (mem S)) // => j jS; rewrite dS // mulr0.
Qed.
(* eq:sparsetv: 2 TV from the edited entries *)
Theorem sparse_tv :
  2%:R * TV p p' = \sum_(j in S) p j * `|exp (d j) / D p d - 1|
                   + (1 - \sum_(j in S) p j) * `|(D p d)^-1 - 1|.
Proof.
have e j : `|p' j - p j| = p j * `|exp (d j) / D p d - 1|.
  rewrite /p' movedE // -[X in _ = X * _]gtr0_norm ?(proj1 pP) // -normrM; congr (`|_|); ring.
rewrite /TV mulrC mulfVK ?pnatr_eq0 // (bigID (mem S)) /=; congr (_ + _).
  by apply: eq_bigr => j _; rewrite e.
have -> : 1 - \sum_(j in S) p j = \sum_(j | j \notin S) p j.
  by rewrite -(proj2 pP) (bigID (mem S)) /= addrC addrA addNr add0r.
by rewrite mulr_suml; apply: eq_bigr => j jS; rewrite e dS // exp0 mul1r.
Qed.
End Sparse.

Definition sigmoid (x : R) := (1 + exp (- x))^-1.

Section SingleRepair.
Variables (I : finType) (V : lmodType R) (p : I -> R) (v : I -> V) (j : I) (dj : R) (ej : V).
Hypothesis pP : distribution p.
Let d k := if k == j then dj else 0.
Let eps k := if k == j then ej else 0.
Let y := readout p v.
Let p' := moved p d.
Let Dy := readout p' (fun k => v k + eps k) - y.

(* eq:singlerepair: restoring one entry *)
Theorem single_repair :
  Dy = (p j / (1 + p j * (dj * phi1 dj))) *: ((dj * phi1 dj) *: (v j - y) + exp dj *: ej).
Proof.
have dS k : k \notin pred1 j -> d k = 0 by rewrite inE /d => /negbTE ->.
have eT k : k \notin pred1 j -> eps k = 0 by rewrite inE /eps => /negbTE ->.
rewrite /Dy /y (sparse v pP dS eT) !(big_pred1 j) //; last first.
  by move=> k; rewrite !inE andbb.
rewrite /d /eps eqxx [p j / _]mulrC -[RHS]scalerA; congr (_ *: _).
have -> : exp dj = 1 + dj * phi1 dj by rewrite phi1E addrC subrK.
by move: (dj * phi1 dj) => q; rewrite -!scalerA !(scalerDr, scalerBr, scalerDl, scale1r); lmod.
Qed.
Lemma complement_mass : 1 - p j = \sum_(k | k \notin pred1 j) p k.
Proof. by rewrite -(proj2 pP) (bigD1 j) //= addrC addKr. Qed.
Lemma moved_single : p' j = p j * exp dj / (1 - p j + p j * exp dj).
Proof.
rewrite /p' movedE // (@D_split _ _ _ (pred1 j)); last by move=> k; rewrite inE /d => /negbTE ->.
by rewrite big_pred1_eq /d eqxx complement_mass.
Qed.
Hypothesis pj1 : p j < 1.
Let yc := (1 - p j)^-1 *: \sum_(k | k != j) p k *: v k.
(* U16: the new mass is sigmoid(logit p_j + delta) *)
Theorem sigmoid_mass : p' j = sigmoid (ln (p j) - ln (1 - p j) + dj).
Proof.
have q0 : 0 < 1 - p j by rewrite subr_gt0.
have p0 := proj1 pP j.
rewrite moved_single /sigmoid expN expD expB !lnK //.
have n1 : 1 - p j + p j * exp dj != 0 by rewrite lt0r_neq0 // addr_gt0 // mulr_gt0 ?exp_gt0.
have := exp_neq0 dj; move: (exp dj) n1 => E n1 E0.
have p0' := lt0r_neq0 p0; have q0' := lt0r_neq0 q0.
have n2 : p j * E + (1 - p j) != 0 by rewrite addrC.
have -> : 1 + (p j / (1 - p j) * E)^-1 = (1 - p j + p j * E) / (p j * E) by field; rewrite E0 p0' q0'.
by rewrite invf_div.
Qed.
(* U16: Delta_j y = (p'_j - p_j)(v_j - y_{-j}) + p'_j eps_j *)
Theorem complement_repair : Dy = (p' j - p j) *: (v j - yc) + p' j *: ej.
Proof.
have q0 : 1 - p j != 0 by rewrite lt0r_neq0 // subr_gt0.
have yE : y = p j *: v j + (1 - p j) *: yc.
  by rewrite /yc scalerA mulfV // scale1r /y /readout (bigD1 j).
have p'E k : k != j -> p' k = (1 - p' j) / (1 - p j) * p k.
  move=> kj; rewrite moved_single /p' movedE // (@D_split _ _ _ (pred1 j)); last first.
    by move=> l; rewrite inE /d => /negbTE ->.
  rewrite big_pred1_eq {1 2}/d eqxx (negbTE kj) exp0.
  rewrite -complement_mass; field; rewrite q0 lt0r_neq0 // addr_gt0 ?subr_gt0 // mulr_gt0 ?exp_gt0 //; exact: (proj1 pP).
have -> : Dy = p' j *: (v j + ej) + (1 - p' j) *: yc - y.
  rewrite /Dy /readout (bigD1 j) //= {1}/eps eqxx; congr (_ + _ - _).
  rewrite /yc scalerA scaler_sumr; apply: eq_bigr => k kj.
  by rewrite scalerA /eps (negbTE kj) addr0 p'E.
rewrite yE; lmod.
Qed.
End SingleRepair.
