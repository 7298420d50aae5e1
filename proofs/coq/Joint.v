(* Section 3.1 and Appendix D.2: joint key/value responses and the interaction C_KV.
   Labels: main:joint, eq:jointattribution, eq:kvcomponents, eq:kvfactorial, eq:atplinear,
   eq:atpcentered, eq:rhoremainder, eq:remainderweights, main:kl (remainder), main:tworemainders,
   eq:jointdownstreamfactorial. Values in any vector space V; G any linear readout of V. *)
From FiniteCalculus Require Import Prelude Phi Response.

(* <g, x W_o>, the contraction used by every score *)
Definition contract r m (Wo : 'M[R]_(r, m)) (g : 'cV[R]_m) (x : 'rV[R]_r) : R^o := (x *m Wo *m g) 0 0.
Lemma contract_is_linear r m (Wo : 'M[R]_(r, m)) (g : 'cV[R]_m) : linear (contract Wo g).
Proof. by move=> a x z; rewrite /contract !mulmxDl -!scalemxAl !mxE. Qed.
Canonical contract_linear r m (Wo : 'M[R]_(r, m)) g := Linear (@contract_is_linear r m Wo g).

Section Joint.
Variables (I : finType) (V : lmodType R) (p d : I -> R) (v eps : I -> V).
Hypothesis pP : distribution p.
Let t := tilt p d.
Let p' := moved p d.
Let y := readout p v.
Definition Kf := \sum_j (moved p d j - p j) *: (v j - readout p v).
Definition V0 := \sum_j p j *: eps j.
Definition CKV := \sum_j (moved p d j - p j) *: eps j.
Definition Ls := \sum_j (p j * d j) *: (v j - readout p v).
Definition weight j := p j * (exp (tilt p d j) - 1 - tilt p d j).

(* main:joint, eq:jointattribution: y' - y = K_f + V_0 + C_KV *)
Theorem joint : readout p' (fun j => v j + eps j) - y = Kf + V0 + CKV.
Proof.
rewrite /Kf centre // /V0 /CKV /y /readout -sumrB -!big_split /=; apply: eq_bigr => j _.
rewrite -/p'; lmod.
Qed.
(* main:joint: separate key and value responses omit exactly C_KV *)
Theorem separate_omits : readout p' (fun j => v j + eps j) - y - (Kf + V0) = CKV.
Proof. rewrite joint; zmod. Qed.
(* eq:kvfactorial: C_KV is the four-cell interaction of probabilities and values *)
Theorem fourcell :
  CKV = readout p' (fun j => v j + eps j) - readout p' v - readout p (fun j => v j + eps j) + readout p v.
Proof.
rewrite /CKV /readout -!sumrB -big_split /=; apply: eq_bigr => j _.
rewrite -/p'; lmod.
Qed.

Lemma centred_zero : \sum_j p j *: (v j - y) = 0.
Proof.
under eq_bigr do rewrite scalerBr.
by rewrite sumrB -scaler_suml (proj2 pP) scale1r subrr.
Qed.
(* eq:atplinear: sum p d (v - y) = sum p t (v - y) *)
Theorem linear_tilt : Ls = \sum_j (p j * t j) *: (v j - y).
Proof.
have -> : \sum_j (p j * t j) *: (v j - y) = \sum_j ((p j * d j) *: (v j - y) - ln (D p d) *: (p j *: (v j - y))).
  by apply: eq_bigr => j _; rewrite scalerA -scalerBl /t /tilt mulrBr [p j * ln _]mulrC.
by rewrite sumrB -scaler_sumr centred_zero scaler0 subr0.
Qed.
(* eq:remainderweights: w = p (e^t - 1 - t) = p t (phi1(t) - 1) *)
Theorem weightE j : weight j = p j * t j * (phi1 (t j) - 1).
Proof. by rewrite /weight phi1_remainder mulrA. Qed.
(* main:kl, eq:klremainder: K_f - L_s = sum w (v - y) *)
Theorem remainder : Kf - Ls = \sum_j weight j *: (v j - y).
Proof.
rewrite linear_tilt /Kf -sumrB; apply: eq_bigr => j _; rewrite -scalerBl; congr (_ *: _).
rewrite /weight /moved -/t; ring.
Qed.
(* eq:rhoremainder: R_s = K_f - L_s = sum p t (phi1(t) - 1) (v - y) *)
Theorem rho_remainder : Kf - Ls = \sum_j (p j * t j * (phi1 (t j) - 1)) *: (v j - y).
Proof. by rewrite remainder; apply: eq_bigr => j _; rewrite weightE. Qed.
(* eq:localcertificate: the error of the linear response is softmax remainder plus interaction *)
Theorem linear_error :
  readout p' (fun j => v j + eps j) - y - (Ls + V0) = \sum_j weight j *: (v j - y) + CKV.
Proof.
rewrite joint -remainder; zmod.
Qed.
(* main:tworemainders: the key-only Jacobian misses a softmax and a rotary remainder, any d_lin *)
Theorem two_remainders (dlin : I -> R) :
  readout p' v - y - \sum_j (p j * dlin j) *: (v j - y) =
  \sum_j (p j * t j * (phi1 (t j) - 1)) *: (v j - y) + \sum_j (p j * (d j - dlin j)) *: (v j - y).
Proof.
rewrite -rho_remainder.
have -> : readout p' v - y = Kf.
  by rewrite /Kf centre // /y /readout -sumrB; apply: eq_bigr => j _; rewrite scalerBl.
have -> : \sum_j (p j * (d j - dlin j)) *: (v j - y) = Ls - \sum_j (p j * dlin j) *: (v j - y).
  by rewrite /Ls -sumrB; apply: eq_bigr => j _; rewrite mulrBr scalerBl.
zmod.
Qed.
(* eq:atpcentered: sum (p' - p) G(v) = sum (p' - p) G(v - y), G linear, e.g. <g, . W_o> *)
Theorem contraction_centred (G : {linear V -> R^o}) :
  \sum_j (p' j - p j) * G (v j) = \sum_j (p' j - p j) * G (v j - y).
Proof.
have e f : \sum_j (p' j - p j) * G (f j) = G (\sum_j (p' j - p j) *: f j).
  by rewrite linear_sum; apply: eq_bigr => j _; rewrite linearZ.
by rewrite !e centre.
Qed.
End Joint.

(* eq:atpcentered with the paper's <g, . W_o> *)
Corollary contraction_centred_matrix (I : finType) r m (Wo : 'M[R]_(r, m)) (g : 'cV[R]_m)
    (p d : I -> R) (v : I -> 'rV[R]_r) : distribution p ->
  \sum_j (moved p d j - p j) * (v j *m Wo *m g) 0 0 =
  \sum_j (moved p d j - p j) * ((v j - readout p v) *m Wo *m g) 0 0.
Proof. move=> pP; exact: (@contraction_centred I _ p d v pP [linear of contract Wo g]). Qed.

(* eq:jointdownstreamfactorial: I_m is the four-cell effect *)
Theorem downstream_factorial (mKV mK mV m0 : R) :
  (mKV - m0) - (mK - m0) - (mV - m0) = mKV - mK - mV + m0.
Proof. ring. Qed.

(* main:scorecandidate, eq:marginprediction, eq:projectedinteraction: the score of the summed
   projected write is the sum of the head scores *)
Theorem head_scores (H : finType) r m (Wo : H -> 'M[R]_(r, m)) (g : 'cV[R]_m) (x : H -> 'rV[R]_r) :
  ((\sum_h x h *m Wo h) *m g) 0 0 = \sum_h contract (Wo h) g (x h).
Proof. by rewrite mulmx_suml summxE. Qed.
