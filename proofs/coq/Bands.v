(* Section 2.3 and Appendix D.5: softmax coupling between score directions.
   Labels: eq:softmaxmixed, eq:bandinteraction, X1. Values are one coordinate v : I -> R of the
   value rows; every statement is linear in v. Softmax is smooth, so no C^2 hypothesis is left. *)
From FiniteCalculus Require Import Prelude Phi Response Calculus.
From Coquelicot Require Import Coquelicot.
Local Open Scope ring_scope.

Section Bands.
Variables (I : finType) (j0 : I).
Implicit Types s a b c v : I -> R.
Definition DF s a v := expect s (fun j => v j * a j) - expect s v * expect s a.
Definition D2F s a b v :=
  expect s (fun j => (a j - expect s a) * (b j - expect s b) * (v j - expect s v)).
Lemma D2FE s a b v : D2F s a b v =
  expect s (fun j => v j * a j * b j) - expect s (fun j => v j * a j) * expect s b
  - ((expect s (fun j => v j * b j) - expect s v * expect s b) * expect s a
     + expect s v * (expect s (fun j => a j * b j) - expect s a * expect s b)).
Proof.
rewrite /D2F; set A := expect s a; set B := expect s b; set F := expect s v.
have -> : expect s (fun j => (a j - A) * (b j - B) * (v j - F)) =
  \sum_j (softmax s j * (v j * a j * b j) - B * (softmax s j * (v j * a j))
  - A * (softmax s j * (v j * b j)) - F * (softmax s j * (a j * b j))
  + A * B * (softmax s j * v j) + A * F * (softmax s j * b j) + B * F * (softmax s j * a j)
  - A * B * F * softmax s j) by apply: eq_bigr => j _; ring.
rewrite !(sumrB, big_split) /= -!mulr_sumr (proj2 (softmax_distribution s j0)).
rewrite -[\sum_j softmax s j * v j]/F -[\sum_j softmax s j * a j]/A -[\sum_j softmax s j * b j]/B /expect.
move: A B F => A B F; move: (\sum_j _ * (v j * a j * b j)) (\sum_j _ * (v j * a j)) => E1 E2.
by move: (\sum_j _ * (v j * b j)) (\sum_j _ * (a j * b j)) => E3 E4; ring.
Qed.
(* eq:softmaxmixed: DF(s)[a], the derivative of the readout along a *)
Theorem softmax_first s a v t :
  is_derive (fun u => expect (along s a u) v) t (DF (along s a t) a v).
Proof. exact: (derive_expect j0). Qed.
(* eq:softmaxmixed: D^2 F(s)[a, b] = E[(a - Ea)(b - Eb)(v - F)] *)
Theorem softmax_mixed s a b v t :
  is_derive (fun u => DF (along s b u) a v) t (D2F (along s b t) a b v).
Proof.
rewrite D2FE; apply: derive_sub; first exact: (derive_expect j0).
by apply: derive_mul; exact: (derive_expect j0).
Qed.
Lemma D2F_smooth s a b v e t : ex_derive (fun u => D2F (along s e u) a b v) t.
Proof.
eexists; apply: is_derive_ext; first by move=> u; exact/esym/D2FE.
by repeat first [apply: derive_sub | apply: derive_add | apply: derive_mul]; exact: (derive_expect j0).
Qed.
Lemma DF_smooth s a v e t : ex_derive (fun u => DF (along s e u) a v) t.
Proof. by exists (D2F (along s e t) a e v); exact: softmax_mixed. Qed.

Variables s b c v : I -> R.
Let st t z := along (along s b t) c z.
Let interaction := expect (fun j => s j + b j + c j) v - expect (fun j => s j + b j) v
  - expect (fun j => s j + c j) v + expect s v.
Lemma swap t z : st t z =1 along (along s c z) b t.
Proof. by move=> j; rewrite /st /along addrAC. Qed.
Lemma D2F_score s1 s2 a1 a2 : s1 =1 s2 -> D2F s1 a1 a2 v = D2F s2 a1 a2 v.
Proof. by move=> e; rewrite !D2FE !(expect_score _ e). Qed.
Lemma DF_score s1 s2 a1 : s1 =1 s2 -> DF s1 a1 v = DF s2 a1 v.
Proof. by move=> e; rewrite /DF !(expect_score _ e). Qed.
(* eq:bandinteraction, inner integral: int_0^1 D^2F(s + t b + z c)[c, b] dt *)
Lemma inner z : is_RInt (fun t => D2F (st t z) c b v) 0 1 (DF (st 1 z) c v - DF (st 0 z) c v).
Proof.
apply: (is_RInt_ext (fun t => D2F (along (along s c z) b t) c b v)).
  by move=> t _; apply: D2F_score => j; rewrite -swap.
