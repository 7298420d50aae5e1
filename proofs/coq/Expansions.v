(* Small-edit expansions. Labels: eq:quadraticinteraction, U3, U4, U6, U21.
   Along (alpha d, alpha eps) on any finite index set; values are one coordinate of the rows. *)
From FiniteCalculus Require Import Prelude Phi Response Joint Sparse Calculus Bands.
From Coquelicot Require Import Coquelicot.
From FiniteCalculus Require Import Analysis.
Local Open Scope ring_scope.

Lemma mean_value_mc (f df : R -> R) (t : R) : (forall x, is_derive f x (df x)) ->
  exists2 c : R, `|c| <= `|t| & f t - f 0 = df c * t.
Proof.
move=> h; have [c [hc e]] := mean_value f df t h.
by exists c => //; exact/RleP.
Qed.

Section Interaction.
Variables (I : finType) (j0 : I) (s d eps : I -> R).
Let p := softmax s.
(* the interaction at strength alpha, scores s + alpha d and values v + alpha eps *)
Definition CKVat (alpha : R) := \sum_j (moved p (fun k => alpha * d k) j - p j) * (alpha * eps j).
Definition C2 := \sum_j p j * (d j - \sum_k p k * d k) * eps j.
Let f (alpha : R) := expect (along s d alpha) eps.
Lemma CKVatE alpha : CKVat alpha = alpha * (f alpha - f 0).
Proof.
have f0 : f 0 = \sum_j p j * eps j.
  by apply: expect_score => j; rewrite /along mul0r addr0.
rewrite f0 /f /expect -sumrB mulr_sumr; apply: eq_bigr => j _.
by rewrite -[softmax (along s d alpha) j]/(softmax (fun k => s k + (fun k => alpha * d k) k) j) moved_softmax -/p; ring.
Qed.
Lemma C2E : C2 = DF (along s d 0) d eps.
Proof.
have e : along s d 0 =1 s by move=> j; rewrite /along mul0r addr0.
rewrite (DF_score _ _ e) /DF /C2 -/(expect s d).
have -> : \sum_j p j * (d j - expect s d) * eps j = \sum_j (p j * (eps j * d j) - expect s d * (p j * eps j)).
  by apply: eq_bigr => j _; ring.
by rewrite sumrB -mulr_sumr [expect s eps * _]mulrC.
Qed.
Variables (Rd Re : R).
Hypothesis hd : forall j k, `|d j - d k| <= Rd.
Hypothesis he : forall j k, `|eps j - eps k| <= Re.
Lemma deviation (g : I -> R) (K : R) s' : (forall j k, `|g j - g k| <= K) -> forall j, `|g j - expect s' g| <= K.
Proof.
move=> h j; have [p0 p1] := softmax_distribution s' j0.
have -> : g j - expect s' g = \sum_k softmax s' k * (g j - g k).
  by under [RHS]eq_bigr do rewrite mulrBr; rewrite sumrB -mulr_suml p1 mul1r.
apply: le_trans (ler_norm_sum _ _ _) _; rewrite -[K]mul1r -p1 mulr_suml.
by apply: ler_sum => k _; rewrite normrM gtr0_norm // ler_pmul2l.
Qed.
Lemma third_bound s' : `|D2F s' d d eps| <= Rd ^+ 2 * Re.
Proof.
have [p0 p1] := softmax_distribution s' j0.
rewrite /D2F /expect; apply: le_trans (ler_norm_sum _ _ _) _.
rewrite -[X in _ <= X]mul1r -p1 mulr_suml; apply: ler_sum => j _.
rewrite normrM gtr0_norm // ler_pmul2l // !normrM expr2.
by rewrite !ler_pmul ?mulr_ge0 ?normr_ge0 // deviation.
Qed.
(* eq:quadraticinteraction, U4: C_KV(alpha) = alpha^2 C_2 + O(alpha^3), with an explicit constant *)
Theorem quadratic_interaction alpha : `|CKVat alpha - alpha ^+ 2 * C2| <= `|alpha| ^+ 3 * (Rd ^+ 2 * Re).
Proof.
have [c hc e1] := mean_value_mc alpha (fun x => softmax_first j0 s d eps x).
have [b hb e2] := mean_value_mc c (fun x => softmax_mixed j0 s d d eps x).
rewrite CKVatE C2E -/(f _) -/(f 0) in e1 *.
have -> : alpha * (f alpha - f 0) - alpha ^+ 2 * DF (along s d 0) d eps
    = alpha ^+ 2 * c * D2F (along s d b) d d eps.
  by rewrite e1; move: e2 => /(canRL (subrK _)) ->; ring.
