(* Section 2.1 and Appendix A: the power series of e^{th J} and phi1(th J) on a rotary plane.
   Labels: main:rotation (R = e^{pA}), main:integrate and eq:matrixrho (phi1(B) = sum B^n/(n+1)!).
   Rotary.Apow th n x is (th J)^n x, so each component of each series is stated. *)
From Coq Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
From FiniteCalculus Require Import Rotary.
Open Scope R_scope.

Lemma cos_pseries x : is_pseries cos_n (x ^ 2) (cos x).
Proof.
apply is_pseries_Reals; unfold cos; destruct (exist_cos (Rsqr x)) as [a h].
replace (x ^ 2) with (Rsqr x) by (unfold Rsqr; ring). exact h.
Qed.
Lemma sin_pseries x : exists a, is_pseries sin_n (x ^ 2) a /\ sin x = x * a.
Proof.
unfold sin; destruct (exist_sin (Rsqr x)) as [a h]; exists a; split; [|reflexivity].
apply is_pseries_Reals; replace (x ^ 2) with (Rsqr x) by (unfold Rsqr; ring). exact h.
Qed.
Lemma Jeven n x : Apow 1 (2 * n) x = ((-1) ^ n * fst x, (-1) ^ n * snd x).
Proof.
induction n as [|n IH]; [simpl; destruct x; simpl; f_equal; ring|].
replace (2 * S n)%nat with (S (S (2 * n))) by lia.
change (Apow 1 (S (S (2 * n))) x) with
  (- (1) * (1 * fst (Apow 1 (2 * n) x)), 1 * (- (1) * snd (Apow 1 (2 * n) x))).
rewrite IH; simpl; f_equal; ring.
Qed.
Lemma Jscale th n x : Apow th n x = (th ^ n * fst (Apow 1 n x), th ^ n * snd (Apow 1 n x)).
Proof.
induction n as [|n IH]; [destruct x; simpl; f_equal; ring|].
simpl; rewrite IH; simpl; f_equal; ring.
Qed.
Lemma Jturn n x : snd (Apow 1 n x) = fst (Apow 1 n (snd x, - fst x)) /\
  Apow 1 (S n) (snd x, - fst x) = Apow 1 n x.
Proof.
induction n as [|n [IH1 IH2]]; [destruct x as [a b]; simpl; split; [reflexivity | f_equal; ring]|].
split.
- rewrite IH2; change (1 * fst (Apow 1 n x) = fst (Apow 1 n x)); ring.
- change (Apow 1 (S (S n)) (snd x, - fst x)) with
    (- (1) * snd (Apow 1 (S n) (snd x, - fst x)), 1 * fst (Apow 1 (S n) (snd x, - fst x))).
  rewrite IH2; reflexivity.
Qed.
Lemma exp_pseries th x :
  is_pseries (fun n => fst (Apow 1 n x) / INR (fact n)) th (rot1 th (fst x) (snd x)).
Proof.
destruct (sin_pseries th) as [a [ha ea]].
replace (rot1 th (fst x) (snd x)) with (fst x * cos th + th * (- snd x * a)).
2:{ unfold rot1; rewrite ea; ring. }
apply is_pseries_odd_even.
- apply (is_pseries_ext (PS_scal (fst x) cos_n)).
  + intro n; rewrite Jeven; unfold PS_scal, scal, cos_n; simpl; unfold mult; simpl.
    unfold Rdiv; ring.
  + apply (is_pseries_scal (K := R_AbsRing) (V := R_NormedModule)); [apply Rmult_comm | apply cos_pseries].
- apply (is_pseries_ext (PS_scal (- snd x) sin_n)).
  + intro n; replace (2 * n + 1)%nat with (S (2 * n)) by lia.
    change (fst (Apow 1 (S (2 * n)) x)) with (- (1) * snd (Apow 1 (2 * n) x)); rewrite Jeven.
    unfold PS_scal, scal, sin_n; simpl fst; simpl snd; unfold mult; simpl mult.
    replace (2 * n + 1)%nat with (S (2 * n)) by lia.
    change (- snd x * ((-1) ^ n / INR (fact (S (2 * n)))) =
      - (1) * ((-1) ^ n * snd x) / INR (fact (S (2 * n)))). unfold Rdiv; ring.
  + apply (is_pseries_scal (K := R_AbsRing) (V := R_NormedModule)); [apply Rmult_comm | exact ha].
