(* Section 3.2 and Appendix D.2: KL mass of the remainder and the certificate.
   Labels: main:kl, eq:klremainder, main:certificate, eq:localcertificate,
   eq:certifiedlocalranking, X6, the certificate with the rotary remainder, the sum over heads. *)
From FiniteCalculus Require Import Prelude Phi Response Joint.

Definition KL (I : finType) (p q : I -> R) := \sum_j p j * ln (p j / q j).
Definition TV (I : finType) (p q : I -> R) := (\sum_j `|q j - p j|) / 2%:R.
(* maximum and minimum over a non-empty finite set, j0 only fixes the starting value *)
Definition maxover (I : finType) (j0 : I) (f : I -> R) := f [arg max_(j > j0) f j]%O.
Definition minover (I : finType) (j0 : I) (f : I -> R) := f [arg min_(j < j0) f j]%O.
Lemma maxover_ge (I : finType) (j0 : I) (f : I -> R) j : f j <= maxover j0 f.
Proof. by rewrite /maxover; case: arg_maxP => //= i _; exact. Qed.
Lemma minover_le (I : finType) (j0 : I) (f : I -> R) j : minover j0 f <= f j.
Proof. by rewrite /minover; case: arg_minP => //= i _; exact. Qed.

Section Certificate.
Variables (I : finType) (p d : I -> R).
Hypothesis pP : distribution p.
Let t := tilt p d.
Let p' := moved p d.
Let w := weight p d.

(* main:kl: w >= 0 *)
Theorem weight_ge0 j : 0 <= w j.
Proof. by rewrite mulr_ge0 ?convex_gap // ltW // (proj1 pP). Qed.
(* main:kl: KL(p || p') = - sum p t *)
Theorem kl_tilt : KL p p' = - \sum_j p j * t j.
Proof.
rewrite /KL -sumrN; apply: eq_bigr => j _.
rewrite ln_quot ?(proj1 pP) ?(moved_gt0 d pP) //.
rewrite -mulrN; congr (_ * _).
by rewrite /t (tilt_logratio d pP) opprB.
Qed.
(* main:kl, eq:klremainder: sum w = KL(p || p') *)
Theorem kl_mass : \sum_j w j = KL p p'.
Proof.
have -> : \sum_j w j = \sum_j (p' j - p j) - \sum_j p j * t j.
  by rewrite -sumrB; apply: eq_bigr => j _; rewrite /w /weight /p' /moved -/t; ring.
by rewrite (change_sum d pP) add0r kl_tilt.
Qed.
(* eq:klremainder: KL = log D - sum p d *)
Theorem kl_logD : KL p p' = ln (D p d) - \sum_j p j * d j.
Proof.
rewrite kl_tilt -[ln _]mul1r -(proj2 pP) mulr_suml -sumrB -sumrN.
by apply: eq_bigr => j _; rewrite /t /tilt; ring.
Qed.
(* eq:klremainder: KL >= 0 *)
Theorem kl_ge0 : 0 <= KL p p'.
Proof. by rewrite -kl_mass; apply: sumr_ge0 => j _; exact: weight_ge0. Qed.
(* X6: KL = sum p t^2 phi2(t) *)
Theorem kl_phi2 : KL p p' = \sum_j p j * (t j ^+ 2 * phi2 (t j)).
Proof. by rewrite -kl_mass; apply: eq_bigr => j _; rewrite phi2E. Qed.

(* eq:localcertificate: the scalar inequality behind the certificate, for any bounds A, M, m *)
Theorem certificate_bound (a b : I -> R) (A M m : R) :
  (forall j, `|a j| <= A) -> (forall j, m <= b j <= M) ->
  `| \sum_j w j * a j + \sum_j (p' j - p j) * b j | <= KL p p' * A + TV p p' * (M - m).
Proof.
move=> aA bM; apply: (le_trans (ler_norm_add _ _)); apply: ler_add.
- apply: (le_trans (ler_norm_sum _ _ _)); rewrite -kl_mass mulr_suml.
  by apply: ler_sum => j _; rewrite normrM ger0_norm ?weight_ge0 // ler_wpmul2l ?weight_ge0.
- have -> : \sum_j (p' j - p j) * b j = \sum_j (p' j - p j) * (b j - (M + m) / 2%:R).
    exact/esym/(@centre _ _ d pP [lmodType R of R^o] b).
  apply: (le_trans (ler_norm_sum _ _ _)).
  rewrite /TV mulrAC -mulrA mulr_suml; apply: ler_sum => j _.
  rewrite normrM ler_wpmul2l ?normr_ge0 // ler_norml.
  case/andP: (bM j) => mb Mb; apply/andP; split.
  + have e : b j - (M + m) / 2%:R - - ((M - m) / 2%:R) = b j - m by field.
    by rewrite -subr_ge0 e subr_ge0.
  + have e : (M - m) / 2%:R - (b j - (M + m) / 2%:R) = M - b j by field.
    by rewrite -subr_ge0 e subr_ge0.
Qed.

Variables (V : lmodType R) (v eps : I -> V) (G : {linear V -> R^o}) (j0 : I).
Let y := readout p v.
Let Dy := readout p' (fun j => v j + eps j) - y.
Let a j : R := G (v j - y).
Let b j : R := G (eps j).
Let bound := KL p p' * maxover j0 (fun j => `|a j|) + TV p p' * (maxover j0 b - minover j0 b).

