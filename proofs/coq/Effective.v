(* Section 3.3 and Appendix B: exact effective weights with softmax intact.
   Labels: main:effective, eq:identity, eq:features, eq:gradient, eq:gauge, U5, U9.
   m, d, r arbitrary; u is the augmented query, a_j the score features, v_j row values. *)
From FiniteCalculus Require Import Prelude Phi Response.
From Coquelicot Require Import Coquelicot.
From FiniteCalculus Require Import Analysis.
Local Open Scope ring_scope.

Definition mean (I : finType) (V : lmodType R) (v : I -> V) : V := #|I|%:R^-1 *: \sum_j v j.

Section Core.
Variables (I : finType) (V : lmodType R) (s : I -> R) (v : I -> V) (j0 : I).
Let mu := mean v.
Lemma card_neq0 : (#|I|%:R : R) != 0.
Proof. by rewrite pnatr_eq0 -lt0n; apply/card_gt0P; exists j0. Qed.
(* eq:identity: centred values sum to zero *)
Lemma mean_centred : \sum_j (v j - mu) = 0.
Proof.
rewrite sumrB sumr_const cardT -cardE -scaler_nat /mu /mean scalerA mulfV ?card_neq0 //.
by rewrite scale1r subrr.
Qed.
(* eq:gauge: any common score shift sigma gives the same readout *)
Theorem effective_shift (sigma : R) :
  readout (softmax s) v =
  mu + \sum_j (exp sigma * phi1 (s j - sigma) / Zsum s * (s j - sigma)) *: (v j - mu).
Proof.
have Z0 : Zsum s != 0 by rewrite lt0r_neq0 // (Zsum_gt0 s j0).
have -> : \sum_j (exp sigma * phi1 (s j - sigma) / Zsum s * (s j - sigma)) *: (v j - mu)
   = \sum_j softmax s j *: (v j - mu) - (exp sigma / Zsum s) *: \sum_j (v j - mu).
  rewrite scaler_sumr -sumrB; apply: eq_bigr => j _; rewrite -scalerBl; congr (_ *: _).
  rewrite /softmax -[exp (s j)]mulr1 -(subrK sigma (s j)) expD addrK.
  have -> : exp (s j - sigma) = (s j - sigma) * phi1 (s j - sigma) + 1 by rewrite phi1E subrK.
  ring.
rewrite mean_centred scaler0 subr0; under eq_bigr do rewrite scalerBr.
by rewrite sumrB -scaler_suml (proj2 (softmax_distribution s j0)) scale1r addrC subrK.
Qed.
(* main:effective: y = mu + sum phi1(s)/Z s (v - mu) *)
Theorem effective : readout (softmax s) v = mu + \sum_j (phi1 (s j) / Zsum s * s j) *: (v j - mu).
Proof.
rewrite (effective_shift 0); congr (_ + _); apply: eq_bigr => j _.
by rewrite exp0 mul1r subr0.
Qed.
End Core.

Section Matrix.
Variables (I : finType) (n r : nat) (u : 'cV[R]_n) (a : I -> 'cV[R]_n) (v : I -> 'rV[R]_r) (j0 : I).
Definition score (j : I) := (u^T *m a j) 0 0.
Definition coef (j : I) := phi1 (score j) / Zsum score.
Definition DM : 'M[R]_(n, r) := \sum_j coef j *: (a j *m (v j - mean v)).
Lemma outer_readout (w : 'rV[R]_r) (b : 'cV[R]_n) : u^T *m (b *m w) = (u^T *m b) 0 0 *: w.
Proof. by rewrite mulmxA {1}[u^T *m b]mx11_scalar mul_scalar_mx. Qed.
(* main:effective: the coefficients are positive *)
Theorem coef_gt0 j : 0 < coef j.
Proof. by rewrite divr_gt0 ?phi1_gt0 // (Zsum_gt0 _ j). Qed.
(* main:effective, eq:identity, thm:effectiveappendix: y = mu + u^T DM *)
Theorem identity : readout (softmax score) v = mean v + u^T *m DM.
Proof.
rewrite effective //; congr (_ + _); rewrite mulmx_sumr; apply: eq_bigr => j _.
by rewrite -scalemxAr outer_readout scalerA.
Qed.
(* eq:gauge: features a - g, coefficients e^sigma phi1(s - sigma)/Z, same output for every g *)
Theorem gauge (g : 'cV[R]_n) :
  let sigma := (u^T *m g) 0 0 in
  let cg j := exp sigma * phi1 (score j - sigma) / Zsum score in
  readout (softmax score) v = mean v + u^T *m \sum_j cg j *: ((a j - g) *m (v j - mean v)).
Proof.
move=> sigma cg; rewrite (effective_shift _ _ j0 sigma); congr (_ + _).
rewrite mulmx_sumr; apply: eq_bigr => j _.
have e : (u^T *m (a j - g)) 0 0 = score j - sigma by rewrite mulmxBr entryB.
by rewrite -scalemxAr outer_readout scalerA e.
Qed.
End Matrix.

(* U5: DM = L T with T = sum c k (v - mu), hence rank <= d *)
Theorem factorisation (I : finType) n d r (L : 'M[R]_(n, d)) (k : I -> 'cV[R]_d) (u : 'cV[R]_n) (v : I -> 'rV[R]_r) :
  DM u (fun j => L *m k j) v =
  L *m \sum_j coef u (fun j => L *m k j) j *: (k j *m (v j - mean v)).
Proof. by rewrite mulmx_sumr; apply: eq_bigr => j _; rewrite -scalemxAr mulmxA. Qed.
(* main:effective, U5: rank DM <= d *)
Corollary rank_bound (I : finType) n d r (L : 'M[R]_(n, d)) (k : I -> 'cV[R]_d) (u : 'cV[R]_n) (v : I -> 'rV[R]_r) :
  (\rank (DM u (fun j => L *m k j) v) <= d)%N.
Proof. by rewrite factorisation; exact: leq_trans (mxrankM_maxl _ _) (rank_leq_col _). Qed.
(* U5: the sharper bound min(d, N - 1, r, m + 1) *)
Theorem rank_sharp (I : finType) n d r (L : 'M[R]_(n, d)) (k : I -> 'cV[R]_d) (u : 'cV[R]_n)
    (v : I -> 'rV[R]_r) (j0 : I) :
  (\rank (DM u (fun j => L *m k j) v) <= minn (minn d #|I|.-1) (minn r n))%N.
Proof.
rewrite !leq_min rank_bound rank_leq_col rank_leq_row !andbT /=.
pose P := [pred j : I | j != j0].
have -> : DM u (fun j => L *m k j) v =
   \sum_(j | P j) ((coef u (fun j => L *m k j) j *: (L *m k j)
      - coef u (fun j => L *m k j) j0 *: (L *m k j0)) *m (v j - mean v)).
  rewrite /DM (bigD1 j0) //=; set c := coef _ _.
  have -> : v j0 - mean v = - \sum_(j | j != j0) (v j - mean v).
    by apply/eqP; rewrite -addr_eq0; have := mean_centred v j0; rewrite (bigD1 j0) //= => ->.
  rewrite mulmxN scalerN mulmx_sumr scaler_sumr -sumrN -big_split /=.
  by apply: eq_bigr => j _; rewrite mulmxBl -!scalemxAl addrC.
apply: (@leq_trans (\sum_(j | P j) 1)%N); last by rewrite sum1_card /P cardC1.
elim/big_rec2: _ => [|j x A _ IH]; first by rewrite mxrank0.
apply: leq_trans (mxrank_add _ _) _; apply: leq_add => //.
exact: leq_trans (mxrankM_maxl _ _) (rank_leq_col _).
Qed.

(* eq:features: q~ k~^T / tau = u^T a with u = (x, 1), a = L k~^T, L = W^ R^T / tau *)
Theorem features m d (x : 'cV[R]_m) (Wq : 'M[R]_(m, d)) (bq : 'rV[R]_d) (Rp : 'M[R]_d) (k : 'rV[R]_d) (tau : R) :
  tau^-1 *: ((x^T *m Wq + bq) *m Rp^T *m k^T) =
  (col_mx x (1%:M : 'M_1))^T *m ((tau^-1 *: (col_mx Wq bq *m Rp^T)) *m k^T).
Proof.
by rewrite tr_col_mx trmx1 -scalemxAl -scalemxAr !mulmxA mul_row_col mul1mx.
Qed.

Section Gradient.
Variables (I : finType) (n r : nat) (c : I -> R) (a : I -> 'cV[R]_n) (w : I -> 'rV[R]_r).
Definition sqnorm k (x : 'rV[R]_k) := (x *m x^T) 0 0.
Definition frob k l (A B : 'M[R]_(k, l)) := \tr (A *m B^T).
Definition energy (B : 'M[R]_(n, r)) := 2%:R^-1 * \sum_j c j * sqnorm ((a j)^T *m B - w j).
Definition curvature : 'M[R]_n := \sum_j c j *: (a j *m (a j)^T).
Let step := \sum_j c j *: (a j *m w j).

Lemma frobDr k l (A B C : 'M[R]_(k, l)) : frob A (B + C) = frob A B + frob A C.
Proof. by rewrite /frob raddfD mulmxDr raddfD. Qed.
Lemma frob_sum k l (A : 'M[R]_(k, l)) (B : I -> 'M[R]_(k, l)) : frob A (\sum_j c j *: B j) = \sum_j c j * frob A (B j).
Proof.
rewrite /frob linear_sum mulmx_sumr linear_sum; apply: eq_bigr => j _.
by rewrite linearZ /= -scalemxAr mxtraceZ.
Qed.
Lemma frob_outer (X : 'M[R]_(n, r)) (b : 'cV[R]_n) (x : 'rV[R]_r) : frob X (b *m x) = (b^T *m X *m x^T) 0 0.
Proof. by rewrite /frob trmx_mul mulmxA mxtrace_mulC mulmxA trace_mx11. Qed.
Lemma sqnormD k (x z : 'rV[R]_k) : sqnorm (x + z) = sqnorm x + 2%:R * (x *m z^T) 0 0 + sqnorm z.
Proof.
have tD : (x + z)^T = x^T + z^T by rewrite linearD.
have zx : (z *m x^T) 0 0 = (x *m z^T) 0 0 by rewrite -[z *m x^T]trmxK mxE trmx_mul trmxK.
rewrite /sqnorm tD mulmxDl !mulmxDr !entryD zx; ring.
Qed.
(* eq:gradient, U9: E(B + X) = E(B) + <X, G B - sum c a w> + <X, G X>/2, so the gradient is
   G B - sum c a w, the Hessian X |-> G X, with c, a, w frozen *)
Theorem energy_expansion (B X : 'M[R]_(n, r)) :
  energy (B + X) = energy B + frob X (curvature *m B - step) + 2%:R^-1 * frob X (curvature *m X).
Proof.
have fB Y : frob X (curvature *m Y) = \sum_j c j * ((a j)^T *m X *m ((a j)^T *m Y)^T) 0 0.
  rewrite /curvature mulmx_suml; under eq_bigr do rewrite -scalemxAl -mulmxA.
  by rewrite frob_sum; apply: eq_bigr => j _; rewrite frob_outer.
have fs : frob X (- step) = - \sum_j c j * ((a j)^T *m X *m (w j)^T) 0 0.
  rewrite -scaleN1r -[RHS]mulN1r /frob linearZ /= -scalemxAr mxtraceZ -/(frob X step) frob_sum.
  by congr (_ * _); apply: eq_bigr => j _; rewrite frob_outer.
rewrite frobDr fs !fB /energy !mulr_sumr -sumrB -!big_split /=; apply: eq_bigr => j _.
have -> : (a j)^T *m (B + X) - w j = ((a j)^T *m B - w j) + (a j)^T *m X.
  by rewrite mulmxDr; zmod.
rewrite sqnormD -/(sqnorm ((a j)^T *m X)).
have -> : ((a j)^T *m B - w j) *m ((a j)^T *m X)^T = ((a j)^T *m X *m ((a j)^T *m B - w j)^T)^T.
  by rewrite [RHS]trmx_mul trmxK.
rewrite [(_^T) 0 0]mxE linearB /= mulmxBr entryB.
set q1 := (_ *m (_ *m B)^T) 0 0; set q2 := (_ *m (w j)^T) 0 0; set q3 := sqnorm (_ *m X).
by move: q1 q2 q3 (sqnorm _) => q1 q2 q3 q4; field.
Qed.
(* main:effective, eq:gradient: 0 - grad E(0) = sum c a w: every directional derivative at 0 *)
Theorem gradient_step (X : 'M[R]_(n, r)) :
  is_derive (fun h : R => energy (h *: X)) 0 (- frob X step).
Proof.
apply: (is_derive_ext (fun h : R => energy 0 + h * (- frob X step) + h * h * (2%:R^-1 * frob X (curvature *m X)))).
  move=> h; rewrite -[h *: X]add0r energy_expansion mulmx0 sub0r.
  have fZ Y : frob (h *: X) Y = h * frob X Y by rewrite /frob -scalemxAl mxtraceZ.
  have fN Y : frob X (- Y) = - frob X Y by rewrite /frob raddfN mulmxN raddfN.
  have fZr Y : frob X (h *: Y) = h * frob X Y by rewrite /frob linearZ /= -scalemxAr mxtraceZ.
  by rewrite !fZ fN -scalemxAr fZr; congr (_ + _); rewrite mulrCA -mulrA.
exact: (quadratic_derive _ _ _).
Qed.
(* U9: h^T G h = sum c (a . h)^2 *)
Theorem curvature_form (h : 'cV[R]_n) : (h^T *m curvature *m h) 0 0 = \sum_j c j * ((a j)^T *m h) 0 0 ^+ 2.
Proof.
rewrite /curvature mulmx_sumr mulmx_suml summxE; apply: eq_bigr => j _.
rewrite -scalemxAr -scalemxAl mxE; congr (_ * _).
have -> : h^T *m (a j *m (a j)^T) *m h = (h^T *m a j) *m ((a j)^T *m h) by rewrite !mulmxA.
rewrite {1}[h^T *m a j]mx11_scalar mul_scalar_mx entryZ expr2; congr (_ * _).
by rewrite -[h^T *m a j]trmxK mxE trmx_mul trmxK.
Qed.
End Gradient.

(* main:effective, eq:gradient: DM = 0 - grad E(0) for the head's own coefficients and features *)
Corollary effective_gradient (I : finType) n r (u : 'cV[R]_n) (a : I -> 'cV[R]_n) (v : I -> 'rV[R]_r) (X : 'M[R]_(n, r)) :
  is_derive (fun h : R => energy (coef u a) a (fun j => v j - mean v) (h *: X)) 0 (- frob X (DM u a v)).
Proof. exact: gradient_step. Qed.
