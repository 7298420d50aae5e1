(* Appendix B.2: the exponential divided difference phi1 = rho, and phi2.
   Labels: eq:rho, main:integrate (scalar), eq:remainderweights (scalar), main:kl (e^t-1-t >= 0), X6. *)
From FiniteCalculus Require Import Prelude.
From Coquelicot Require Import Coquelicot.
From FiniteCalculus Require Import Analysis.
Local Open Scope ring_scope.

Definition phi1 (s : R) : R := if s == 0 then 1 else (exp s - 1) / s.
Definition phi2 (s : R) : R := if s == 0 then 2%:R^-1 else (exp s - 1 - s) / s ^+ 2.

(* eq:rho: phi1(0) = 1 *)
Theorem phi1_0 : phi1 0 = 1.  Proof. by rewrite /phi1 eqxx. Qed.
(* eq:rho: the divided difference (e^s - e^0)/(s - 0) *)
Theorem phi1_divided s : s != 0 -> phi1 s = (exp s - exp 0) / (s - 0).
Proof. by rewrite /phi1 subr0 exp0 => /negbTE ->. Qed.
(* eq:rho, main:normalise: s phi1(s) = e^s - 1, s = 0 included *)
Theorem phi1E s : s * phi1 s = exp s - 1.
Proof.
rewrite /phi1; case: eqP => [->|/eqP s0]; first by rewrite mul0r exp0 subrr.
by rewrite mulrCA mulfV ?mulr1.
Qed.
(* eq:rho, main:effective: phi1 > 0 on the real line *)
Theorem phi1_gt0 s : 0 < phi1 s.
Proof.
rewrite /phi1; case: eqP => [_|/eqP s0]; first exact: ltr01.
case/orP: (lt_total s0) => h.
- rewrite -mulrNN -invrN mulr_gt0 ?invr_gt0 ?oppr_gt0 // subr_lt0.
  by have := exp_lt h; rewrite exp0.
- rewrite mulr_gt0 ?invr_gt0 // subr_gt0.
  by have := exp_lt h; rewrite exp0.
Qed.
Lemma phi1_rho s : phi1 s = rho s.
Proof.
rewrite /phi1; case: eqP => [->|h]; first by rewrite -[X in rho X]/(IZR 0) rho_0.
by rewrite rho_neq // RdivE //; apply/eqP.
Qed.
(* eq:rho: phi1(s) = int_0^1 e^{ts} dt *)
Theorem phi1_integral s : is_RInt (fun t : R => exp (t * s)) 0 1 (phi1 s).
Proof. by rewrite phi1_rho; exact: rho_integral. Qed.
(* eq:rho: phi1(s) = sum_n s^n / (n+1)! *)
Theorem phi1_series (s : R) : @is_series R_AbsRing R_NormedModule (fun n => s ^+ n / (n.+1)`!%:R) (phi1 s).
Proof.
rewrite phi1_rho; apply: is_series_ext (rho_series s) => n.
have f k : Factorial.fact k = k`! by elim: k => // k; rewrite factS /= => ->; rewrite mulSn.
by rewrite INRE f RdivE ?RpowE // pnatr_eq0 -lt0n fact_gt0.
Qed.
(* eq:rho: phi1 is continuous at 0 *)
Theorem phi1_limit : is_lim phi1 (Finite 0) (Finite 1).
Proof. apply: (is_lim_ext rho) rho_limit => s; exact/esym/phi1_rho. Qed.
(* eq:remainderweights: e^t - 1 - t = t (phi1(t) - 1) *)
Theorem phi1_remainder t : exp t - 1 - t = t * (phi1 t - 1).
Proof. by rewrite mulrBr phi1E mulr1. Qed.
(* X6: e^t - 1 - t = t^2 phi2(t), t = 0 included *)
Theorem phi2E t : t ^+ 2 * phi2 t = exp t - 1 - t.
Proof.
rewrite /phi2; case: eqP => [->|/eqP t0]; first by rewrite expr0n mul0r exp0 !subrr.
by rewrite mulrCA mulfV ?mulr1 // expf_eq0.
Qed.
(* main:kl: e^t - 1 - t >= 0 *)
Theorem convex_gap t : 0 <= exp t - 1 - t.
Proof. by rewrite -addrA -opprD subr_ge0 exp_ge1D. Qed.
(* X6: phi2 > 0 would need strictness; phi2 >= 0 suffices for the KL form *)
Theorem phi2_ge0 t : 0 <= phi2 t.
Proof.
rewrite /phi2; case: eqP => _; first by rewrite invr_ge0 ler0n.
by rewrite divr_ge0 ?convex_gap ?sqr_ge0.
Qed.
