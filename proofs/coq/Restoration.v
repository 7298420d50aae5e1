(* Appendix D.6 and G: precision repair and the symmetric quantiser.
   Labels: eq:repairbenefit, X8, U20. The rounding function is any nearest-integer rule. *)
From FiniteCalculus Require Import Prelude Phi Response Certificate Effective Reuse.
Local Open Scope ring_scope.

(* eq:repairbenefit, X8: ||e||^2 - ||e + D||^2 = - <D, 2 e + D> *)
Theorem repair_benefit k (e D : 'rV[R]_k) :
  sqnorm e - sqnorm (e + D) = - (D *m (2%:R *: e + D)^T) 0 0.
Proof.
rewrite !sqnormE mxE -sumrB -sumrN; apply: eq_bigr => i _; rewrite !mxE; mring.
Qed.
(* eq:repairbenefit: restoring everything (D = - e) gains the whole error *)
Theorem full_repair k (e : 'rV[R]_k) : sqnorm e - sqnorm (e + - e) = sqnorm e.
Proof. by rewrite subrr [sqnorm 0]sqnormE big1 ?subr0 // => i _; rewrite mxE expr0n. Qed.

Definition toint (k : Z) : int :=
  match k with Z0 => 0 | Zpos p => (Pos.to_nat p)%:Z | Zneg p => - (Pos.to_nat p)%:Z end.
Lemma tointE k : (toint k)%:~R = IZR k.
Proof.
have pos p : ((Pos.to_nat p)%:Z)%:~R = IZR (Zpos p) by rewrite -positive_nat_Z -INR_IZR_INZ INRE.
case: k => [|p|p] //; first exact: pos.
by rewrite /toint mulrNz pos -[Zneg p]/(Z.opp (Zpos p)) opp_IZR.
Qed.
(* U20: nearest-integer rules exist, so the hypothesis on rnd below is met, e.g. by floor(z + 1/2) *)
Theorem nearest_exists : exists rnd : R -> int, forall z, `|(rnd z)%:~R - z| <= 2%:R^-1.
Proof.
exists (fun z : R => toint (Int_part (z + 2%:R^-1))) => z; rewrite tointE.
have [/RleP lo /RltP hi] := base_Int_part (z + 2%:R^-1); move: (IZR _) lo hi => F lo hi.
have {}hi : -1 <= F - (z + 2%:R^-1) := ltW hi.
rewrite ler_norml; apply/andP; split; last by rewrite ler_subl_addl.
have e : - 2%:R^-1 = -1 + 2%:R^-1 :> R by field.
by rewrite e -ler_subr_addr; apply: le_trans hi _; rewrite opprD addrA.
Qed.

Section Quantiser.
Variables (rnd : R -> int) (n : nat).
Hypothesis rnd_near : forall z, `|(rnd z)%:~R - z| <= 2%:R^-1.
Hypothesis n_gt0 : (0 < n)%N.        (* n = 2^(b-1) - 1, so b >= 2 *)

Lemma int_near (a b : int) : `|a%:~R - b%:~R : R| < 1 -> a = b.
Proof.
rewrite -rmorphB /= -intr_norm ltrz1 => h; apply/eqP; rewrite -subr_eq0 -normr_eq0.
by case: `|a - b| (normr_ge0 (a - b)) h => [[|k]|k].
Qed.
Lemma half_lt1 : (2%:R^-1 : R) < 1.
Proof. by rewrite invf_lt1 ?ltr0n // ltr1n. Qed.
(* U20: nearest-integer rounding fixes the integers *)
Theorem round_int (z : int) : rnd z%:~R = z.
Proof. by apply: int_near; apply: le_lt_trans (rnd_near _) half_lt1. Qed.

(* U20: |x - Q(x)| <= a/2 *)
Theorem quantise_error (a x : R) : 0 < a -> `|x - a * (rnd (x / a))%:~R| <= a / 2%:R.
Proof.
move=> a0; have -> : x - a * (rnd (x / a))%:~R = - (a * ((rnd (x / a))%:~R - x / a)).
  by field; rewrite lt0r_neq0.
by rewrite normrN normrM gtr0_norm // ler_pmul2l.
Qed.
(* U20: codes stay in -n .. n *)
Theorem code_range (z : R) : `|z| <= n%:R -> `|rnd z| <= n%:Z.
Proof.
move=> zn; rewrite -ltz_addr1 -(ltr_int [numDomainType of R]) intr_norm intrD.
have -> : ((rnd z)%:~R : R) = ((rnd z)%:~R - z) + z by rewrite subrK.
apply: le_lt_trans (ler_norm_add _ _) _; rewrite addrC.
by apply: ler_lt_add => //; apply: le_lt_trans (rnd_near z) half_lt1.
Qed.

Variables (I : finType) (j0 : I).
Definition scale (x : I -> R) := maxover j0 (fun j => `|x j|) / n%:R.
Definition quantise (x : I -> R) j := scale x * (rnd (x j / scale x))%:~R.
Variable x : I -> R.
Hypothesis x_neq0 : exists j, x j != 0.
Lemma nR_gt0 : 0 < n%:R :> R.  Proof. by rewrite ltr0n. Qed.
Lemma scale_gt0 : 0 < scale x.
Proof.
case: x_neq0 => j xj; rewrite divr_gt0 ?nR_gt0 //.
by apply: lt_le_trans (maxover_ge j0 (fun j => `|x j|) j); rewrite normr_gt0.
Qed.
Lemma scaled_le j : `|x j / scale x| <= n%:R.
Proof.
rewrite normrM normfV (gtr0_norm scale_gt0) ler_pdivr_mulr ?scale_gt0 //.
rewrite /scale mulrC mulfVK ?lt0r_neq0 ?nR_gt0 //; exact: (maxover_ge j0 (fun j => `|x j|)).
Qed.
(* U20: per-vector error and code range *)
Theorem quantise_bounds j : `|x j - quantise x j| <= scale x / 2%:R /\ `|rnd (x j / scale x)| <= n%:Z.
Proof. by split; [exact: (quantise_error _ scale_gt0)|exact/code_range/scaled_le]. Qed.
Lemma maxover_at (f : I -> R) : exists j, maxover j0 f = f j.
Proof. by exists [arg max_(j > j0) f j]%O. Qed.
(* U20: the largest entry is represented exactly, so quantising keeps the scale *)
Theorem scale_quantise : scale (quantise x) = scale x.
Proof.
have s0 := scale_gt0; have n0 := nR_gt0.
rewrite /scale; congr (_ / _); apply/le_anti/andP; split.
- have [j ->] := maxover_at (fun j => `|quantise x j|).
  rewrite normrM (gtr0_norm s0) mulrC -ler_pdivl_mulr // -intr_norm.
  have -> : maxover j0 (fun j => `|x j|) / scale x = n%:R.
    by rewrite /scale invf_div mulrCA mulfV ?mulr1 // -[X in X != 0](mulfVK (lt0r_neq0 n0)) mulf_neq0 ?lt0r_neq0.
  by rewrite -[n%:R]/(n%:Z%:~R) ler_int code_range // scaled_le.
- have [j e] := maxover_at (fun j => `|x j|).
  suff -> : maxover j0 (fun j => `|x j|) = `|quantise x j| by exact: (maxover_ge j0 (fun j => `|quantise x j|)).
  have z : x j / scale x = n%:R \/ x j / scale x = - n%:R.
    have mE : `|x j| = scale x * n%:R by rewrite /scale mulfVK ?lt0r_neq0 // e.
    have [h|h] := ler0P (x j); move: mE; [rewrite ler0_norm //|rewrite gtr0_norm //] => mE.
      right; rewrite -[x j]opprK mE mulNr mulrAC mulfV ?mul1r // lt0r_neq0 //.
    by left; rewrite mE mulrAC mulfV ?mul1r // lt0r_neq0.
  have q : quantise x j = x j.
    rewrite /quantise; have [k zk] : exists k : int, x j / scale x = k%:~R.
      by case: z => ->; [exists n%:Z|exists (- n%:Z); rewrite rmorphN].
    by rewrite zk round_int -zk mulrC mulfVK ?lt0r_neq0.
  by rewrite q e.
Qed.
(* U20: Q(Q(x)) = Q(x) *)
Theorem quantise_idempotent : quantise (quantise x) =1 quantise x.
Proof.
move=> j; rewrite {1}/quantise scale_quantise; congr (_ * _).
have -> : quantise x j / scale x = (rnd (x j / scale x))%:~R.
  by rewrite /quantise mulrC mulrA mulVf ?mul1r // lt0r_neq0 ?scale_gt0.
by rewrite round_int.
Qed.
End Quantiser.