Lemma linear_error_contracted :
  G (Dy - (Ls p d v + V0 p eps)) = \sum_j w j * a j + \sum_j (p' j - p j) * b j.
Proof.
rewrite /Dy /y linear_error // /CKV (linearD G) !(linear_sum G); congr (_ + _);
by apply: eq_bigr => j _; rewrite linearZ.
Qed.
(* main:certificate, eq:localcertificate: |G[Dy - (L_s + V_0)]| <= KL max|a| + TV (max b - min b) *)
Theorem certificate : `|G (Dy - (Ls p d v + V0 p eps))| <= bound.
Proof.
rewrite linear_error_contracted; apply: certificate_bound => j; first exact: (maxover_ge j0 (fun j => `|a j|)).
by rewrite minover_le maxover_ge.
Qed.
(* main:certificate: a positional Jacobian (any d_lin) adds its contracted rotary remainder *)
Theorem certificate_rotary (dlin : I -> R) :
  `|G (Dy - (\sum_j (p j * dlin j) *: (v j - y) + V0 p eps))| <=
  bound + `|\sum_j p j * (d j - dlin j) * a j|.
Proof.
have -> : Dy - (\sum_j (p j * dlin j) *: (v j - y) + V0 p eps) =
    (Dy - (Ls p d v + V0 p eps)) + \sum_j (p j * (d j - dlin j)) *: (v j - y).
  have -> : \sum_j (p j * (d j - dlin j)) *: (v j - y) = Ls p d v - \sum_j (p j * dlin j) *: (v j - y).
    by rewrite /Ls -sumrB; apply: eq_bigr => j _; rewrite mulrBr scalerBl.
  zmod.
rewrite (linearD G); apply: le_trans (ler_norm_add _ _) _; apply: ler_add; first exact: certificate.
rewrite (linear_sum G) le_eqVlt; apply/orP; left; apply/eqP; congr (`|_|).
by apply: eq_bigr => j _; rewrite linearZ.
Qed.
End Certificate.

(* main:certificate with the paper's gradient g and projection W_o on row values of any width *)
Corollary certificate_matrix (I : finType) r m (Wo : 'M[R]_(r, m)) (g : 'cV[R]_m)
    (p d : I -> R) (v eps : I -> 'rV[R]_r) (j0 : I) : distribution p ->
  let y := readout p v in let p' := moved p d in
  let a j := ((v j - y) *m Wo *m g) 0 0 in let b j := (eps j *m Wo *m g) 0 0 in
  `|((readout p' (fun j => v j + eps j) - y - (Ls p d v + V0 p eps)) *m Wo *m g) 0 0| <=
  KL p p' * maxover j0 (fun j => `|a j|) + TV p p' * (maxover j0 b - minover j0 b).
Proof. move=> pP; exact: (certificate d pP v eps [linear of contract Wo g] j0). Qed.

(* main:certificate: several heads, errors and bounds add *)
Theorem certificate_heads (H : finType) (err bound : H -> R) :
  (forall h, `|err h| <= bound h) -> `|\sum_h err h| <= \sum_h bound h.
Proof. by move=> le; apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => h _. Qed.

(* eq:certifiedlocalranking: a gap larger than the two bounds certifies the order *)
Theorem certified_ranking (Sa Sb ha hb Ba Bb : R) :
  `|Sa - ha| <= Ba -> `|Sb - hb| <= Bb -> Ba + Bb < ha - hb -> Sb < Sa.
Proof.
rewrite !ler_distl => /andP[lo _] /andP[_ hi] gap.
have e : ha - Ba - (hb + Bb) = ha - hb - (Ba + Bb) by ring.
by apply: (le_lt_trans hi); apply: lt_le_trans lo; rewrite -subr_gt0 e subr_gt0.
Qed.
(* eq:certifiedlocalranking: |S^| > B certifies the sign *)
Theorem certified_sign (S hS B : R) : `|S - hS| <= B -> B < `|hS| -> (0 < S) = (0 < hS) /\ (S < 0) = (hS < 0).
Proof.
rewrite ler_distl => /andP[lo hi]; case: (ltrgt0P hS) => h0 gap.
- have S0 : 0 < S by apply: lt_le_trans lo; rewrite subr_gt0.
  by rewrite S0 ltNge (ltW S0).
- have S0 : S < 0 by apply: le_lt_trans hi _; rewrite -[hS]opprK addrC subr_lt0.
  by rewrite S0 ltNge (ltW S0).
- have := le_trans lo hi; rewrite h0 sub0r add0r leNgt.
  by rewrite (lt_trans gap) // oppr_gt0.
Qed.
