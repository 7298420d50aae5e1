(* Sections 2.1 and 2.3, Appendix A: RoPE as a matrix, for any number h of rotary planes, d = 2h.
   Labels: main:central, main:rotation, main:integrate, eq:derivatives, eq:matrixrho, eq:rotation, U1, U2.
   Coordinates are ordered as all first components, then all second ones (rotate-half layout); the
   paper interleaves them, which is a permutation. A band is a set of planes: A_b is A with the other
   frequencies set to zero, so zero frequency is always included. *)
From FiniteCalculus Require Import Prelude Phi Response Calculus.
From Coquelicot Require Import Coquelicot.
From FiniteCalculus Require Rotary.
Local Open Scope ring_scope.

Section Planes.
Variable h : nat.
(* planewise complex numbers c + s J *)
Definition cx (c s : 'rV[R]_h) : 'M[R]_(h + h) :=
  block_mx (diag_mx c) (- diag_mx s) (diag_mx s) (diag_mx c).
Definition perplane (f : R -> R) (w : 'rV[R]_h) (d : R) : 'rV[R]_h := \row_i f (d * w 0 i).
Definition Rot w d := cx (perplane cos w d) (perplane sin w d).
Definition Gen (w : 'rV[R]_h) := cx 0 w.
Definition Phi w d := cx (perplane Rotary.sinc w d) (perplane Rotary.cosc w d).
Definition band (w : 'rV[R]_h) (b : pred 'I_h) : 'rV[R]_h := \row_i (if b i then w 0 i else 0).

Ltac planes := apply/matrixP; let i := fresh "i" in let j := fresh "j" in move=> i j; rewrite !mxE; case: (i == j); rewrite /= ?mulr1n ?mulr0n.
Lemma cx_mul c s c' s' : cx c s *m cx c' s' =
  cx (\row_i (c 0 i * c' 0 i - s 0 i * s' 0 i)) (\row_i (c 0 i * s' 0 i + s 0 i * c' 0 i)).
Proof.
rewrite /cx mulmx_block !mulmxN !mulNmx ?opprK !mulmx_diag; congr block_mx; planes; mring.
Qed.
Lemma cx_sub c s c' s' : cx c s - cx c' s' = cx (c - c') (s - s').
Proof. rewrite /cx opp_block_mx add_block_mx; congr block_mx; planes; mring. Qed.
Lemma cx_add c s c' s' : cx c s + cx c' s' = cx (c + c') (s + s').
Proof. rewrite /cx add_block_mx; congr block_mx; planes; mring. Qed.
Lemma cx_scale d c s : d *: cx c s = cx (d *: c) (d *: s).
Proof. rewrite /cx scale_block_mx; congr block_mx; planes; mring. Qed.
Lemma cx_tr c s : (cx c s)^T = cx c (- s).
Proof. rewrite /cx tr_block_mx; congr block_mx; rewrite ?linearN /= ?tr_diag_mx //; planes; mring. Qed.
Lemma cx_one : (1%:M : 'M[R]_(h + h)) = cx (\row_i 1) 0.
Proof. by rewrite scalar_mx_block /cx; congr block_mx; planes; rewrite ?oppr0. Qed.
Lemma eq_cx (c s c' s' : 'rV[R]_h) : (forall i, c 0 i = c' 0 i) -> (forall i, s 0 i = s' 0 i) -> cx c s = cx c' s'.
Proof. by move=> hc hs; congr cx; apply/rowP. Qed.

(* main:rotation: R(0) = I *)
Theorem rotation_zero w : Rot w 0 = 1%:M.
Proof. by rewrite cx_one; apply: eq_cx => i; rewrite !mxE mul0r; [exact: cos_0|exact: sin_0]. Qed.
(* eq:rotation: R(p) R(q) = R(p + q) *)
Theorem rotation_group w p q : Rot w p *m Rot w q = Rot w (p + q).
Proof.
rewrite /Rot cx_mul; apply: eq_cx => i; rewrite !mxE mulrDl.
  exact/esym/cos_plus.
by rewrite addrC; exact/esym/sin_plus.
Qed.
(* eq:rotation: R(p) is orthogonal, R(p)^T = R(-p) *)
Theorem rotation_transpose w p : (Rot w p)^T = Rot w (- p).
Proof.
rewrite /Rot cx_tr; apply: eq_cx => i; rewrite !mxE mulNr; first exact/esym/cos_neg.
exact/esym/sin_neg.
Qed.
(* eq:rotation: R(p)^T R(q) = R(q - p) *)
Theorem rotation_relative w p q : (Rot w p)^T *m Rot w q = Rot w (q - p).
Proof. by rewrite rotation_transpose rotation_group addrC. Qed.
(* eq:matrixrho: e^{dA} - I = d A phi1(d A), zero frequencies included *)
Theorem matrix_rho w d : Rot w d - 1%:M = (d *: Gen w) *m Phi w d.
Proof.
rewrite cx_one /Rot /Gen cx_sub cx_scale cx_mul; apply: eq_cx => i; rewrite !mxE.
- have e : d * w 0 i * Rotary.cosc (d * w 0 i) = 1 - cos (d * w 0 i) := Rotary.coscE _.
  by rewrite mulr0 mul0r sub0r e opprB.
- have e : d * w 0 i * Rotary.sinc (d * w 0 i) = sin (d * w 0 i) := Rotary.sincE _.
  by rewrite mulr0 mul0r add0r subr0 e.
Qed.
(* main:central, main:integrate: z(p + d) - z(p) = d A phi1(d A) z(p) *)
Theorem central w p d (z0 : 'cV[R]_(h + h)) :
  let z q := Rot w q *m z0 in z (p + d) - z p = (d *: Gen w) *m Phi w d *m z p.
Proof. by move=> z; rewrite /z -matrix_rho mulmxBl mul1mx mulmxA rotation_group [d + p]addrC. Qed.
Lemma cx_derive (f g : R -> 'rV[R]_h) (x : R) (df dg : 'rV[R]_h) :
  (forall i, is_derive (fun u => f u 0 i) x (df 0 i)) -> (forall i, is_derive (fun u => g u 0 i) x (dg 0 i)) ->
  forall i j, is_derive (fun u => cx (f u) (g u) i j) x (cx df dg i j).
Proof.
have diag (k : R -> 'rV[R]_h) (dk : 'rV[R]_h) i j : (forall i, is_derive (fun u => k u 0 i) x (dk 0 i)) ->
    is_derive (fun u => diag_mx (k u) i j) x (diag_mx dk i j).
  move=> hk; rewrite mxE; case: (i =P j) => [->|/eqP/negbTE ij].
    by apply: is_derive_ext (hk j) => u; rewrite mxE eqxx mulr1n.
  rewrite mulr0n; apply: is_derive_ext (derive_const 0 x) => u.
  by rewrite mxE ij mulr0n.
move=> hf hg i j; case: (split_ordP i) => i' ->; case: (split_ordP j) => j' ->.
- by rewrite block_mxEul; apply: is_derive_ext (diag _ _ i' j' hf) => u; rewrite block_mxEul.
- rewrite block_mxEur entryN; apply: is_derive_ext (derive_opp (diag _ _ i' j' hg)) => u.
  by rewrite block_mxEur entryN.
- by rewrite block_mxEdl; apply: is_derive_ext (diag _ _ i' j' hg) => u; rewrite block_mxEdl.
- by rewrite block_mxEdr; apply: is_derive_ext (diag _ _ i' j' hf) => u; rewrite block_mxEdr.
Qed.
(* main:central, eq:derivatives: d/dp R(p) = A R(p), entry by entry *)
Theorem rotation_derivative w p i j : is_derive (fun u => Rot w u i j) p ((Gen w *m Rot w p) i j).
Proof.
rewrite /Rot /Gen cx_mul; apply: cx_derive => k.
- apply: (is_derive_ext (fun u : R => cos (u * w 0 k))); first by move=> u; rewrite mxE.
  by rewrite !mxE mul0r sub0r; exact: Rotary.cos_scaled.
- apply: (is_derive_ext (fun u : R => sin (u * w 0 k))); first by move=> u; rewrite mxE.
  by rewrite !mxE mul0r add0r; exact: Rotary.sin_scaled.
Qed.

(* eq:derivatives: the n-th derivative of R(p) is A^n R(p), every n and every entry *)
Theorem rotation_derivatives w n p i j :
  is_derive_n (fun u => Rot w u i j) n p ((iter n (mulmx (Gen w)) (Rot w p)) i j).
Proof.
pose An := iter n (mulmx (Gen w)) 1%:M.
have AnE k (M : 'M[R]_(h + h)) : iter k (mulmx (Gen w)) M = iter k (mulmx (Gen w)) 1%:M *m M.
  by elim: k => [|k IH] /=; rewrite ?mul1mx // IH mulmxA.
have comm k : Gen w *m iter k (mulmx (Gen w)) 1%:M = iter k (mulmx (Gen w)) 1%:M *m Gen w.
  by elim: k => [|k IH] /=; rewrite ?mul1mx ?mulmx1 // -mulmxA -IH.
have step k q : is_derive (fun u => (iter k (mulmx (Gen w)) (Rot w u)) i j) q
    ((iter k.+1 (mulmx (Gen w)) (Rot w q)) i j).
  apply: (is_derive_ext (fun u => \sum_l (iter k (mulmx (Gen w)) 1%:M) i l * Rot w u l j)).
    by move=> u; rewrite [in RHS]AnE [RHS]mxE.
  have -> : iter k.+1 (mulmx (Gen w)) (Rot w q) = iter k (mulmx (Gen w)) 1%:M *m (Gen w *m Rot w q).
    by rewrite iterS AnE mulmxA comm mulmxA.
  rewrite [X in is_derive _ _ X]mxE.
  apply: derive_eq (derive_sum (fun l => derive_mul (derive_const _ _) (rotation_derivative w q l j))) _.
  by apply: eq_bigr => l _; rewrite mul0r add0r.
have DE k : forall q, Derive_n (fun u => Rot w u i j) k q = (iter k (mulmx (Gen w)) (Rot w q)) i j.
  elim: k => [|k IH] q //.
  apply: is_derive_unique; apply: is_derive_ext (step k q) => u; exact/esym/IH.
case: n {An} => [|n] //=.
apply: is_derive_ext (step n p) => u; exact/esym/DE.
Qed.

Lemma cx_integral (f g : R -> 'rV[R]_h) (lf lg : 'rV[R]_h) :
  (forall i, is_RInt (fun u => f u 0 i) 0 1 (lf 0 i)) -> (forall i, is_RInt (fun u => g u 0 i) 0 1 (lg 0 i)) ->
  forall i j, is_RInt (fun u => cx (f u) (g u) i j) 0 1 (cx lf lg i j).
Proof.
have diag (k : R -> 'rV[R]_h) (lk : 'rV[R]_h) i j : (forall i, is_RInt (fun u => k u 0 i) 0 1 (lk 0 i)) ->
    is_RInt (fun u => diag_mx (k u) i j) 0 1 (diag_mx lk i j).
  move=> hk; rewrite mxE; case: (i =P j) => [->|/eqP/negbTE ij].
    by apply: is_RInt_ext (hk j) => u _; rewrite mxE eqxx mulr1n.
  rewrite mulr0n; have z := @is_RInt_const R_NormedModule 0 1 0.
  rewrite scal_zero_r in z; apply: is_RInt_ext z => u _.
  by rewrite mxE ij mulr0n.
move=> hf hg i j; case: (split_ordP i) => i' ->; case: (split_ordP j) => j' ->.
- by rewrite block_mxEul; apply: is_RInt_ext (diag _ _ i' j' hf) => u _; rewrite block_mxEul.
- rewrite block_mxEur entryN; apply: is_RInt_ext (is_RInt_opp _ _ _ _ (diag _ _ i' j' hg)) => u _.
  by rewrite block_mxEur entryN.
- by rewrite block_mxEdl; apply: is_RInt_ext (diag _ _ i' j' hg) => u _; rewrite block_mxEdl.
- by rewrite block_mxEdr; apply: is_RInt_ext (diag _ _ i' j' hf) => u _; rewrite block_mxEdr.
Qed.
(* main:integrate: phi1(d A) = int_0^1 e^{t d A} dt, entry by entry, any number of planes *)
Theorem phi_integral w d i j : is_RInt (fun t : R => Rot w (t * d) i j) 0 1 (Phi w d i j).
Proof.
apply: cx_integral => k; rewrite mxE.
- apply: is_RInt_ext (proj1 (Rotary.phi_integral (d * w 0 k))) => t _; rewrite mxE -mulrA; exact: erefl.
- apply: is_RInt_ext (proj2 (Rotary.phi_integral (d * w 0 k))) => t _; rewrite mxE -mulrA; exact: erefl.
Qed.

Lemma cx_entries c s (z : 'cV[R]_(h + h)) r :
  (cx c s *m z) (lshift h r) 0 = c 0 r * z (lshift h r) 0 - s 0 r * z (rshift h r) 0 /\
  (cx c s *m z) (rshift h r) 0 = s 0 r * z (lshift h r) 0 + c 0 r * z (rshift h r) 0.
Proof.
rewrite -[z]vsubmxK; set z1 := usubmx z; set z2 := dsubmx z.
rewrite /cx mul_block_col !col_mxEu !col_mxEd mulNmx entryB entryD !mul_diag_mx.
by split; rewrite [X in X + _]mxE ?[X in _ - X]mxE ?[X in _ + X]mxE.
Qed.
(* U1: ||z(p + d) - z(p)||^2 = sum over planes of (2 sin(theta_r/2))^2 ||z_r||^2, at most (2 ||z||)^2;
   the tangent step has squared norm sum theta_r^2 ||z_r||^2 *)
Theorem chord_planes w d (z : 'cV[R]_(h + h)) :
  let sq (x : 'cV[R]_(h + h)) := \sum_i x i 0 ^+ 2 in
  let zr r := z (lshift h r) 0 ^+ 2 + z (rshift h r) 0 ^+ 2 in
  [/\ sq (Rot w d *m z - z) = \sum_r (2%:R * sin (d * w 0 r / 2%:R)) ^+ 2 * zr r,
      sq (Rot w d *m z - z) <= 2%:R ^+ 2 * sq z &
      sq ((d *: Gen w) *m z) = \sum_r (d * w 0 r) ^+ 2 * zr r].
Proof.
move=> sq zr.
have sqE x : sq x = \sum_r (x (lshift h r) 0 ^+ 2 + x (rshift h r) 0 ^+ 2).
  by rewrite /sq big_split_ord -big_split.
have pl r : ((Rot w d *m z - z) (lshift h r) 0) ^+ 2 + ((Rot w d *m z - z) (rshift h r) 0) ^+ 2
    = (2%:R * sin (d * w 0 r / 2%:R)) ^+ 2 * zr r /\
    ((Rot w d *m z - z) (lshift h r) 0) ^+ 2 + ((Rot w d *m z - z) (rshift h r) 0) ^+ 2 <= 2%:R ^+ 2 * zr r.
  have [e1 e2] := cx_entries (perplane cos w d) (perplane sin w d) z r.
  rewrite !entryB /Rot e1 e2 !mxE /zr.
  have two : IZR 2 != 0 :> R by rewrite -[IZR 2]/(2%:R : R) pnatr_eq0.
  have [] := Rotary.chord (d * w 0 r) (z (lshift h r) 0) (z (rshift h r) 0).
  rewrite /Rotary.rot1 /Rotary.rot2 !RpowE RdivE // => c1 [/RleP c2 _].
  by split; [exact: c1|exact: c2].
split; rewrite !sqE ?mulr_sumr.
- by apply: eq_bigr => r _; rewrite (proj1 (pl r)).
- by apply: ler_sum => r _; exact: (proj2 (pl r)).
- apply: eq_bigr => r _; rewrite /Gen cx_scale.
  have [-> ->] := cx_entries (d *: 0) (d *: w) z r; rewrite !mxE /zr.
  by mring.
Qed.

(* U2: bands with disjoint planes have additive generators and additive displacements *)
Theorem band_generator w (b c : pred 'I_h) : (forall i, ~~ (b i && c i)) ->
  Gen (band w [predU b & c]) = Gen (band w b) + Gen (band w c).
Proof.
move=> dis; rewrite /Gen cx_add; apply: eq_cx => i; rewrite !mxE ?inE /=; first by rewrite addr0.
by move: (dis i); rewrite -!topredE /=; case: (b i); case: (c i) => //= _; mring.
Qed.
(* U2: e^{d(A_b + A_c)} - I = (e^{dA_b} - I) + (e^{dA_c} - I) *)
Theorem band_displacement w (b c : pred 'I_h) d : (forall i, ~~ (b i && c i)) ->
  Rot (band w [predU b & c]) d - 1%:M = (Rot (band w b) d - 1%:M) + (Rot (band w c) d - 1%:M).
Proof.
move=> dis; have c0 : cos (d * 0) = 1 by rewrite mulr0; exact: cos_0.
have s0 : sin (d * 0) = 0 by rewrite mulr0; exact: sin_0.
rewrite cx_one /Rot !cx_sub cx_add; apply: eq_cx => i; rewrite !mxE ?inE /=.
  by move: (dis i); rewrite -!topredE /=; case: (b i); case: (c i) => //= _; rewrite ?c0; ring.
by move: (dis i); rewrite -!topredE /=; case: (b i); case: (c i) => //= _; rewrite ?s0; ring.
Qed.

End Planes.

(* eq:matrixrho: for any square matrix B the partial sums obey
   sum_{n <= N} B^n/n! - I = B sum_{n < N} B^n/(n+1)! *)
Theorem power_series n (B : 'M[R]_n) N :
  let pw k := iter k (mulmx B) 1%:M in
  \sum_(k < N.+1) (k`!%:R^-1) *: pw k - 1%:M = B *m \sum_(k < N) ((k.+1)`!%:R^-1) *: pw k.
Proof.
move=> pw; rewrite big_ord_recl fact0 invr1 scale1r addrAC subrr add0r mulmx_sumr.
by apply: eq_bigr => k _; rewrite -scalemxAr.
Qed.