Qed.
Lemma phi_pseries th x :
  is_pseries (fun n => fst (Apow 1 n x) / INR (fact (S n))) th (sinc th * fst x - cosc th * snd x).
Proof.
unfold sinc, cosc; destruct (Req_EM_T th 0) as [->|h].
- replace (1 * fst x - 0 * snd x) with (fst (Apow 1 0 x) / INR (fact 1)) by (simpl; field).
  apply (is_pseries_0 (fun n => fst (Apow 1 n x) / INR (fact (S n)))).
- set (x' := (snd x, - fst x)).
  apply (is_pseries_ext (PS_decr_1 (fun n => fst (Apow 1 n x') / INR (fact n)))).
  + intro n; unfold PS_decr_1, x'; rewrite (proj2 (Jturn n x)); reflexivity.
  + replace (sin th / th * fst x - (1 - cos th) / th * snd x) with
      (scal (/ th) (plus (rot1 th (fst x') (snd x')) (opp (fst (Apow 1 0 x') / INR (fact 0))))).
    2:{ unfold scal, plus, opp, rot1, x'; simpl; unfold mult; simpl; field; exact h. }
    apply (is_pseries_decr_1 (K := R_AbsRing) (V := R_NormedModule)
      (fun n => fst (Apow 1 n x') / INR (fact n)) th (/ th)).
    * apply Rinv_l; exact h.
    * apply exp_pseries.
Qed.
Lemma to_series (c : nat -> R) th l (f : nat -> R) :
  (forall n, f n = th ^ n * c n) -> is_pseries c th l -> is_series f l.
Proof.
intros e h; apply (is_series_ext (fun n => scal (pow_n th n) (c n))); [|exact h].
intro n; rewrite pow_n_pow, e; reflexivity.
Qed.
(* main:rotation: e^{th J} x = sum_n (th J)^n x / n!, both components *)
Theorem exponential_series th x :
  is_series (fun n => fst (Apow th n x) / INR (fact n)) (rot1 th (fst x) (snd x)) /\
  is_series (fun n => snd (Apow th n x) / INR (fact n)) (rot2 th (fst x) (snd x)).
Proof.
split.
- apply (to_series _ th _ _ (fun n => eq_trans (f_equal (fun z => fst z / INR (fact n)) (Jscale th n x))
    (Rmult_assoc (th ^ n) _ _)) (exp_pseries th x)).
- replace (rot2 th (fst x) (snd x)) with (rot1 th (fst (snd x, - fst x)) (snd (snd x, - fst x))).
  2:{ unfold rot1, rot2; simpl; ring. }
  apply (to_series (fun n => fst (Apow 1 n (snd x, - fst x)) / INR (fact n)) th); [|apply exp_pseries].
  intro n; rewrite Jscale, <- (proj1 (Jturn n x)); simpl; unfold Rdiv; ring.
Qed.
(* main:integrate, eq:matrixrho: phi1(th J) x = sum_n (th J)^n x / (n+1)!, both components *)
Theorem phi_series th x :
  is_series (fun n => fst (Apow th n x) / INR (fact (S n))) (sinc th * fst x - cosc th * snd x) /\
  is_series (fun n => snd (Apow th n x) / INR (fact (S n))) (cosc th * fst x + sinc th * snd x).
Proof.
split.
- apply (to_series (fun n => fst (Apow 1 n x) / INR (fact (S n))) th); [|apply phi_pseries].
  intro n; rewrite Jscale; unfold Rdiv; apply Rmult_assoc.
- replace (cosc th * fst x + sinc th * snd x) with
    (sinc th * fst (snd x, - fst x) - cosc th * snd (snd x, - fst x)) by (simpl; ring).
  apply (to_series (fun n => fst (Apow 1 n (snd x, - fst x)) / INR (fact (S n))) th); [|apply phi_pseries].
  intro n; rewrite Jscale, <- (proj1 (Jturn n x)); unfold Rdiv; apply Rmult_assoc.
Qed.