rewrite (DF_score c (swap 1 z)) (DF_score c (swap 0 z)).
apply: (is_RInt_derive (fun t => DF (along (along s c z) b t) c v)) => t _; first exact: softmax_mixed.
exact: (ex_derive_continuous _ _ (D2F_smooth _ _ _ _ _ _)).
Qed.
(* eq:bandinteraction: the four-cell interaction is the double integral of D^2F[b, c] *)
Theorem band_interaction :
  is_RInt (fun z => RInt (fun t => D2F (st t z) c b v) 0 1) 0 1 interaction.
Proof.
apply: (is_RInt_ext (fun z => DF (st 1 z) c v - DF (st 0 z) c v)).
  by move=> z _; exact/esym/is_RInt_unique/inner.
have one t : is_RInt (fun z => DF (st t z) c v) 0 1 (expect (st t 1) v - expect (st t 0) v).
  apply: (is_RInt_derive (fun z => expect (st t z) v)) => z _; first exact: softmax_first.
  exact: (ex_derive_continuous _ _ (DF_smooth _ _ _ _ _)).
have := is_RInt_minus _ _ _ _ _ _ (one 1) (one 0).
have e1 : st 1 1 =1 (fun j => s j + b j + c j) by move=> j; rewrite /st /along !mul1r.
have e2 : st 1 0 =1 (fun j => s j + b j) by move=> j; rewrite /st /along mul1r mul0r addr0.
have e3 : st 0 1 =1 (fun j => s j + c j) by move=> j; rewrite /st /along mul1r mul0r addr0.
have e4 : st 0 0 =1 s by move=> j; rewrite /st /along !mul0r !addr0.
rewrite (expect_score v e1) (expect_score v e2) (expect_score v e3) (expect_score v e4).
have -> : interaction = minus (expect (fun j => s j + b j + c j) v - expect (fun j => s j + b j) v)
            (expect (fun j => s j + c j) v - expect s v).
  by rewrite /interaction /minus /plus /opp /= RplusE RoppE; ring.
by [].
Qed.
(* eq:softmaxmixed: D^2F is symmetric in its two directions *)
Theorem mixed_symmetric s' : D2F s' b c v = D2F s' c b v.
Proof. by apply: eq_expect => j; rewrite [(b j - _) * _]mulrC. Qed.
End Bands.

Section ClosedForm.
Variables (I : finType) (V : lmodType R) (p b c : I -> R) (v : I -> V).
Hypothesis pP : distribution p.
Let x j := exp (tilt p b j) - 1.
Let z j := exp (tilt p c j) - 1.
Let kappa := \sum_j p j * (x j * z j).
Let y := readout p v.
Lemma tilt_zero d : \sum_j p j * (exp (tilt p d j) - 1) = 0.
Proof.
transitivity (\sum_j (moved p d j - p j)); last exact: change_sum.
by apply: eq_bigr => j _; rewrite /moved; ring.
Qed.
Lemma joint_mass : Response.D p (fun j => b j + c j) = Response.D p b * Response.D p c * (1 + kappa).
Proof.
have b0 := D_neq0 b pP; have c0 := D_neq0 c pP.
have -> : 1 + kappa = \sum_j p j * (exp (tilt p b j) * exp (tilt p c j)).
  have -> : \sum_j p j * (exp (tilt p b j) * exp (tilt p c j)) =
     \sum_j (p j + p j * x j + p j * z j + p j * (x j * z j)).
    by apply: eq_bigr => j _; rewrite /x /z; ring.
  by rewrite !big_split /= (proj2 pP) !tilt_zero !addr0.
rewrite mulr_sumr; apply: eq_bigr => j _; rewrite !exp_tilt // expD; field.
by rewrite b0 c0.
Qed.
(* X1: H_bc = sum p [x z - (1 + x)(1 + z) kappa/(1 + kappa)] (v - y) *)
Theorem interaction_closed :
  readout (moved p (fun j => b j + c j)) v - readout (moved p b) v - readout (moved p c) v + y =
  \sum_j (p j * (x j * z j - (1 + x j) * (1 + z j) * kappa / (1 + kappa))) *: (v j - y).
Proof.
have b0 := D_neq0 b pP; have c0 := D_neq0 c pP; have bc0 := D_neq0 (fun j => b j + c j) pP.
have k0 : 1 + kappa != 0 by move: bc0; rewrite joint_mass mulf_eq0 negb_or => /andP[].
pose q j := moved p (fun j => b j + c j) j - moved p b j - moved p c j + p j.
have qE j : p j * (x j * z j - (1 + x j) * (1 + z j) * kappa / (1 + kappa)) = q j.
  rewrite /q !movedE // joint_mass expD /x /z !exp_tilt //.
  by move: (Response.D p b) (Response.D p c) b0 c0 => Db Dc b0 c0; field; rewrite k0 b0 c0.
have q0 : \sum_j q j = 0.
  by rewrite big_split !sumrB /= !moved_sum // (proj2 pP); ring.
under [RHS]eq_bigr do rewrite qE scalerBr.
rewrite sumrB -scaler_suml q0 scale0r subr0 /y /readout -!sumrB -big_split /=.
by apply: eq_bigr => j _; rewrite /q scalerDl !scalerBl.
Qed.
End ClosedForm.
