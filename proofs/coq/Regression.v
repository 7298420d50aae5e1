(* Appendix I: the separately specified one-step regression reference.
   Labels: eq:independentgd, eq:alignedeta, U23. Any number of examples and inputs. *)
From FiniteCalculus Require Import Prelude Phi Response Effective Reuse.
From Coquelicot Require Import Coquelicot.
Local Open Scope ring_scope.

Section Descent.
Variables (I : finType) (m : nat) (x : I -> 'cV[R]_m) (t : I -> R).
Let N : R := #|I|%:R.
Definition loss (w : 'cV[R]_m) := (2%:R * N)^-1 * \sum_j (((x j)^T *m w) 0 0 - t j) ^+ 2.
Definition gD : 'cV[R]_m := N^-1 *: \sum_j t j *: x j.
Lemma loss_energy w : loss w = energy (fun _ => N^-1) x (fun j => (t j)%:M) w.
Proof.
rewrite /loss /energy invfM -mulrA mulr_sumr; congr (_ * _); apply: eq_bigr => j _.
by rewrite sqnormE big_ord1 entryB [X in _ - X]mxE eqxx mulr1n.
Qed.
(* eq:independentgd: - grad L_D(0) = g_D, every directional derivative *)
Theorem descent_step (h : 'cV[R]_m) : is_derive (fun e : R => loss (e *: h)) 0 (- (h^T *m gD) 0 0).
Proof.
have -> : (h^T *m gD) 0 0 = frob h (\sum_j N^-1 *: (x j *m ((t j)%:M : 'rV[R]_1))).
  have -> : gD = \sum_j N^-1 *: (x j *m (t j)%:M).
    by rewrite /gD scaler_sumr; apply: eq_bigr => j _; rewrite mul_mx_scalar.
  by rewrite /frob mxtrace_mulC trace_mx11 -[h^T *m _ in LHS]trmxK [in LHS]mxE trmx_mul trmxK.
apply: is_derive_ext (gradient_step _ _ _ _) => e; exact/esym/loss_energy.
Qed.
(* U23: f(x) = eta x^T g_D is linear with query gradient eta g_D *)
Theorem query_jacobian (eta : R) (z h : 'cV[R]_m) :
  eta * ((z + h)^T *m gD) 0 0 = eta * (z^T *m gD) 0 0 + (h^T *m (eta *: gD)) 0 0.
Proof.
have -> : (z + h)^T = z^T + h^T by rewrite linearD.
by move: gD => g; rewrite mulmxDl entryD -scalemxAr entryZ mulrDr.
Qed.
End Descent.

Section Aligned.
Variables (I : finType) (f h : I -> R).
Let S2 := \sum_j h j ^+ 2.
Let S1 := \sum_j f j * h j.
Definition misfit (eta : R) := \sum_j (f j - eta * h j) ^+ 2.
Definition eta_star := Num.max 0 (S1 / S2).
Hypothesis S2_gt0 : 0 < S2.
Lemma misfitE e : misfit e = \sum_j f j ^+ 2 - S1 ^+ 2 / S2 + S2 * (e - S1 / S2) ^+ 2.
Proof.
have -> : misfit e = \sum_j (f j ^+ 2 - 2%:R * e * (f j * h j) + e ^+ 2 * h j ^+ 2).
  by apply: eq_bigr => j _; ring.
rewrite big_split sumrB /= -!mulr_sumr -/S1 -/S2; field; exact: lt0r_neq0.
Qed.
(* eq:alignedeta: max(0, sum f h / sum h^2) minimises the misfit over eta >= 0 *)
Theorem aligned_eta e : 0 <= e -> misfit eta_star <= misfit e.
Proof.
move=> e0; rewrite !misfitE ler_add2l ler_pmul2l // /eta_star; set q := S1 / S2.
have [q0|q0] := lerP 0 q; first by rewrite subrr expr0n sqr_ge0.
rewrite ler_sqr ?nnegrE; first by rewrite ler_add2r.
- by rewrite sub0r oppr_ge0 ltW.
- by rewrite subr_ge0 (le_trans (ltW q0)).
Qed.
(* eq:alignedeta: it is the only minimiser *)
Theorem aligned_unique e : 0 <= e -> misfit e = misfit eta_star -> e = eta_star.
Proof.
move=> e0; rewrite !misfitE => /addrI /(mulfI (lt0r_neq0 S2_gt0)); rewrite /eta_star; set q := S1 / S2.
have [q0|q0] := lerP 0 q => /eqP.
  by rewrite subrr expr0n sqrf_eq0 subr_eq0 => /eqP.
rewrite eqr_expn2 //; first by rewrite (inj_eq (addIr _)) => /eqP.
- by rewrite subr_ge0 (le_trans (ltW q0)).
- by rewrite sub0r oppr_ge0 ltW.
Qed.
End Aligned.
