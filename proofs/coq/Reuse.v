(* Appendices B, C.1, C.3 and D.1-D.2: the effective matrix in original weights, in the residual
   stream, under reuse, and its change under an edit of the bank.
   Labels: eq:original, eq:residual, eq:tokenerror, eq:bound, eq:matrixincrement, eq:jointmatrix,
   eq:jointpredictor. *)
From FiniteCalculus Require Import Prelude Phi Response Joint Effective.
From FiniteCalculus Require Planes.
Local Open Scope ring_scope.

(* eq:original: DM in the original weights, no biases; Rot is any family with R(p)^T R(q) = R(q - p)
   (Planes.rotation_relative shows that RoPE is one) *)
Theorem original (I : finType) m d r (Wq Wk : 'M[R]_(m, d)) (Wv : 'M[R]_(m, r)) (Rot : R -> 'M[R]_d)
    (pos : I -> R) (pi tau : R) (x : I -> 'cV[R]_m) (xi : 'cV[R]_m) :
  (forall p q, (Rot p)^T *m Rot q = Rot (q - p)) ->
  let k j := (x j)^T *m Wk *m (Rot (pos j))^T in
  let a j := (tau^-1 *: (Wq *m (Rot pi)^T)) *m (k j)^T in
  let v j := (x j)^T *m Wv in
  (forall j, score xi a j = tau^-1 * (xi^T *m Wq *m Rot (pos j - pi) *m Wk^T *m x j) 0 0) /\
  DM xi a v = (tau^-1 / Zsum (score xi a)) *:
    \sum_j phi1 (score xi a j) *: ((Wq *m Rot (pos j - pi) *m Wk^T *m x j) *m ((x j)^T *m Wv - mean v)).
Proof.
move=> RotP k a v; have aE j : a j = tau^-1 *: (Wq *m Rot (pos j - pi) *m Wk^T *m x j).
  by rewrite /a /k !trmx_mul !trmxK -scalemxAl -RotP !mulmxA.
split=> [j|]; first by rewrite /score aE -scalemxAr entryZ !mulmxA.
rewrite /DM scaler_sumr; apply: eq_bigr => j _.
by rewrite /coef aE -scalemxAl !scalerA; congr (_ *: _); rewrite mulrC mulrA mulrAC.
Qed.

(* eq:original: the same for RoPE itself, width d = 2h, any frequencies w *)
Corollary original_rope (I : finType) m h r (Wq Wk : 'M[R]_(m, h + h)) (Wv : 'M[R]_(m, r)) (w : 'rV[R]_h)
    (pos : I -> R) (pi tau : R) (x : I -> 'cV[R]_m) (xi : 'cV[R]_m) :
  let Rot := Planes.Rot w in
  let a j := (tau^-1 *: (Wq *m (Rot pi)^T)) *m ((x j)^T *m Wk *m (Rot (pos j))^T)^T in
  let v j := (x j)^T *m Wv in
  DM xi a v = (tau^-1 / Zsum (score xi a)) *:
    \sum_j phi1 (score xi a j) *: ((Wq *m Rot (pos j - pi) *m Wk^T *m x j) *m ((x j)^T *m Wv - mean v)).
Proof. exact: (proj2 (original Wq Wk Wv pos pi tau x xi (Planes.rotation_relative w))). Qed.

(* eq:residual: x^T + y W_o = x^T (I + DM W_o) + mu W_o, bias-free *)
Theorem residual (I : finType) m r (x : 'cV[R]_m) (a : I -> 'cV[R]_m) (v : I -> 'rV[R]_r) (Wo : 'M[R]_(r, m)) (j0 : I) :
  x^T + readout (softmax (score x a)) v *m Wo = x^T *m (1%:M + DM x a v *m Wo) + mean v *m Wo.
Proof. by rewrite (identity x a v j0) mulmxDl mulmxDr mulmx1 mulmxA; zmod. Qed.

Section Reuse.
Variables (I : finType) (n r : nat) (a : I -> 'cV[R]_n) (v : I -> 'rV[R]_r) (ui ua : 'cV[R]_n) (j0 : I).
Let frozen := mean v + ui^T *m DM ua a v.
Let e := readout (softmax (score ui a)) v - frozen.
(* eq:tokenerror: the exact term omitted by freezing an anchor matrix *)
Theorem token_error : e = ui^T *m (DM ui a v - DM ua a v).
Proof. by rewrite /e /frozen (identity ui a v j0) mulmxBr opprD addrACA subrr add0r. Qed.
(* eq:tokenerror: resolved by token, e = sum (c_i - c_a) (u^T a) (v - mu) *)
Theorem token_error_sum :
  e = \sum_j ((coef ui a j - coef ua a j) * score ui a j) *: (v j - mean v).
Proof.
rewrite token_error /DM -sumrB mulmx_sumr; apply: eq_bigr => j _.
by rewrite -scalerBl -scalemxAr outer_readout scalerA.
Qed.
End Reuse.

(* ---------- Euclidean and operator norms ---------- *)
Definition norm2 k (x : 'rV[R]_k) := Num.sqrt (sqnorm x).
Lemma sqnormE k (x : 'rV[R]_k) : sqnorm x = \sum_i x 0 i ^+ 2.
Proof. by rewrite /sqnorm mxE; apply: eq_bigr => i _; rewrite mxE expr2. Qed.
Lemma sqnorm_ge0 k (x : 'rV[R]_k) : 0 <= sqnorm x.
Proof. by rewrite sqnormE; apply: sumr_ge0 => i _; exact: sqr_ge0. Qed.
Lemma sqnorm_eq0 k (x : 'rV[R]_k) : (sqnorm x == 0) = (x == 0).
Proof.
rewrite sqnormE psumr_eq0; last by move=> i _; exact: sqr_ge0.
apply/allP/eqP => [h|-> i _]; last by rewrite /= mxE sqrf_eq0.
apply/rowP => i; have := h i (mem_index_enum i); rewrite /= sqrf_eq0 => /eqP ->.
by rewrite mxE.
Qed.
(* Cauchy-Schwarz over a finite index set *)
Lemma cauchy_schwarz (I : finType) (x z : I -> R) :
  (\sum_i x i * z i) ^+ 2 <= (\sum_i x i ^+ 2) * (\sum_i z i ^+ 2).
Proof.
set X := \sum_i x i ^+ 2; set Z := \sum_i z i ^+ 2; set P := \sum_i x i * z i.
have X0 : 0 <= X by apply: sumr_ge0 => i _; exact: sqr_ge0.
have [Xz|Xn] := eqVneq X 0.
  have xz i : x i = 0.
    move/eqP: Xz; rewrite psumr_eq0; last by move=> k _; exact: sqr_ge0.
    by move/allP/(_ i (mem_index_enum i)); rewrite /= sqrf_eq0 => /eqP.
  by rewrite /P big1 ?expr0n ?Xz ?mul0r // => i _; rewrite xz mul0r.
have Xp : 0 < X by rewrite lt_neqAle eq_sym Xn.
have : 0 <= \sum_i (X * z i - P * x i) ^+ 2 by apply: sumr_ge0 => i _; exact: sqr_ge0.
have -> : \sum_i (X * z i - P * x i) ^+ 2 = X * (X * Z - P ^+ 2).
  have -> : \sum_i (X * z i - P * x i) ^+ 2 =
     \sum_i (X ^+ 2 * z i ^+ 2 - (2%:R * X * P) * (x i * z i) + P ^+ 2 * x i ^+ 2).
    by apply: eq_bigr => i _; ring.
  by rewrite big_split sumrB /= -!mulr_sumr -/X -/Z -/P; ring.
by rewrite pmulr_rge0 // subr_ge0.
Qed.
(* eq:bound: ||x M|| <= ||x|| ||M||_F *)
Theorem frobenius_bound k l (x : 'rV[R]_k) (M : 'M[R]_(k, l)) :
  sqnorm (x *m M) <= sqnorm x * \sum_j \sum_i M i j ^+ 2.
Proof.
rewrite sqnormE [sqnorm x]sqnormE mulr_sumr; apply: ler_sum => j _.
by rewrite mxE; exact: cauchy_schwarz.
Qed.
Definition is_opnorm k l (M : 'M[R]_(k, l)) (K : R) :=
  is_lub (fun y : R => exists2 x : 'rV[R]_k, norm2 x = 1 & y = norm2 (x *m M)) K.
(* eq:bound: the operator norm exists (k >= 1) *)
Theorem opnorm_exists k l (M : 'M[R]_(k.+1, l)) : exists K, is_opnorm M K.
Proof.
have [||K hK] := completeness (fun y : R => exists2 x : 'rV[R]_k.+1, norm2 x = 1 & y = norm2 (x *m M)); last by exists K.
- exists (Num.sqrt (\sum_j \sum_i M i j ^+ 2)) => y [x x1 ->]; apply/RleP.
  rewrite ler_wsqrtr // -[X in _ <= X]mul1r.
  have -> : (1 : R) = sqnorm x by rewrite -[sqnorm x]sqr_sqrtr ?sqnorm_ge0 // -/(norm2 x) x1 expr1n.
  exact: frobenius_bound.
- exists (norm2 (delta_mx 0 0 *m M)); exists (delta_mx 0 0) => //.
  rewrite /norm2 sqnormE (bigD1 0) //= big1 => [|i /negbTE i0]; last by rewrite mxE i0 andbF expr0n.
  by rewrite mxE !eqxx expr1n addr0 sqrtr1.
Qed.
(* eq:bound: ||x M|| <= ||x|| ||M||_op *)
Theorem opnorm_bound k l (M : 'M[R]_(k, l)) (K : R) (x : 'rV[R]_k) :
  is_opnorm M K -> norm2 (x *m M) <= norm2 x * K.
Proof.
move=> [ub _]; have [->|x0] := eqVneq x 0.
  by rewrite mul0mx /norm2 !sqnormE !big1 ?sqrtr0 ?mul0r // => i _; rewrite mxE expr0n.
have nx : 0 < norm2 x by rewrite sqrtr_gt0 lt_neqAle sqnorm_ge0 eq_sym sqnorm_eq0 x0.
have sZ c l' (z : 'rV[R]_l') : 0 <= c -> norm2 (c *: z) = c * norm2 z.
  move=> c0; rewrite /norm2 /sqnorm linearZ /= -scalemxAl -scalemxAr scalerA entryZ.
  by rewrite sqrtrM ?mulr_ge0 // -expr2 sqrtr_sqr ger0_norm.
have /RleP : Rle (norm2 ((norm2 x)^-1 *: x *m M)) K.
  apply: ub; exists ((norm2 x)^-1 *: x) => //.
  by rewrite sZ ?invr_ge0 ?(ltW nx) // mulVf ?lt0r_neq0.
by rewrite -scalemxAl sZ ?invr_ge0 ?(ltW nx) // mulrC ler_pdivr_mulr // mulrC.
Qed.
(* eq:bound: the reuse error is at most ||u|| ||DM_i - DM_a||_op *)
Theorem reuse_bound (I : finType) n r (a : I -> 'cV[R]_n) (v : I -> 'rV[R]_r) (ui ua : 'cV[R]_n) (j0 : I) (K : R) :
  is_opnorm (DM ui a v - DM ua a v) K ->
  norm2 (readout (softmax (score ui a)) v - (mean v + ui^T *m DM ua a v)) <= norm2 ui^T * K.
Proof. by move=> h; rewrite token_error //; exact: opnorm_bound. Qed.

Section BankEdit.
Variables (I : finType) (n r : nat) (u : 'cV[R]_n) (a a' : I -> 'cV[R]_n) (v eps : I -> 'rV[R]_r) (j0 : I).
Let p := softmax (score u a).
Let d j := score u a' j - score u a j.
Let p' := moved p d.
Let pP : distribution p := softmax_distribution (score u a) j0.
Let y := readout p v.
Let v' j := v j + eps j.
Lemma edited_softmax (w : I -> 'rV[R]_r) : readout (softmax (score u a')) w = readout p' w.
Proof.
apply: eq_bigr => j _; congr (_ *: _); rewrite /p' -moved_softmax.
by apply: eq_softmax => k; rewrite /d addrC subrK.
Qed.
(* eq:matrixincrement: u^T (DM' - DM) = sum (p' - p)(v - mu) = sum (p' - p)(v - y) = sum p t phi1(t) (v - y) *)
Theorem matrix_increment :
  [/\ u^T *m (DM u a' v - DM u a v) = readout p' v - y,
      readout p' v - y = \sum_j (p' j - p j) *: (v j - mean v),
      readout p' v - y = \sum_j (p' j - p j) *: (v j - y) &
      readout p' v - y = \sum_j (p j * tilt p d j * phi1 (tilt p d j)) *: (v j - y)].
Proof.
have dE : readout p' v - y = \sum_j (p' j - p j) *: v j.
  by rewrite /y /readout -sumrB; apply: eq_bigr => j _; rewrite scalerBl.
split; rewrite ?dE ?centre //; last by under [RHS]eq_bigr do rewrite -normalise; rewrite centre.
rewrite -dE mulmxBr -edited_softmax /y /p !(identity _ _ v j0); zmod.
Qed.
(* eq:jointmatrix: (mu' - mu) + u^T (DM' - DM) = K_f + V_0 + C_KV *)
Theorem joint_matrix :
  (mean v' - mean v) + u^T *m (DM u a' v' - DM u a v) = Kf p d v + V0 p eps + CKV p d eps.
Proof.
have <- : readout (softmax (score u a')) v' - y = Kf p d v + V0 p eps + CKV p d eps.
  by rewrite edited_softmax; exact: joint.
by rewrite /y /p (identity u a' v' j0) (identity u a v j0) mulmxBr opprD [RHS]addrACA.
Qed.
(* eq:jointpredictor: any linear readout G gives the same prediction from both sides *)
Theorem joint_predictor (G : {linear 'rV[R]_r -> R^o}) :
  G ((mean v' - mean v) + u^T *m (DM u a' v' - DM u a v)) = G (Kf p d v + V0 p eps + CKV p d eps).
Proof. by rewrite joint_matrix. Qed.
End BankEdit.
