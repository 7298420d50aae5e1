(* Section 4 and Appendix C.5: the Moore-Penrose inverse and minimum-norm solutions, any k x m matrix.
   Labels: main:querycontrol (linear algebra), U10. *)
From FiniteCalculus Require Import Prelude Phi Response Effective Reuse.
Local Open Scope ring_scope.

Definition penrose k m (H : 'M[R]_(k, m)) (X : 'M[R]_(m, k)) :=
  [/\ H *m X *m H = H, X *m H *m X = X, (H *m X)^T = H *m X & (X *m H)^T = X *m H].
Definition sqn m (h : 'cV[R]_m) := sqnorm h^T.
Lemma sqnE m (h : 'cV[R]_m) : sqn h = (h^T *m h) 0 0.
Proof. by rewrite /sqn /sqnorm trmxK. Qed.

Lemma gram_unit q m (F : 'M[R]_(q, m)) : row_free F -> F *m F^T \in unitmx.
Proof.
move=> Ff; rewrite -row_free_unit -kermx_eq0; apply/eqP/row_matrixP => i; rewrite row0.
set x := row i _; have xE : x *m (F *m F^T) = 0.
  by rewrite /x -row_mul mulmx_ker row0.
have : sqnorm (x *m F) == 0.
  by rewrite /sqnorm trmx_mul mulmxA -[x *m F *m _]mulmxA xE mul0mx mxE.
by rewrite sqnorm_eq0 mulmx_free_eq0 // => /eqP.
Qed.
Lemma pinv_of_factors k q m (C : 'M[R]_(k, q)) (F : 'M[R]_(q, m)) :
  row_free F -> row_free C^T ->
  penrose (C *m F) (F^T *m invmx (F *m F^T) *m (invmx (C^T *m C) *m C^T)).
Proof.
move=> Ff Cf; have Fu := gram_unit Ff; have := gram_unit Cf; rewrite trmxK => Cu.
set f := invmx _; set c := invmx _.
have fF : F *m F^T *m f = 1%:M by rewrite mulmxV.
have cC : c *m (C^T *m C) = 1%:M by rewrite mulVmx.
have HX : C *m F *m (F^T *m f *m (c *m C^T)) = C *m c *m C^T.
  have -> : C *m F *m (F^T *m f *m (c *m C^T)) = C *m (F *m F^T *m f) *m c *m C^T by rewrite !mulmxA.
  by rewrite fF mulmx1.
have XH : F^T *m f *m (c *m C^T) *m (C *m F) = F^T *m f *m F.
  have -> : F^T *m f *m (c *m C^T) *m (C *m F) = F^T *m f *m (c *m (C^T *m C)) *m F by rewrite !mulmxA.
  by rewrite cC mulmx1.
have fT : f^T = f by rewrite /f trmx_inv trmx_mul trmxK.
have cT : c^T = c by rewrite /c trmx_inv trmx_mul trmxK.
split; rewrite ?HX ?XH.
- have -> : C *m c *m C^T *m (C *m F) = C *m (c *m (C^T *m C)) *m F by rewrite !mulmxA.
  by rewrite cC mulmx1.
- have -> : F^T *m f *m F *m (F^T *m f *m (c *m C^T)) = F^T *m f *m (F *m F^T *m f) *m (c *m C^T) by rewrite !mulmxA.
  by rewrite fF mulmx1.
- by rewrite !trmx_mul trmxK cT mulmxA.
- by rewrite !trmx_mul trmxK fT mulmxA.
Qed.
(* main:querycontrol: every real matrix has a pseudo-inverse *)
Theorem pinv_exists k m (H : 'M[R]_(k, m)) : exists X, penrose H X.
Proof.
have := @pinv_of_factors _ _ _ (col_base H) (row_base H) (row_base_free H).
rewrite mulmx_base => h; eexists; apply: h.
by rewrite /row_free mxrank_tr; exact: (col_base_full H).
Qed.
(* main:querycontrol: the pseudo-inverse is unique *)
Theorem pinv_unique k m (H : 'M[R]_(k, m)) X Y : penrose H X -> penrose H Y -> X = Y.
Proof.
move=> [x1 x2 x3 x4] [y1 y2 y3 y4].
have hx : H *m X = H *m Y.
  rewrite -{1}y1 -[_ *m H *m X]mulmxA -{1}y3 -{1}x3 -trmx_mul !mulmxA.
  by rewrite x1 y3.
have xh : X *m H = Y *m H.
  rewrite -{1}y1 mulmxA mulmxA -[X *m H *m Y *m H]mulmxA -x4 -y4 -trmx_mul.
  by rewrite -mulmxA [H *m (X *m H)]mulmxA x1.
by rewrite -x2 xh -mulmxA hx mulmxA y2.
Qed.

Section Solve.
Variables (k m : nat) (H : 'M[R]_(k, m)) (X : 'M[R]_(m, k)) (b : 'cV[R]_k).
Hypothesis HX : penrose H X.
(* main:querycontrol, U10: H h = b is feasible iff H H^+ b = b, i.e. (I - H H^+) b = 0 *)
Theorem feasible : (exists h, H *m h = b) <-> H *m (X *m b) = b.
Proof.
split=> [[h <-]|hb]; last by exists (X *m b).
by case: HX => e _ _ _; rewrite !mulmxA e.
Qed.
(* U10: feasibility as a vanishing residual *)
Theorem feasible_residual : (exists h, H *m h = b) <-> (1%:M - H *m X) *m b = 0.
Proof.
rewrite feasible mulmxBl mul1mx -mulmxA; split=> [->|/eqP]; first by rewrite subrr.
by rewrite subr_eq0 => /eqP <-.
Qed.
(* main:querycontrol: H^+ b lies in the row space of H *)
Theorem row_space : exists z, X *m b = H^T *m z.
Proof.
exists (X^T *m (X *m b)); case: HX => _ e _ t4.
by rewrite mulmxA -trmx_mul t4 !mulmxA e.
Qed.
Hypothesis hb : H *m (X *m b) = b.
(* U10: the solutions are H^+ b + n with n in ker H *)
Theorem solutions h : H *m h = b <-> exists2 n, H *m n = 0 & h = X *m b + n.
Proof.
split=> [e|[n n0 ->]]; last by rewrite mulmxDr n0 addr0.
by exists (h - X *m b); [rewrite mulmxBr hb e subrr|rewrite addrC subrK].
Qed.
(* U10: H^+ b is orthogonal to ker H *)
Theorem pinv_orthogonal (n : 'cV[R]_m) : H *m n = 0 -> (X *m b)^T *m n = 0.
Proof.
by case: row_space => z -> n0; rewrite trmx_mul trmxK -mulmxA n0 mulmx0.
Qed.
(* U10: ||h||^2 = ||H^+ b||^2 + ||n||^2 *)
Theorem pythagoras h : H *m h = b -> sqn h = sqn (X *m b) + sqn (h - X *m b).
Proof.
move=> e; set h0 := X *m b; have o : h0^T *m (h - h0) = 0.
  by apply: pinv_orthogonal; rewrite mulmxBr e hb subrr.
have o' : (h - h0)^T *m h0 = 0 by rewrite -[LHS]trmxK trmx_mul trmxK o trmx0.
have {1}-> : h = h0 + (h - h0) by rewrite addrC subrK.
move: (h - h0) o o' => n o o'.
have tD : (h0 + n)^T = h0^T + n^T by rewrite linearD.
by rewrite !sqnE tD mulmxDl !mulmxDr o o' addr0 add0r entryD.
Qed.
(* main:querycontrol: H^+ b has minimum norm, and any solution of that norm is H^+ b *)
Theorem min_norm h : H *m h = b -> sqn (X *m b) <= sqn h /\ (sqn h = sqn (X *m b) -> h = X *m b).
Proof.
move=> e; have py := pythagoras e; split; first by rewrite py ler_addl sqnorm_ge0.
rewrite py => /eqP; rewrite -[X in _ == X]addr0 (inj_eq (addrI _)) sqnorm_eq0 => /eqP z.
by apply/eqP; rewrite -subr_eq0 -[h - _]trmxK z trmx0.
Qed.
End Solve.