rewrite normrM [`|_ * c|]normrM normrX; apply: ler_pmul; rewrite ?mulr_ge0 ?exprn_ge0 ?normr_ge0 ?third_bound //.
by rewrite [X in _ <= X]exprSr ler_wpmul2l ?exprn_ge0.
Qed.
(* eq:quadraticinteraction, U4: C_KV(alpha)/alpha^2 -> C_2, as the derivative of C_KV(alpha)/alpha at 0 *)
Theorem interaction_derivative : is_derive (fun alpha => f alpha - f 0) 0 C2.
Proof.
rewrite C2E; apply: derive_eq (derive_sub (softmax_first j0 s d eps 0) (derive_const _ _)) _.
by rewrite subr0.
Qed.
End Interaction.

(* U3: w_j = p_j t^2/2 + O(t^3): the softmax remainder is of second order *)
Theorem weight_expansion (p t : R) : 0 <= p ->
  `|p * (exp t - 1 - t) - p * (t ^+ 2 / 2%:R)| <= p * (`|t| ^+ 3 * exp `|t|).
Proof.
move=> p0; rewrite -mulrBr normrM ger0_norm // ler_wpmul2l //.
have two : IZR 2 != 0 :> R by rewrite -[IZR 2]/(2%:R : R) pnatr_eq0.
by have := exp_third t; rewrite RpowE RdivE // => /RleP; rewrite expr2.
Qed.

Section SmallScores.
Variables (I : finType) (j0 : I) (s v : I -> R).
Lemma uniform_coefficient j : phi1 ((fun _ : I => 0) j) / Zsum (fun _ : I => 0) = #|I|%:R^-1.
Proof.
rewrite phi1_0 mul1r /Zsum; congr (_^-1); under eq_bigr do rewrite exp0.
by rewrite sumr_const cardT -cardE.
Qed.
Lemma phi1_continuous : continuous phi1 0.
Proof.
move=> P; rewrite phi1_0 => -[e he].
have /is_lim_spec /(_ e) [d hd] := phi1_limit; exists d => x hx.
have [->|x0] := eqVneq x 0; first by rewrite phi1_0; apply: he; exact: ball_center.
by apply: he; apply: hd => //; exact/eqP.
Qed.
(* U6: c_j = phi1(s_j)/Z -> 1/N as the scores alpha s go to zero *)
Theorem coefficient_limit j :
  is_lim (fun alpha : R => phi1 (alpha * s j) / Zsum (fun k => alpha * s k)) (Finite 0) (Finite (#|I|%:R^-1)).
Proof.
have Z0 alpha : Zsum (fun k => alpha * s k) != 0 by rewrite lt0r_neq0 // (Zsum_gt0 _ j0).
have c1 : continuous (fun alpha : R => phi1 (alpha * s j)) 0.
  apply: (continuous_comp (fun alpha : R => alpha * s j) phi1); last by rewrite mul0r; exact: phi1_continuous.
  exact: (ex_derive_continuous _ _ (ex_intro _ _ (derive_mul (derive_id 0) (derive_const (s j) 0)))).
have dZ : ex_derive (fun alpha : R => (Zsum (fun k => alpha * s k))^-1) 0.
  eexists; apply: derive_inv => //; apply: derive_sum => k.
  exact: (derive_exp (derive_mul (derive_id 0) (derive_const (s k) 0))).
have c2 := ex_derive_continuous _ _ dZ.
have := is_lim_continuity _ _ (proj2 (continuity_pt_filterlim _ _) (continuous_mult _ _ _ c1 c2)).
have -> : mult (phi1 (0 * s j)) (Zsum (fun k => 0 * s k))^-1 = #|I|%:R^-1.
  rewrite -(uniform_coefficient j) mul0r; congr (_ * _^-1); apply: eq_bigr => k _; by rewrite mul0r.
by [].
Qed.
(* U6: the first-order readout at vanishing scores is mu + N^{-1} sum s (v - mu) *)
Theorem first_order_readout :
  let mu := #|I|%:R^-1 * \sum_j v j in
  expect (fun _ => 0) v = mu /\
  is_derive (fun alpha : R => expect (fun j => alpha * s j) v) 0 (#|I|%:R^-1 * \sum_j s j * (v j - mu)).
Proof.
move=> mu; have E g : expect (fun _ : I => 0) g = #|I|%:R^-1 * \sum_j g j.
  rewrite /expect mulr_sumr; apply: eq_bigr => j _; congr (_ * _).
  by rewrite /softmax exp0 -(uniform_coefficient j) phi1_0.
split; first exact: E.
have e0 : along (fun _ : I => 0) s 0 =1 (fun _ => 0) by move=> j; rewrite /along mul0r addr0.
apply: (is_derive_ext (fun alpha => expect (along (fun _ => 0) s alpha) v)).
  by move=> alpha; apply: expect_score => j; rewrite /along add0r.
apply: derive_eq (softmax_first j0 _ _ _ _) _.
rewrite (DF_score _ _ e0) /DF !E -/mu.
under [in RHS]eq_bigr do rewrite mulrBr [s _ * v _]mulrC.
by rewrite sumrB -mulr_suml mulrBr; congr (_ - _); rewrite mulrCA [mu * _]mulrC.
Qed.
End SmallScores.

(* U21: first-order term of the single restoration along (alpha delta, alpha eps):
   p [delta (v - y) + eps] *)
Theorem repair_first_order (p delta e v y : R) : 0 < p -> p <= 1 ->
  let q (alpha : R) := alpha * delta in
  is_derive (fun alpha => p / (1 + p * (exp (q alpha) - 1)) *
      ((exp (q alpha) - 1) * (v - y) + exp (q alpha) * (alpha * e))) 0
    (p * (delta * (v - y) + e)).
Proof.
move=> p0 p1 q; have dq : is_derive q 0 delta.
  apply: derive_eq (derive_mul (derive_id _) (derive_const delta _)) _; ring.
have q0 : q 0 = 0 by rewrite /q mul0r.
pose den a := 1 + p * (exp (q a) - 1).
pose num a := (exp (q a) - 1) * (v - y) + exp (q a) * (a * e).
have dE := derive_exp dq; rewrite q0 exp0 mulr1 in dE.
have dnum : is_derive num 0 (delta * (v - y) + e).
  apply: derive_eq (derive_add (derive_mul (derive_sub dE (derive_const 1 _)) (derive_const _ _))
    (derive_mul dE (derive_mul (derive_id _) (derive_const e _)))) _.
  by rewrite q0 exp0; ring.
have num0 : num 0 = 0 by rewrite /num q0 exp0; ring.
have den0 a : den a != 0.
  have -> : den a = (1 - p) + p * exp (q a) by rewrite /den; ring.
  by rewrite lt0r_neq0 // ltr_paddl ?subr_ge0 // mulr_gt0 ?exp_gt0.
have dden : is_derive den 0 (p * delta).
  apply: derive_eq (derive_add (derive_const 1 _) (derive_mul (derive_const p _) (derive_sub dE (derive_const 1 _)))) _.
  ring.
apply: (is_derive_ext (fun a => p * (den a)^-1 * num a)) => //.
apply: derive_eq (derive_mul (derive_mul (derive_const p _) (derive_inv dden den0)) dnum) _.
by rewrite num0 mulr0 add0r /den q0 exp0 subrr mulr0 addr0 invr1 mulr1.
Qed.

(* U21: second-order term of the single restoration: its second derivative along the path at 0 is
   p delta [(1 - 2p) delta (v - y) + 2 (1 - p) eps] *)
Theorem repair_second_order (p delta e v y : R) : 0 < p -> p <= 1 ->
  let E (a : R) := exp (a * delta) in
  let g (a : R) := p / (1 + p * (E a - 1)) * ((E a - 1) * (v - y) + E a * (a * e)) in
  exists2 g' : R -> R, (forall a, is_derive g a (g' a)) &
    is_derive g' 0 (p * delta * ((1 - 2%:R * p) * delta * (v - y) + 2%:R * (1 - p) * e)).
Proof.
move=> p0 p1 E g.
have dE a : is_derive E a (delta * E a).
  apply: derive_eq (derive_exp (derive_mul (derive_id a) (derive_const delta a))) _.
  by rewrite mul1r mulr0 addr0.
have dl c a : is_derive (fun x : R => x * c) a c.
  by apply: derive_eq (derive_mul (derive_id a) (derive_const c a)) _; rewrite mul1r mulr0 addr0.
pose den a := 1 + p * (E a - 1); pose N a := (E a - 1) * (v - y) + E a * (a * e).
have den0 a : den a != 0.
  have -> : den a = (1 - p) + p * E a by rewrite /den; ring.
  by rewrite lt0r_neq0 // ltr_paddl ?subr_ge0 // mulr_gt0 ?exp_gt0.
have dden a : is_derive den a (p * (delta * E a)).
  apply: derive_eq (derive_add (derive_const 1 a) (derive_mul (derive_const p a) (derive_sub (dE a) (derive_const 1 a)))) _.
  ring.
pose N' a := delta * E a * (v - y) + delta * E a * (a * e) + E a * e.
have dN a : is_derive N a (N' a).
  apply: derive_eq (derive_add (derive_mul (derive_sub (dE a) (derive_const 1 a)) (derive_const (v - y) a))
    (derive_mul (dE a) (dl e a))) _.
  by rewrite /N'; ring.
pose i' a := - (p * (delta * E a)) * ((den a)^-1 * (den a)^-1).
have di a : is_derive (fun x => (den x)^-1) a (i' a).
  apply: derive_eq (derive_inv (dden a) den0) _.
  by rewrite /i' -invfM -expr2.
exists (fun a => p * (i' a * N a + (den a)^-1 * N' a)) => [a|].
  apply: (is_derive_ext (fun x => p * ((den x)^-1 * N x))); first by move=> x; rewrite mulrA.
  apply: derive_eq (derive_mul (derive_const p a) (derive_mul (di a) (dN a))) _.
  by rewrite mul0r add0r.
have di' := derive_mul (derive_opp (derive_mul (derive_const p 0) (derive_mul (derive_const delta 0) (dE 0))))
  (derive_mul (di 0) (di 0)).
have dN' := derive_add (derive_add (derive_mul (derive_mul (derive_const delta 0) (dE 0)) (derive_const (v - y) 0))
  (derive_mul (derive_mul (derive_const delta 0) (dE 0)) (dl e 0))) (derive_mul (dE 0) (derive_const e 0)).
apply: derive_eq (derive_mul (derive_const p 0) (derive_add (derive_mul di' (dN 0)) (derive_mul (di 0) dN'))) _.
have E0 : E 0 = 1 by rewrite /E mul0r exp0.
have d0 : den 0 = 1 by rewrite /den E0 subrr mulr0 addr0.
have N0 : N 0 = 0 by rewrite /N E0 subrr !mul0r mulr0 addr0.
have N'0 : N' 0 = delta * (v - y) + e by rewrite /N' E0; ring.
have i0 : i' 0 = - (p * delta) by rewrite /i' E0 d0 invr1 !mulr1.
by rewrite N0 N'0 i0 E0 d0 invr1; ring.
Qed.
