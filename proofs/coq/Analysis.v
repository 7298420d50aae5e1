(* Appendix B.2, the scalar analysis of rho = phi1 in the standard library's notation (Coquelicot).
   Labels: eq:rho (integral, power series, limit at 0). Phi.v restates it for MathComp's R. *)
From Coq Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

Definition rho (s : R) := if Req_EM_T s 0 then 1 else (exp s - 1) / s.

Lemma rho_0 : rho 0 = 1.
Proof. unfold rho. now destruct (Req_EM_T 0 0). Qed.
Lemma rho_neq s : s <> 0 -> rho s = (exp s - 1) / s.
Proof. intro h. unfold rho. now destruct (Req_EM_T s 0). Qed.
Lemma rhoE s : s * rho s = exp s - 1.
Proof. unfold rho; destruct (Req_EM_T s 0) as [->|h]; [rewrite exp_0; ring | field; assumption]. Qed.

(* eq:rho: rho(s) = int_0^1 e^{ts} dt, s = 0 included *)
Theorem rho_integral s : is_RInt (fun t => exp (t * s)) 0 1 (rho s).
Proof.
unfold rho; destruct (Req_EM_T s 0) as [->|s0].
- apply (is_RInt_ext (fun _ => 1)).
  + intros x _; now rewrite Rmult_0_r, exp_0.
  + replace 1 with (scal (1 - 0) 1) at 2 by (unfold scal; simpl; unfold mult; simpl; ring).
    apply (is_RInt_const (V := R_NormedModule)).
- replace ((exp s - 1) / s) with (minus (exp (1 * s) / s) (exp (0 * s) / s)).
  2:{ unfold minus, plus, opp; simpl. rewrite Rmult_1_l, Rmult_0_l, exp_0. field; assumption. }
  apply (is_RInt_derive (fun t => exp (t * s) / s) (fun t => exp (t * s))).
  + intros x _. auto_derive; [exact I|]. field; assumption.
  + intros x _. apply (ex_derive_continuous (fun t => exp (t * s))). auto_derive; exact I.
Qed.

Lemma exp_series s : is_series (fun n => s ^ n / INR (fact n)) (exp s).
Proof.
apply (is_series_ext (fun n => scal (pow_n s n) (/ INR (fact n)))).
- intros n. rewrite pow_n_pow. reflexivity.
- exact (is_exp_Reals s).
Qed.

(* eq:rho: rho(s) = sum_n s^n / (n+1)! *)
Theorem rho_series s : is_series (fun n => s ^ n / INR (fact (S n))) (rho s).
Proof.
unfold rho; destruct (Req_EM_T s 0) as [->|s0].
- apply (is_series_ext (fun n => 0 ^ n / INR (fact n))).
  + intros [|n]; [reflexivity|]. simpl (0 ^ S n). unfold Rdiv. rewrite !Rmult_0_l. reflexivity.
  + rewrite <- exp_0. apply exp_series.
- apply (is_series_ext (fun n => scal (/ s) (s ^ S n / INR (fact (S n))))).
  + intros n. change (/ s * (s * s ^ n / INR (fact (S n))) = s ^ n / INR (fact (S n))).
    field. split; [apply INR_fact_neq_0 | assumption].
  + replace ((exp s - 1) / s) with (/ s * (exp s - 1)) by (field; assumption).
    apply (is_series_scal (K := R_AbsRing) (V := R_NormedModule) (/ s) _ (exp s - 1)).
    apply (is_series_incr_1 (fun n => s ^ n / INR (fact n))).
    refine (eq_ind (exp s) (fun l => is_series _ l) (exp_series s) _ _).
    change (exp s = exp s - 1 + 1 / 1). field.
Qed.

(* eq:rho: the continuous value at coincident arguments, rho(s) -> 1 as s -> 0 *)
Theorem rho_limit : is_lim rho 0 1.
Proof.
apply (is_lim_ext_loc (fun y => (exp y - 1) / y)).
- exists (mkposreal 1 Rlt_0_1); intros y _ hy. unfold rho. now destruct (Req_EM_T y 0).
- exact is_lim_div_expm1_0.
Qed.

(* eq:gradient (calculus part): the derivative at 0 of a quadratic polynomial *)
Lemma quadratic_derive (c0 c1 c2 : R) : is_derive (fun h : R => c0 + h * c1 + h * h * c2) 0 c1.
Proof. auto_derive; [exact I | ring]. Qed.

(* the mean value theorem from 0, with |c| <= |t| *)
Lemma mean_value (f df : R -> R) t :
  (forall x, is_derive f x (df x)) -> exists c, Rabs c <= Rabs t /\ f t - f 0 = df c * t.
Proof.
intros h. destruct (MVT_gen f 0 t df) as [c [hc e]].
- intros x _; apply h.
- intros x _; apply derivable_continuous_pt; exists (df x); apply is_derive_Reals; apply h.
- exists c; split; [|rewrite e; ring].
  unfold Rmin, Rmax in hc; destruct (Rle_dec 0 t) as [p|p]; unfold Rabs;
    destruct (Rcase_abs c), (Rcase_abs t); lra.
Qed.
Lemma taylor_product t c d a : Rabs c <= Rabs t -> Rabs d <= Rabs c -> Rabs (a * d * c * t) <= Rabs t ^ 3 * Rabs a.
Proof.
intros hc hd; rewrite !Rabs_mult.
assert (0 <= Rabs a) by apply Rabs_pos; assert (0 <= Rabs d) by apply Rabs_pos.
assert (Rabs d * Rabs c <= Rabs t * Rabs t) by (apply Rmult_le_compat; try apply Rabs_pos; lra).
assert (0 <= Rabs t) by apply Rabs_pos.
replace (Rabs a * Rabs d * Rabs c * Rabs t) with ((Rabs d * Rabs c) * (Rabs t * Rabs a)) by ring.
replace (Rabs t ^ 3 * Rabs a) with ((Rabs t * Rabs t) * (Rabs t * Rabs a)) by ring.
apply Rmult_le_compat_r; [apply Rmult_le_pos|]; assumption.
Qed.
(* U3: e^t - 1 - t = t^2/2 + O(t^3), with the constant e^|t| *)
Theorem exp_third t : Rabs (exp t - 1 - t - t * t / 2) <= Rabs t ^ 3 * exp (Rabs t).
Proof.
destruct (mean_value (fun x => exp x - 1 - x - x * x / 2) (fun x => exp x - 1 - x) t) as [c [hc e]].
{ intro x; auto_derive; [exact I | field]. }
destruct (mean_value (fun x => exp x - 1 - x) (fun x => exp x - 1) c) as [d [hd e2]].
{ intro x; auto_derive; [exact I | ring]. }
destruct (mean_value (fun x => exp x - 1) exp d) as [b [hb e3]].
{ intro x; auto_derive; [exact I | ring]. }
rewrite exp_0 in e, e2, e3.
replace (exp t - 1 - t - t * t / 2) with (exp b * d * c * t).
2:{ replace (exp b * d) with (exp d - 1) by (rewrite <- e3; ring).
    replace ((exp d - 1) * c) with (exp c - 1 - c) by (rewrite <- e2; ring). rewrite <- e; field. }
apply Rle_trans with (1 := taylor_product t c d (exp b) hc hd).
apply Rmult_le_compat_l; [apply pow_le; apply Rabs_pos|].
rewrite Rabs_pos_eq by (left; apply exp_pos).
assert (b <= Rabs t) by (apply Rle_trans with (Rabs b); [apply Rle_abs | lra]).
destruct (Rle_lt_or_eq_dec _ _ H) as [l|l]; [left; apply exp_increasing, l | rewrite l; apply Rle_refl].
Qed.
(* U3: |1 - cos th| <= th^2 and |sin th - th| <= |th|^3, the rotary remainder of a tangent step *)
Theorem rotary_second th : Rabs (cos th - 1) <= th * th /\ Rabs (sin th - th) <= Rabs th ^ 3.
Proof.
assert (S : forall x, Rabs (sin x) <= Rabs x).
{ intro x; destruct (mean_value sin cos x) as [c [_ e]]; [intro y; auto_derive; [exact I | ring]|].
  rewrite sin_0, Rminus_0_r in e; rewrite e, Rabs_mult.
  assert (Rabs (cos c) <= 1) by (apply Rabs_le; apply COS_bound).
  rewrite <- (Rmult_1_l (Rabs x)) at 2; apply Rmult_le_compat_r; [apply Rabs_pos | assumption]. }
assert (C : forall x, Rabs (cos x - 1) <= x * x).
{ intro x; destruct (mean_value cos (fun y => - sin y) x) as [c [hc e]]; [intro y; auto_derive; [exact I | ring]|].
  rewrite cos_0 in e; rewrite e, Rabs_mult, Rabs_Ropp.
  replace (x * x) with (Rabs x * Rabs x) by (rewrite <- Rabs_mult; apply Rabs_pos_eq; nra).
  apply Rmult_le_compat_r; [apply Rabs_pos|]. apply Rle_trans with (1 := S c); exact hc. }
split; [apply C|].
destruct (mean_value (fun x => sin x - x) (fun x => cos x - 1) th) as [c [hc e]].
{ intro x; auto_derive; [exact I | ring]. }
rewrite sin_0 in e; replace (sin th - th) with ((cos c - 1) * th) by (rewrite <- e; ring).
rewrite Rabs_mult; replace (Rabs th ^ 3) with ((Rabs th * Rabs th) * Rabs th) by ring.
apply Rmult_le_compat_r; [apply Rabs_pos|]. apply Rle_trans with (1 := C c).
replace (c * c) with (Rabs c * Rabs c) by (rewrite <- Rabs_mult; apply Rabs_pos_eq; nra).
apply Rmult_le_compat; try apply Rabs_pos; assumption.
Qed.
